//! In which order the kernels that one result makes ready are handed out.

use crate::step::graph::{Graph, Node, NodeId};

/// Whom each node waits for: the makers of its inputs, one for each, then those that must have run before.
pub(super) struct Dependencies {
    nodes: Vec<NodeId>,
    /// Where each node's begin, and the end.
    first: Vec<u32>,
    /// Sums for a bias.
    bias_sums: Vec<NodeId>,
    /// Sums of several gradients.
    sums: Vec<NodeId>,
}

impl Dependencies {
    /// None yet, with room for those of about this many nodes.
    pub(super) fn with_room(nodes: usize) -> Dependencies {
        let mut first = Vec::with_capacity(nodes + 1);
        first.push(0);
        Dependencies { nodes: Vec::with_capacity(nodes * 2), first, bias_sums: Vec::new(), sums: Vec::new() }
    }

    /// Adds those of the graph's next node.
    pub(super) fn push(&mut self, graph: &Graph, node: &Node) {
        let id = NodeId(self.first.len() as u32 - 1);
        match node.kernel.name {
            "BiasAddGrad" => self.bias_sums.push(id),
            "AddN" => self.sums.push(id),
            _ => {}
        }
        self.nodes.extend(node.inputs.iter().map(|&input| graph.value(input).producer));
        self.nodes.extend(node.after.iter().copied());
        self.first.push(self.nodes.len() as u32);
    }

    /// Those of one node.
    pub(super) fn of(&self, node: usize) -> &[NodeId] {
        &self.nodes[self.first[node] as usize..self.first[node + 1] as usize]
    }
}

/// Successors by node, those of node `i` from `first[i]` to `first[i + 1]`, the one with the longest way to the end of the step
/// last. In TensorFlow's optimized graphs it mostly stands last, so that the thread which made it ready also runs it, and the
/// sum for a bias behind the product for its kernel. The gradients of a convolution whose filter several calls share are an
/// exception: there the image's gradient stands before the filter's (in all 14 of three such graphs).
pub(super) fn successors(graph: &Graph, dependencies: &Dependencies, first: &[u32]) -> Vec<NodeId> {
    let nodes = first.len() - 1;
    let mut next = first.to_vec();
    let mut successors = vec![NodeId(0); first[nodes] as usize];
    for index in 0..nodes {
        for before in dependencies.of(index) {
            let place = &mut next[before.0 as usize];
            successors[*place as usize] = NodeId(index as u32);
            *place += 1;
        }
    }
    // The way to the end, and whether it is the sum for a bias, as one number.
    let mut rank = vec![0u32; nodes];
    for sum in &dependencies.bias_sums {
        rank[sum.0 as usize] = 1;
    }
    // Node ids rise along every edge but those that the constant rewrite turned around, which are one node long.
    for index in (0..nodes).rev() {
        let own = &mut successors[first[index] as usize..first[index + 1] as usize];
        let way = own.iter().map(|next| rank[next.0 as usize] / 2 + 1).max().unwrap_or(0);
        rank[index] += way * 2;
        if own.len() > 1 {
            own.sort_by_key(|next| rank[next.0 as usize]);
        }
    }
    for &sum in &dependencies.sums {
        let summed = graph.node(sum).inputs.iter().map(|&input| graph.node(graph.value(input).producer));
        for filter in summed.filter(|summed| summed.kernel.name.contains("BackpropFilter")) {
            for &input in &filter.inputs {
                let producer = graph.value(input).producer.0 as usize;
                successors[first[producer] as usize..first[producer + 1] as usize].sort_by_key(|next| {
                    match graph.node(*next).kernel.name {
                        name if name.ends_with("BackpropInput") => 0,
                        "BiasAddGrad" => 2,
                        _ => 1,
                    }
                });
            }
        }
    }
    successors
}

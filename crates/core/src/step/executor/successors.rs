//! In which order the kernels that one result makes ready are handed out.

use crate::step::graph::{Graph, NodeId};

/// Successors by node, those of node `i` from `first[i]` to `first[i + 1]`, the one with the longest way to the end of the step
/// last. In TensorFlow's optimized graphs it mostly stands last, so that the thread which made it ready also runs it, and the
/// sum for a bias behind the product for its kernel. The gradients of a convolution whose filter several calls share are an
/// exception: there the image's gradient stands before the filter's (in all 14 of three such graphs).
pub(super) fn successors(graph: &Graph, first: &[u32]) -> Vec<NodeId> {
    let mut next = first.to_vec();
    let mut successors = vec![NodeId(0); *first.last().unwrap_or(&0) as usize];
    for (index, node) in graph.nodes.iter().enumerate() {
        let producers = node.inputs.iter().map(|&input| graph.value(input).producer);
        for before in producers.chain(node.after.iter().copied()) {
            let place = &mut next[before.0 as usize];
            successors[*place as usize] = NodeId(index as u32);
            *place += 1;
        }
    }
    // The way to the end, and whether it is the sum for a bias, as one number.
    let mut rank: Vec<u32> = graph.nodes.iter().map(|node| u32::from(node.kernel.name == "BiasAddGrad")).collect();
    // Node ids rise along every edge but those that the constant rewrite turned around, which are one node long.
    for index in (0..graph.nodes.len()).rev() {
        let own = &mut successors[first[index] as usize..first[index + 1] as usize];
        let way = own.iter().map(|next| rank[next.0 as usize] / 2 + 1).max().unwrap_or(0);
        rank[index] += way * 2;
        if own.len() > 1 {
            own.sort_by_key(|next| rank[next.0 as usize]);
        }
    }
    for node in graph.nodes.iter().filter(|node| node.kernel.name == "AddN") {
        let summed = node.inputs.iter().map(|&input| graph.node(graph.value(input).producer));
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

//! In which order the kernels that one result makes ready are handed out.
//!
//! In: who waits for whom. Out: each node's readers in the order of TensorFlow's graph, which its executor follows: of the kernels that one result
//! makes ready, the last runs on the same thread. The graph optimizer walks back from what the step writes, the last input first, and puts down
//! what it meets in the opposite order (tensorflow/core/grappler/utils/transitive_fanin.cc, `SetTransitiveFaninGraph`). Where it starts follows from
//! the names of the writes: each model has an order of its own, the same in all of its steps and starts. So in VGG16 the gradients of the pictures
//! come last from the top down to some layer, and below it those of the filters. The names are those of one version
//! (docs/decisions/simulate-the-executor.md); each seed is one of the orders.

use super::workers::Random;
use crate::step::graph::{Graph, Node, NodeId};

/// Whom each node waits for, and who waits for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependencies {
    /// The makers of each node's inputs, one for each, then those that must have run before.
    nodes: Vec<NodeId>,
    /// Where each node's begin, and the end.
    first: Vec<u32>,
    /// Inputs that are numbers known beforehand, such as axes and shapes: no kernel here has them, and TensorFlow's graph does.
    numbers: Vec<u8>,
}

impl Dependencies {
    /// None yet, with room for those of about this many nodes.
    pub(super) fn with_room(nodes: usize) -> Dependencies {
        let mut first = Vec::with_capacity(nodes + 1);
        first.push(0);
        Dependencies { nodes: Vec::with_capacity(nodes * 2), first, numbers: Vec::with_capacity(nodes) }
    }

    /// Adds those of the graph's next node.
    pub(super) fn push(&mut self, graph: &Graph, node: &Node) {
        self.nodes.extend(node.inputs.iter().map(|&input| graph.value(input).producer));
        self.nodes.extend(node.after.iter().copied());
        self.first.push(self.nodes.len() as u32);
        self.numbers.push(numbers(node.kernel.name));
    }

    /// How many inputs a node has in TensorFlow's graph.
    pub(super) fn edges(&self, node: NodeId) -> u64 {
        self.of(node.0 as usize).len() as u64 + u64::from(self.numbers[node.0 as usize])
    }

    /// Those of one node.
    pub(super) fn of(&self, node: usize) -> &[NodeId] {
        &self.nodes[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// Readers by node, those of node `i` from `first[i]` to `first[i + 1]`, in the order that a seed stands for.
    pub(super) fn readers(&self, first: &[u32], seed: u64) -> Vec<NodeId> {
        let nodes = first.len() - 1;
        let mut readers = vec![NodeId(0); first[nodes] as usize];
        let mut next = first.to_vec();
        // What was met last stands first.
        for &node in self.visits(first, seed).iter().rev() {
            for before in self.of(node.0 as usize) {
                let place = &mut next[before.0 as usize];
                readers[*place as usize] = node;
                *place += 1;
            }
        }
        readers
    }

    /// All nodes in the order of a walk back from those that nobody reads.
    fn visits(&self, first: &[u32], seed: u64) -> Vec<NodeId> {
        let nodes = first.len() - 1;
        let unread = (0..nodes).filter(|&node| first[node] == first[node + 1]);
        let mut path: Vec<NodeId> = unread.map(|node| NodeId(node as u32)).collect();
        path.sort_by_cached_key(|node| Random::new(seed, node.0).any());
        let mut met = vec![false; nodes];
        let mut visits = Vec::with_capacity(nodes);
        while let Some(node) = path.pop() {
            if !std::mem::replace(&mut met[node.0 as usize], true) {
                visits.push(node);
                path.extend(self.of(node.0 as usize).iter().filter(|before| !met[before.0 as usize]));
            }
        }
        visits
    }
}

/// How many of a kernel's inputs are numbers known beforehand (tensorflow/core/ops/array_ops.cc, math_ops.cc, nn_ops.cc).
fn numbers(kernel: &str) -> u8 {
    match kernel {
        "StridedSliceGrad" | "StatelessRandomUniformV2" => 4,
        "StridedSlice" => 3,
        "Slice" => 2,
        "BroadcastTo"
        | "ConcatV2"
        | "Conv2DBackpropFilter"
        | "Conv2DBackpropInput"
        | "ExpandDims"
        | "GatherV2"
        | "Max"
        | "Mean"
        | "Min"
        | "MirrorPad"
        | "Pad"
        | "Prod"
        | "Reshape"
        | "Split"
        | "Sum"
        | "Tile"
        | "Transpose" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Size;
    use crate::model::{DType, Shape};
    use crate::step::executor::Prepared;
    use crate::step::graph::{InPlace, Kernel, NewNode, ValueId, Variable};
    use crate::trace::Role;

    fn node(graph: &mut Graph, name: &'static str, input: ValueId) -> ValueId {
        graph.add(NewNode {
            kernel: Kernel { name, attr: 0 },
            inputs: &[input],
            output: (Shape::fixed(&[1]), DType::Float32),
            in_place: InPlace::No,
            scratch: vec![],
            work: Size::ZERO,
            after: &[],
        })
    }

    /// A gradient that is read for the weight of its own layer and for the layer below, whose weight reads it in turn.
    #[test]
    fn what_a_walk_back_from_the_writes_meets_first_stands_last() {
        let mut graph = Graph::default();
        let (shape, dtype, role) = (Shape::fixed(&[1]), DType::Float32, Role::Parameter);
        let weights = [0, 1].map(|created| {
            graph.variable(Variable { layer: None, role, shape: shape.clone(), dtype, random: false, created })
        });
        let gradient = graph.feed(shape, dtype);
        let own = node(&mut graph, "OfTheWeight", gradient);
        let below = node(&mut graph, "OfTheInput", gradient);
        let lower = node(&mut graph, "OfTheLowerWeight", below);
        for (weight, change) in weights.into_iter().zip([own, lower]) {
            graph.assign("AssignSubVariableOp", weight, change, &[]);
        }
        let prepared = Prepared::new(&graph, Some(1), Vec::new());
        let [own, below, gradient] = [own, below, gradient].map(|value| graph.value(value).producer);
        let mut seen = [false; 2];
        for seed in 0..20 {
            let readers = prepared.readers(seed);
            let order = prepared.readers_of(&readers, gradient);
            assert!(order == [own, below] || order == [below, own]);
            // The walk begins at one of the two writes.
            seen[usize::from(order == [own, below])] = true;
        }
        assert_eq!(seen, [true; 2]);
    }
}

//! Sums of many tensors that the graph optimizer turns into a running total.
//!
//! In: the whole graph, the batch. Out: the same graph, in which some `AddN` are a temporary variable that each term is added
//! to as soon as it is there. TensorFlow does so where it believes that a device runs out of memory
//! (tensorflow/core/grappler/optimizers/memory_optimizer.cc, `SchedulingPass`). The total and its zeros are two more buffers;
//! the terms need not wait for each other.

use std::cmp::Reverse;

use smallvec::{SmallVec, smallvec};

use super::Lowering;
use crate::step::graph::{Graph, InPlace, Kernel, Node, NodeId, Storage, Value, ValueId, Variable};
use crate::trace::Role;

/// TensorFlow says of every CPU that it has 256 MiB, and takes action above 80 % of them (threadpool_device_factory.cc).
const ALARM_BYTES: u64 = (256 << 20) / 10 * 8;
/// It expects kernels to move so many bytes in a microsecond, where nothing else takes longer (the cost estimator of a virtual cluster).
const BYTES_PER_MICROSECOND: u64 = 16_000;
/// How often the graph optimizer goes over the graph (rewriter_config.proto, `meta_optimizer_iterations`: two by default).
const ROUNDS: u32 = 2;

/// The moment at which the graph optimizer expects the most memory to be in use.
struct Expected {
    bytes: u64,
    /// Whether each value is alive then.
    alive: Vec<bool>,
}

impl Lowering<'_> {
    /// Rewrites the sums whose terms are alive at the moment of the largest expected use.
    ///
    /// Decided for the job's own batch: a search over other batches keeps what was decided.
    pub(super) fn accumulate_sums(&mut self) {
        let batch = self.job.micro_batch();
        for round in 0..ROUNDS {
            let is_sum = |node: &Node| node.kernel.name == "AddN" && node.inputs.len() > 2;
            if !self.graph.nodes.iter().any(is_sum) {
                return;
            }
            let expected = expected_peak(&self.graph, batch);
            if expected.bytes <= ALARM_BYTES {
                return;
            }
            let alive = |node: &Node| node.inputs.iter().any(|input| expected.alive[input.0 as usize]);
            let chosen: Vec<bool> = self.graph.nodes.iter().map(|node| is_sum(node) && alive(node)).collect();
            if !chosen.contains(&true) {
                return;
            }
            // The zeros of the first round are folded into a constant in the second; those of the second are computed.
            let folded = round + 1 < ROUNDS;
            if folded {
                self.keep_zeros(&chosen);
            }
            accumulate(&mut self.graph, &chosen, folded);
        }
    }

    /// The zeros of each sum live as long as the compiled graph: they become constants after equal ones were looked for (the
    /// graph of `twins` has two of the same shape).
    fn keep_zeros(&mut self, chosen: &[bool]) {
        for (index, _) in chosen.iter().enumerate().filter(|&(_, &chosen)| chosen) {
            let total = self.graph.nodes[index].outputs[0];
            let (shape, dtype) = (self.shape(total), self.dtype(total));
            self.graph.variable(Variable {
                layer: None,
                role: Role::Temporary,
                shape,
                dtype,
                random: false,
                created: Variable::LAST,
            });
        }
    }
}

/// What the graph optimizer expects: one kernel after the other in the order in which they become ready, every result in a
/// buffer of its own, which is let go of a nanosecond after its last reader is done: the next kernel has begun by then
/// (graph_memory.cc, `InferFromTrace`; virtual_scheduler.cc, `FirstReadyManager`).
fn expected_peak(graph: &Graph, batch: u64) -> Expected {
    let mut bytes = vec![0u64; graph.values.len()];
    for node in &graph.nodes {
        for &output in &node.outputs {
            bytes[output.0 as usize] = expected_bytes(graph, node, output, batch);
        }
    }
    let mut readers = vec![0u32; graph.values.len()];
    let mut waits: Vec<u32> = Vec::with_capacity(graph.nodes.len());
    let mut first = vec![0u32; graph.nodes.len() + 1];
    let before = |node: &Node| -> SmallVec<[NodeId; 8]> {
        if is_loop(node) {
            return SmallVec::new();
        }
        let makers = node.inputs.iter().map(|&input| graph.value(input).producer);
        makers.chain(node.after.iter().copied()).collect()
    };
    for node in &graph.nodes {
        for input in node.inputs.iter().filter(|_| !is_loop(node)) {
            readers[input.0 as usize] += 1;
        }
        let makers = before(node);
        for maker in &makers {
            first[maker.0 as usize + 1] += 1;
        }
        waits.push(makers.len() as u32);
    }
    for index in 0..graph.nodes.len() {
        first[index + 1] += first[index];
    }
    let mut next = first.clone();
    let mut successors = vec![0u32; first[graph.nodes.len()] as usize];
    for (index, node) in graph.nodes.iter().enumerate() {
        for maker in before(node) {
            let place = &mut next[maker.0 as usize];
            successors[*place as usize] = index as u32;
            *place += 1;
        }
    }
    let mut queue: Vec<u32> = (0..graph.nodes.len() as u32).filter(|&index| waits[index as usize] == 0).collect();
    let (mut made, mut freed) = (vec![u32::MAX; graph.values.len()], vec![u32::MAX; graph.values.len()]);
    let (mut live, mut peak, mut moment) = (0u64, 0u64, 0u32);
    // What was read for the last time, and the microsecond in which that kernel ended: whatever starts in the same one finds it there.
    let mut leaving: Vec<(ValueId, u64)> = Vec::new();
    // In bytes moved.
    let mut clock = 0u64;
    let mut time = 0;
    while let Some(&index) = queue.get(time) {
        let node = &graph.nodes[index as usize];
        leaving.retain(|&(value, end)| {
            let stays = end == clock / BYTES_PER_MICROSECOND;
            if !stays {
                freed[value.0 as usize] = time as u32;
                live = live.saturating_sub(bytes[value.0 as usize]);
            }
            stays
        });
        for output in &node.outputs {
            live = live.saturating_add(bytes[output.0 as usize]);
            made[output.0 as usize] = time as u32;
        }
        if live > peak {
            (peak, moment) = (live, time as u32);
        }
        let inputs = if is_loop(node) { &[][..] } else { &node.inputs[..] };
        for &value in inputs.iter().chain(&node.outputs) {
            clock = clock.saturating_add(bytes[value.0 as usize]);
        }
        for input in inputs {
            readers[input.0 as usize] -= 1;
        }
        for &value in inputs.iter().chain(&node.outputs) {
            let done = readers[value.0 as usize] == 0 && freed[value.0 as usize] == u32::MAX;
            if done && !leaving.iter().any(|&(leaves, _)| leaves == value) {
                leaving.push((value, clock / BYTES_PER_MICROSECOND));
            }
        }
        for &successor in &successors[first[index as usize] as usize..first[index as usize + 1] as usize] {
            let waits = &mut waits[successor as usize];
            *waits -= 1;
            if *waits == 0 {
                queue.push(successor);
            }
        }
        time += 1;
    }
    let alive = made.iter().zip(&freed).map(|(&made, &freed)| made <= moment && moment < freed).collect();
    Expected { bytes: peak, alive }
}

/// A loop, taken apart, is passed as soon as its first values are there: it waits for nothing.
fn is_loop(node: &Node) -> bool {
    matches!(node.kernel.name, "While" | "WhileGrad")
}

/// Lists have no size that the graph optimizer knows of. A temporary variable and its first assignment are two results.
fn expected_bytes(graph: &Graph, maker: &Node, id: ValueId, batch: u64) -> u64 {
    let size = graph.size(id).at(batch);
    match maker.kernel.name {
        "While" | "TensorListFromTensor" | "TensorListElement" => 0,
        "WhileGrad" if maker.outputs[0] == id => 0,
        "TemporaryVariable" => size.saturating_mul(2),
        _ => size,
    }
}

/// The term with which the running total begins: of the terms' makers, the first that a walk back from the sum is done with.
/// The walk takes what comes last in the sorted graph first (graph_topology_view.cc sorts what a node reads).
fn first_term(nodes: &[Node], values: &[Value], levels: &[u32], sum: usize) -> Option<NodeId> {
    let before = |node: &Node| -> SmallVec<[NodeId; 8]> {
        let makers = node.inputs.iter().map(|&input| values[input.0 as usize].producer);
        let mut makers: SmallVec<[NodeId; 8]> = makers.chain(node.after.iter().copied()).collect();
        makers.sort_by_key(|maker| (levels[maker.0 as usize], Reverse(*maker)));
        makers
    };
    let terms = before(&nodes[sum]);
    let oldest = terms.iter().copied().min()?;
    let mut seen = vec![false; nodes.len()];
    let mut stack: Vec<(NodeId, bool)> = terms.iter().map(|&term| (term, false)).collect();
    while let Some((id, done)) = stack.pop() {
        if done && terms.contains(&id) {
            return Some(id);
        }
        // No term is made from a node that is older than all of them.
        if done || id < oldest || std::mem::replace(&mut seen[id.0 as usize], true) {
            continue;
        }
        stack.push((id, true));
        stack.extend(before(&nodes[id.0 as usize]).into_iter().map(|maker| (maker, false)));
    }
    None
}

/// How many kernels stand before each, on the longest way.
fn levels(nodes: &[Node], values: &[Value]) -> Vec<u32> {
    let mut levels = vec![0u32; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let makers = node.inputs.iter().map(|&input| values[input.0 as usize].producer);
        let before = makers.chain(node.after.iter().copied()).map(|maker| levels[maker.0 as usize] + 1);
        levels[index] = before.max().unwrap_or(0);
    }
    levels
}

/// Replaces each chosen sum by a temporary variable, one addition for each term, and the end of the variable.
fn accumulate(graph: &mut Graph, chosen: &[bool], folded: bool) {
    let nodes = std::mem::take(&mut graph.nodes);
    let known_values = graph.values.len();
    let levels = levels(&nodes, &graph.values);
    let sums = chosen.iter().enumerate().filter(|&(_, &chosen)| chosen);
    let first_terms: Vec<Option<NodeId>> =
        sums.map(|(sum, _)| first_term(&nodes, &graph.values, &levels, sum)).collect();
    let mut first_terms = first_terms.into_iter();
    let mut renamed = vec![NodeId(0); nodes.len()];
    // Makers of the new values, and what must run before the ends of the variables: both by their new numbers.
    let (mut makers, mut ends) = (Vec::new(), Vec::new());
    for (index, mut node) in nodes.into_iter().enumerate() {
        if !chosen[index] {
            renamed[index] = NodeId(graph.nodes.len() as u32);
            graph.nodes.push(node);
            continue;
        }
        let sum = node.outputs[0];
        let total = ValueId(graph.values.len() as u32);
        let Value { shape, dtype, differentiable, producer, .. } = *graph.value(sum);
        graph.values.push(Value { shape, dtype, producer, storage: Storage::Own, differentiable });
        let size = graph.size(sum);
        let terms = std::mem::take(&mut node.inputs);
        makers.push(NodeId(graph.nodes.len() as u32));
        let like = |name: &'static str| Node {
            kernel: Kernel { name, attr: 0 },
            in_place: InPlace::No,
            scratch: Vec::new(),
            ..node.clone()
        };
        graph.nodes.push(Node {
            outputs: smallvec![total],
            after: first_terms.next().flatten().into_iter().collect(),
            scratch: if folded { Vec::new() } else { vec![size] },
            ..like("TemporaryVariable")
        });
        let start = graph.nodes.len() as u32;
        for &term in &terms {
            let inputs = smallvec![total, term];
            graph.nodes.push(Node { inputs, outputs: SmallVec::new(), ..like("AssignAdd") });
        }
        renamed[index] = NodeId(graph.nodes.len() as u32);
        ends.push((graph.nodes.len(), (start..graph.nodes.len() as u32).map(NodeId).collect()));
        graph.nodes.push(Node { inputs: smallvec![total], ..like("DestroyTemporaryVariable") });
        graph.values[sum.0 as usize].storage = Storage::Alias(total);
    }
    for node in &mut graph.nodes {
        for before in &mut node.after {
            *before = renamed[before.0 as usize];
        }
    }
    for (index, additions) in ends {
        graph.nodes[index].after = additions;
    }
    let (known, new) = graph.values.split_at_mut(known_values);
    for value in known {
        // What was pruned has no maker any more.
        value.producer = renamed.get(value.producer.0 as usize).copied().unwrap_or(value.producer);
    }
    for (value, maker) in new.iter_mut().zip(makers) {
        value.producer = maker;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Size;
    use crate::model::{DType, Shape};
    use crate::step::graph::NewNode;

    /// A tensor of 1 MiB for each sample, made from others.
    fn tensor(graph: &mut Graph, name: &'static str, inputs: &[ValueId]) -> ValueId {
        graph.add(NewNode {
            kernel: Kernel { name, attr: 0 },
            inputs,
            output: (Shape::new(true, &[1 << 18]), DType::Float32),
            in_place: InPlace::No,
            scratch: vec![],
            work: Size::ZERO,
            after: &[],
        })
    }

    /// `Neg(x) + Sqrt(x) + Exp(Neg(x))`, then `Loss`.
    fn sum_of_three() -> (Graph, ValueId) {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::new(true, &[1 << 18]), DType::Float32);
        let (a, b) = (tensor(&mut graph, "Neg", &[x]), tensor(&mut graph, "Sqrt", &[x]));
        let c = tensor(&mut graph, "Exp", &[a]);
        let sum = tensor(&mut graph, "AddN", &[a, b, c]);
        tensor(&mut graph, "Logged", &[sum]);
        (graph, sum)
    }

    #[test]
    fn every_result_is_expected_in_a_buffer_of_its_own() {
        let (graph, sum) = sum_of_three();
        let expected = expected_peak(&graph, 10);
        // The three terms, their sum and what is made of it: it is begun before the terms are let go of. The feed is read for the last time before.
        assert_eq!(expected.bytes, 50 << 20);
        assert!(expected.alive[sum.0 as usize]);
        assert!(!expected.alive[0]);
    }

    #[test]
    fn a_sum_becomes_a_total_that_begins_with_a_term_that_others_need() {
        let (mut graph, sum) = sum_of_three();
        let chosen: Vec<bool> = graph.nodes.iter().map(|node| node.kernel.name == "AddN").collect();
        accumulate(&mut graph, &chosen, true);
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.kernel.name).collect();
        let total = ["TemporaryVariable", "AssignAdd", "AssignAdd", "AssignAdd", "DestroyTemporaryVariable"];
        assert_eq!(names, [&["_Arg", "Neg", "Sqrt", "Exp"][..], &total[..], &["Logged"][..]].concat());
        // The walk begins at `Exp`, the farthest from the start, and is first done with what that is made from.
        assert_eq!(graph.nodes[4].after[..], [NodeId(1)]);
        assert_eq!(graph.nodes[8].after[..], [5, 6, 7].map(NodeId));
        assert_eq!(graph.value(sum).producer, NodeId(8));
        assert_eq!(graph.value(sum).storage, Storage::Alias(graph.nodes[4].outputs[0]));
        assert_eq!(graph.value(graph.nodes[4].outputs[0]).producer, NodeId(4));
        assert_eq!(graph.nodes[9].inputs[0], sum);
    }
}

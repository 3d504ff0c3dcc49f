//! The graph optimizer's rewrites that change what is alive when.
//!
//! In: the whole graph. Out: the same graph, rewritten in place. Fusions (convolution with bias and activation) are not
//! carried out: the unfused kernels overwrite their input, so the buffers are the same.

use crate::step::Mode;
use crate::step::graph::{Graph, NodeId, Value, ValueId};

/// `c · (x · y)` becomes `x · (c · y)` (tensorflow/core/grappler/optimizers/constant_folding.cc, `ConstantPushDown`).
///
/// It matters because `c · y` then often depends on forward values alone and is computed, and kept, long before `x` arrives.
pub(super) fn push_constants_down(graph: &mut Graph) {
    let mut consumers = vec![0u32; graph.values.len()];
    for node in &graph.nodes {
        for input in &node.inputs {
            consumers[input.0 as usize] += 1;
        }
    }
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        if node.kernel.name != "Mul" || !graph.is_constant(node.inputs[0]) || !node.after.is_empty() {
            continue;
        }
        let (constant, product) = (node.inputs[0], node.inputs[1]);
        let child_id = graph.value(product).producer;
        let child = graph.node(child_id);
        if child.kernel.name != "Mul"
            || consumers[product.0 as usize] != 1
            || !child.after.is_empty()
            || child.inputs.iter().any(|&input| graph.is_constant(input))
        {
            continue;
        }
        let (x, y) = (child.inputs[0], child.inputs[1]);
        let Value { shape, dtype, differentiable, .. } = *graph.value(y);
        let layer_and_phase = (graph.nodes[index].layer, graph.nodes[index].phase);
        let child = &mut graph.nodes[child_id.0 as usize];
        child.inputs = smallvec::smallvec![constant, y];
        (child.layer, child.phase) = layer_and_phase;
        let value = &mut graph.values[product.0 as usize];
        (value.shape, value.dtype, value.differentiable) = (shape, dtype, differentiable);
        graph.nodes[index].inputs = smallvec::smallvec![x, product];
    }
}

/// Drops kernels whose results nobody needs: neither a variable's update nor the model's outputs (at inference).
pub(super) fn prune(graph: &mut Graph, mode: Mode, outputs: &[ValueId]) {
    let mut needed = vec![false; graph.nodes.len()];
    let mut queue: Vec<NodeId> = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        if node.writes.is_some() || node.kernel.name == "Loss" {
            queue.push(NodeId(index as u32));
        }
    }
    if mode == Mode::Inference {
        queue.extend(outputs.iter().map(|&output| graph.value(output).producer));
    }
    while let Some(id) = queue.pop() {
        if std::mem::replace(&mut needed[id.0 as usize], true) {
            continue;
        }
        let node = graph.node(id);
        queue.extend(node.inputs.iter().map(|&input| graph.value(input).producer));
        queue.extend(node.after.iter().copied());
    }
    let mut renamed = vec![NodeId(0); graph.nodes.len()];
    let mut kept = 0;
    for (index, &needed) in needed.iter().enumerate() {
        renamed[index] = NodeId(kept);
        kept += needed as u32;
    }
    let mut index = 0;
    graph.nodes.retain(|_| {
        index += 1;
        needed[index - 1]
    });
    for node in &mut graph.nodes {
        for before in &mut node.after {
            *before = renamed[before.0 as usize];
        }
    }
    for value in &mut graph.values {
        value.producer = renamed[value.producer.0 as usize];
    }
}

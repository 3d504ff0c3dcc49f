//! The graph optimizer's rewrites that change what is alive when.
//!
//! In: the whole graph. Out: the same graph, rewritten in place. Fusions (convolution with bias and activation) are not
//! carried out: the unfused kernels overwrite their input, so the buffers are the same.

use rustc_hash::FxHashMap;

use super::gradient::FOLDED;
use crate::model::Model;
use crate::step::Mode;
use crate::step::graph::{Graph, Node, NodeId, Storage, Value, ValueId};
use crate::trace::Phase;

/// `c · (x · y)` becomes `x · (c · y)` (tensorflow/core/grappler/optimizers/constant_folding.cc, `ConstantPushDown`).
///
/// It matters because `c · y` then often depends on forward values alone and is computed, and kept, long before `x` arrives. Of a gradient and a value
/// of the forward pass, y is the one whose maker's name comes first in the alphabet: the value in a model called `functional`, the gradient in one
/// called `sequential`, where `c · y` takes a buffer of its own. Read off the optimized graphs of one network under these names, and checked with a
/// `Functional` and a `Sequential` model called `apple` and `zebra`: it is the name that decides, not the kind.
pub(super) fn push_constants_down(graph: &mut Graph, model: &Model) {
    let gradient_first = model.name.as_str() > TAPE;
    let mut consumers = vec![0u32; graph.values.len()];
    // A rewrite changes a node and one before it: what stands here is found before the first of them.
    let mut scaled = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        for input in &node.inputs {
            consumers[input.0 as usize] += 1;
        }
        if node.kernel.name == "Mul" && graph.is_constant(node.inputs[0]) && node.after.is_empty() {
            scaled.push(index);
        }
    }
    for index in scaled {
        let node = &graph.nodes[index];
        let (constant, product) = (node.inputs[0], node.inputs[1]);
        let child_id = graph.value(product).producer;
        let child = graph.node(child_id);
        if !matches!(child.kernel.name, "Mul" | "Silu")
            || consumers[product.0 as usize] != 1
            || !child.after.is_empty()
            || child.inputs.iter().any(|&input| graph.is_constant(input))
        {
            continue;
        }
        let name = |input: ValueId| {
            let maker = graph.node(graph.value(input).producer);
            (maker.layer.map(|layer| model.layers[layer as usize].path.as_str()), maker.kernel.name)
        };
        let (mut x, mut y) = (child.inputs[0], child.inputs[1]);
        let [of_x, of_y] = [x, y].map(|input| graph.node(graph.value(input).producer).phase == Phase::Backward);
        let swapped = match of_x == of_y {
            // Of what `silu` multiplies, in the forward pass, names are known: those of the layers and of the kernels in them.
            true if child.kernel.name == "Silu" => name(x) < name(y),
            true => false,
            false => of_x == gradient_first,
        };
        if swapped {
            (x, y) = (y, x);
        }
        let Value { shape, dtype, differentiable, .. } = *graph.value(y);
        let (kernel, layer_and_phase) =
            (graph.nodes[index].kernel, (graph.nodes[index].layer, graph.nodes[index].phase));
        let child = &mut graph.nodes[child_id.0 as usize];
        child.inputs = smallvec::smallvec![constant, y];
        child.kernel = kernel;
        (child.layer, child.phase) = layer_and_phase;
        let value = &mut graph.values[product.0 as usize];
        (value.shape, value.dtype, value.differentiable) = (shape, dtype, differentiable);
        graph.nodes[index].inputs = smallvec::smallvec![x, product];
    }
}

/// How the names of a gradient's kernels begin.
const TAPE: &str = "gradient_tape/";

/// Puts the inputs of sums and products in the order of their makers' names
/// (tensorflow/core/grappler/optimizers/common_subgraph_elimination.cc, `CanonicalizeNode`): with it goes which of them is met first, and run last.
///
/// A name begins with the model's, or with that of the tape for a gradient; then comes the layer. What stands behind that is not known, nor what
/// Keras makes of the model's name in a program with several of that name.
pub(super) fn sort_inputs(graph: &mut Graph, model: &Model) {
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let commutes = matches!(node.kernel.name, "AddV2" | "AddN" | "Mul" | "SquaredDifference");
        if !commutes || node.phase == Phase::Optimizer || node.inputs.iter().any(|&input| graph.is_constant(input)) {
            continue;
        }
        let mut inputs = node.inputs.clone();
        inputs.sort_by(|&a, &b| {
            let [of_a, of_b] = [a, b].map(|input| {
                let maker = graph.node(graph.value(input).producer);
                let layer = maker.layer.map_or("", |layer| model.layers[layer as usize].path.as_str());
                [if maker.phase == Phase::Backward { TAPE } else { "" }, &model.name, "_1/", layer, "_1/"]
            });
            let letters =
                |name: [&'_ str; 5]| name.into_iter().flat_map(str::bytes).collect::<smallvec::SmallVec<[u8; 64]>>();
            letters(of_a).cmp(&letters(of_b))
        });
        graph.nodes[index].inputs = inputs;
    }
}

/// The mark, in a transposition's attribute, that it swaps the last two axes and no others.
pub(super) const SWAPS_LAST_TWO: u32 = 1 << 31;

/// Whether a kernel is a transposition with this mark. One that is part of another kernel has none.
fn swaps(node: &Node, mark: u32) -> bool {
    let attr = node.kernel.attr;
    node.kernel.name == "Transpose" && attr != FOLDED && attr & mark != 0
}

/// A product reads a matrix as it is instead of its transposition, which is then needed only by others
/// (tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc, `FoldTransposeIntoMatMulStage`). The gradients of the product read
/// so, too, as they are products; that of the transposition stays.
pub(super) fn fold_transpositions(graph: &mut Graph) {
    for index in 0..graph.nodes.len() {
        if !matches!(graph.nodes[index].kernel.name, "MatMul" | "BatchMatMulV2") {
            continue;
        }
        for at in 0..graph.nodes[index].inputs.len() {
            let maker = graph.node(graph.value(graph.nodes[index].inputs[at]).producer);
            if swaps(maker, SWAPS_LAST_TWO) {
                let plain = maker.inputs[0];
                graph.nodes[index].inputs[at] = plain;
            }
        }
    }
}

/// The mark, in a transposition's attribute, that it swaps the first two axes and no others: samples and steps, around a recurrent layer.
pub(super) const SWAPS_FIRST_TWO: u32 = 1 << 29;

/// One of the parts along the first axis, where the attribute says which.
pub(super) const STEP: &str = "StridedSlice";

/// What undoes what was done right before it is passed by, and both are gone where nobody else reads the first: a swap of samples and steps
/// behind such a swap, between two recurrent layers or two that are called for each step, forward and backward, and a step of steps that were stacked
/// (arithmetic_optimizer.cc, `RemoveIdentityTranspose` and `RemoveStackSliceSameAxis`).
pub(super) fn pass_by_what_undoes(graph: &mut Graph) {
    let mut instead = FxHashMap::default();
    for index in 0..graph.nodes.len() {
        for input in &mut graph.nodes[index].inputs {
            *input = *instead.get(input).unwrap_or(input);
        }
        let node = &graph.nodes[index];
        for output in &node.outputs {
            if let Storage::Alias(of) = &mut graph.values[output.0 as usize].storage {
                *of = *instead.get(of).unwrap_or(of);
            }
        }
        let Some(&input) = node.inputs.first() else { continue };
        let before = graph.node(graph.value(input).producer);
        let done = match node.kernel.name {
            STEP if before.kernel.name == "Pack" => before.inputs.get(node.kernel.attr as usize),
            _ if swaps(node, SWAPS_FIRST_TWO) && swaps(before, SWAPS_FIRST_TWO) => before.inputs.first(),
            _ => None,
        };
        if let Some(&undone) = done {
            instead.insert(node.outputs[0], undone);
        }
    }
}

/// Drops kernels whose results nobody needs: neither a variable's update nor the model's outputs (at inference).
pub(super) fn prune(graph: &mut Graph, mode: Mode, outputs: &[ValueId]) {
    let mut needed = vec![false; graph.nodes.len()];
    if mode == Mode::Inference {
        outputs.iter().for_each(|&output| needed[graph.value(output).producer.0 as usize] = true);
    }
    // Nearly all nodes stand behind those that they need, so that one way through the nodes finds these; the others wait here.
    let mut behind: Vec<usize> = Vec::new();
    for last in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[last];
        needed[last] |= node.writes.is_some() || node.kernel.name == "Logged";
        if needed[last] {
            behind.push(last);
        }
        while let Some(index) = behind.pop() {
            let node = &graph.nodes[index];
            let makers = node.inputs.iter().map(|&input| graph.value(input).producer);
            for before in makers.chain(node.after.iter().copied()) {
                let before = before.0 as usize;
                if !std::mem::replace(&mut needed[before], true) && before > last {
                    behind.push(before);
                }
            }
        }
    }
    let mut renamed = vec![NodeId(0); graph.nodes.len()];
    let mut kept = 0;
    for (index, &needed) in needed.iter().enumerate() {
        renamed[index] = NodeId(kept);
        kept += needed as u32;
    }
    let mut index = 0;
    graph.nodes.retain_mut(|node| {
        for before in &mut node.after {
            *before = renamed[before.0 as usize];
        }
        index += 1;
        needed[index - 1]
    });
    for value in &mut graph.values {
        value.producer = renamed[value.producer.0 as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Size;
    use crate::model::{DType, Shape};
    use crate::step::graph::{InPlace, Kernel, NewNode};

    /// What a constant is multiplied with first, of a gradient and a value of the forward pass whose product it scaled.
    fn scaled_first(model_name: &str) -> &'static str {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::fixed(&[4]), DType::Float32);
        let half = graph.constant(0.5, DType::Float32);
        let kernel = |graph: &mut Graph, name, inputs: &[ValueId], phase| {
            let (output, work) = ((Shape::fixed(&[4]), DType::Float32), Size::ZERO);
            let kernel = Kernel { name, attr: 0 };
            let made = graph.add(NewNode {
                kernel,
                inputs,
                output,
                in_place: InPlace::Any,
                scratch: vec![],
                work,
                after: &[],
            });
            let maker = graph.value(made).producer;
            graph.nodes[maker.0 as usize].phase = phase;
            made
        };
        let value = kernel(&mut graph, "Erfc", &[x], Phase::Forward);
        let gradient = kernel(&mut graph, "MatMul", &[x], Phase::Backward);
        let product = kernel(&mut graph, "Mul", &[gradient, value], Phase::Backward);
        kernel(&mut graph, "Mul", &[half, product], Phase::Backward);
        push_constants_down(&mut graph, &Model { name: model_name.to_owned(), ..Model::default() });
        let &[constant, other] = &graph.node(graph.value(product).producer).inputs[..] else {
            panic!("a product of two")
        };
        assert_eq!(constant, half);
        graph.node(graph.value(other).producer).kernel.name
    }

    #[test]
    fn a_constant_goes_to_the_factor_whose_name_comes_first() {
        for name in ["functional_3", "apple"] {
            assert_eq!(scaled_first(name), "Erfc");
        }
        for name in ["sequential", "zebra"] {
            assert_eq!(scaled_first(name), "MatMul");
        }
    }

    #[test]
    fn a_swap_of_steps_that_undoes_the_last_one_is_passed_by() {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::fixed(&[4, 4, 2]), DType::Float32);
        let kernel = |graph: &mut Graph, name, attr, input| {
            let (kernel, output) = (Kernel { name, attr }, (Shape::fixed(&[4, 4, 2]), DType::Float32));
            let (in_place, scratch, work) = (InPlace::No, vec![], Size::ZERO);
            graph.add(NewNode { kernel, inputs: &[input], output, in_place, scratch, work, after: &[] })
        };
        let turned = kernel(&mut graph, "Transpose", SWAPS_FIRST_TWO | 2, x);
        let back = kernel(&mut graph, "Transpose", SWAPS_FIRST_TWO | 4, turned);
        let flat = graph.reshape(back, Shape::fixed(&[32]));
        let last = kernel(&mut graph, "Neg", 0, back);
        let again = kernel(&mut graph, "Transpose", SWAPS_FIRST_TWO | 6, back);
        let other = kernel(&mut graph, "Neg", 2, again);
        pass_by_what_undoes(&mut graph);
        let read = |value: ValueId| graph.node(graph.value(value).producer).inputs[0];
        assert_eq!((read(last), read(flat)), (x, x));
        assert_eq!(graph.value(flat).storage, Storage::Alias(x));
        assert_eq!(read(other), again, "of three swaps one is left");
    }

    #[test]
    fn a_step_of_what_was_stacked_is_what_was_stacked_there() {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::fixed(&[4]), DType::Float32);
        let kernel = |graph: &mut Graph, name, attr, inputs: &[ValueId]| {
            let (kernel, output) = (Kernel { name, attr }, (Shape::fixed(&[4]), DType::Float32));
            let (in_place, scratch, work) = (InPlace::No, vec![], Size::ZERO);
            graph.add(NewNode { kernel, inputs, output, in_place, scratch, work, after: &[] })
        };
        let parts = ["Neg", "Exp", "Tanh"].map(|name| kernel(&mut graph, name, 0, &[x]));
        let stack = kernel(&mut graph, "Pack", 2, &parts);
        let step = kernel(&mut graph, STEP, 1, &[stack]);
        let reader = kernel(&mut graph, "Sqrt", 0, &[step]);
        let other = kernel(&mut graph, STEP, 0, &[x]);
        let of_other = kernel(&mut graph, "Sqrt", 0, &[other]);
        pass_by_what_undoes(&mut graph);
        let read = |value: ValueId| graph.node(graph.value(value).producer).inputs[0];
        assert_eq!((read(reader), read(of_other)), (parts[1], other));
    }

    #[test]
    fn a_product_reads_a_matrix_in_place_of_its_transposition() {
        for (attr, folded) in [(SWAPS_LAST_TWO | 2, true), (2, false)] {
            let mut graph = Graph::default();
            let x = graph.feed(Shape::fixed(&[2, 4, 4]), DType::Float32);
            let kernel = |graph: &mut Graph, name, attr, inputs: &[ValueId]| {
                let (kernel, output) = (Kernel { name, attr }, (Shape::fixed(&[2, 4, 4]), DType::Float32));
                let (in_place, scratch, work) = (InPlace::No, vec![], Size::ZERO);
                graph.add(NewNode { kernel, inputs, output, in_place, scratch, work, after: &[] })
            };
            let transposed = kernel(&mut graph, "Transpose", attr, &[x]);
            let product = kernel(&mut graph, "BatchMatMulV2", 0, &[x, transposed]);
            let other = kernel(&mut graph, "Neg", 0, &[transposed]);
            fold_transpositions(&mut graph);
            let read = |value: ValueId| *graph.node(graph.value(value).producer).inputs.last().unwrap();
            assert_eq!(read(product), if folded { x } else { transposed });
            assert_eq!(read(other), transposed);
        }
    }
}

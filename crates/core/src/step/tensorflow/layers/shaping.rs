//! Splitting one tensor into several, picking parts of one.
//!
//! In: the tensor. Out: its parts, and the gradient of what is picked. Not counted: the numbers of the parts, which the graph
//! optimizer makes constants.

use super::super::Lowering;
use super::super::rewrite::SWAPS_LAST_TWO;
use crate::model::{Op, Shape};
use crate::step::graph::{Kernel, ValueId};

/// Axes that the attribute of a `GatherV2` can tell apart; no tensor of TensorFlow has more.
const AXES: u32 = 256;

impl Lowering<'_> {
    pub(super) fn split(&mut self, op: &Op, x: ValueId) {
        let dtype = self.dtype(x);
        let mut first: Option<ValueId> = None;
        for (index, &output) in op.outputs.iter().enumerate() {
            let shape = self.model.tensor(output).shape.clone();
            let value = match first {
                None => *first.insert(self.copy_op("Split", op, &[x])),
                Some(first) => self.graph.add_output(first, shape, dtype),
            };
            self.set_output(op, index, value);
        }
    }

    /// A transposition; products look for those of matrices.
    pub(super) fn transpose(&mut self, op: &Op, axes: &[usize], x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let before = axes.len().saturating_sub(2);
        let swaps =
            axes[before..] == [before + 1, before] && axes[..before].iter().enumerate().all(|(at, &axis)| at == axis);
        // The output tells transpositions of the same tensor apart.
        let attr = (op.outputs[0].0.wrapping_mul(2) + 2) & !SWAPS_LAST_TWO;
        self.copy("Transpose", &[x], shape, if swaps { attr | SWAPS_LAST_TWO } else { attr })
    }

    /// Parts picked along an axis. The output tells gatherings of the same tensor apart.
    pub(super) fn take(&mut self, op: &Op, axis: usize, x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let attr = op.outputs[0].0.wrapping_mul(AXES) + (axis as u32).min(AXES - 1);
        self.copy("GatherV2", &[x], shape, attr)
    }

    /// What was picked is summed up along the first axis: the gradient is transposed before and what comes out after it
    /// (array_grad.py, `_GatherV2Grad`). A transposition that moves nothing but the picked axis of size 1 is a view
    /// (transpose_op.cc).
    pub(in super::super) fn take_gradient(&mut self, x: ValueId, gradient: ValueId, taken: Kernel) -> ValueId {
        let shape = self.shape(x);
        let axis = (taken.attr % AXES) as usize;
        let Some(&length) = shape.dims.get(axis) else { return gradient };
        let rest = (shape.elements() / length.max(1)).max(1);
        let count = self.graph.shape(gradient).elements() / rest;
        let first = |size: u64| {
            let others = shape.dims.iter().enumerate().filter(|&(at, _)| at != axis).map(|(_, &dim)| dim);
            Shape::new(shape.batched, &std::iter::once(size).chain(others).collect::<Vec<_>>())
        };
        let values = match count {
            1 => self.graph.reshape(gradient, first(1)),
            _ => self.copy("Transpose", &[gradient], first(count), taken.attr),
        };
        let summed = self.copy("UnsortedSegmentSum", &[values], first(length), taken.attr);
        match length {
            1 => self.graph.reshape(summed, shape),
            _ => self.copy("Transpose", &[summed], shape, taken.attr),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{
        DType, Layer, LayerId, Loss, Model, Op, OpKind, OptimizerConfig, Shape, Tensor, TensorId, Weight, WeightId,
    };
    use crate::step::tensorflow::Network;
    use crate::step::{Job, Mode, Processor};
    use crate::trace::Phase;

    /// The kernels behind the gradient of so many parts picked from six rows, with the shapes that they make.
    fn gradient_of_taken(count: u64) -> Vec<(&'static str, Vec<u64>)> {
        let op = |kind, input, output, weights| Op {
            layer: LayerId(0),
            kind,
            inputs: vec![TensorId(input)],
            outputs: vec![TensorId(output)],
            weights,
            compute: DType::Float32,
        };
        let tensor = |rows| Tensor { shape: Shape::new(true, &[1, rows, 4]), dtype: DType::Float32 };
        let model = Model {
            layers: vec![Layer { path: "layer".to_owned(), class: "Dense".to_owned() }],
            weights: vec![Weight {
                layer: LayerId(0),
                name: "kernel".to_owned(),
                dims: vec![4, 4],
                dtype: DType::Float32,
                trainable: true,
                penalty: None,
                constrained: false,
                created: 0,
            }],
            tensors: vec![tensor(6), tensor(6), tensor(count)],
            ops: vec![op(OpKind::Dense, 0, 1, vec![WeightId(0)]), op(OpKind::Take { axis: 1 }, 1, 2, vec![])],
            inputs: vec![TensorId(0)],
            outputs: vec![TensorId(2)],
            ..Model::default()
        };
        let job = Job {
            batch: 2,
            optimizer: OptimizerConfig::named("sgd"),
            losses: vec![Loss::named("mean_squared_error")],
            metrics: vec![],
            mode: Mode::Training,
            processor: Processor::Cpu { threads: 2 },
            micro_batches: 1,
        };
        let graph = Network::new(&model, &job).graph;
        let backward = graph.nodes.iter().filter(|node| node.phase == Phase::Backward && node.layer.is_some());
        let kernels = backward.map(|node| (node.kernel.name, graph.shape(node.outputs[0]).dims.to_vec()));
        kernels.filter(|(name, _)| ["Transpose", "UnsortedSegmentSum"].contains(name)).collect()
    }

    #[test]
    fn what_was_picked_is_summed_up_along_the_first_axis() {
        let sums = [("Transpose", vec![8, 1, 4]), ("UnsortedSegmentSum", vec![6, 1, 4]), ("Transpose", vec![1, 6, 4])];
        assert_eq!(gradient_of_taken(8), sums);
        assert_eq!(gradient_of_taken(1), sums[1..], "one row is transposed without a copy");
    }
}

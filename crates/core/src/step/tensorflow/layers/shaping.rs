//! Splitting one tensor into several, picking parts of one.
//!
//! In: the tensor. Out: its parts, and the gradient of what is picked. Not counted: the numbers of the parts, which the graph
//! optimizer makes constants.

use super::super::Lowering;
use super::super::rewrite::{STEP, SWAPS_FIRST_TWO, SWAPS_LAST_TWO};
use crate::model::{DType, Op, Shape};
use crate::step::graph::{Kernel, Storage, ValueId};

/// Axes that the attribute of a `GatherV2` can tell apart; no tensor of TensorFlow has more.
const AXES: u32 = 256;

/// Bytes: `EIGEN_MAX_ALIGN_BYTES`.
const ALIGNMENT: u64 = 64;

/// The mark, in a transposition's attribute, that it swaps an axis, which the rest of the attribute tells, with the last one.
const SWAPS_WITH_LAST: u32 = 1 << 30;

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

    /// A transposition; products look for those of matrices, others for those of samples and steps.
    pub(super) fn transpose(&mut self, op: &Op, axes: &[usize], x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let swaps = |first: usize| {
            axes.iter().enumerate().all(|(at, &axis)| {
                axis == if at == first {
                    at + 1
                } else if at == first + 1 {
                    first
                } else {
                    at
                }
            })
        };
        let mut marks = 0;
        if axes.len() >= 2 {
            marks |= if swaps(axes.len() - 2) { SWAPS_LAST_TWO } else { 0 };
            marks |= if swaps(0) { SWAPS_FIRST_TWO } else { 0 };
        }
        // The output tells transpositions of the same tensor apart.
        let attr = (op.outputs[0].0.wrapping_mul(2) + 2) & !(SWAPS_LAST_TWO | SWAPS_FIRST_TWO);
        self.copy("Transpose", &[x], shape, attr | marks)
    }

    /// One of the parts along the first axis.
    pub(super) fn step(&mut self, op: &Op, at: u32, x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let part = self.copy(STEP, &[x], shape, at);
        self.lies_in(part, x);
        part
    }

    /// Says of a part along the first axis of `whole` that it is a view of it, if it begins where a buffer could (`IsDim0SliceAligned` and
    /// `IsInnerDimsSizeAligned` in tensorflow/core/framework: on multiples of Eigen's largest alignment, that of AVX-512).
    fn lies_in(&mut self, part: ValueId, whole: ValueId) {
        if self.graph.size(part).at(self.job.micro_batch()).is_multiple_of(ALIGNMENT) {
            self.graph.values[part.0 as usize].storage = Storage::Alias(whole);
        }
    }

    /// The gradients of what was stacked: the parts of the stack's.
    pub(in super::super) fn stacked_gradients(
        &mut self,
        gradient: ValueId,
        stacked: &[ValueId],
        attr: u32,
    ) -> Vec<ValueId> {
        let mut first: Option<ValueId> = None;
        let mut parts = Vec::with_capacity(stacked.len());
        for &value in stacked {
            let (shape, dtype) = (self.shape(value), self.dtype(value));
            let part = match first {
                None => *first.insert(self.copy("Unpack", &[gradient], shape, attr)),
                Some(first) => self.graph.add_output(first, shape, dtype),
            };
            self.lies_in(part, gradient);
            parts.push(part);
        }
        parts
    }

    /// Parts picked along an axis. The output tells gatherings of the same tensor apart.
    pub(super) fn take(&mut self, op: &Op, axis: usize, x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let attr = op.outputs[0].0.wrapping_mul(AXES) + (axis as u32).min(AXES - 1);
        self.copy("GatherV2", &[x], shape, attr)
    }

    /// `take_along_axis` (keras/src/backend/tensorflow/numpy.py): the numbers as 64 bits, negative ones mapped as NumPy has them, and a
    /// gathering along the last axis, row by row.
    pub(super) fn take_along(&mut self, op: &Op, axis: usize, inputs: &[ValueId]) -> ValueId {
        let [x, indices, ..] = *inputs else { return self.copy_op("Slice", op, inputs) };
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let (mut whole, last) = (shape.clone(), shape.rank().saturating_sub(1));
        let (Some(size), Some(&length)) = (whole.dims.get_mut(axis), self.graph.shape(x).dims.get(axis)) else {
            return self.copy_op("Slice", op, inputs);
        };
        *size = length;
        let mut indices = self.cast(indices, DType::Int64);
        let mut x = x;
        for (value, shape) in [(&mut x, whole), (&mut indices, shape.clone())] {
            if *self.graph.shape(*value) != shape {
                *value = self.copy("BroadcastTo", &[*value], shape, 0);
            }
        }
        let (zero, length) = (self.constant(0.0, indices), self.constant(length as f64, indices));
        let negative = self.compare("Less", indices, zero);
        let shifted = self.add(indices, length);
        let indices = self.select(negative, shifted, indices);
        let [x, indices] = [x, indices].map(|value| self.swap_with_last(value, axis, last));
        let mut rows = shape;
        rows.dims.swap(axis, last);
        let gathered = self.copy("GatherV2", &[x, indices], rows, 0);
        self.swap_with_last(gathered, axis, last)
    }

    fn swap_with_last(&mut self, x: ValueId, axis: usize, last: usize) -> ValueId {
        if axis == last {
            return x;
        }
        let mut shape = self.shape(x);
        shape.dims.swap(axis, last);
        let of_matrices = if axis + 1 == last { SWAPS_LAST_TWO } else { 0 };
        self.copy("Transpose", &[x], shape, of_matrices | SWAPS_WITH_LAST | (axis as u32).min(AXES - 1) << 1)
    }

    /// What was picked in each row is summed up in it. The numbers among all rows wait for nothing: they are there from the forward pass on
    /// (array_grad.py, `_GetBatchIndices`).
    pub(in super::super) fn take_along_gradient(
        &mut self,
        x: ValueId,
        indices: ValueId,
        gradient: ValueId,
        taken: Kernel,
    ) -> ValueId {
        let shape = self.shape(x);
        let among_all = self.unary("AddV2", indices);
        self.copy("UnsortedSegmentSum", &[gradient, among_all], shape, taken.attr)
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

    /// What moves numbers, in the given phase, where so many parts are picked from six rows, with the shapes that it makes.
    fn moved(kind: OpKind, count: u64, phase: Phase) -> Vec<(&'static str, Vec<u64>)> {
        let op = |kind, inputs: &[u32], output, weights| Op {
            layer: LayerId(0),
            kind,
            inputs: inputs.iter().map(|&input| TensorId(input)).collect(),
            outputs: vec![TensorId(output)],
            weights,
            compute: DType::Float32,
        };
        let picked_from: &[u32] = if matches!(kind, OpKind::TakeAlong { .. }) { &[1, 3] } else { &[1] };
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
            tensors: vec![
                tensor(6),
                tensor(6),
                tensor(count),
                Tensor { shape: Shape::new(true, &[1, count, 1]), dtype: DType::Int32 },
            ],
            ops: vec![op(OpKind::Dense, &[0], 1, vec![WeightId(0)]), op(kind.clone(), picked_from, 2, vec![])],
            inputs: vec![TensorId(0), TensorId(3)],
            outputs: vec![TensorId(2)],
            ..Model::default()
        };
        let job = Job {
            batch: 2,
            optimizer: OptimizerConfig::named("sgd"),
            losses: vec![Loss::named("mean_squared_error")],
            metrics: vec![],
            mode: Mode::Training,
            processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
            micro_batches: 1,
        };
        let graph = Network::new(&model, &job).graph;
        let nodes = graph.nodes.iter().filter(|node| node.phase == phase && node.layer.is_some());
        let kernels = nodes.map(|node| (node.kernel.name, graph.shape(node.outputs[0]).dims.to_vec()));
        let moving = ["Transpose", "BroadcastTo", "GatherV2", "UnsortedSegmentSum"];
        kernels.filter(|(name, _)| moving.contains(name)).collect()
    }

    #[test]
    fn what_was_picked_is_summed_up_along_the_first_axis() {
        let sums = [("Transpose", vec![8, 1, 4]), ("UnsortedSegmentSum", vec![6, 1, 4]), ("Transpose", vec![1, 6, 4])];
        let gradient = |count| moved(OpKind::Take { axis: 1 }, count, Phase::Backward);
        assert_eq!(gradient(8), sums);
        assert_eq!(gradient(1), sums[1..], "one row is transposed without a copy");
    }

    #[test]
    fn numbers_are_taken_along_the_last_axis() {
        let kind = OpKind::TakeAlong { axis: 1 };
        let forward = [
            // One number for each row, and the same for all its columns.
            ("BroadcastTo", vec![1, 8, 4]),
            ("Transpose", vec![1, 4, 6]),
            ("Transpose", vec![1, 4, 8]),
            ("GatherV2", vec![1, 4, 8]),
            ("Transpose", vec![1, 8, 4]),
        ];
        assert_eq!(moved(kind.clone(), 8, Phase::Forward), forward);
        let backward =
            [("Transpose", vec![1, 4, 8]), ("UnsortedSegmentSum", vec![1, 4, 6]), ("Transpose", vec![1, 6, 4])];
        assert_eq!(moved(kind, 8, Phase::Backward), backward);
    }
}

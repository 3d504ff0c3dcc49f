//! Convolutions, pooling, resizing.

use super::super::convolution::{Geometry, SLOW_BYTE_WORK};
use super::super::math::times;
use super::super::{Attribute, Lowering};
use crate::model::{Conv, DType, Interpolation, Op, Pool, PoolKind, Shape};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

impl Lowering<'_> {
    pub(super) fn convolution(&mut self, op: &Op, conv: &Conv, x: ValueId) -> ValueId {
        let weight = self.weight(op.weights[0], op.compute);
        let output = self.model.tensor(op.outputs[0]).shape.clone();
        let input = self.shape(x);
        let channels = |shape: &Shape| if conv.channels_first { shape.dims.get(1).copied() } else { shape.dims.last().copied() };
        let (inside, outside) = (channels(&input).unwrap_or(1), channels(&output).unwrap_or(1));
        let geometry = Geometry {
            result: if conv.transposed { &input } else { &output },
            kernel: &conv.kernel,
            channels: if conv.transposed { (outside, inside) } else { (inside, outside) },
            groups: conv.groups,
            depthwise: conv.depthwise,
            transposed: conv.transposed,
            dtype: op.compute,
        };
        let attribute = geometry.attribute(self.job.processor);
        let (name, scratch, work) = if conv.transposed {
            (attribute.input_name, attribute.input_scratch.clone(), attribute.work)
        } else {
            (attribute.forward_name, attribute.forward_scratch.clone(), attribute.work)
        };
        let attr = self.new_attribute(Attribute::Conv(attribute));
        let result = self.graph.add(NewNode {
            kernel: Kernel { name, attr },
            inputs: &[x, weight],
            output: (output, op.compute),
            in_place: InPlace::No,
            scratch,
            work,
            after: &[],
        });
        match op.weights.get(1) {
            Some(&bias) => self.bias(result, bias, op.compute),
            None => result,
        }
    }

    pub(super) fn pool(&mut self, op: &Op, pool: &Pool, x: ValueId) -> ValueId {
        let name = match (pool.kind, pool.window.len()) {
            (PoolKind::Max, 3) => "MaxPool3D",
            (PoolKind::Max, _) => "MaxPool",
            (PoolKind::Average, 3) => "AvgPool3D",
            (PoolKind::Average, _) => "AvgPool",
        };
        self.copy_op(name, op, &[x])
    }

    /// The CPU kernel finds each maximum again: a copy of the output and its 64-bit positions (maxpooling_op.cc,
    /// `SpatialMaxPoolWithArgMaxHelper`).
    pub(in crate::step::tensorflow) fn max_pool_gradient(
        &mut self,
        name: &'static str,
        x: ValueId,
        y: ValueId,
        g: ValueId,
        kernel: Kernel,
    ) -> ValueId {
        let output = (self.shape(x), self.dtype(x));
        let positions = self.graph.shape(y).size(DType::Int64);
        let on_cpu = matches!(self.job.processor, crate::step::Processor::Cpu { .. });
        let scratch = if name == "MaxPool" && on_cpu { vec![self.graph.size(y), positions] } else { vec![] };
        let name = if name == "MaxPool" { "MaxPoolGrad" } else { "MaxPool3DGrad" };
        self.graph.add(NewNode {
            kernel: Kernel { name, attr: kernel.attr },
            inputs: &[x, y, g],
            output,
            in_place: InPlace::No,
            scratch,
            // The kernel scatters its output element by element.
            work: times(self.graph.size(x), SLOW_BYTE_WORK / 2),
            after: &[],
        })
    }

    pub(super) fn global_pool(&mut self, op: &Op, kind: PoolKind, x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        match kind {
            PoolKind::Average => self.reduce("Mean", x, shape),
            PoolKind::Max => self.reduce("Max", x, shape),
        }
    }

    /// Nearest-neighbour upsampling repeats each axis in turn; other kinds have a kernel.
    pub(super) fn resize(&mut self, op: &Op, interpolation: Interpolation, integer_factor: bool, x: ValueId) -> ValueId {
        let target = self.model.tensor(op.outputs[0]).shape.clone();
        match interpolation {
            Interpolation::Nearest if integer_factor => {
                let mut shape = self.shape(x);
                let mut value = x;
                for axis in 1..shape.rank().min(target.rank()) {
                    if shape.dims[axis] != target.dims[axis] {
                        shape.dims[axis] = target.dims[axis];
                        value = self.copy("Tile", &[value], shape.clone(), op.outputs[0].0 * 8 + axis as u32 + 1);
                    }
                }
                value
            }
            Interpolation::Nearest => self.copy_op("ResizeNearestNeighbor", op, &[x]),
            Interpolation::Bilinear => {
                let resized = self.copy_op("ResizeBilinear", op, &[x]);
                self.cast(resized, op.compute)
            }
            Interpolation::Other => {
                let resized = self.copy_op("ResizeBicubic", op, &[x]);
                self.cast(resized, op.compute)
            }
        }
    }
}

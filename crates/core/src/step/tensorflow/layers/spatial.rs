//! Convolutions, pooling, resizing.

use super::super::convolution::{ConvAttribute, Geometry, SLOW_BYTE_WORK};
use super::super::math::times;
use super::super::{Attribute, Lowering};
use crate::bytes::Size;
use crate::model::{Conv, DType, Interpolation, Op, Padding, Pool, PoolKind, Shape};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

/// The attribute of padding in front only. Attributes that come from an op's outputs are even: two convolutions pad the same
/// input alike, and the framework does it once (the graph of `wavenet`).
const CAUSAL: u32 = u32::MAX - 2;

/// The attribute of taking an image apart: the same for convolutions that do it alike.
fn taken_apart(conv: &Conv) -> u32 {
    let padded = u32::from(conv.padding == Padding::Same);
    let sizes = conv.kernel.iter().filter(|_| padded == 1).chain(&conv.dilation);
    sizes.fold(padded, |attr, &size| attr.wrapping_mul(1009).wrapping_add(size as u32)).wrapping_mul(2) + 1
}

impl Lowering<'_> {
    pub(super) fn convolution(&mut self, op: &Op, conv: &Conv, x: ValueId) -> ValueId {
        let output = self.model.tensor(op.outputs[0]).shape.clone();
        let weight = match op.weights.first() {
            Some(&weight) => self.weight(weight, op.compute),
            // Ones and zeros that cut out patches.
            None => self.full_constant(Shape::fixed(&[output.last(), output.last()]), op.compute),
        };
        let x = if conv.padding == Padding::Causal { self.pad_causally(conv, x) } else { x };
        if conv.dilation.iter().any(|&dilation| dilation > 1) && !conv.transposed {
            return self.dilated_convolution(op, conv, x, weight, output);
        }
        let input = self.shape(x);
        let channels =
            |shape: &Shape| if conv.channels_first { shape.dims.get(1).copied() } else { shape.dims.last().copied() };
        let (inside, outside) = (channels(&input).unwrap_or(1), channels(&output).unwrap_or(1));
        let geometry = Geometry {
            result: if conv.transposed { &input } else { &output },
            kernel: &conv.kernel,
            channels: if conv.transposed { (outside, inside) } else { (inside, outside) },
            groups: conv.groups,
            depthwise: conv.depthwise,
            transposed: conv.transposed,
            dtype: op.compute,
            image_elements: if conv.transposed { output.elements() } else { input.elements() },
            batch: self.job.micro_batch(),
        };
        let attribute = geometry.attribute(self.job.processor);
        let result = self.convolved(attribute, [x, weight], output, op.compute);
        match op.weights.get(1) {
            Some(&bias) => self.bias(result, bias, op.compute),
            None => result,
        }
    }

    fn convolved(&mut self, attribute: ConvAttribute, inputs: [ValueId; 2], output: Shape, dtype: DType) -> ValueId {
        if attribute.filter_name == "Conv3DBackpropFilterV2" && !attribute.filter_scratch.is_empty() {
            let text = "The scratch of a 3-D convolution's gradient on a CPU depends on its cache: counted as on the machine of \
                        the measurements.";
            self.note("cpu_cache", text.to_owned());
        }
        let (name, scratch, work) = if attribute.transposed {
            (attribute.input_name, attribute.input_scratch.clone(), attribute.work)
        } else {
            (attribute.forward_name, attribute.forward_scratch.clone(), attribute.work)
        };
        let attr = self.new_attribute(Attribute::Conv(attribute));
        self.graph.add(NewNode {
            kernel: Kernel { name, attr },
            inputs: &inputs,
            output: (output, dtype),
            in_place: InPlace::No,
            scratch,
            work,
            after: &[],
        })
    }

    /// A dilated convolution is a plain one on the image taken apart: every `dilation`-th position becomes an image of its own,
    /// padded to a whole number of them, and the results are put together again (nn_ops.py, `_WithSpaceToBatch`).
    fn dilated_convolution(&mut self, op: &Op, conv: &Conv, x: ValueId, weight: ValueId, output: Shape) -> ValueId {
        let input = self.shape(x);
        let first = if conv.channels_first { 2 } else { 1 };
        let channel = if conv.channels_first { 1 } else { input.rank().saturating_sub(1) };
        let (mut image, mut result) = (input.clone(), output.clone());
        let mut pieces = 1u64;
        for (at, (&kernel, &dilation)) in conv.kernel.iter().zip(&conv.dilation).enumerate() {
            let (Some(size), Some(made)) = (image.dims.get_mut(first + at), result.dims.get_mut(first + at)) else {
                continue;
            };
            let padding =
                if conv.padding == Padding::Same { kernel.saturating_sub(1).saturating_mul(dilation) } else { 0 };
            *size = size.saturating_add(padding).div_ceil(dilation.max(1));
            *made = size.saturating_sub(kernel.saturating_sub(1)).max(1);
            pieces = pieces.saturating_mul(dilation);
        }
        let channels = |shape: &Shape| shape.dims.get(channel).copied().unwrap_or(1);
        let geometry = Geometry {
            result: &result,
            kernel: &conv.kernel,
            channels: (channels(&input), channels(&output)),
            groups: conv.groups,
            depthwise: conv.depthwise,
            transposed: false,
            dtype: op.compute,
            image_elements: image.elements(),
            batch: self.job.micro_batch().saturating_mul(pieces),
        };
        let mut attribute = geometry.attribute(self.job.processor);
        for work in [&mut attribute.work, &mut attribute.input_work, &mut attribute.filter_work] {
            *work = times(*work, pieces);
        }
        image.dims[0] = image.dims[0].saturating_mul(pieces);
        result.dims[0] = result.dims[0].saturating_mul(pieces);
        let attr = taken_apart(conv);
        let apart = self.copy("SpaceToBatchND", &[x], image, attr);
        let convolved = self.convolved(attribute, [apart, weight], result, op.compute);
        let whole = self.copy("BatchToSpaceND", &[convolved], output, attr);
        match op.weights.get(1) {
            Some(&bias) => self.bias(whole, bias, op.compute),
            None => whole,
        }
    }

    /// Causal padding is a copy of its own before an unpadded convolution.
    fn pad_causally(&mut self, conv: &Conv, x: ValueId) -> ValueId {
        let mut shape = self.shape(x);
        let (kernel, dilation) = (conv.kernel[0], conv.dilation.first().copied().unwrap_or(1));
        if let Some(steps) = shape.dims.get_mut(1) {
            *steps = steps.saturating_add(kernel.saturating_sub(1).saturating_mul(dilation));
        }
        self.copy("Pad", &[x], shape, CAUSAL)
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

    /// The CPU kernel finds each maximum again: a copy of the output (in the output's own buffer if that is free) and its
    /// 64-bit positions; the result may overwrite the input (maxpooling_op.cc, `MaxPoolingGradOp`).
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
        let in_place = if name == "MaxPool" && on_cpu { InPlace::First } else { InPlace::No };
        let name = if name == "MaxPool" { "MaxPoolGrad" } else { "MaxPool3DGrad" };
        let gradient = self.graph.add(NewNode {
            kernel: Kernel { name, attr: kernel.attr },
            inputs: &[x, y, g],
            output,
            in_place,
            scratch,
            // The kernel scatters its output element by element: 2 GB/s in the log.
            work: times(self.graph.size(x), SLOW_BYTE_WORK / 2),
            after: &[],
        });
        let node = self.graph.value(gradient).producer;
        let node = &mut self.graph.nodes[node.0 as usize];
        (node.scratch_from, node.scratch_first) = (Some(y), true);
        gradient
    }

    pub(super) fn global_pool(&mut self, op: &Op, kind: PoolKind, x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        match kind {
            PoolKind::Average => self.reduce("Mean", x, shape),
            PoolKind::Max => self.reduce("Max", x, shape),
        }
    }

    /// Nearest-neighbour upsampling repeats each axis in turn; other kinds have a kernel.
    pub(super) fn resize(
        &mut self,
        op: &Op,
        interpolation: Interpolation,
        integer_factor: bool,
        x: ValueId,
    ) -> ValueId {
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
            Interpolation::Bilinear => self.resized_smoothly("ResizeBilinear", op, x),
            Interpolation::Other => self.resized_smoothly("ResizeBicubic", op, x),
        }
    }

    /// What is computed in 32 bits, whatever the input's. Keras keeps it within what the input's type can hold before it is cast
    /// back (keras/src/ops/image.py, `saturate_cast`).
    fn resized_smoothly(&mut self, kernel: &'static str, op: &Op, x: ValueId) -> ValueId {
        let output = (self.model.tensor(op.outputs[0]).shape.clone(), DType::Float32);
        let kernel = Kernel { name: kernel, attr: op.outputs[0].0.wrapping_mul(2) + 2 };
        let (inputs, in_place, scratch, work) = (&[x], InPlace::No, vec![], Size::ZERO);
        let resized = self.graph.add(NewNode { kernel, inputs, output, in_place, scratch, work, after: &[] });
        if op.compute == DType::Float32 {
            return resized;
        }
        let held = self.clip(resized, f64::from(f32::MIN), f64::from(f32::MAX));
        self.cast(held, op.compute)
    }

    /// The gradient of such a kernel, in the input's type: summed up in 32 bits, beside the result where that has fewer (measured: `depth_map`).
    pub(in super::super) fn resize_gradient(&mut self, x: ValueId, gradient: ValueId, resized: Kernel) -> ValueId {
        let (shape, dtype) = (self.shape(x), self.dtype(x));
        let scratch = if dtype == DType::Float32 { vec![] } else { vec![shape.size(DType::Float32)] };
        let kernel = Kernel { name: "ResizeBilinearGrad", attr: resized.attr };
        let (output, in_place, work) = ((shape, dtype), InPlace::No, Size::ZERO);
        self.graph.add(NewNode { kernel, inputs: &[gradient, x], output, in_place, scratch, work, after: &[] })
    }
}

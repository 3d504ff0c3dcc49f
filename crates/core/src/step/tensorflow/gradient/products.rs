//! Gradients of products: matrices, batches of matrices, convolutions.
//!
//! The weight's gradient is added to the graph before the input's: TensorFlow's graphs leave the input's gradient, and so the
//! way back, to the thread that made it ready.

use super::super::{Attribute, Lowering};
use super::Tape;
use crate::bytes::Size;
use crate::model::{Dims, Shape};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

impl Lowering<'_> {
    pub(super) fn mat_mul_gradient(
        &mut self,
        kernel: Kernel,
        inputs: &[ValueId],
        wants: &[bool],
        g: ValueId,
        tape: &mut Tape,
    ) {
        if wants[1] {
            let shape = self.shape(inputs[1]);
            let rows = self.graph.shape(g).clone();
            let count = rows.elements() / rows.last().max(1);
            let k = if rows.batched { Size::per_sample(count) } else { Size::fixed(count) };
            let gradient = self.mat_mul(inputs[0], g, shape, k, kernel.attr | 1);
            self.give(tape, inputs[1], gradient);
        }
        if wants[0] {
            let shape = self.shape(inputs[0]);
            let k = Size::fixed(self.graph.shape(g).last());
            let gradient = self.mat_mul(g, inputs[1], shape, k, kernel.attr | 2);
            self.give(tape, inputs[0], gradient);
        }
    }

    /// A kernel shared by all samples gets one product per sample, then their sum.
    pub(super) fn batch_mat_mul_gradient(&mut self, inputs: &[ValueId], wants: &[bool], g: ValueId, tape: &mut Tape) {
        for (this, other) in [(1, 0), (0, 1)] {
            if !wants[this] {
                continue;
            }
            let own = self.shape(inputs[this]);
            let batch = self.shape(g);
            // A plain matrix is the same for all samples, or made of them: nothing is summed over the batch.
            let full = if own.rank() == batch.rank() && (own.batched == batch.batched || own.rank() == 2) {
                own.clone()
            } else {
                let mut dims: Dims = batch.dims[..batch.rank() - 2].into();
                dims.extend_from_slice(&own.dims[own.rank() - 2..]);
                Shape { batched: batch.batched, dims }
            };
            let pair = if this == 0 { [g, inputs[other]] } else { [inputs[other], g] };
            let k = if this == 0 { batch.last() } else { batch.dims[batch.rank() - 2] };
            let product = self.batch_mat_mul(pair[0], pair[1], full, k, 1 + this as u32);
            let gradient = self.sum_to(product, &own);
            self.give(tape, inputs[this], gradient);
        }
    }

    pub(super) fn einsum_gradient(
        &mut self,
        kernel: Kernel,
        inputs: &[ValueId],
        wants: &[bool],
        g: ValueId,
        tape: &mut Tape,
    ) {
        let Attribute::Einsum(equation) = self.attribute(kernel) else { return };
        for (this, other) in [(0, 1), (1, 0)] {
            if wants[this] {
                let shape = self.shape(inputs[this]);
                let attr = self.new_attribute(Attribute::Einsum(equation.gradient(this)));
                let gradient = self.einsum(&[g, inputs[other]], shape, attr);
                self.give(tape, inputs[this], gradient);
            }
        }
    }

    pub(super) fn convolution_gradient(
        &mut self,
        kernel: Kernel,
        inputs: &[ValueId],
        wants: &[bool],
        g: ValueId,
        tape: &mut Tape,
    ) {
        let Attribute::Conv(conv) = self.attribute(kernel) else { return };
        let (x, w) = (inputs[0], inputs[1]);
        // The filter's first: the graph's order leaves the input's gradient, and so the way back, to the same thread.
        if wants[1] {
            let output = (self.shape(w), self.dtype(w));
            let pair = if conv.transposed { [g, x] } else { [x, g] };
            let gradient = self.graph.add(NewNode {
                kernel: Kernel { name: conv.filter_name, attr: kernel.attr },
                inputs: &pair,
                output,
                in_place: InPlace::No,
                scratch: conv.filter_scratch.clone(),
                work: conv.filter_work,
                after: &[],
            });
            self.give(tape, w, gradient);
        }
        if wants[0] {
            let output = (self.shape(x), self.dtype(x));
            let (backprop, scratch) = if conv.transposed {
                (conv.forward_name, conv.forward_scratch.clone())
            } else {
                (conv.input_name, conv.input_scratch.clone())
            };
            let gradient = self.graph.add(NewNode {
                kernel: Kernel { name: backprop, attr: kernel.attr },
                inputs: &[w, g],
                output,
                in_place: InPlace::No,
                scratch,
                work: conv.input_work,
                after: &[],
            });
            self.give(tape, x, gradient);
        }
    }
}

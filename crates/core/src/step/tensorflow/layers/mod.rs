//! Each kind of op as the TensorFlow kernels that Keras calls for it.
//!
//! In: one op of the model. Out: nodes, and the values of the op's outputs. One file for each family; the calls follow
//! Keras 3.15's TensorFlow backend, checked against the graphs that TensorFlow really runs.

mod activation;
mod attention;
mod dense;
mod fourier;
mod norm;
mod random;
mod recurrent;
mod shaping;
mod spatial;

pub(super) use recurrent::LoopAttribute;

use super::Lowering;
use crate::model::{Op, OpKind, Penalty, Reduction};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

impl Lowering<'_> {
    /// Adds the kernels of one op.
    pub(in crate::step::tensorflow) fn layer(&mut self, op: &Op) {
        let inputs: Vec<ValueId> = op.inputs.iter().map(|&input| self.tensor(input)).collect();
        let Some(&x) = inputs.first() else { return self.opaque(op, &inputs, 0, 0) };
        let result = match &op.kind {
            OpKind::Conv(conv) => self.convolution(op, conv, x),
            OpKind::Dense => self.dense(op, x),
            OpKind::EinsumDense { equation } => self.einsum_dense(op, equation, x),
            OpKind::Einsum { .. } if inputs.len() > 2 => {
                let text =
                    "An einsum of more than two tensors is taken in steps that are not known: its memory is a guess.";
                self.note("einsum_of_many", text.to_owned());
                return self.opaque(op, &inputs, 2, 1);
            }
            OpKind::Einsum { .. } | OpKind::MatMul => self.product(op, &inputs),
            OpKind::Embedding => self.embedding(op, x),
            OpKind::Activation(activation) => self.activation(op, *activation, x),
            OpKind::Norm(norm) => self.normalization(op, norm, x),
            OpKind::Pool(pool) => self.pool(op, pool, x),
            OpKind::GlobalPool { kind, .. } => self.global_pool(op, *kind, x),
            OpKind::Merge(merge) => self.merge(op, *merge, &inputs),
            OpKind::Concat { .. } => self.copy_op("ConcatV2", op, &inputs),
            OpKind::Dot { axes, normalize } => self.dot(op, *axes, *normalize, &inputs),
            OpKind::Reshape => self.graph.reshape(x, self.model.tensor(op.outputs[0]).shape.clone()),
            OpKind::Permute { axes } if axes.iter().enumerate().all(|(i, &axis)| i == axis) => x,
            OpKind::Permute { axes } => self.transpose(op, axes, x),
            OpKind::Repeat => self.copy_op("Tile", op, &inputs),
            OpKind::Pad => self.copy_op("Pad", op, &inputs),
            OpKind::Slice => self.copy_op("Slice", op, &inputs),
            OpKind::Step { at } => self.step(op, *at, x),
            OpKind::Stack => self.copy_op("Pack", op, &inputs),
            OpKind::Take { axis } => self.take(op, *axis, x),
            OpKind::TakeAlong { axis } => self.take_along(op, *axis, &inputs),
            OpKind::Split => return self.split(op, x),
            OpKind::Resize { interpolation, integer_factor } => self.resize(op, *interpolation, *integer_factor, x),
            OpKind::Dropout { rate, mask_elements } => self.dropout(x, *rate, *mask_elements),
            OpKind::Noise { multiplicative, masked } => self.noise(x, *multiplicative, *masked),
            OpKind::Rnn(rnn) => return self.recurrent(op, rnn, &inputs),
            OpKind::Attention(attention) => return self.attention(op, attention, &inputs),
            OpKind::Preprocess { training_only: true, .. } if !self.training() => x,
            OpKind::Preprocess { live_copies, .. } => return self.opaque(op, &inputs, 0, *live_copies),
            OpKind::Elementwise { steps, saved } => self.elementwise(op, &inputs, *steps, *saved),
            OpKind::Reduce { kind } => self.reduction(op, *kind, x),
            OpKind::Cast => {
                let dtype = self.model.tensor(op.outputs[0]).dtype;
                self.cast(x, dtype)
            }
            OpKind::ActivityRegularization(penalty) => self.activity(x, *penalty),
            OpKind::Identity => x,
            OpKind::StopGradient => self.graph.stop_gradient(x),
            OpKind::Filled => {
                let tensor = self.model.tensor(op.outputs[0]);
                self.full_constant(tensor.shape.clone(), tensor.dtype)
            }
            OpKind::Fourier => return self.fourier(op, &inputs),
            OpKind::RealFourier { inverse: false } => return self.fourier_of_real(op, x),
            OpKind::RealFourier { inverse: true } => return self.fourier_to_real(op, &inputs),
            OpKind::Opaque { saved, live } => return self.opaque(op, &inputs, *saved, *live),
        };
        self.set_output(op, 0, result);
    }

    /// Names the value of one of the op's outputs, cast where the model says another type.
    fn set_output(&mut self, op: &Op, index: usize, value: ValueId) {
        if let Some(&output) = op.outputs.get(index) {
            self.values[output.0 as usize] = Some(value);
        }
    }

    /// A copying kernel whose result has the shape that the model gives.
    fn copy_op(&mut self, name: &'static str, op: &Op, inputs: &[ValueId]) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        // The output tells equal kernels with other attributes apart.
        let attr = op.outputs[0].0.wrapping_mul(2) + 2;
        self.copy(name, inputs, shape, attr)
    }

    fn reduction(&mut self, op: &Op, kind: Reduction, x: ValueId) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        match kind {
            Reduction::Sum => self.reduce("Sum", x, shape),
            Reduction::Mean => self.reduce("Mean", x, shape),
            Reduction::Max => self.reduce("Max", x, shape),
            Reduction::Min => self.reduce("Min", x, shape),
            Reduction::Variance => {
                let mean = self.reduce("Mean", x, shape.clone());
                let mean = self.graph.stop_gradient(mean);
                let squares = self.binary("SquaredDifference", x, mean);
                self.reduce("Mean", squares, shape)
            }
            Reduction::Index => {
                let dtype = self.model.tensor(op.outputs[0]).dtype;
                self.call("ArgMax", &[x], (shape, dtype), InPlace::No)
            }
        }
    }

    /// `activity_regularizer`: what is summed of the output is part of the loss.
    fn activity(&mut self, x: ValueId, penalty: Penalty) -> ValueId {
        if self.training() {
            let terms = self.penalty_terms(x, penalty);
            self.extra_losses.extend(terms);
        }
        x
    }

    /// Elementwise kernels one after the other, each overwriting its input where it may; backward reads the results of the
    /// first `saved` ones. A weight is a factor.
    fn elementwise(&mut self, op: &Op, inputs: &[ValueId], steps: u32, saved: u32) -> ValueId {
        let (shape, dtype) = (self.model.tensor(op.outputs[0]).shape.clone(), self.model.tensor(op.outputs[0]).dtype);
        let mut operands = inputs.to_vec();
        for &weight in &op.weights {
            let weight = self.weight(weight, op.compute);
            operands[0] = self.mul_ordered(operands[0], weight);
        }
        for step in 0..steps.clamp(1, 64).max(saved.min(64)) {
            // The output tells equal kernels of other layers apart.
            let attr = (op.outputs[0].0 * 64 + step) * 2 + u32::from(step < saved);
            let kernel = Kernel { name: "Elementwise", attr };
            let output = (shape.clone(), dtype);
            let (in_place, scratch, work) = (InPlace::Any, vec![], crate::bytes::Size::ZERO);
            let made =
                self.graph.add(NewNode { kernel, inputs: &operands, output, in_place, scratch, work, after: &[] });
            operands = vec![made];
        }
        operands[0]
    }

    /// A layer whose kernels are not known: `saved` results kept for backward, `live` more while it runs.
    fn opaque(&mut self, op: &Op, inputs: &[ValueId], saved: u32, live: u32) {
        for (index, &output) in op.outputs.iter().enumerate() {
            let tensor = self.model.tensor(output);
            let size = tensor.shape.size(tensor.dtype);
            let trained = saved > 0 && self.training();
            let mut value = None;
            let mut previous: Vec<ValueId> = inputs.to_vec();
            previous.extend(op.weights.iter().map(|&weight| self.weight(weight, op.compute)));
            for part in 0..if trained { saved } else { 1 } {
                let kernel =
                    Kernel { name: if saved > 0 { "Opaque" } else { "Preprocess" }, attr: output.0 * 64 + part + 1 };
                let made = self.graph.add(NewNode {
                    kernel,
                    inputs: &previous,
                    output: (tensor.shape.clone(), tensor.dtype),
                    in_place: InPlace::No,
                    scratch: if part == 0 { vec![size; live as usize] } else { vec![] },
                    work: size,
                    after: &[],
                });
                previous = vec![made];
                value = Some(made);
            }
            if let Some(value) = value {
                self.set_output(op, index, value);
            }
        }
    }
}

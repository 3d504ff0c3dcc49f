//! Elementwise functions, as `keras.activations` composes them.

use super::super::Lowering;
use crate::bytes::Size;
use crate::model::{Activation, Merge, Op};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

impl Lowering<'_> {
    pub(super) fn activation(&mut self, op: &Op, activation: Activation, x: ValueId) -> ValueId {
        match activation {
            Activation::Linear => x,
            Activation::Relu => self.unary("Relu", x),
            Activation::Relu6 => self.unary("Relu6", x),
            Activation::ReluGeneral => {
                // clip, then the negative side: each step keeps a mask of the input's size.
                let zero = self.constant(0.0, x);
                let positive = self.compare("Greater", x, zero);
                let slope = self.scale(x, 0.3);
                self.select(positive, x, slope)
            }
            Activation::LeakyRelu => self.unary("LeakyRelu", x),
            Activation::PRelu => self.prelu(op, x),
            Activation::Elu => self.unary("Elu", x),
            Activation::Selu => self.unary("Selu", x),
            Activation::Celu => {
                let exponential = self.unary("Exp", x);
                let zero = self.constant(0.0, x);
                let lower = self.binary("Minimum", zero, exponential);
                let upper = self.binary("Maximum", zero, x);
                self.add(upper, lower)
            }
            Activation::Gelu => self.gelu_exact(x),
            Activation::GeluTanh => self.gelu_tanh(x),
            Activation::Silu => self.silu(x),
            Activation::Mish => {
                let soft = self.unary("Softplus", x);
                let squashed = self.unary("Tanh", soft);
                self.mul(x, squashed)
            }
            Activation::Sigmoid => self.unary("Sigmoid", x),
            Activation::HardSigmoid => self.hard_sigmoid(x),
            Activation::HardSilu => {
                let gate = self.hard_sigmoid(x);
                self.mul(x, gate)
            }
            Activation::HardTanh => {
                let one = self.constant(1.0, x);
                let low = self.binary("Minimum", one, x);
                self.binary("Maximum", one, low)
            }
            Activation::Tanh => self.unary("Tanh", x),
            Activation::Softplus => self.unary("Softplus", x),
            Activation::Softsign => self.unary("Softsign", x),
            Activation::Softmax => self.unary("Softmax", x),
            Activation::LogSoftmax => self.unary("LogSoftmax", x),
            Activation::Exponential => self.unary("Exp", x),
            Activation::LogSigmoid => {
                let negative = self.unary("Neg", x);
                let soft = self.unary("Softplus", negative);
                self.unary("Neg", soft)
            }
            Activation::Square => self.unary("Square", x),
            Activation::Sqrt => self.unary("Sqrt", x),
            Activation::Curve => self.curve(op, x),
            Activation::Other => {
                let output = (self.shape(x), self.dtype(x));
                let first = self.call("Opaque", &[x], output.clone(), InPlace::No);
                self.call("Opaque", &[first], output, InPlace::No)
            }
        }
    }

    /// The output tells the functions apart: sine and cosine of the same input are two.
    fn curve(&mut self, op: &Op, x: ValueId) -> ValueId {
        let (kernel, output) = (Kernel { name: "Curve", attr: op.outputs[0].0 }, (self.shape(x), self.dtype(x)));
        let (in_place, scratch, work) = (InPlace::Any, vec![], Size::ZERO);
        self.graph.add(NewNode { kernel, inputs: &[x], output, in_place, scratch, work, after: &[] })
    }

    fn prelu(&mut self, op: &Op, x: ValueId) -> ValueId {
        let positive = self.unary("Relu", x);
        let Some(&alpha) = op.weights.first() else { return positive };
        let alpha = self.weight(alpha, op.compute);
        let negated = self.unary("Neg", x);
        let negative = self.unary("Relu", negated);
        let slope = self.unary("Neg", alpha);
        let scaled = self.mul(slope, negative);
        self.add(positive, scaled)
    }

    /// `0.5 · x · erfc(−x / √2)`.
    fn gelu_exact(&mut self, x: ValueId) -> ValueId {
        let half = self.scale(x, 0.5);
        let negative = self.unary("Neg", x);
        let scaled = self.scale(negative, std::f64::consts::FRAC_1_SQRT_2);
        let tail = self.unary("Erfc", scaled);
        self.mul_ordered(half, tail)
    }

    /// `0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`.
    fn gelu_tanh(&mut self, x: ValueId) -> ValueId {
        let half = self.scale(x, 0.5);
        let square = self.unary("Square", x);
        let cube = self.mul_ordered(square, x);
        let small = self.scale(cube, 0.044_715);
        let inner = self.add(x, small);
        let scaled = self.scale(inner, 0.797_884);
        let squashed = self.unary("Tanh", scaled);
        let shifted = self.shift(squashed, 1.0);
        self.mul_ordered(half, shifted)
    }

    /// One product with a gradient of its own, which computes the sigmoid again (`tf.nn.silu`).
    pub(super) fn silu(&mut self, x: ValueId) -> ValueId {
        let sigmoid = self.unary("Sigmoid", x);
        let sigmoid = self.graph.stop_gradient(sigmoid);
        let output = (self.shape(x), self.dtype(x));
        self.call("Silu", &[x, sigmoid], output, InPlace::Any)
    }

    fn hard_sigmoid(&mut self, x: ValueId) -> ValueId {
        let shifted = self.shift(x, 3.0);
        let clipped = self.unary("Relu6", shifted);
        self.scale(clipped, 1.0 / 6.0)
    }

    pub(super) fn merge(&mut self, op: &Op, merge: Merge, inputs: &[ValueId]) -> ValueId {
        let fold = |this: &mut Self, name: &'static str| {
            let mut total = inputs[0];
            for &input in &inputs[1..] {
                total = if name == "Mul" { this.mul(total, input) } else { this.binary(name, total, input) };
            }
            total
        };
        match merge {
            Merge::Add => fold(self, "AddV2"),
            Merge::Subtract => fold(self, "Sub"),
            Merge::Multiply => fold(self, "Mul"),
            Merge::Divide => fold(self, "RealDiv"),
            Merge::Maximum => fold(self, "Maximum"),
            Merge::Minimum => fold(self, "Minimum"),
            Merge::Average => {
                let total = fold(self, "AddV2");
                self.scale(total, 1.0 / inputs.len().max(1) as f64)
            }
            Merge::Compare => match inputs {
                [a, b, ..] => self.compare("Equal", *a, *b),
                _ => {
                    let shape = self.shape(inputs[0]);
                    self.call("Equal", &inputs[..1], (shape, crate::model::DType::Bool), InPlace::No)
                }
            },
            Merge::Select => match inputs {
                [condition, a, b] => self.select(*condition, *a, *b),
                // Constants are not among the inputs: with one branch the other is a number, with none both are.
                [condition, a] => {
                    let number = self.constant(0.0, *a);
                    self.select(*condition, *a, number)
                }
                _ => {
                    let output = self.model.tensor(op.outputs[0]);
                    let number = self.graph.constant(0.0, output.dtype);
                    let kind = (output.shape.clone(), output.dtype);
                    self.call("SelectV2", &[inputs[0], number, number], kind, InPlace::No)
                }
            },
        }
    }
}

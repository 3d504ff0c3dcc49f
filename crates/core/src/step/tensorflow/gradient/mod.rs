//! Reverse-mode differentiation over TensorFlow's kernels, by TensorFlow's own rules.
//!
//! In: the forward graph and the gradient of the loss. Out: gradients of the weights, as new nodes. What a kernel keeps for
//! backward is not listed anywhere: it follows from which forward values these nodes read. Each rule follows the gradient
//! registered for the op (tensorflow/python/ops: math_grad.py, nn_grad.py, array_grad.py), after the graph optimizer.

mod products;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::Lowering;
use super::math::elements;
use crate::model::Shape;
use crate::step::graph::{InPlace, Kernel, NodeId, Storage, ValueId, VariableId};
use crate::trace::Phase;

/// The gradient of one weight.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gradient {
    /// Of the weight's shape.
    Dense(ValueId),
    /// Rows and their indices: an embedding's.
    Rows { values: ValueId, indices: ValueId },
}

/// The attribute of a transposition whose gradient costs nothing.
pub(super) const FOLDED: u32 = u32::MAX;

/// Kernels through which no gradient flows: random numbers, comparisons, integer results, encodings.
fn has_no_gradient(name: &str) -> bool {
    name.starts_with("StatelessRandom")
        || matches!(
            name,
            "Preprocess" | "ArgMax" | "Equal" | "Greater" | "GreaterEqual" | "Less" | "LessEqual" | "Sign" | "Logged"
        )
}

/// Gradients by weight, in a fixed order.
pub(super) type Gradients = BTreeMap<VariableId, Gradient>;

struct Tape {
    /// Gradients that have arrived at each value.
    arrived: Vec<SmallVec<[ValueId; 4]>>,
    /// Rows and their indices, of each look-up.
    rows: BTreeMap<VariableId, Vec<[ValueId; 2]>>,
}

impl Lowering<'_> {
    /// Runs backward from `seeds`: pairs of a value and the gradient of the loss with respect to it.
    pub(super) fn backward(&mut self, seeds: &[(ValueId, ValueId)]) -> Gradients {
        self.graph.phase = Phase::Backward;
        let node_count = self.graph.nodes.len();
        let mut tape = Tape { arrived: vec![SmallVec::new(); self.graph.values.len()], rows: BTreeMap::new() };
        for &(value, gradient) in seeds {
            tape.arrived[value.0 as usize].push(gradient);
        }
        let mut gradients = Gradients::new();
        for index in (0..node_count).rev() {
            let node = NodeId(index as u32);
            let outputs = self.graph.node(node).outputs.clone();
            let mut incoming: SmallVec<[Option<ValueId>; 4]> = SmallVec::new();
            let mut any = false;
            for output in outputs {
                let arrived = std::mem::take(&mut tape.arrived[output.0 as usize]);
                if arrived.is_empty() {
                    incoming.push(None);
                    continue;
                }
                any = true;
                self.graph.layer = self.graph.node(node).layer;
                let total = self.sum_of(&arrived);
                if let Storage::Variable(variable) = self.graph.value(output).storage {
                    gradients.insert(variable, Gradient::Dense(total));
                }
                incoming.push(Some(total));
            }
            if any {
                self.node_gradient(node, &incoming, &mut tape);
            }
        }
        for (variable, looked_up) in tape.rows {
            self.graph.layer = self.graph.variables[variable.0 as usize].layer;
            let rows = match gradients.get(&variable) {
                // A table that is also read as a whole: by a regularizer, or by a tied output layer.
                Some(&Gradient::Dense(dense)) => {
                    let shape = self.graph.variables[variable.0 as usize].shape.clone();
                    let mut terms = vec![dense];
                    for [values, indices] in looked_up {
                        terms.push(self.copy("UnsortedSegmentSum", &[values, indices], shape.clone(), 0));
                    }
                    Gradient::Dense(self.sum_of(&terms))
                }
                _ => {
                    let [values, indices] = self.rows_together(&looked_up);
                    Gradient::Rows { values, indices }
                }
            };
            gradients.insert(variable, rows);
        }
        self.graph.layer = None;
        gradients
    }

    fn give(&self, tape: &mut Tape, input: ValueId, gradient: ValueId) {
        tape.arrived[input.0 as usize].push(gradient);
    }

    /// The gradients of one node's inputs, given those of its outputs.
    fn node_gradient(&mut self, id: NodeId, incoming: &[Option<ValueId>], tape: &mut Tape) {
        let node = self.graph.node(id);
        let (kernel, inputs, outputs) = (node.kernel, node.inputs.clone(), node.outputs.clone());
        let wants: SmallVec<[bool; 16]> = inputs.iter().map(|&input| self.wants_gradient(input)).collect();
        if !wants.contains(&true) {
            return;
        }
        if kernel.name == "Split" {
            let parts: Vec<ValueId> = outputs
                .iter()
                .zip(incoming)
                .map(|(&output, &gradient)| gradient.unwrap_or_else(|| self.zeros_like(output)))
                .collect();
            let shape = self.shape(inputs[0]);
            let whole = self.copy("ConcatV2", &parts, shape, kernel.attr);
            return self.give(tape, inputs[0], whole);
        }
        let Some(g) = incoming[0] else { return };
        let y = outputs[0];
        match kernel.name {
            "AddV2" | "BiasAdd" | "AddN" => {
                for (&input, _) in inputs.iter().zip(&wants).filter(|&(_, &wants)| wants) {
                    let shape = self.shape(input);
                    let gradient = if kernel.name == "BiasAdd" && input == inputs[1] {
                        self.bias_gradient(g, shape)
                    } else {
                        self.sum_to(g, &shape)
                    };
                    self.give(tape, input, gradient);
                }
            }
            "Sub" => {
                if wants[0] {
                    let gradient = self.sum_to_input(g, inputs[0]);
                    self.give(tape, inputs[0], gradient);
                }
                if wants[1] {
                    let summed = self.sum_to_input(g, inputs[1]);
                    let gradient = self.unary("Neg", summed);
                    self.give(tape, inputs[1], gradient);
                }
            }
            "Mul" => {
                for (this, other) in [(0, 1), (1, 0)] {
                    if wants[this] {
                        let product = if self.graph.is_constant(inputs[other]) {
                            self.binary("Mul", inputs[other], g)
                        } else {
                            self.mul_ordered(g, inputs[other])
                        };
                        let gradient = self.sum_to_input(product, inputs[this]);
                        self.give(tape, inputs[this], gradient);
                    }
                }
            }
            "RealDiv" => {
                if wants[0] {
                    let quotient = self.binary("RealDiv", g, inputs[1]);
                    let gradient = self.sum_to_input(quotient, inputs[0]);
                    self.give(tape, inputs[0], gradient);
                }
                if wants[1] {
                    let negative = self.unary("Neg", inputs[0]);
                    let first = self.binary("RealDiv", negative, inputs[1]);
                    let second = self.binary("RealDiv", first, inputs[1]);
                    let product = self.mul_ordered(g, second);
                    let gradient = self.sum_to_input(product, inputs[1]);
                    self.give(tape, inputs[1], gradient);
                }
            }
            "Maximum" | "Minimum" => {
                let name = if kernel.name == "Maximum" { "GreaterEqual" } else { "LessEqual" };
                let mask = self.compare(name, inputs[0], inputs[1]);
                // Zeros of the gradient's full size, not a scalar (math_grad.py, `_MaximumMinimumGrad`).
                let zero = self.zeros_like(g);
                for (index, &input) in inputs.iter().enumerate() {
                    if wants[index] {
                        let chosen = if index == 0 { self.select(mask, g, zero) } else { self.select(mask, zero, g) };
                        let gradient = self.sum_to_input(chosen, input);
                        self.give(tape, input, gradient);
                    }
                }
            }
            "SquaredDifference" => {
                // x_grad = 2·g·(x − y), the difference held back until g is there.
                let double = self.scale(g, 2.0);
                let output = (self.shape(y), self.dtype(y));
                let difference = self.call_after("Sub", &inputs, output, g);
                let product = self.mul_ordered(double, difference);
                if wants[0] {
                    let gradient = self.sum_to_input(product, inputs[0]);
                    self.give(tape, inputs[0], gradient);
                }
                if wants[1] {
                    let summed = self.sum_to_input(product, inputs[1]);
                    let gradient = self.unary("Neg", summed);
                    self.give(tape, inputs[1], gradient);
                }
            }
            "SelectV2" => {
                // The zero is a scalar that the kernel broadcasts (math_grad.py, `_SelectGradV2`).
                let zero = self.constant(0.0, y);
                for index in [1, 2] {
                    if wants[index] {
                        let chosen =
                            if index == 1 { self.select(inputs[0], g, zero) } else { self.select(inputs[0], zero, g) };
                        let gradient = self.sum_to_input(chosen, inputs[index]);
                        self.give(tape, inputs[index], gradient);
                    }
                }
            }
            "ConcatV2" => {
                for (index, &input) in inputs.iter().enumerate() {
                    if wants[index] {
                        let shape = self.shape(input);
                        let gradient = self.copy("Slice", &[g], shape, index as u32 + 1);
                        self.give(tape, input, gradient);
                    }
                }
            }
            "Pack" => {
                let gradients = self.stacked_gradients(g, &inputs, kernel.attr);
                for (index, gradient) in gradients.into_iter().enumerate().filter(|&(index, _)| wants[index]) {
                    self.give(tape, inputs[index], gradient);
                }
            }
            "Elementwise" => {
                let product = if kernel.attr & 1 == 1 { self.mul_ordered(g, y) } else { self.unary("Mul", g) };
                for (&input, _) in inputs.iter().zip(&wants).filter(|&(_, &wants)| wants) {
                    let gradient = self.sum_to_input(product, input);
                    self.give(tape, input, gradient);
                }
            }
            "Complex" => {
                for (index, part) in ["Real", "Imag"].into_iter().enumerate() {
                    if wants[index] {
                        let gradient = self.part(part, g);
                        self.give(tape, inputs[index], gradient);
                    }
                }
            }
            "MatMul" => self.mat_mul_gradient(kernel, &inputs, &wants, g, tape),
            "BatchMatMulV2" => self.batch_mat_mul_gradient(&inputs, &wants, g, tape),
            "Einsum" => self.einsum_gradient(kernel, &inputs, &wants, g, tape),
            "GatherV2" => {
                let Storage::Variable(variable) = self.graph.value(inputs[0]).storage else {
                    let gradient = match inputs[..] {
                        [x, indices] => self.take_along_gradient(x, indices, g, kernel),
                        _ => self.take_gradient(inputs[0], g, kernel),
                    };
                    return self.give(tape, inputs[0], gradient);
                };
                let columns = self.graph.shape(inputs[0]).last();
                let mut rows = self.shape(g);
                rows.dims.pop();
                let flat = Shape::new(rows.batched, &[rows.elements()]);
                let matrix = Shape::new(rows.batched, &[rows.elements(), columns]);
                let values = self.graph.reshape(g, matrix);
                let indices = self.graph.reshape(inputs[1], flat);
                tape.rows.entry(variable).or_default().push([values, indices]);
            }
            "Opaque" => {
                for (&input, _) in inputs.iter().zip(&wants).filter(|&(_, &wants)| wants) {
                    let shape = self.shape(input);
                    let gradient = self.copy("OpaqueGrad", &[g, y, input], shape, kernel.attr);
                    let (size, node) = (self.graph.size(gradient), self.graph.value(gradient).producer);
                    self.graph.nodes[node.0 as usize].scratch = vec![size];
                    self.give(tape, input, gradient);
                }
            }
            "While" | "CudnnRNNV3" => {
                let gradients = self.loop_gradient(kernel, &inputs, y, g);
                for ((&input, &wants), gradient) in inputs.iter().zip(&wants).zip(gradients) {
                    if wants {
                        self.give(tape, input, gradient);
                    }
                }
            }
            _ if self.is_convolution(kernel) => self.convolution_gradient(kernel, &inputs, &wants, g, tape),
            name => {
                if let Some(gradient) = self.one_input_gradient(name, kernel, inputs[0], y, g) {
                    self.give(tape, inputs[0], gradient);
                }
            }
        }
    }

    /// Rules for kernels with one differentiable input.
    fn one_input_gradient(
        &mut self,
        name: &'static str,
        kernel: Kernel,
        x: ValueId,
        y: ValueId,
        g: ValueId,
    ) -> Option<ValueId> {
        let shape = self.shape(x);
        Some(match name {
            "Reshape" => self.graph.reshape(g, shape),
            "Cast" => {
                let dtype = self.dtype(x);
                self.cast(g, dtype)
            }
            "Identity" => g,
            "Relu" => self.activation_gradient("ReluGrad", g, y),
            "Relu6" => self.activation_gradient("Relu6Grad", g, y),
            "Elu" => self.activation_gradient("EluGrad", g, y),
            "Selu" => self.activation_gradient("SeluGrad", g, y),
            "LeakyRelu" => self.activation_gradient("LeakyReluGrad", g, x),
            "Softplus" => {
                // The sigmoid waits for nothing: it is there from the forward pass on (nn_grad.py, `_SoftplusGrad`).
                let slope = self.unary("Sigmoid", x);
                self.mul_ordered(g, slope)
            }
            "Curve" => {
                let output = (shape, self.dtype(x));
                let slope = self.call_after("Slope", &[x], output, g);
                self.mul_ordered(g, slope)
            }
            "Softsign" => self.activation_gradient("SoftsignGrad", g, x),
            "Sigmoid" => self.binary("SigmoidGrad", y, g),
            "Tanh" => self.binary("TanhGrad", y, g),
            "Rsqrt" => self.binary("RsqrtGrad", y, g),
            "Sqrt" => self.binary("SqrtGrad", y, g),
            "Neg" => self.unary("Neg", g),
            "Exp" => self.mul_ordered(g, y),
            "Log" => {
                let output = (shape, self.dtype(x));
                let inverse = self.call_after("Reciprocal", &[x], output, g);
                self.mul_ordered(g, inverse)
            }
            "Log1p" => {
                let shifted = self.shift(x, 1.0);
                let inverse = self.unary("Reciprocal", shifted);
                self.mul_ordered(g, inverse)
            }
            "Square" => {
                let output = (shape, self.dtype(x));
                let two = self.constant(2.0, x);
                let double = self.call_after("Mul", &[two, x], output, g);
                self.mul_ordered(g, double)
            }
            // A power of two with a number as exponent, whose order of factors is another (math_grad.py, `_PowGrad`).
            "Pow" => {
                let double = self.scale(g, 2.0);
                self.mul_ordered(double, x)
            }
            "Erf" | "Erfc" => {
                // 2/√π · exp(−x²): Neg and Exp become one composed kernel.
                let square = self.unary("Square", x);
                let exponential = self.unary("_UnaryOpsComposition", square);
                let slope = self.scale(exponential, std::f64::consts::FRAC_2_SQRT_PI);
                self.mul_ordered(g, slope)
            }
            "Abs" => {
                let sign = self.unary("Sign", x);
                self.mul_ordered(g, sign)
            }
            "Silu" => self.silu_gradient(x, g),
            "Softmax" => {
                let product = self.mul(g, y);
                let mut row = self.shape(y);
                *row.dims.last_mut()? = 1;
                let total = self.reduce("Sum", product, row);
                let difference = self.sub(g, total);
                self.mul_ordered(difference, y)
            }
            "LogSoftmax" => {
                let probabilities = self.unary("Exp", y);
                let mut row = self.shape(y);
                *row.dims.last_mut()? = 1;
                let total = self.reduce("Sum", g, row);
                let product = self.mul_ordered(total, probabilities);
                self.sub(g, product)
            }
            "FFT" => self.transform(g),
            "RFFT" => self.gradient_of_real_transform(g, shape),
            "IRFFT" => self.gradient_to_real_transform(g, shape),
            "Real" | "Imag" => self.part_gradient(g),
            "Sum" => self.tile_to(g, &shape),
            "Mean" => {
                let tiled = self.tile_to(g, &shape);
                let count = elements(&shape);
                let kept = elements(self.graph.shape(y));
                let ratio = (count.fixed + count.per_sample) as f64 / (kept.fixed + kept.per_sample).max(1) as f64;
                self.scale(tiled, 1.0 / ratio)
            }
            "Max" | "Min" => {
                let mask = self.compare("Equal", x, y);
                let dtype = self.dtype(x);
                let indicator = self.cast(mask, dtype);
                let reduced = self.shape(y);
                let count = self.reduce("Sum", indicator, reduced);
                let share = self.binary("RealDiv", indicator, count);
                self.mul_ordered(share, g)
            }
            // The transposition of a gradient that a product reads next is folded into that product.
            "Transpose" if kernel.attr == FOLDED => self.graph.reshape(g, shape),
            "Transpose" => self.copy("Transpose", &[g], shape, kernel.attr ^ 1),
            "Tile" | "BroadcastTo" => self.sum_to(g, &shape),
            "SpaceToBatchND" => self.copy("BatchToSpaceND", &[g], shape, kernel.attr),
            "BatchToSpaceND" => self.copy("SpaceToBatchND", &[g], shape, kernel.attr),
            "Pad" | "MirrorPad" => self.copy("Slice", &[g], shape, kernel.attr),
            "Slice" | "StridedSlice" => self.copy("Pad", &[g], shape, kernel.attr),
            "TensorListFromTensor" => self.copy("TensorListStack", &[g], shape, kernel.attr),
            "TensorListStack" => self.stack_gradient(g),
            "MaxPool" | "MaxPool3D" => self.max_pool_gradient(name, x, y, g, kernel),
            "AvgPool" | "AvgPool3D" => self.copy("AvgPoolGrad", &[g], shape, kernel.attr),
            "ResizeNearestNeighbor" => self.copy("ResizeNearestNeighborGrad", &[g], shape, kernel.attr),
            "ResizeBilinear" | "ResizeBicubic" => self.resize_gradient(x, g, kernel),
            _ => {
                debug_assert!(has_no_gradient(name), "{name} has no gradient rule");
                return None;
            }
        })
    }

    pub(super) fn zeros_like(&mut self, value: ValueId) -> ValueId {
        let (shape, dtype) = (self.shape(value), self.dtype(value));
        self.full_constant(shape, dtype)
    }

    fn sum_to_input(&mut self, gradient: ValueId, input: ValueId) -> ValueId {
        let shape = self.shape(input);
        self.sum_to(gradient, &shape)
    }

    fn activation_gradient(&mut self, name: &'static str, g: ValueId, kept: ValueId) -> ValueId {
        let output = (self.shape(g), self.dtype(g));
        self.call(name, &[g, kept], output, InPlace::First)
    }

    fn bias_gradient(&mut self, g: ValueId, shape: Shape) -> ValueId {
        let dtype = self.dtype(g);
        self.call("BiasAddGrad", &[g], (shape, dtype), InPlace::No)
    }

    /// `tf.nn.silu` computes the sigmoid again once the gradient is there (nn_impl.py, `swish_impl`).
    fn silu_gradient(&mut self, x: ValueId, g: ValueId) -> ValueId {
        let output = (self.shape(x), self.dtype(x));
        let sigmoid = self.call_after("Sigmoid", &[x], output, g);
        let one = self.constant(1.0, x);
        let rest = self.sub(one, sigmoid);
        let product = self.mul_ordered(x, rest);
        let shifted = self.shift(product, 1.0);
        let slope = self.mul_ordered(sigmoid, shifted);
        self.mul_ordered(g, slope)
    }

    /// The rows of all look-ups in one table, and their indices, one behind the other: all at once (backprop_util.py,
    /// `AggregateIndexedSlicesGradients`).
    fn rows_together(&mut self, looked_up: &[[ValueId; 2]]) -> [ValueId; 2] {
        if let [only] = *looked_up {
            return only;
        }
        [0, 1].map(|which| {
            let parts: Vec<ValueId> = looked_up.iter().map(|pair| pair[which]).collect();
            let mut shape = self.shape(parts[0]);
            shape.dims[0] = parts.iter().fold(0, |sum: u64, &part| sum.saturating_add(self.graph.shape(part).dims[0]));
            self.copy("ConcatV2", &parts, shape, 0)
        })
    }
}

//! Cross-entropies, of logits where Keras finds them behind the last activation.
//!
//! In: labels and output. Out: terms that count alike, or those of TensorFlow's kernel for softmax and cross-entropy in one.

use super::super::Lowering;
use super::{Pair, Terms};
use crate::model::{DType, Loss, Shape};
use crate::step::graph::{InPlace, ValueId};

impl Lowering<'_> {
    /// The output itself if it is logits, or the input of the last activation if the loss can take that apart.
    fn logits(&self, output: ValueId, activation: &str, from_logits: bool) -> Option<ValueId> {
        if from_logits {
            return Some(output);
        }
        let node = self.graph.node(self.graph.value(output).producer);
        // Half-precision outputs are cast first, which hides the activation from the loss.
        (node.kernel.name == activation && self.dtype(output) == DType::Float32).then(|| node.inputs[0])
    }

    /// Probabilities, kept away from 0 and 1.
    fn clipped(&mut self, output: ValueId) -> ValueId {
        let wide = self.cast(output, DType::Float32);
        self.clip(wide, 1e-7, 1.0 - 1e-7)
    }

    /// Divided by their sum, lest it not be one, and kept away from 0 and 1.
    fn probabilities(&mut self, output: ValueId) -> ValueId {
        let wide = self.cast(output, DType::Float32);
        let total = self.row_sums(wide, true);
        let shares = self.binary("RealDiv", wide, total);
        self.clip(shares, 1e-7, 1.0 - 1e-7)
    }

    /// Softmax and cross-entropy in one kernel, whose second result is already the gradient.
    fn softmax_and_loss(&mut self, kernel: &'static str, logits: ValueId, labels: ValueId) -> Terms {
        let wide = self.cast(logits, DType::Float32);
        let shape = self.shape(wide);
        let classes = shape.last().max(1);
        let rows = Shape::new(shape.batched, &[shape.elements() / classes]);
        let matrix = Shape::new(shape.batched, &[shape.elements() / classes, classes]);
        let of = self.graph.reshape(wide, matrix.clone());
        let detached = self.graph.stop_gradient(of);
        // The gradient overwrites the logits if nobody else reads them (sparse_xent_op.cc, xent_op.cc).
        let gradient = self.call(kernel, &[detached, labels], (matrix, DType::Float32), InPlace::First);
        let losses = self.graph.add_output(gradient, rows, DType::Float32);
        Terms::WithGradient { of, gradient, losses }
    }

    /// `y·(1 − s) + s/n`.
    fn smoothed(&mut self, labels: ValueId, loss: &Loss) -> ValueId {
        let labels = self.cast(labels, DType::Float32);
        if !loss.smooths {
            return labels;
        }
        let scaled = self.scale(labels, 0.9);
        self.shift(scaled, 0.05)
    }

    /// `max(x, 0) − x·z + log(1 + exp(−|x|))` on logits; on probabilities `−z·log(p) − (1−z)·log(1−p)`.
    fn binary_terms(&mut self, labels: ValueId, output: ValueId, from_logits: bool) -> ValueId {
        let Some(logits) = self.logits(output, "Sigmoid", from_logits) else {
            let p = self.clipped(output);
            let log = self.unary("Log", p);
            let first = self.mul_ordered(labels, log);
            let (rest, other) = (self.less_than_one(p), self.less_than_one(labels));
            let log = self.unary("Log", rest);
            let second = self.mul_ordered(other, log);
            let sum = self.add(first, second);
            return self.unary("Neg", sum);
        };
        let x = self.cast(logits, DType::Float32);
        let zero = self.zeros_like(x);
        let positive = self.compare("GreaterEqual", x, zero);
        let clipped = self.select(positive, x, zero);
        let negative = self.unary("Neg", x);
        let folded = self.select(positive, negative, x);
        let product = self.mul_ordered(x, labels);
        let first = self.sub(clipped, product);
        let exponential = self.unary("Exp", folded);
        let softened = self.unary("Log1p", exponential);
        self.add(softened, first)
    }
}

pub(super) fn of_classes(lowering: &mut Lowering<'_>, loss: &Loss, pair: Pair) -> Terms {
    let logits = lowering.logits(pair.output, "Softmax", loss.from_logits);
    let as_float = lowering.cast(pair.labels, DType::Float32);
    let labels = lowering.cast(as_float, DType::Int64);
    let logits = logits.unwrap_or_else(|| {
        let clipped = lowering.clipped(pair.output);
        lowering.unary("Log", clipped)
    });
    lowering.softmax_and_loss("SparseSoftmaxCrossEntropyWithLogits", logits, labels)
}

pub(super) fn categorical(lowering: &mut Lowering<'_>, loss: &Loss, pair: Pair) -> Terms {
    let labels = lowering.smoothed(pair.labels, loss);
    if let Some(logits) = lowering.logits(pair.output, "Softmax", loss.from_logits) {
        return lowering.softmax_and_loss("SoftmaxCrossEntropyWithLogits", logits, labels);
    }
    let probabilities = lowering.probabilities(pair.output);
    let logarithm = lowering.unary("Log", probabilities);
    Terms::Alike(lowering.mul_ordered(labels, logarithm))
}

/// `(1 − p)² · α · (−y·log p)`.
pub(super) fn categorical_focal(lowering: &mut Lowering<'_>, loss: &Loss, pair: Pair) -> Terms {
    let labels = lowering.smoothed(pair.labels, loss);
    let mut output = lowering.cast(pair.output, DType::Float32);
    if loss.from_logits {
        output = lowering.unary("Softmax", output);
    }
    let probabilities = lowering.probabilities(output);
    let negative = lowering.unary("Neg", labels);
    let logarithm = lowering.unary("Log", probabilities);
    let entropy = lowering.mul_ordered(negative, logarithm);
    let doubt = lowering.less_than_one(probabilities);
    let doubt = lowering.unary("Pow", doubt);
    let weight = lowering.scale(doubt, 0.25);
    Terms::Alike(lowering.mul_ordered(weight, entropy))
}

pub(super) fn binary(lowering: &mut Lowering<'_>, loss: &Loss, pair: Pair) -> Terms {
    let labels = lowering.smoothed(pair.labels, loss);
    Terms::Alike(lowering.binary_terms(labels, pair.output, loss.from_logits))
}

/// `(1 − p)²` times the cross-entropy, where `p` is what was given to the right answer.
pub(super) fn binary_focal(lowering: &mut Lowering<'_>, loss: &Loss, pair: Pair) -> Terms {
    let labels = lowering.smoothed(pair.labels, loss);
    let mut output = lowering.cast(pair.output, DType::Float32);
    if loss.from_logits {
        output = lowering.unary("Sigmoid", output);
    }
    let entropy = lowering.binary_terms(labels, output, false);
    let right = lowering.mul_ordered(labels, output);
    let (other, rest) = (lowering.less_than_one(labels), lowering.less_than_one(output));
    let wrong = lowering.mul_ordered(other, rest);
    let given = lowering.add(right, wrong);
    let doubt = lowering.less_than_one(given);
    let doubt = lowering.unary("Pow", doubt);
    Terms::Alike(lowering.mul_ordered(doubt, entropy))
}

//! Losses, as `keras.losses` computes them on TensorFlow, and their first gradient.
//!
//! In: the model's outputs. Out: pairs of a value and the gradient of the total loss with respect to it. The labels are fed
//! with the batch. Metrics other than the loss hold a few bytes each and are not counted.

use super::Lowering;
use crate::bytes::Size;
use crate::model::{DType, Loss, Pairs, Shape};
use crate::step::graph::{InPlace, ValueId};

/// Losses that are modelled exactly, besides cross-entropies; by name without underscores.
const EXACT: [&str; 4] = ["mse", "meansquarederror", "mae", "meanabsoluteerror"];

/// Losses that exist and are counted as one elementwise function of output and label, as mean squared error is.
const APPROXIMATED: [&str; 14] = [
    "mape", "meanabsolutepercentageerror", "msle", "meansquaredlogarithmicerror", "huber", "logcosh", "hinge",
    "squaredhinge", "categoricalhinge", "kldivergence", "poisson", "cosinesimilarity", "dice", "tversky",
];

/// Cross-entropies, of which the focal ones are counted as plain ones.
const CROSS_ENTROPIES: [&str; 6] = [
    "sparsecategoricalcrossentropy", "categoricalcrossentropy", "categoricalfocalcrossentropy", "binarycrossentropy",
    "bce", "binaryfocalcrossentropy",
];

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "")
}

/// Whether a loss of this name is known to Keras.
pub fn is_known(name: &str) -> bool {
    let name = plain(&Loss::named(name).name);
    EXACT.iter().chain(&APPROXIMATED).chain(&CROSS_ENTROPIES).any(|known| *known == name)
}

impl Lowering<'_> {
    /// The loss of each output and of regularizers.
    pub(super) fn losses(&mut self) -> Vec<(ValueId, ValueId)> {
        let outputs = self.outputs();
        let mut seeds = Vec::new();
        for (index, output) in outputs.into_iter().enumerate() {
            let named = self.job.losses.get(index).or(self.job.losses.last()).cloned();
            let guess = default_loss(self.graph.shape(output), self.produced_by(output));
            let loss = named.unwrap_or_else(|| Loss::named(guess));
            seeds.push(self.loss(&loss, output));
        }
        for (id, weight) in self.model.weights.iter().enumerate() {
            let Some(penalty) = weight.penalty.filter(|_| weight.trainable) else { continue };
            let value = self.graph.read(self.variables[id], true);
            // Each of the two has a factor of its own, the same for every weight.
            for (wanted, name, factor) in [(penalty.sizes, "Abs", 1e-5), (penalty.squares, "Square", 1e-4)] {
                if wanted {
                    let terms = self.unary(name, value);
                    let total = self.reduce("Sum", terms, Shape::fixed(&[]));
                    let factor = self.constant(factor, total);
                    seeds.push((total, factor));
                }
            }
            if let (Some(pairs), &[rows, columns]) = (penalty.right_angles, &weight.dims[..]) {
                seeds.push(self.right_angles(value, pairs, [rows, columns]));
            }
        }
        for term in std::mem::take(&mut self.extra_losses) {
            let one = self.constant(1.0, term);
            seeds.push((term, one));
        }
        seeds
    }

    /// The products of all pairs without those of a row or column with itself, which a constant takes away
    /// (keras/src/regularizers, `OrthogonalRegularizer`).
    fn right_angles(&mut self, weight: ValueId, pairs: Pairs, [rows, columns]: [u64; 2]) -> (ValueId, ValueId) {
        let (size, inner, transposed) = match pairs {
            Pairs::Rows => (rows, columns, 2),
            Pairs::Columns => (columns, rows, 1),
        };
        let shape = Shape::fixed(&[size, size]);
        let unit = self.unit_norm(weight);
        let products = self.mat_mul(unit, unit, shape.clone(), Size::fixed(inner), transposed);
        let others = self.full_constant(shape, self.dtype(weight));
        let kept = self.mul_ordered(products, others);
        let sizes = self.unary("Abs", kept);
        let total = self.reduce("Sum", sizes, Shape::fixed(&[]));
        let factor = self.constant(1e-3, total);
        (total, factor)
    }

    fn produced_by(&self, value: ValueId) -> &'static str {
        self.graph.node(self.graph.value(value).producer).kernel.name
    }

    /// The output itself if it is logits, or the input of the last activation if the loss can take that apart.
    fn logits(&self, output: ValueId, activation: &str, from_logits: bool) -> Option<ValueId> {
        if from_logits {
            return Some(output);
        }
        let node = self.graph.node(self.graph.value(output).producer);
        // Half-precision outputs are cast first, which hides the activation from the loss.
        (node.kernel.name == activation && self.dtype(output) == DType::Float32).then(|| node.inputs[0])
    }

    fn loss(&mut self, loss: &Loss, output: ValueId) -> (ValueId, ValueId) {
        let name = plain(&loss.name);
        if name.contains("focal") {
            self.note("approximated_loss", format!("Loss '{name}' is counted as plain cross-entropy."));
        }
        let shape = self.shape(output);
        match name.as_str() {
            "sparsecategoricalcrossentropy" => {
                let logits = self.logits(output, "Softmax", loss.from_logits);
                let labels = Shape::new(shape.batched, &shape.dims[..shape.rank().saturating_sub(1)]);
                let fed = self.graph.feed(labels.clone(), DType::Int64);
                let as_float = self.cast(fed, DType::Float32);
                let labels = self.cast(as_float, DType::Int64);
                self.cross_entropy("SparseSoftmaxCrossEntropyWithLogits", output, logits, labels)
            }
            "categoricalcrossentropy" | "categoricalfocalcrossentropy" => {
                let logits = self.logits(output, "Softmax", loss.from_logits);
                let labels = self.graph.feed(shape, DType::Float32);
                self.cross_entropy("SoftmaxCrossEntropyWithLogits", output, logits, labels)
            }
            "binarycrossentropy" | "bce" | "binaryfocalcrossentropy" => {
                self.binary_cross_entropy(output, loss.from_logits)
            }
            _ => {
                if APPROXIMATED.contains(&name.as_str()) {
                    self.note("approximated_loss", format!("Loss '{name}' is counted as mean squared error."));
                } else if !EXACT.contains(&name.as_str()) {
                    self.note("unknown_loss", format!("Loss '{name}' is not known: counted as mean squared error."));
                }
                self.regression(&name, output)
            }
        }
    }

    /// Softmax and cross-entropy in one kernel, whose second result is already the gradient.
    fn cross_entropy(
        &mut self,
        kernel: &'static str,
        output: ValueId,
        logits: Option<ValueId>,
        labels: ValueId,
    ) -> (ValueId, ValueId) {
        let target = match logits {
            Some(logits) => logits,
            None => {
                let clipped = self.clipped(output);
                self.unary("Log", clipped)
            }
        };
        let wide = self.cast(target, DType::Float32);
        let shape = self.shape(wide);
        let classes = shape.last().max(1);
        let rows = Shape::new(shape.batched, &[shape.elements() / classes]);
        let matrix = Shape::new(shape.batched, &[shape.elements() / classes, classes]);
        let flat = self.graph.reshape(wide, matrix.clone());
        let detached = self.graph.stop_gradient(flat);
        // The gradient overwrites the logits if nobody else reads them (sparse_xent_op.cc, xent_op.cc).
        let backprop = self.call(kernel, &[detached, labels], (matrix, DType::Float32), InPlace::First);
        let losses = self.graph.add_output(backprop, rows, DType::Float32);
        self.total(losses);
        self.graph.phase = crate::trace::Phase::Backward;
        let gradient = self.scale(backprop, 1.0 / 3.0);
        (flat, gradient)
    }

    /// Probabilities, kept away from 0 and 1.
    fn clipped(&mut self, output: ValueId) -> ValueId {
        let wide = self.cast(output, DType::Float32);
        self.clip(wide, 1e-7, 1.0 - 1e-7)
    }

    /// `max(x, 0) − x·z + log(1 + exp(−|x|))` on logits; on probabilities `−z·log(p) − (1−z)·log(1−p)`.
    fn binary_cross_entropy(&mut self, output: ValueId, from_logits: bool) -> (ValueId, ValueId) {
        let shape = self.shape(output);
        let labels = self.graph.feed(shape, DType::Float32);
        let Some(logits) = self.logits(output, "Sigmoid", from_logits) else {
            let p = self.clipped(output);
            let log = self.unary("Log", p);
            let first = self.mul_ordered(labels, log);
            let one = self.constant(1.0, p);
            let (rest, other) = (self.sub(one, p), self.sub(one, labels));
            let log = self.unary("Log", rest);
            let second = self.mul_ordered(other, log);
            let sum = self.add(first, second);
            let losses = self.unary("Neg", sum);
            return self.mean_total(losses);
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
        let losses = self.add(softened, first);
        self.mean_total(losses)
    }

    /// Mean squared error, and the other elementwise losses by their count of steps.
    fn regression(&mut self, name: &str, output: ValueId) -> (ValueId, ValueId) {
        let shape = self.shape(output);
        let labels = self.graph.feed(shape, DType::Float32);
        let wide = self.cast(output, DType::Float32);
        let difference = self.sub(wide, labels);
        let losses = match name {
            "meanabsoluteerror" | "mae" => self.unary("Abs", difference),
            "huber" | "logcosh" => {
                let size = self.unary("Abs", difference);
                let bound = self.constant(1.0, size);
                let small = self.compare("LessEqual", size, bound);
                let squares = self.unary("Square", difference);
                self.select(small, squares, size)
            }
            _ => self.unary("Square", difference),
        };
        self.mean_total(losses)
    }

    /// Mean over the last axis, then over everything: the gradient comes back as a constant repeated to full size.
    fn mean_total(&mut self, losses: ValueId) -> (ValueId, ValueId) {
        let mut rows = self.shape(losses);
        if rows.rank() > 1 {
            rows.dims.pop();
        }
        let full = self.shape(losses);
        let detached = self.graph.stop_gradient(losses);
        let mean = self.reduce("Mean", detached, rows);
        self.total(mean);
        self.graph.phase = crate::trace::Phase::Backward;
        let seed = self.constant(1.0 / 7.0, losses);
        (losses, self.repeated(seed, &full))
    }

    fn total(&mut self, losses: ValueId) {
        let total = self.reduce("Sum", losses, Shape::fixed(&[]));
        // A root of its own keeps the loss alive when nothing else reads it.
        self.call("Loss", &[total], (Shape::fixed(&[]), DType::Float32), InPlace::Any);
        self.graph.phase = crate::trace::Phase::Forward;
    }
}

/// What users train such an output with when nothing says otherwise.
fn default_loss(shape: &Shape, made_by: &str) -> &'static str {
    match made_by {
        "Softmax" => "sparse_categorical_crossentropy",
        "Sigmoid" => "binary_crossentropy",
        _ if shape.last() > 1 && shape.rank() == 2 && made_by == "LogSoftmax" => "sparse_categorical_crossentropy",
        _ => "mean_squared_error",
    }
}

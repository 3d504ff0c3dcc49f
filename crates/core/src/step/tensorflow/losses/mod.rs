//! Losses, as `keras.losses` computes them on TensorFlow, and their first gradient.
//!
//! In: the model's outputs. Out: pairs of a value and the gradient of the total loss with respect to it. The labels are fed
//! with the batch. A loss is one function and one line of [`LOSSES`]. Not counted: sample weights, masks, the sums of a few bytes
//! that make one number of the terms.

mod cross_entropy;
mod elementwise;
mod overlap;
mod penalties;

use super::Lowering;
use crate::model::{DType, Loss, Shape};
use crate::step::graph::{InPlace, ValueId};
use crate::trace::Phase;

/// What the network gives for an output, and what it should have given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub labels: ValueId,
    pub output: ValueId,
}

/// What a loss is the sum of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Terms {
    /// Elements that count alike: the gradient comes back as one number repeated.
    Alike(ValueId),
    /// The losses of a kernel that gives their gradient, too.
    WithGradient { of: ValueId, gradient: ValueId, losses: ValueId },
}

impl Terms {
    /// The terms themselves.
    pub(super) fn values(self) -> ValueId {
        match self {
            Terms::Alike(values) | Terms::WithGradient { losses: values, .. } => values,
        }
    }
}

/// What a loss's labels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labels {
    /// One number for each of the output's.
    Dense,
    /// The right class, a whole number for each of the output's rows.
    Class,
}

/// A loss that Keras has.
struct Known {
    /// Without underscores, in lower case.
    names: &'static [&'static str],
    labels: Labels,
    terms: fn(&mut Lowering<'_>, &Loss, Pair) -> Terms,
}

const fn known(
    names: &'static [&'static str],
    labels: Labels,
    terms: fn(&mut Lowering<'_>, &Loss, Pair) -> Terms,
) -> Known {
    Known { names, labels, terms }
}

/// All losses of `keras.losses` 3.15 but `ctc` and `circle`, whose memory depends on the labels.
#[rustfmt::skip]
const LOSSES: [Known; 19] = [
    known(&["meansquarederror", "mse"], Labels::Dense, elementwise::squared_error),
    known(&["meanabsoluteerror", "mae"], Labels::Dense, elementwise::absolute_error),
    known(&["meanabsolutepercentageerror", "mape"], Labels::Dense, elementwise::percentage_error),
    known(&["meansquaredlogarithmicerror", "msle"], Labels::Dense, elementwise::logarithmic_error),
    known(&["huber"], Labels::Dense, elementwise::huber),
    known(&["logcosh"], Labels::Dense, elementwise::log_cosh),
    known(&["poisson"], Labels::Dense, elementwise::poisson),
    known(&["kldivergence", "kld", "kullbackleiblerdivergence"], Labels::Dense, elementwise::divergence),
    known(&["cosinesimilarity"], Labels::Dense, elementwise::cosine),
    known(&["hinge"], Labels::Dense, elementwise::hinge),
    known(&["squaredhinge"], Labels::Dense, elementwise::squared_hinge),
    known(&["categoricalhinge"], Labels::Dense, elementwise::categorical_hinge),
    known(&["dice"], Labels::Dense, overlap::dice),
    known(&["tversky"], Labels::Dense, overlap::tversky),
    known(&["sparsecategoricalcrossentropy"], Labels::Class, cross_entropy::of_classes),
    known(&["categoricalcrossentropy"], Labels::Dense, cross_entropy::categorical),
    known(&["categoricalfocalcrossentropy"], Labels::Dense, cross_entropy::categorical_focal),
    known(&["binarycrossentropy", "bce"], Labels::Dense, cross_entropy::binary),
    known(&["binaryfocalcrossentropy"], Labels::Dense, cross_entropy::binary_focal),
];

fn find(name: &str) -> Option<&'static Known> {
    let name = plain(name);
    LOSSES.iter().find(|loss| loss.names.contains(&name.as_str()))
}

/// A name as the registries write it.
pub(super) fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "")
}

/// Whether a loss of this name is known to Keras.
pub fn is_known(name: &str) -> bool {
    find(&Loss::named(name).name).is_some()
}

impl Lowering<'_> {
    /// The loss of each output and of regularizers, and what is measured beside them.
    pub(super) fn losses(&mut self) -> Vec<(ValueId, ValueId)> {
        let outputs = self.outputs();
        let mut seeds = Vec::new();
        for (index, output) in outputs.into_iter().enumerate() {
            let named = self.job.losses.get(index).or(self.job.losses.last()).cloned();
            let guess = default_loss(self.graph.shape(output), self.produced_by(output));
            let loss = named.unwrap_or_else(|| Loss::named(guess));
            let known = self.known_loss(&loss);
            let labels = self.labels(output, known.labels);
            let pair = Pair { labels, output };
            if !loss.is_none() {
                let terms = (known.terms)(self, &loss, pair);
                seeds.push(self.total(terms));
            }
            self.graph.phase = Phase::Forward;
            self.metrics(index, known.labels == Labels::Class, pair);
        }
        self.penalties(&mut seeds);
        seeds.append(&mut self.extra_losses);
        seeds
    }

    fn known_loss(&mut self, loss: &Loss) -> &'static Known {
        find(&loss.name).unwrap_or_else(|| {
            if !loss.is_none() {
                let text = format!("Loss '{}' is not known: counted as mean squared error.", loss.name);
                self.note("unknown_loss", text);
            }
            &LOSSES[0]
        })
    }

    /// The terms of a loss by its name, if it is known and takes such labels.
    pub(super) fn terms_of(&mut self, loss: &Loss, of_classes: bool, pair: Pair) -> Option<Terms> {
        let known = find(&loss.name).filter(|known| (known.labels == Labels::Class) == of_classes)?;
        Some((known.terms)(self, loss, pair))
    }

    fn labels(&mut self, output: ValueId, labels: Labels) -> ValueId {
        let shape = self.shape(output);
        match labels {
            Labels::Dense => self.graph.feed(shape, DType::Float32),
            Labels::Class => {
                let rows = Shape::new(shape.batched, &shape.dims[..shape.rank().saturating_sub(1)]);
                self.graph.feed(rows, DType::Int64)
            }
        }
    }

    fn produced_by(&self, value: ValueId) -> &'static str {
        self.graph.node(self.graph.value(value).producer).kernel.name
    }

    /// Adds the terms up, and says what the loss's gradient is and with respect to what.
    fn total(&mut self, terms: Terms) -> (ValueId, ValueId) {
        match terms {
            Terms::WithGradient { of, gradient, losses } => {
                self.logged(losses);
                self.graph.phase = Phase::Backward;
                (of, self.scale(gradient, 1.0 / 3.0))
            }
            Terms::Alike(values) => {
                let detached = self.graph.stop_gradient(values);
                let rows = self.row_means(detached);
                self.logged(rows);
                self.graph.phase = Phase::Backward;
                let seed = self.constant(1.0 / 7.0, values);
                let full = self.shape(values);
                (values, if full.rank() == 0 { seed } else { self.repeated(seed, &full) })
            }
        }
    }

    /// Means over the last axis, where there is one beside the samples'.
    pub(super) fn row_means(&mut self, values: ValueId) -> ValueId {
        let mut rows = self.shape(values);
        if rows.rank() <= 1 {
            return values;
        }
        rows.dims.pop();
        self.reduce("Mean", values, rows)
    }

    /// Makes one number of values and returns it from the step, which keeps alive what leads to it.
    pub(super) fn logged(&mut self, values: ValueId) {
        let total = self.reduce("Sum", values, Shape::fixed(&[]));
        self.call("Logged", &[total], (Shape::fixed(&[]), DType::Float32), InPlace::Any);
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

//! Metrics of `compile()`, as `keras.metrics` computes them on TensorFlow.
//!
//! In: an output and its labels. Out: kernels that run as soon as the output is there, beside the backward pass; with wide outputs they take
//! more than the loss does. A metric is one function and one line of [`METRICS`]; those that are a loss's mean are the loss itself. Not
//! counted: sample weights, totals of a few bytes, what `result()` makes of them.

mod accuracy;
mod counts;
mod regression;

use super::Lowering;
use super::losses::{Pair, plain};
use crate::model::{Loss, Metric};

/// What a metric is computed from.
#[derive(Clone, Copy, Debug)]
struct Measured {
    pair: Pair,
    /// Labels are classes, one for each row of the output.
    of_classes: bool,
}

/// A metric that is not a loss: its names without underscores, in lower case, and what computes it.
type Known = (&'static [&'static str], fn(&mut Lowering<'_>, &Metric, Measured));

/// The metrics of `keras.metrics` 3.15 besides losses, `PearsonCorrelation`, `ConcordanceCorrelation` and means of what the caller gives.
#[rustfmt::skip]
const METRICS: [Known; 22] = [
    (&["accuracy", "acc"], accuracy::suitable),
    (&["binaryaccuracy"], accuracy::binary),
    (&["categoricalaccuracy"], accuracy::categorical),
    (&["sparsecategoricalaccuracy"], accuracy::of_classes),
    (&["topkcategoricalaccuracy"], accuracy::top),
    (&["sparsetopkcategoricalaccuracy"], accuracy::top_of_classes),
    (&["auc"], counts::in_steps),
    (&["sensitivityatspecificity", "specificityatsensitivity"], counts::in_steps),
    (&["precisionatrecall", "recallatprecision"], counts::in_steps),
    (&["precision"], counts::precision),
    (&["recall"], counts::recall),
    (&["truepositives"], counts::true_positives),
    (&["falsepositives"], counts::false_positives),
    (&["truenegatives"], counts::true_negatives),
    (&["falsenegatives"], counts::false_negatives),
    (&["f1score", "fbetascore"], counts::f_score),
    (&["iou", "meaniou"], counts::of_predicted_classes),
    (&["binaryiou"], counts::of_marked),
    (&["onehotiou", "onehotmeaniou"], counts::of_encoded_classes),
    (&["rootmeansquarederror"], regression::squared_error),
    (&["r2score"], regression::r2_score),
    (&["sum", "mean"], |_, _, _| ()),
];

impl Lowering<'_> {
    /// What is measured of one output.
    pub(super) fn metrics(&mut self, output: usize, of_classes: bool, pair: Pair) {
        let job = self.job;
        let Some(metrics) = job.metrics.get(output) else { return };
        for metric in metrics {
            let name = plain(&metric.name);
            if let Some((_, compute)) = METRICS.iter().find(|(names, _)| names.contains(&name.as_str())) {
                compute(self, metric, Measured { pair, of_classes });
                continue;
            }
            let loss = Loss { from_logits: metric.from_logits, ..Loss::named(&metric.name) };
            match self.terms_of(&loss, of_classes, pair) {
                Some(terms) => {
                    let rows = self.row_means(terms.values());
                    self.logged(rows);
                }
                None => {
                    self.note("unknown_metric", format!("Metric '{}' is not counted: it is not known.", metric.name))
                }
            }
        }
    }
}

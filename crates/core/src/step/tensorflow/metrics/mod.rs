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
use super::math::{elements, times};
use crate::model::{DType, Loss, Metric, Shape};
use crate::step::cost::CPU_OPERATIONS_PER_NS;
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

/// What a metric is computed from.
#[derive(Clone, Copy, Debug)]
struct Measured {
    pair: Pair,
    /// Labels are classes, one for each row of the output.
    of_classes: bool,
}

/// A metric that is not a loss: its names without underscores, in lower case, and what computes it.
type Known = (&'static [&'static str], fn(&mut Lowering<'_>, &Metric, Measured));

/// The metrics of `keras.metrics` 3.15 that are no losses.
#[rustfmt::skip]
const METRICS: [Known; 23] = [
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
    (&["pearsoncorrelation"], regression::pearson),
    (&["concordancecorrelation"], regression::concordance),
];

/// Picoseconds that kernels which no vector unit helps take for an element on a CPU: measured with TensorFlow 2.21 on two cores, both busy.
/// While one of them runs beside the backward pass, that has one core less.
mod picoseconds {
    /// `ArgMax`, for each row of a few elements.
    pub const ARG_MAX_ROW: u64 = 19_000;
    /// `ArgMax` of long rows, for each element.
    pub const ARG_MAX: u64 = 200;
    /// `SelectV2` with a single number for one of its branches.
    pub const SELECT: u64 = 1_800;
    /// `UnsortedSegmentSum`.
    pub const SEGMENT_SUM: u64 = 13_500;
    /// `Pack` along the last axis.
    pub const PACK: u64 = 6_000;
    /// `ScatterNd` of single numbers.
    pub const SCATTER: u64 = 20_000;
}

impl Lowering<'_> {
    /// A kernel that takes so long for each of so many.
    fn slow(
        &mut self,
        name: &'static str,
        inputs: &[ValueId],
        output: (Shape, DType),
        in_place: InPlace,
        (counted, picoseconds): (&Shape, u64),
    ) -> ValueId {
        let work = times(elements(counted), picoseconds * CPU_OPERATIONS_PER_NS / 1_000);
        let kernel = Kernel { name, attr: 0 };
        self.graph.add(NewNode { kernel, inputs, output, in_place, scratch: vec![], work, after: &[] })
    }

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

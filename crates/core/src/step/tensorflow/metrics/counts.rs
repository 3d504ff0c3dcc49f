//! What is counted of yes and no: hits and misses at thresholds, and classes against classes.
//!
//! In: labels and output. Out: kernels whose results are as large as the output, several at a time (keras/src/metrics/metrics_utils.py).

use super::super::Lowering;
use super::{Measured, picoseconds};
use crate::model::{DType, Metric, Shape};
use crate::step::graph::{InPlace, ValueId};

/// What is counted as it is, and what turned round: the labels, then the answers.
type Quadrant = (bool, bool);
const TRUE_POSITIVE: Quadrant = (true, true);
const FALSE_POSITIVE: Quadrant = (false, true);
const TRUE_NEGATIVE: Quadrant = (false, false);
const FALSE_NEGATIVE: Quadrant = (true, false);

/// Thresholds of AUC and its kin, if nothing is set.
const STEPS: u32 = 200;

impl Lowering<'_> {
    pub(super) fn boolean(&mut self, name: &'static str, inputs: &[ValueId]) -> ValueId {
        let shape = self.shape(inputs[0]);
        self.call(name, inputs, (shape, DType::Bool), InPlace::Any)
    }

    /// All elements in a row, once for each threshold.
    fn repeated_row(&mut self, x: ValueId, thresholds: u64) -> ValueId {
        let shape = self.shape(x);
        let row = self.graph.reshape(x, Shape::new(shape.batched, &[shape.elements()]));
        if thresholds == 1 {
            return row;
        }
        let dtype = self.dtype(x);
        let table = Shape::new(shape.batched, &[shape.elements().saturating_mul(thresholds)]);
        self.call("Tile", &[row], (table, dtype), InPlace::No)
    }

    /// Counts quadrants at each threshold.
    fn quadrants(&mut self, metric: &Metric, measured: Measured, wanted: &[Quadrant]) {
        let thresholds = u64::from(metric.thresholds.unwrap_or(1).max(1));
        let pair = self.widened_pair(measured.pair);
        let labels = self.cast(pair.labels, DType::Bool);
        let answers = self.repeated_row(pair.output, thresholds);
        let shape = self.shape(answers);
        let bounds = self.full_constant(shape.clone(), DType::Float32);
        let above = self.compare("Greater", answers, bounds);
        let labels = self.repeated_row(labels, thresholds);
        for &(label, answer) in wanted {
            let label = if label { labels } else { self.boolean("LogicalNot", &[labels]) };
            let answer = if answer { above } else { self.boolean("LogicalNot", &[above]) };
            let both = self.boolean("LogicalAnd", &[label, answer]);
            let ones = self.cast(both, DType::Float32);
            self.logged(ones);
        }
    }

    /// Classes against classes, both as whole numbers in a row.
    fn confusion(&mut self, labels: ValueId, answers: ValueId) {
        let [labels, answers] = [labels, answers].map(|classes| {
            let shape = self.shape(classes);
            let row = self.graph.reshape(classes, Shape::new(shape.batched, &[shape.elements()]));
            self.cast(row, DType::Int64)
        });
        let (zero, most) = (self.constant(0.0, labels), self.constant(9.0, labels));
        let [first, second] = [labels, answers].map(|classes| {
            let (above, below) = (self.compare("GreaterEqual", classes, zero), self.compare("Less", classes, most));
            self.boolean("LogicalAnd", &[above, below])
        });
        let inside = self.boolean("LogicalAnd", &[first, second]);
        let [labels, answers] = [labels, answers].map(|classes| self.select(inside, classes, zero));
        let (one, row) = (self.constant(1.0, labels), self.shape(labels));
        let ones = self.repeated(one, &row);
        let counted = self.select(inside, ones, zero);
        let mut pairs = self.shape(labels);
        pairs.dims.push(2);
        let places = self.slow(
            "Pack",
            &[labels, answers],
            (pairs.clone(), DType::Int64),
            InPlace::No,
            (&pairs, picoseconds::PACK),
        );
        let table = (Shape::fixed(&[1]), DType::Int64);
        let table = self.slow("ScatterNd", &[places, counted], table, InPlace::No, (&row, picoseconds::SCATTER));
        self.logged(table);
    }
}

pub(super) fn precision(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    lowering.quadrants(metric, measured, &[TRUE_POSITIVE, FALSE_POSITIVE]);
}

pub(super) fn recall(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    lowering.quadrants(metric, measured, &[TRUE_POSITIVE, FALSE_NEGATIVE]);
}

pub(super) fn true_positives(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    lowering.quadrants(metric, measured, &[TRUE_POSITIVE]);
}

pub(super) fn false_positives(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    lowering.quadrants(metric, measured, &[FALSE_POSITIVE]);
}

pub(super) fn true_negatives(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    lowering.quadrants(metric, measured, &[TRUE_NEGATIVE]);
}

pub(super) fn false_negatives(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    lowering.quadrants(metric, measured, &[FALSE_NEGATIVE]);
}

/// Thresholds in steps of equal size: each answer falls into one of so many buckets.
pub(super) fn in_steps(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    if metric.chosen {
        return lowering.quadrants(metric, measured, &[TRUE_POSITIVE, FALSE_NEGATIVE, FALSE_POSITIVE, TRUE_NEGATIVE]);
    }
    let mut pair = lowering.widened_pair(measured.pair);
    if metric.from_logits {
        pair.output = lowering.unary("Sigmoid", pair.output);
    }
    let answers = lowering.clip(pair.output, 0.0, 1.0);
    let marked = lowering.cast(pair.labels, DType::Bool);
    let marked = lowering.cast(marked, DType::Float32);
    let unmarked = lowering.less_than_one(marked);
    let buckets = lowering.scale(answers, 199.0);
    let buckets = lowering.unary("Ceil", buckets);
    let one = lowering.constant(1.0, buckets);
    let buckets = lowering.sub(buckets, one);
    let buckets = lowering.unary("Relu", buckets);
    let mut buckets = lowering.cast(buckets, DType::Int32);
    let steps = metric.thresholds.unwrap_or(STEPS).into();
    let [mut marked, mut unmarked] = [marked, unmarked];
    let mut counts = Shape::fixed(&[steps]);
    if metric.by_class {
        // Class by class: all three are turned round first.
        let columns = lowering.shape(buckets);
        counts.dims.push(columns.last());
        [marked, unmarked, buckets] =
            [marked, unmarked, buckets].map(|x| lowering.copy("Transpose", &[x], columns.clone(), 0));
    }
    for labels in [marked, unmarked] {
        let counted = (counts.clone(), DType::Float32);
        let row = lowering.shape(labels);
        let segments = [labels, buckets];
        let counted =
            lowering.slow("UnsortedSegmentSum", &segments, counted, InPlace::No, (&row, picoseconds::SEGMENT_SUM));
        lowering.logged(counted);
        lowering.logged(labels);
    }
}

/// Of each row the largest answer counts as yes.
pub(super) fn f_score(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    let pair = lowering.widened_pair(measured.pair);
    let chosen = if metric.chosen {
        let bound = lowering.constant(0.5, pair.output);
        lowering.compare("Greater", pair.output, bound)
    } else {
        let most = lowering.over_rows("Max", pair.output, true);
        let largest = lowering.compare("GreaterEqual", pair.output, most);
        let sizes = lowering.unary("Abs", pair.output);
        let least = lowering.constant(1e-9, sizes);
        let something = lowering.compare("Greater", sizes, least);
        lowering.boolean("LogicalAnd", &[largest, something])
    };
    let answers = lowering.cast(chosen, DType::Float32);
    let hits = lowering.mul_ordered(answers, pair.labels);
    let other = lowering.less_than_one(pair.labels);
    let wrong = lowering.mul_ordered(answers, other);
    let rest = lowering.less_than_one(answers);
    let missed = lowering.mul_ordered(rest, pair.labels);
    for values in [hits, wrong, missed, pair.labels] {
        let sums = lowering.column_sums(values);
        lowering.logged(sums);
    }
}

pub(super) fn of_predicted_classes(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    lowering.confusion(measured.pair.labels, measured.pair.output);
}

pub(super) fn of_marked(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let bound = lowering.constant(0.5, measured.pair.output);
    let marked = lowering.compare("GreaterEqual", measured.pair.output, bound);
    lowering.confusion(measured.pair.labels, marked);
}

pub(super) fn of_encoded_classes(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let (labels, answers) = (lowering.arg_max(measured.pair.labels), lowering.arg_max(measured.pair.output));
    lowering.confusion(labels, answers);
}

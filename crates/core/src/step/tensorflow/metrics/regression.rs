//! How far the answer is off, where that is no loss.
//!
//! In: labels and output. Out: kernels that read both.

use super::super::Lowering;
use super::Measured;
use crate::model::{DType, Metric, Shape};
use crate::step::graph::ValueId;

impl Lowering<'_> {
    /// Sums over the samples.
    pub(super) fn column_sums(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.reduce("Sum", x, Shape::fixed(shape.dims.get(1..).unwrap_or_default()))
    }
}

pub(super) fn squared_error(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let pair = lowering.widened_pair(measured.pair);
    let squares = lowering.binary("SquaredDifference", pair.output, pair.labels);
    let rows = lowering.row_means(squares);
    lowering.logged(rows);
}

impl Lowering<'_> {
    /// Each row without its mean, and that.
    fn without_mean(&mut self, x: ValueId) -> (ValueId, ValueId) {
        let mean = self.over_rows("Mean", x, true);
        (self.sub(x, mean), mean)
    }

    fn row_variance(&mut self, x: ValueId) -> ValueId {
        let (difference, _) = self.without_mean(x);
        let squares = self.unary("Square", difference);
        self.over_rows("Mean", squares, true)
    }
}

/// `mean(y'·p')` of what was divided by its standard deviation.
pub(super) fn pearson(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let pair = lowering.widened_pair(measured.pair);
    let [labels, output] = [pair.labels, pair.output].map(|x| {
        let (apart, _) = lowering.without_mean(x);
        let variance = lowering.row_variance(apart);
        let deviation = lowering.unary("Sqrt", variance);
        lowering.binary("RealDiv", apart, deviation)
    });
    let products = lowering.mul_ordered(labels, output);
    let rows = lowering.row_means(products);
    lowering.logged(rows);
}

/// `mean(2·(y − p̄)(p − p̄) / (var y + var p + (ȳ − p̄)² + ε))`.
pub(super) fn concordance(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let pair = lowering.widened_pair(measured.pair);
    let ((own, own_mean), (other, other_mean)) =
        (lowering.without_mean(pair.labels), lowering.without_mean(pair.output));
    let (own, other_variance) = (lowering.row_variance(own), lowering.row_variance(other));
    let difference = lowering.sub(own_mean, other_mean);
    let squares = lowering.unary("Square", difference);
    let both = lowering.add(own, other_variance);
    let norm = lowering.add(both, squares);
    let norm = lowering.shift(norm, 1e-7);
    let shifted = lowering.sub(pair.labels, other_mean);
    let covariance = lowering.mul_ordered(shifted, other);
    let doubled = lowering.scale(covariance, 2.0);
    let quotient = lowering.binary("RealDiv", doubled, norm);
    let rows = lowering.row_means(quotient);
    lowering.logged(rows);
}

/// Four sums over the samples, with weights that are ones where none are given: Keras multiplies with them all the same.
pub(super) fn r2_score(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let pair = lowering.widened_pair(measured.pair);
    let (shape, dtype) = (lowering.shape(pair.labels), DType::Float32);
    let ones = lowering.full_constant(shape, dtype);
    let weighted = lowering.mul_ordered(pair.labels, ones);
    let squares = lowering.mul_ordered(pair.labels, weighted);
    let errors = lowering.sub(pair.labels, pair.output);
    let errors = lowering.unary("Square", errors);
    let errors = lowering.mul_ordered(errors, ones);
    for values in [weighted, squares, errors, ones] {
        let sums = lowering.column_sums(values);
        lowering.logged(sums);
    }
}

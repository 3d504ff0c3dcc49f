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

/// Four sums over the samples; the weights that Keras multiplies with are ones, which are left out.
pub(super) fn r2_score(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let pair = lowering.widened_pair(measured.pair);
    let squares = lowering.unary("Square", pair.labels);
    let errors = lowering.sub(pair.labels, pair.output);
    let errors = lowering.unary("Square", errors);
    let (shape, dtype) = (lowering.shape(pair.labels), DType::Float32);
    let ones = lowering.full_constant(shape, dtype);
    for values in [pair.labels, squares, errors, ones] {
        let sums = lowering.column_sums(values);
        lowering.logged(sums);
    }
}

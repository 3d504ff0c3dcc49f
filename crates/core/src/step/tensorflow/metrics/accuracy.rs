//! How often the answer is right.
//!
//! In: labels and output. Out: kernels that read the whole output and leave a number for each row.

use super::super::Lowering;
use super::{Measured, picoseconds};
use crate::model::{DType, Metric, Shape};
use crate::step::graph::{InPlace, ValueId};

impl Lowering<'_> {
    /// `ArgMax` of numbers among which −0 is made less than 0 first: Keras does so lest processors that know no denormal numbers mix them up
    /// (keras/src/backend/tensorflow/numpy.py, `argmax`).
    pub(super) fn arg_max(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let x = self.cast(x, DType::Float32);
        let zero = self.constant(0.0, x);
        let bits = self.call("BitwiseAnd", &[x], (shape.clone(), DType::Int32), InPlace::Any);
        let below = self.compare("Less", bits, zero);
        let zeros = self.compare("Equal", x, zero);
        let negative = self.boolean("LogicalAnd", &[zeros, below]);
        let tiny = self.constant(1e-38, x);
        let inputs = [negative, tiny, x];
        let output = (shape.clone(), DType::Float32);
        let apart = self.slow("SelectV2", &inputs, output, InPlace::NotFirst, (&shape, picoseconds::SELECT));
        let mut rows = shape.clone();
        rows.dims.pop();
        let found = (rows.clone(), DType::Int32);
        let cost = if shape.last() > 64 { (&shape, picoseconds::ARG_MAX) } else { (&rows, picoseconds::ARG_MAX_ROW) };
        self.slow("ArgMax", &[apart], found, InPlace::No, cost)
    }

    /// Equal ones, counted.
    fn agreements(&mut self, a: ValueId, b: ValueId) {
        let same = self.compare("Equal", a, b);
        let ones = self.cast(same, DType::Float32);
        let rows = self.row_means(ones);
        self.logged(rows);
    }

    fn in_top(&mut self, classes: ValueId, output: ValueId) {
        let shape = self.shape(output);
        let width = shape.last().max(1);
        let rows = Shape::new(shape.batched, &[shape.elements() / width]);
        let matrix = Shape::new(shape.batched, &[shape.elements() / width, width]);
        let flat = self.graph.reshape(output, matrix);
        let classes = self.cast(classes, DType::Int32);
        let found = self.call("InTopKV2", &[flat, classes], (rows, DType::Bool), InPlace::No);
        let ones = self.cast(found, DType::Float32);
        self.logged(ones);
    }
}

/// The accuracy that suits output and labels (keras/src/trainers/compile_utils.py, `get_metric`).
pub(super) fn suitable(lowering: &mut Lowering<'_>, metric: &Metric, measured: Measured) {
    if lowering.graph.shape(measured.pair.output).last() == 1 {
        binary(lowering, metric, measured);
    } else if measured.of_classes {
        of_classes(lowering, metric, measured);
    } else {
        categorical(lowering, metric, measured);
    }
}

pub(super) fn binary(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let labels = measured.pair.labels;
    let bound = lowering.constant(0.5, measured.pair.output);
    let above = lowering.compare("Greater", measured.pair.output, bound);
    let answers = lowering.cast(above, lowering.dtype(labels));
    lowering.agreements(labels, answers);
}

pub(super) fn categorical(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let right = lowering.arg_max(measured.pair.labels);
    compare_classes(lowering, right, measured.pair.output);
}

pub(super) fn of_classes(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    compare_classes(lowering, measured.pair.labels, measured.pair.output);
}

fn compare_classes(lowering: &mut Lowering<'_>, right: ValueId, output: ValueId) {
    let dtype = lowering.dtype(output);
    let (right, answers) = (lowering.cast(right, dtype), lowering.arg_max(output));
    let answers = lowering.cast(answers, dtype);
    lowering.agreements(right, answers);
}

pub(super) fn top(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    let right = lowering.arg_max(measured.pair.labels);
    lowering.in_top(right, measured.pair.output);
}

pub(super) fn top_of_classes(lowering: &mut Lowering<'_>, _: &Metric, measured: Measured) {
    lowering.in_top(measured.pair.labels, measured.pair.output);
}

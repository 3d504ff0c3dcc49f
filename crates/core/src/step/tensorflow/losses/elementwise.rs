//! Losses that compare one number with one number, or row with row.
//!
//! In: labels and output. Out: terms that count alike. Each is written as `keras/src/losses/losses.py` has it, with its order of
//! operands: what depends on the labels alone is there from the beginning of the step.

use super::super::Lowering;
use super::{Pair, Terms};
use crate::model::{DType, Loss, Shape};
use crate::step::graph::{InPlace, ValueId};

impl Lowering<'_> {
    /// Losses compute in float32, metrics in the output's type.
    pub(in crate::step::tensorflow) fn widened_pair(&mut self, pair: Pair) -> Pair {
        let (labels, output) = (self.cast(pair.labels, DType::Float32), self.cast(pair.output, DType::Float32));
        Pair { labels, output }
    }

    pub(in crate::step::tensorflow) fn less_than_one(&mut self, value: ValueId) -> ValueId {
        let one = self.constant(1.0, value);
        self.sub(one, value)
    }

    fn difference(&mut self, pair: Pair) -> ValueId {
        let Pair { labels, output } = self.widened_pair(pair);
        self.sub(labels, output)
    }

    /// Sums over the last axis, which stays with size one if it is `kept`.
    pub(in crate::step::tensorflow) fn row_sums(&mut self, values: ValueId, kept: bool) -> ValueId {
        self.over_rows("Sum", values, kept)
    }

    /// A reduction of the last axis.
    pub(in crate::step::tensorflow) fn over_rows(&mut self, name: &'static str, x: ValueId, kept: bool) -> ValueId {
        let mut rows = self.shape(x);
        rows.dims.pop();
        if kept {
            rows.dims.push(1);
        }
        self.reduce(name, x, rows)
    }

    /// `x · min(1/√Σx², 1/ε)`.
    fn unit_rows(&mut self, x: ValueId) -> ValueId {
        let squares = self.unary("Square", x);
        let total = self.row_sums(squares, true);
        let inverse = self.unary("Rsqrt", total);
        let most = self.constant(1e7, inverse);
        let inverse = self.binary("Minimum", most, inverse);
        self.mul_ordered(x, inverse)
    }

    /// Labels that are zeros and ones become −1 and 1, which only the step finds out: one branch of two is taken.
    fn hinge_margin(&mut self, pair: Pair) -> ValueId {
        let Pair { labels, output } = self.widened_pair(pair);
        let number = self.constant(0.0, labels);
        let zeros = self.compare("Equal", labels, number);
        let number = self.constant(1.0, labels);
        let ones = self.compare("Equal", labels, number);
        let either = (self.shape(labels), DType::Bool);
        let either = self.call("LogicalOr", &[zeros, ones], either, InPlace::Any);
        let binary = self.reduce("All", either, Shape::fixed(&[]));
        let signs = (self.shape(labels), DType::Float32);
        let signs = self.call("If", &[labels, binary], signs, InPlace::No);
        let agreement = self.mul_ordered(signs, output);
        let short = self.less_than_one(agreement);
        let zero = self.constant(0.0, short);
        self.binary("Maximum", zero, short)
    }
}

pub(super) fn squared_error(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let difference = lowering.difference(pair);
    Terms::Alike(lowering.unary("Square", difference))
}

pub(super) fn absolute_error(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let difference = lowering.difference(pair);
    Terms::Alike(lowering.unary("Abs", difference))
}

/// `|(y − p) / max(|y|, ε)|`.
pub(super) fn percentage_error(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let difference = lowering.difference(pair);
    let labels = lowering.cast(pair.labels, DType::Float32);
    let sizes = lowering.unary("Abs", labels);
    let least = lowering.constant(1e-7, sizes);
    let sizes = lowering.binary("Maximum", least, sizes);
    let share = lowering.binary("RealDiv", difference, sizes);
    Terms::Alike(lowering.unary("Abs", share))
}

/// `(log(max(y, ε) + 1) − log(max(p, ε) + 1))²`.
pub(super) fn logarithmic_error(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let [first, second] = [output, labels].map(|value| {
        let least = lowering.constant(1e-7, value);
        let positive = lowering.binary("Maximum", least, value);
        let shifted = lowering.shift(positive, 1.0);
        lowering.unary("Log", shifted)
    });
    let difference = lowering.sub(first, second);
    Terms::Alike(lowering.unary("Square", difference))
}

pub(super) fn huber(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let difference = lowering.sub(output, labels);
    let size = lowering.unary("Abs", difference);
    let bound = lowering.constant(1.0, size);
    let small = lowering.compare("LessEqual", size, bound);
    let squares = lowering.unary("Square", difference);
    let half = lowering.scale(squares, 0.5);
    let beyond = lowering.constant(0.5, size);
    let straight = lowering.sub(size, beyond);
    Terms::Alike(lowering.select(small, half, straight))
}

/// `x + softplus(−2x) − log 2`.
pub(super) fn log_cosh(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let difference = lowering.sub(output, labels);
    let doubled = lowering.scale(difference, -2.0);
    let soft = lowering.unary("Softplus", doubled);
    let sum = lowering.add(difference, soft);
    let less = lowering.constant(std::f64::consts::LN_2, sum);
    Terms::Alike(lowering.sub(sum, less))
}

/// `p − y·log(p + ε)`.
pub(super) fn poisson(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let shifted = lowering.shift(output, 1e-7);
    let logarithm = lowering.unary("Log", shifted);
    let product = lowering.mul_ordered(labels, logarithm);
    Terms::Alike(lowering.sub(output, product))
}

/// `y·log(y / p)`, both kept away from 0.
pub(super) fn divergence(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let (labels, output) = (lowering.clip(labels, 1e-7, 1.0), lowering.clip(output, 1e-7, 1.0));
    let ratio = lowering.binary("RealDiv", labels, output);
    let logarithm = lowering.unary("Log", ratio);
    Terms::Alike(lowering.mul_ordered(labels, logarithm))
}

/// Products of two vectors of length one.
pub(super) fn cosine(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let (output, labels) = (lowering.unit_rows(output), lowering.unit_rows(labels));
    Terms::Alike(lowering.mul_ordered(labels, output))
}

/// `max(1 − y·p, 0)`.
pub(super) fn hinge(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    Terms::Alike(lowering.hinge_margin(pair))
}

pub(super) fn squared_hinge(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let margin = lowering.hinge_margin(pair);
    Terms::Alike(lowering.unary("Square", margin))
}

/// `max(max((1 − y)·p) − Σ(y·p) + 1, 0)` for each row.
pub(super) fn categorical_hinge(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let agreement = lowering.mul_ordered(labels, output);
    let right = lowering.row_sums(agreement, false);
    let others = lowering.less_than_one(labels);
    let wrong = lowering.mul_ordered(others, output);
    let wrong = lowering.over_rows("Max", wrong, false);
    let difference = lowering.sub(wrong, right);
    let shifted = lowering.shift(difference, 1.0);
    let zero = lowering.constant(0.0, shifted);
    Terms::Alike(lowering.binary("Maximum", zero, shifted))
}

//! Losses that compare sums over the whole batch: overlaps of what is marked with what should be.
//!
//! In: labels and output. Out: one number.

use super::super::Lowering;
use super::{Pair, Terms};
use crate::model::{Loss, Shape};
use crate::step::graph::ValueId;

fn sum(lowering: &mut Lowering<'_>, values: ValueId) -> ValueId {
    lowering.reduce("Sum", values, Shape::fixed(&[]))
}

/// `1 − 2·Σ(y·p) / (Σy + Σp + ε)`.
pub(super) fn dice(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let common = lowering.mul_ordered(labels, output);
    let common = sum(lowering, common);
    let doubled = lowering.scale(common, 2.0);
    let (wanted, given) = (sum(lowering, labels), sum(lowering, output));
    let both = lowering.add(wanted, given);
    let both = lowering.shift(both, 1e-7);
    let share = lowering.binary("RealDiv", doubled, both);
    Terms::Alike(lowering.less_than_one(share))
}

/// `1 − Σ(y·p) / (Σ(y·p) + α·Σ((1 − p)·y) + β·Σ(p·(1 − y)) + ε)`.
pub(super) fn tversky(lowering: &mut Lowering<'_>, _: &Loss, pair: Pair) -> Terms {
    let Pair { labels, output } = lowering.widened_pair(pair);
    let common = lowering.mul_ordered(labels, output);
    let common = sum(lowering, common);
    let missing = lowering.less_than_one(output);
    let missed = lowering.mul_ordered(missing, labels);
    let missed = sum(lowering, missed);
    let unwanted = lowering.less_than_one(labels);
    let wrong = lowering.mul_ordered(output, unwanted);
    let wrong = sum(lowering, wrong);
    let (missed, wrong) = (lowering.scale(missed, 0.5), lowering.scale(wrong, 0.5));
    let all = lowering.add(common, missed);
    let all = lowering.add(all, wrong);
    let all = lowering.shift(all, 1e-7);
    let share = lowering.binary("RealDiv", common, all);
    Terms::Alike(lowering.less_than_one(share))
}

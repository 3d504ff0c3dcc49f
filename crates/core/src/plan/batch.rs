//! The largest batch that fits.
//!
//! In: the outcome of a setup. Out: a batch that was really placed and fits, and smaller ones that were tried too. A real
//! allocator is not monotone: a smaller batch may fragment worse. The floor is, so it brackets the answer from above, and
//! placements decide below it. Who is told a number trains with it for hours: what is proposed leaves as much free as a plan that is called a
//! fit, unless no batch does. Not searched: batches above [`MAX_BATCH`].

use super::simulate::{Orders, Outcome, Simulator};
use crate::step::Processor;

/// No batch above this is looked for.
pub const MAX_BATCH: u64 = 1 << 20;

/// How many powers of two below the largest batch are tried as well.
const SAFE_POWERS: u32 = 2;

/// What is known about the batches that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Largest {
    /// The largest; none if not even one sample fits, or if nothing limits it.
    pub batch: Option<u64>,
    /// Batches up to it that were placed and fit, smallest first.
    pub safe: Vec<u64>,
}

/// The largest batch that fits in several orders of execution. `one` and `several` are outcomes of the same setup.
pub fn largest(simulator: &Simulator<'_>, one: &Outcome, several: &Outcome) -> Largest {
    let roomy = largest_leaving(one.spare_bytes(), simulator, one, several);
    if roomy.batch.is_some() { roomy } else { largest_leaving(0, simulator, one, several) }
}

/// The largest that leaves as much free.
fn largest_leaving(spare_bytes: u64, simulator: &Simulator<'_>, one: &Outcome, several: &Outcome) -> Largest {
    let setup = &one.setup;
    let shared = setup.job.processor == Processor::Gpu;
    // Another batch runs in other orders (on a CPU), so the answer is tried as its user would try it; but first in the
    // orders that are there, which mostly decides it; what waits on a busy machine is another amount at each batch.
    let fits = |batch| {
        let there = shared || several.fits_quietly_at(setup.with_batch(batch).at_once(), spare_bytes);
        let run = || simulator.run(&setup.with_batch(batch), Orders::Several);
        there && run().is_ok_and(|outcome| outcome.fits_leaving(spare_bytes))
    };
    // Other orders need more than the one that is searched with, by about as much as at the batch that was asked for.
    let share = one.quiet_high_bytes() as f64 / several.quiet_high_bytes().max(1) as f64;
    let at_once = largest_at_once(one, spare_bytes, share.min(1.0), Precision::Exact).unwrap_or(0);
    // What grows with the square of the batch is known for the one that was asked for, and counted too high below it.
    let most = if one.model.batch_meets_itself { setup.job.batch } else { u64::MAX };
    let mut batch = highest(at_once.saturating_mul(setup.parts()).min(most), setup.parts(), fits);
    let mut safe = Vec::new();
    if let Some(candidate) = batch {
        let powers = (0..SAFE_POWERS).map(|back| (candidate.next_power_of_two() / 2) >> back);
        safe.extend(powers.filter(|&power| power > 0 && fits(power)));
        safe.push(candidate);
    }
    if several.fits_leaving(spare_bytes) && setup.limit_bytes.is_some() {
        safe.push(setup.job.batch);
        batch = batch.max(Some(setup.job.batch));
    }
    safe.sort_unstable();
    safe.dedup();
    Largest { batch, safe }
}

/// The first batch below a candidate that fits, and what is soon found between it and the last that did not.
fn highest(mut candidate: u64, parts: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut tries, mut failed) = (0, None);
    while candidate > 0 && !fits(candidate) {
        failed = Some(candidate);
        candidate = lower(candidate, tries, parts);
        tries += 1;
    }
    if candidate == 0 {
        return None;
    }
    // Needs often jump from one batch to the next and are level in between, so what was passed over may be much.
    let mut failed = failed.unwrap_or(candidate);
    while failed - candidate > (candidate / 64).max(parts) {
        let middle = (candidate + (failed - candidate) / 2) / parts * parts;
        if fits(middle) { candidate = middle } else { failed = middle }
    }
    Some(candidate)
}

/// What to try when a batch that fits in one order fails in another: the orders differ by some per cent, so first 1/64 less,
/// then twice that, and so on.
fn lower(batch: u64, tries: u32, parts: u64) -> u64 {
    let step = (batch / 64).saturating_mul(1 << tries.min(5)).max(parts);
    batch.saturating_sub(step) / parts * parts
}

/// How close to the true answer a search must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// To one sample.
    Exact,
    /// The first that fits on the way down from what the floor allows.
    Coarse,
}

/// The most samples at once that fit with the outcome's own kernels and orders and leave as much, in `share` of the limit.
pub fn largest_at_once(outcome: &Outcome, spare_bytes: u64, share: f64, precision: Precision) -> Option<u64> {
    let limit = (outcome.setup.limit_bytes?.saturating_sub(spare_bytes) as f64 * share) as u64;
    let ceiling = floor_largest(outcome, limit)?;
    // Beyond the floor the allocator needs about as much more as it does at the batch that was asked for.
    let prediction = &outcome.prediction;
    let slack = prediction.floor_bytes as f64 / prediction.high_bytes.max(1) as f64;
    let likely = floor_largest(outcome, (limit as f64 * slack) as u64).unwrap_or(1);
    search(likely, ceiling, if precision == Precision::Exact { 1 } else { u64::MAX }, |samples| {
        outcome.fits_at(samples, spare_bytes)
    })
}

/// The most samples up to a ceiling that fit, to within `close`: down from the likely number until one fits, then between.
pub fn search(likely: u64, ceiling: u64, close: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, ceiling.saturating_add(1));
    let (mut tried, mut step) = (likely, (ceiling / 64).max(1));
    loop {
        if fits(tried) {
            low = tried;
            break;
        }
        high = tried;
        if tried <= 1 {
            break;
        }
        tried = tried.saturating_sub(step).max(1);
        step = step.saturating_mul(2);
    }
    while low > 0 && high - low > close {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

/// The most samples at once whose requests alone stay within the limit.
fn floor_largest(outcome: &Outcome, limit: u64) -> Option<u64> {
    let order = outcome.runs.orders.first()?;
    let cap = (MAX_BATCH / outcome.setup.parts()).max(1);
    let need = |batch: u64| {
        let line = order.floor.at(batch);
        (line.bytes.saturating_add(outcome.setup.extra.at(batch)), line.per_sample)
    };
    let (mut low, mut high) = (0, cap.saturating_add(1));
    let mut batch = outcome.setup.at_once().clamp(1, cap);
    // The floor is a maximum of straight lines, so tangents lead to the answer in a few steps; where sizes are capped or
    // saturate they may not, and the bracket is halved.
    let mut tangents = 8;
    while high - low > 1 {
        let (bytes, slope) = need(batch);
        let guess = if bytes <= limit {
            low = batch;
            batch.saturating_add((limit - bytes).checked_div(slope).unwrap_or(cap))
        } else {
            high = batch;
            batch.saturating_sub((bytes - limit).div_ceil(slope.max(1)))
        };
        batch = if tangents > 0 { guess.clamp(low + 1, (high - 1).max(low + 1)) } else { low + (high - low) / 2 };
        tangents -= i32::from(tangents > 0);
    }
    (low > 0).then_some(low)
}

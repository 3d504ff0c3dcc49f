//! The largest batch that fits.
//!
//! In: an outcome and the recording it comes from. Out: a batch that was itself replayed within the limit, and smaller ones
//! that were replayed too. A real allocator is not monotone, the sum of the requests is: it brackets the answer from above,
//! and replays decide below it. Not offered: batches for which sizes are not known.

use super::floor::floor;
use super::simulate::Outcome;
use crate::capture::Capture;
use crate::plan::MAX_BATCH;
use crate::plan::batch::search;

/// How many powers of two below the largest batch are tried as well.
const SAFE_POWERS: u32 = 2;

/// What is known about the batches that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Largest {
    /// The largest; none if not even one sample fits, if nothing limits it, or if sizes of other batches are not known.
    pub batch: Option<u64>,
    /// Batches up to it that were replayed and fit, smallest first.
    pub safe: Vec<u64>,
}

/// The largest batch of a setup, to the sample.
pub fn largest(capture: &Capture, outcome: &Outcome) -> Largest {
    let parts = outcome.setup.parts();
    if !capture.paired || outcome.setup.limit_bytes.is_none() {
        return Largest::default();
    }
    let found = largest_at_once(capture, outcome, Precision::Exact).map(|at_once| at_once.saturating_mul(parts));
    let mut safe = Vec::new();
    if let Some(found) = found {
        let powers = (0..SAFE_POWERS).map(|back| (found.next_power_of_two() / 2) >> back);
        safe.extend(powers.filter(|&power| power > 0 && outcome.fits_at(power.div_ceil(parts))));
        safe.push(found);
    }
    let mut batch = found;
    if outcome.fits {
        safe.push(outcome.setup.batch);
        batch = batch.max(Some(outcome.setup.batch));
    }
    safe.sort_unstable();
    safe.dedup();
    Largest { batch, safe }
}

/// How close to the true answer a search must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// To one sample.
    Exact,
    /// To about a sixty-fourth.
    Coarse,
}

/// The most samples at once that fit with these steps: one that was replayed.
pub fn largest_at_once(capture: &Capture, outcome: &Outcome, precision: Precision) -> Option<u64> {
    if !capture.paired {
        return None;
    }
    // The batch that was recorded is known better than others; if it fits, the caller knows that already.
    let limit = outcome.sure_limit(outcome.setup.limit_bytes?, u64::MAX);
    let known = capture.known_up_to.unwrap_or(MAX_BATCH).min(MAX_BATCH);
    let cap = (MAX_BATCH / outcome.setup.parts()).clamp(1, known);
    let ceiling = floor_largest(outcome, limit, cap)?;
    // Beyond the requests the allocator cannot do without about as much as it hands out more than was asked for.
    let placement = &outcome.placement;
    let share = placement.floor_peak_bytes as f64 / placement.peak_allocated_bytes.max(1) as f64;
    let likely = floor_largest(outcome, (limit as f64 * share) as u64, cap).unwrap_or(1);
    let close = match precision {
        Precision::Exact => 1,
        Precision::Coarse => (ceiling / 64).max(1),
    };
    search(likely, ceiling, close, |samples| outcome.fits_at(samples))
}

/// The most samples at once whose requests alone stay within the limit.
fn floor_largest(outcome: &Outcome, limit: u64, cap: u64) -> Option<u64> {
    let steps = &outcome.setup.steps;
    let (mut low, mut high) = (0, cap.saturating_add(1));
    let mut batch = outcome.setup.at_once().clamp(1, cap);
    // The floor is a maximum of straight lines, so tangents lead to the answer in a few steps; where sizes saturate they may
    // not, and the bracket is halved.
    let mut tangents = 8;
    while high - low > 1 {
        let line = floor(&steps.recording, batch);
        let guess = if line.bytes <= limit {
            low = batch;
            batch.saturating_add((limit - line.bytes).checked_div(line.per_sample).unwrap_or(cap))
        } else {
            high = batch;
            batch.saturating_sub((line.bytes - limit).div_ceil(line.per_sample.max(1)))
        };
        batch = if tangents > 0 { guess.clamp(low + 1, (high - 1).max(low + 1)) } else { low + (high - low) / 2 };
        tangents -= i32::from(tangents > 0);
    }
    (low > 0).then_some(low)
}

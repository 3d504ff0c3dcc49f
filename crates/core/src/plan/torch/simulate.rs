//! Replays a setup: in memory without end, and within the limit.
//!
//! In: a [`Setup`]. Out: an [`Outcome`]. PyTorch gives cached segments back and tries again before it fails; the allocator
//! does the same, so that a job may fit although it would take more where there is more.

use super::setup::Setup;
use super::time;
use crate::allocator::torch_caching::{Options, TorchCaching};
use crate::allocator::{Placement, place};
use crate::predict::floor_line;

/// What a setup does.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The setup.
    pub setup: Setup,
    /// The replay: as it is if the limit leaves room for that, else within the limit if it gets through there.
    pub placement: Placement,
    /// Whether it gets through within the limit.
    pub prediction_fits: bool,
    /// Whether it gets through within the limit even if everything is larger by the widening.
    pub fits: bool,
    /// Whether it gets through without giving anything back: the limit is above all that it would take.
    pub without_retries: bool,
    /// Estimated time for one sample.
    pub sample_ns: f64,
    widen: f64,
}

impl Outcome {
    /// Replays a setup whose sizes may be larger by the share `widen`.
    pub fn new(setup: Setup, widen: f64) -> Outcome {
        let at_once = setup.at_once();
        let placement = replay(&setup, at_once, None);
        let sample_ns = time::sample_ns(&setup);
        let mut outcome =
            Outcome { setup, placement, prediction_fits: true, fits: true, without_retries: true, sample_ns, widen };
        let Some(limit) = outcome.setup.limit_bytes.filter(|&limit| outcome.high_bytes() > limit) else {
            return outcome;
        };
        // It must get by with less than it would take, and does so by giving cached memory back.
        outcome.without_retries = false;
        let within = |limit: u64| {
            let reachable = outcome.placement.floor_peak_bytes <= limit;
            reachable.then(|| replay(&outcome.setup, at_once, Some(limit))).filter(|replay| replay.failure.is_none())
        };
        let surely = within(narrowed(limit, widen));
        outcome.fits = surely.is_some();
        let likely = if widen == 0.0 { surely } else { surely.or_else(|| within(limit)) };
        outcome.prediction_fits = likely.is_some();
        outcome.placement = likely.unwrap_or(outcome.placement);
        outcome
    }

    /// The upper end: what the allocator takes, larger by the widening.
    pub fn high_bytes(&self) -> u64 {
        widened(self.placement.peak_reserved_bytes, self.widen)
    }

    /// Whether the same steps get through with another number of samples at once, larger by the widening. Always without a
    /// limit.
    pub fn fits_at(&self, at_once: u64) -> bool {
        let Some(limit) = self.setup.limit_bytes else { return true };
        let limit = narrowed(limit, self.widen);
        // The sum of the requests is cheaper than a replay that fails.
        floor_line(self.setup.steps.trace(at_once), at_once).bytes <= limit
            && replay(&self.setup, at_once, Some(limit)).failure.is_none()
    }

    /// The limit for what was recorded, if it may turn out larger by the widening.
    pub fn narrowed_limit(&self) -> Option<u64> {
        self.setup.limit_bytes.map(|limit| narrowed(limit, self.widen))
    }
}

/// Replays a setup at a number of samples at once.
pub fn replay(setup: &Setup, at_once: u64, limit_bytes: Option<u64>) -> Placement {
    let mut options = setup.options.clone();
    if let Some(limit) = limit_bytes {
        options = Options { capacity_bytes: options.capacity_bytes.min(limit), ..options };
    }
    place(setup.steps.trace(at_once), at_once, &mut TorchCaching::new(options))
}

fn widened(bytes: u64, widen: f64) -> u64 {
    bytes.saturating_add((bytes as f64 * widen).ceil() as u64)
}

fn narrowed(bytes: u64, widen: f64) -> u64 {
    (bytes as f64 / (1.0 + widen)) as u64
}

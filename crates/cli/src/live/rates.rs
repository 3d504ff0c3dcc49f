//! What a job does each second, from its counters.
//!
//! In: samples. Out: the [`Change`] over the last two seconds, because some figures are read only once a second. None before that much is known.

use std::collections::VecDeque;

use brimful_monitor::sample::{Change, Sample};

/// What the change is over.
const SPAN_MS: u64 = 2000;
/// Samples that are closer than this are not kept, so that their number is bounded.
const LEAST_APART_MS: u64 = 90;

/// The last two seconds.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    samples: VecDeque<Sample>,
    change: Change,
}

impl Rates {
    /// Adds the latest sample.
    pub fn take(&mut self, sample: &Sample) {
        if self.samples.back().is_some_and(|last| sample.at_ms < last.at_ms) {
            self.samples.clear();
        }
        while self.samples.get(1).is_some_and(|second| sample.at_ms - second.at_ms >= SPAN_MS) {
            self.samples.pop_front();
        }
        if let Some(first) = self.samples.front().filter(|first| sample.at_ms - first.at_ms >= SPAN_MS / 2) {
            self.change = sample.since(first);
        }
        if self.samples.back().is_none_or(|last| sample.at_ms - last.at_ms >= LEAST_APART_MS) {
            self.samples.push_back(*sample);
        }
    }

    /// What changed.
    pub fn change(&self) -> &Change {
        &self.change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64) -> Sample {
        Sample { at_ms, cpu_ms: Some(at_ms * 2), disk_read_bytes: Some(at_ms / 1000 * 5000), ..Sample::default() }
    }

    #[test]
    fn a_counter_that_is_read_once_a_second_gives_a_steady_rate() {
        let mut rates = Rates::default();
        for tick in 0..200 {
            rates.take(&sample(tick * 100));
            let change = rates.change();
            if tick < 10 {
                assert_eq!(change.cpu_cores, None);
            } else if tick >= 20 {
                assert_eq!((change.cpu_cores, change.disk_read_bytes_per_s), (Some(2.0), Some(5000.0)), "{tick}");
            }
            assert!(rates.samples.len() <= 22);
        }
    }

    #[test]
    fn time_that_runs_back_begins_anew() {
        let mut rates = Rates::default();
        for at_ms in [u64::MAX, 0, 0, 5000, 10] {
            rates.take(&sample(at_ms.min(1 << 50)));
        }
        assert_eq!(rates.samples.len(), 1);
    }
}

//! Whether training waits: for its data, or a GPU for training.
//!
//! In: the ends of steps, with the time waited so far, and how busy GPUs are. Out: the share of the last minute of training that was waited, and
//! the share that GPUs were busy. Time in which the job evaluated or saved is left out. Not known: what a step itself waits for.

use std::collections::VecDeque;

use crate::recording::StepMark;

/// Training that is looked back on.
const WINDOW_MS: u64 = 60_000;
/// Less training than this says nothing.
const LEAST_MS: u64 = 30_000;
/// No step takes longer: a clock that says so is wrong.
const MOST_STEP_MS: u64 = 24 * 3_600_000;
/// Nor do fewer steps.
const LEAST_STEPS: u64 = 5;

/// A stretch of training of a second or so.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    from_ms: u64,
    lasted_ms: u64,
    waited_us: Option<u64>,
    steps: u64,
}

/// The last minute of training.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    last: Option<StepMark>,
    stretches: VecDeque<Stretch>,
    lasted_ms: u64,
    /// Readings of how busy GPUs were.
    busy: VecDeque<(u64, u64)>,
}

/// What the last minute was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastMinute {
    /// Share of the time between steps, if the job says.
    pub waited_share: Option<f64>,
    /// Share of the time in which a kernel ran, if there is a GPU.
    pub busy_share: Option<f64>,
}

impl Waiting {
    /// Takes the end of a step.
    pub fn step(&mut self, mark: &StepMark) {
        let Some(last) = self.last.replace(*mark) else { return };
        let lasted_ms = mark.at_ms.saturating_sub(last.at_ms).min(MOST_STEP_MS);
        let waited_us = mark.waited_us.zip(last.waited_us).map(|(now, then)| now.saturating_sub(then));
        let steps = mark.step.saturating_sub(last.step);
        let begins = self.stretches.back().is_none_or(|stretch| mark.at_ms.saturating_sub(stretch.from_ms) >= 1000);
        if begins {
            self.stretches.push_back(Stretch {
                from_ms: last.at_ms,
                waited_us: waited_us.map(|_| 0),
                ..Stretch::default()
            });
        }
        if let Some(stretch) = self.stretches.back_mut() {
            stretch.lasted_ms += lasted_ms;
            stretch.waited_us = stretch.waited_us.zip(waited_us).map(|(sum, more)| sum.saturating_add(more));
            stretch.steps = stretch.steps.saturating_add(steps);
        }
        self.lasted_ms += lasted_ms;
        while let Some(first) = self.stretches.front().filter(|first| self.lasted_ms - first.lasted_ms >= WINDOW_MS) {
            self.lasted_ms -= first.lasted_ms;
            self.stretches.pop_front();
        }
    }

    /// Takes how busy a GPU of the job was, in percent.
    pub fn busy(&mut self, at_ms: u64, percent: u64) {
        self.busy.push_back((at_ms, percent.min(100)));
        let is_old = |&(then_ms, _): &(u64, u64)| at_ms.saturating_sub(then_ms) > WINDOW_MS;
        // As many GPUs as there are, each every second: bounded all the same.
        while self.busy.front().is_some_and(is_old) || self.busy.len() > 4096 {
            self.busy.pop_front();
        }
    }

    /// Training pauses: what lies between the steps before and after is neither step nor waiting.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// The last minute, if there was enough training in it.
    pub fn last_minute(&self) -> Option<LastMinute> {
        let steps = self.stretches.iter().map(|stretch| stretch.steps).fold(0, u64::saturating_add);
        if self.lasted_ms < LEAST_MS || steps < LEAST_STEPS {
            return None;
        }
        let sum = |sum: u64, stretch: &Stretch| Some(sum.saturating_add(stretch.waited_us?));
        let waited_us = self.stretches.iter().try_fold(0, sum);
        let waited_share = waited_us.map(|us| (us as f64 / 1000.0 / self.lasted_ms as f64).min(1.0));
        let covered = self.busy.front().zip(self.busy.back()).map_or(0, |(first, last)| last.0 - first.0.min(last.0));
        if covered < LEAST_MS && !self.busy.is_empty() {
            return None;
        }
        let sum: u64 = self.busy.iter().map(|(_, percent)| percent).sum();
        let busy_share = (!self.busy.is_empty()).then(|| sum as f64 / 100.0 / self.busy.len() as f64);
        Some(LastMinute { waited_share, busy_share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_ms: u64, waited_us: u64) -> StepMark {
        StepMark { at_ms, step: at_ms / 100, waited_us: Some(waited_us), ..StepMark::default() }
    }

    #[test]
    fn the_last_minute_of_training_counts() {
        let mut waiting = Waiting::default();
        (0..200).for_each(|n| waiting.step(&mark(n * 100, n * 50_000)));
        assert_eq!(waiting.last_minute(), None);
        // An hour later, after a pause, waiting is no more.
        waiting.pause();
        (0..700).for_each(|n| waiting.step(&mark(3_600_000 + n * 100, 10_000_000)));
        assert_eq!(waiting.last_minute(), Some(LastMinute { waited_share: Some(0.0), busy_share: None }));
        (0..300).for_each(|n| waiting.step(&mark(3_670_000 + n * 100, 10_000_000 + n * 80_000)));
        let share = waiting.last_minute().unwrap().waited_share.unwrap();
        assert!((share - 0.4).abs() < 0.03, "{share}");
        assert!(waiting.stretches.len() < 70);
    }

    #[test]
    fn a_gpu_is_as_busy_as_its_mean() {
        let mut waiting = Waiting::default();
        for n in 0..600 {
            waiting.step(&StepMark { waited_us: None, ..mark(n * 100, 0) });
            waiting.busy(n * 100, if n % 4 == 0 { 100 } else { 0 });
        }
        let minute = waiting.last_minute().unwrap();
        assert_eq!((minute.waited_share, minute.busy_share), (None, Some(0.25)));
    }
}

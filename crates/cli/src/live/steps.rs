//! How the training goes on: pace and waiting.
//!
//! In: step marks. Out: steps per second and the share of time between steps, over the last half minute or the last two marks. A job that
//! counts anew begins anew here. Not judged: whether that is good.

use std::collections::VecDeque;

use brimful_monitor::recording::StepMark;

/// What the figures are over, where steps are short enough.
const SPAN_MS: u64 = 30_000;
/// Marks that are closer than this are not kept, so that their number is bounded.
const LEAST_APART_MS: u64 = 500;
/// No step for so long, and for three times as long as one took: it does something else.
const QUIET_MS: u64 = 10_000;

/// The last half minute of steps.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    marks: VecDeque<StepMark>,
    latest: Option<StepMark>,
}

impl Steps {
    /// Adds a mark.
    pub fn take(&mut self, mark: &StepMark) {
        if self.latest.is_some_and(|last| mark.step < last.step || mark.at_ms < last.at_ms) {
            self.marks.clear();
        }
        self.latest = Some(*mark);
        if self.marks.back().is_none_or(|last| mark.at_ms - last.at_ms >= LEAST_APART_MS) {
            self.marks.push_back(*mark);
        }
        while self.marks.len() > 2 && self.marks.get(1).is_some_and(|second| mark.at_ms - second.at_ms >= SPAN_MS) {
            self.marks.pop_front();
        }
    }

    /// The latest.
    pub fn latest(&self) -> Option<&StepMark> {
        self.latest.as_ref()
    }

    /// The first and the last of the marks that are looked at, and the time between.
    fn ends(&self) -> Option<(&StepMark, &StepMark, f64)> {
        let (first, last) = (self.marks.front()?, self.latest.as_ref()?);
        let elapsed_ms = last.at_ms.saturating_sub(first.at_ms);
        (elapsed_ms > 0 && last.step > first.step).then_some((first, last, elapsed_ms as f64))
    }

    /// Steps per second, while there are any.
    pub fn per_second(&self, now_ms: u64) -> Option<f64> {
        let (first, last, elapsed_ms) = self.ends()?;
        self.quiet_ms(now_ms).is_none().then(|| (last.step - first.step) as f64 * 1000.0 / elapsed_ms)
    }

    /// Share of the time that passed between steps, where the job says so.
    pub fn waiting_share(&self) -> Option<f64> {
        let (first, last, elapsed_ms) = self.ends()?;
        let waited_us = last.waited_us?.saturating_sub(first.waited_us?);
        Some((waited_us as f64 / 1000.0 / elapsed_ms).min(1.0))
    }

    /// How long there was no step, if that is longer than the pace explains.
    pub fn quiet_ms(&self, now_ms: u64) -> Option<u64> {
        let quiet_ms = now_ms.saturating_sub(self.latest?.at_ms);
        let step_ms = self.ends().map_or(0.0, |(first, last, elapsed_ms)| elapsed_ms / (last.step - first.step) as f64);
        (quiet_ms > QUIET_MS && quiet_ms as f64 > 3.0 * step_ms).then_some(quiet_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_ms: u64, step: u64) -> StepMark {
        StepMark { at_ms, step, waited_us: Some(at_ms * 250), ..StepMark::default() }
    }

    #[test]
    fn pace_and_waiting_are_of_the_last_half_minute() {
        let mut steps = Steps::default();
        for step in 1..=1000 {
            steps.take(&mark(step * 1000, step));
        }
        for step in 1001..=2000 {
            steps.take(&mark(1_000_000 + (step - 1000) * 100, step));
        }
        let now_ms = 1_100_000;
        assert!((steps.per_second(now_ms).unwrap() - 10.0).abs() < 0.1);
        assert_eq!(steps.waiting_share(), Some(0.25));
        assert!(steps.marks.len() < 70);
        assert_eq!((steps.per_second(now_ms + 20_000), steps.quiet_ms(now_ms + 20_000)), (None, Some(20_000)));
    }

    #[test]
    fn slow_steps_have_a_pace_too() {
        let mut steps = Steps::default();
        for step in 1..=3 {
            steps.take(&mark(step * 60_000, step));
        }
        assert_eq!((steps.per_second(200_000), steps.quiet_ms(200_000)), (Some(1.0 / 60.0), None));
        steps.take(&mark(300_000, 1));
        assert_eq!(steps.per_second(300_000), None);
    }
}

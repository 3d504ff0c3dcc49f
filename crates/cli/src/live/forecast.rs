//! Growth that was found, carried on to the limit from where the job is now.
//!
//! In: findings, and later the figures of the moment. Out: [`Growth`], [`Ahead`]. The judgement is the finding's; only its rate is used here, so that
//! the time left does not grow old on the screen. Ends when a finding says that the growth has.

use brimful_monitor::recording::Finding;

use super::state::State;

/// The highest of so long is what meets the limit, not what is held at this moment.
const RECENT_MS: u64 = 10_000;

/// How the host's memory grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    bytes_per_step: Option<f64>,
    bytes_per_minute: Option<f64>,
}

/// When the limit will be met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ahead {
    /// From now.
    pub left_ms: f64,
    /// The step, if steps are counted.
    pub step: Option<u64>,
    /// The growth.
    pub bytes_per_ms: f64,
}

impl Growth {
    /// What a finding says about growth: none if it is about something else, `Some(None)` that there is none any more.
    pub fn of(finding: &Finding) -> Option<Option<Growth>> {
        let rate = |name: &str| finding.figures.get(name).copied().filter(|rate| rate.is_finite() && *rate > 0.0);
        match finding.code.as_str() {
            "leak_host" => {
                let growth =
                    Growth { bytes_per_step: rate("bytes_per_step"), bytes_per_minute: rate("bytes_per_minute") };
                Some((growth.bytes_per_step.is_some() || growth.bytes_per_minute.is_some()).then_some(growth))
            }
            // That of a device says nothing about the host.
            "plateau" if !finding.figures.contains_key("device") => Some(None),
            _ => None,
        }
    }
}

impl State {
    /// When memory meets its limit at the rate that was found; none without growth, limit or, where the rate is per step, steps.
    pub fn ahead(&self) -> Option<Ahead> {
        let growth = self.growth.filter(|_| self.end.is_none())?;
        let (held_bytes, limit_bytes) = self.held()?;
        let steps_per_ms = self.steps.per_second(self.now_ms).map(|per_second| per_second / 1000.0);
        let by_step = growth.bytes_per_step.zip(steps_per_ms).map(|(bytes, steps)| bytes * steps);
        let bytes_per_ms = by_step.or(growth.bytes_per_minute.map(|bytes| bytes / 60_000.0))?;
        let recent = self.held.over(self.now_ms.saturating_sub(RECENT_MS), self.now_ms.saturating_add(1), 1);
        let high_bytes = recent.into_iter().flatten().fold(held_bytes as f64, f64::max);
        let left_ms = (limit_bytes? as f64 - high_bytes).max(0.0) / bytes_per_ms;
        let latest = self.steps.latest();
        let step = latest.zip(steps_per_ms).map(|(mark, pace)| mark.step.saturating_add((left_ms * pace) as u64));
        left_ms.is_finite().then_some(Ahead { left_ms, step, bytes_per_ms })
    }
}

#[cfg(test)]
mod tests {
    use brimful_monitor::recording::{Frame, StepMark};
    use brimful_monitor::sample::Sample;

    use super::*;

    fn finding(code: &str, rate: f64) -> Frame {
        let figures = [("bytes_per_step".to_owned(), rate)].into();
        Frame::Finding(Finding { code: code.to_owned(), figures, ..Finding::default() })
    }

    #[test]
    fn the_limit_is_met_at_the_pace_of_now() {
        let mut state = State::default();
        for step in 0..=20 {
            state.take(&Frame::Step(StepMark { at_ms: step * 1000, step: step * 2, ..StepMark::default() }));
        }
        let sample =
            Sample { at_ms: 20_000, rss_bytes: Some(1000), machine_available_bytes: Some(800), ..Sample::default() };
        state.take(&Frame::Sample(sample));
        assert_eq!(state.ahead(), None);
        state.take(&finding("leak_host", 4.0));
        let ahead = state.ahead().unwrap();
        assert!((ahead.left_ms - 100_000.0).abs() < 1.0 && (239..=240).contains(&ahead.step.unwrap()), "{ahead:?}");
        state.take(&finding("near_limit", 0.0));
        assert!(state.ahead().is_some());
        state.take(&finding("plateau", 0.0));
        assert_eq!(state.ahead(), None);
    }

    #[test]
    fn a_rate_that_is_no_number_foresees_nothing() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut state = State::default();
            state.take(&finding("leak_host", rate));
            assert_eq!(state.growth, None);
        }
    }
}

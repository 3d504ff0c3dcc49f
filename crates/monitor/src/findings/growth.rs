//! Growth of one kind of memory: the host's, or that of one device.
//!
//! In: sizes as they are read, the ends of training steps, and what is left to the limit. Out: a leak when it is found, and that it has ended when
//! it has. Of each step the lowest size counts for growth and the highest for what is to be met; a step that nothing was read in is left out. Without
//! steps the minutes count. Steps of more than a second are too few to judge for hours: there the minutes since the first step count,
//! until there are enough. Not here: words.

use crate::judge::{Found, Plateau, Rule, Series, Watch, plateau};
use crate::recording::StepMark;

/// Between two looks for rest.
const REST_LOOK_MS: u64 = 10_000;
/// Steps that take longer are judged by the minute, too.
const SLOW_STEP_MS: f64 = 1000.0;

/// One kind of memory.
#[derive(Clone, Debug)]
pub struct Growth {
    steps: Follow,
    minutes: Follow,
    /// The lowest and highest since the last step.
    since_step: Option<(u64, u64)>,
    pace: Pace,
    last_bytes: u64,
    next_rest_look_ms: u64,
    /// By which of the two a leak was said.
    said: Option<Unit>,
}

/// A series and what has been said of it.
#[derive(Clone, Debug)]
struct Follow {
    rule: Rule,
    series: Series,
    watch: Watch,
}

impl Follow {
    fn new(rule: Rule) -> Follow {
        Follow { rule, series: Series::default(), watch: Watch::new(rule) }
    }

    fn begin_anew(&mut self) {
        *self = Follow::new(self.rule);
    }
}

/// What growth is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Training steps.
    Step,
    /// Minutes.
    Minute,
}

/// The pace of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl Pace {
    fn step(&mut self, mark: &StepMark) {
        let now = (mark.at_ms, mark.step);
        self.first = self.first.or(Some(now));
        self.last = Some(now);
    }

    /// How long a step takes, with all that is between steps.
    pub fn step_ms(&self) -> Option<f64> {
        let ((from_ms, from), (to_ms, to)) = (self.first?, self.last?);
        (to > from && to_ms > from_ms).then(|| (to_ms - from_ms) as f64 / (to - from) as f64)
    }

    /// The step of now.
    pub fn last_step(&self) -> Option<u64> {
        self.last.map(|(_, step)| step)
    }
}

/// Something to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// It grows.
    Leak {
        /// By how much, and when it meets the limit.
        found: Found,
        /// What x is.
        unit: Unit,
    },
    /// It grew, and does no longer.
    Rest {
        /// Where.
        plateau: Plateau,
        /// What x is.
        unit: Unit,
    },
}

impl Default for Growth {
    fn default() -> Growth {
        Growth {
            steps: Follow::new(Rule::STEPS),
            minutes: Follow::new(Rule::MINUTES),
            since_step: None,
            pace: Pace::default(),
            last_bytes: 0,
            next_rest_look_ms: 0,
            said: None,
        }
    }
}

impl Growth {
    /// Takes a size; `left_bytes` is what can still be had.
    pub fn size(&mut self, at_ms: u64, bytes: u64, left_bytes: Option<u64>) -> Option<News> {
        self.last_bytes = bytes;
        let (low, high) = self.since_step.unwrap_or((bytes, bytes));
        self.since_step = Some((low.min(bytes), high.max(bytes)));
        self.minutes.series.push(at_ms as f64 / 60_000.0, bytes);
        if at_ms >= self.next_rest_look_ms && self.said.is_some() {
            self.next_rest_look_ms = at_ms.saturating_add(REST_LOOK_MS);
            return self.rest();
        }
        let counts = self.pace.last.is_none() || self.pace.step_ms().is_some_and(|ms| ms > SLOW_STEP_MS);
        if counts { self.look(Unit::Minute, left_bytes) } else { None }
    }

    /// Takes the end of a step.
    pub fn step(&mut self, mark: &StepMark, left_bytes: Option<u64>) -> Option<News> {
        if self.pace.first.is_none() {
            // What a job does before its first step, such as loading its data, is no part of training.
            self.minutes.begin_anew();
        }
        self.pace.step(mark);
        let (low, high) = self.since_step.take()?;
        self.steps.series.push_between(mark.step as f64, low, high);
        self.look(Unit::Step, left_bytes)
    }

    /// The pace of steps.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    fn look(&mut self, unit: Unit, left_bytes: Option<u64>) -> Option<News> {
        if self.said.is_some() {
            return None;
        }
        let limit_bytes = left_bytes.map(|left_bytes| self.last_bytes.saturating_add(left_bytes));
        let follow = match unit {
            Unit::Step => &mut self.steps,
            Unit::Minute => &mut self.minutes,
        };
        let found = follow.watch.look(&follow.series, limit_bytes)?;
        self.said = Some(unit);
        Some(News::Leak { found, unit })
    }

    fn rest(&mut self) -> Option<News> {
        let unit = self.said?;
        let plateau = plateau(match unit {
            Unit::Step => &self.steps.series,
            Unit::Minute => &self.minutes.series,
        })?;
        self.said = None;
        self.steps.begin_anew();
        self.minutes.begin_anew();
        Some(News::Rest { plateau, unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// What is said of a job that is read every 100 ms, with these sizes, and a step every so many ms.
    fn said(minutes: u64, step_ms: Option<u64>, bytes: impl Fn(u64) -> u64) -> Vec<(u64, News)> {
        let mut growth = Growth::default();
        let mut news = Vec::new();
        for at_ms in (100..minutes * 60_000).step_by(100) {
            if let Some(step_ms) = step_ms.filter(|step_ms| at_ms % step_ms == 0) {
                let mark = StepMark { at_ms, step: at_ms / step_ms, ..StepMark::default() };
                news.extend(growth.step(&mark, None).map(|news| (at_ms, news)));
            }
            news.extend(growth.size(at_ms, bytes(at_ms), None).map(|news| (at_ms, news)));
        }
        news
    }

    #[test]
    fn a_leak_is_counted_by_steps_and_within_a_step_the_lowest_counts() {
        // Half a second each, 1 MB more each, and 300 MB of activations in the middle of each.
        let said = said(10, Some(500), |ms| 1000 * MB + ms / 500 * MB + if ms % 500 > 200 { 300 * MB } else { 0 });
        let [(at_ms, News::Leak { found, unit: Unit::Step })] = said[..] else { panic!("{said:?}") };
        assert!((290_000..310_000).contains(&at_ms), "{at_ms}");
        assert!((found.leak.bytes_per_x - 1e6).abs() < 1e4, "{found:?}");
    }

    #[test]
    fn slow_steps_are_judged_by_the_minute() {
        let said = said(40, Some(10_000), |ms| 1000 * MB + ms / 10_000 * 20 * MB);
        let [(at_ms, News::Leak { found, unit: Unit::Minute })] = said[..] else { panic!("{said:?}") };
        assert!(at_ms < 16 * 60_000 && (found.leak.bytes_per_x - 120e6).abs() < 5e6, "{at_ms} {found:?}");
    }

    #[test]
    fn growth_that_has_ended_is_said_and_may_begin_again() {
        let said = said(90, Some(100), |ms| {
            1000 * MB + (ms / 1000).min(300) * 10 * MB + ms.saturating_sub(1_800_000) / 100 * MB
        });
        let codes: Vec<bool> = said.iter().map(|(_, news)| matches!(news, News::Leak { .. })).collect();
        assert_eq!(codes, [true, false, true], "{said:?}");
    }

    #[test]
    fn loading_data_before_the_first_step_is_no_leak() {
        let mut growth = Growth::default();
        for at_ms in (0..14 * 60_000).step_by(100) {
            assert_eq!(growth.size(at_ms, at_ms * 1000, None), None);
        }
        for step in 1..20_000_u64 {
            let at_ms = 14 * 60_000 + step * 100;
            let mark = StepMark { at_ms, step, ..StepMark::default() };
            assert_eq!((growth.step(&mark, None), growth.size(at_ms, 840 * MB, None)), (None, None), "{step}");
        }
    }
}

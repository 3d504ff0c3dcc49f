//! Says a leak once, at a moment at which the rule can be trusted.
//!
//! In: the growing series of a running job, shown as often as one likes, and the limit. Out: what was [`Found`], once. Whoever looks all the time
//! finds by chance what a single look would not, and whatever fills slowly looks like a leak for a while (in simulation, half of all caches). So the
//! rule is asked rarely: when there is enough, and then each time that the series has become half as long again. In between it is
//! asked only for growth that would meet the limit before that: that is worth saying, whatever it turns out to be. Not done: taking it back.

use super::forecast::{Forecast, forecast};
use super::leak::{Leak, Rule, leak};
use super::series::Series;

/// How much longer the series is at the next look.
const LONGER: f64 = 1.5;
/// In between, how often: each time that it is longer by this.
const SLIGHTLY_LONGER: f64 = 1.05;

/// A leak, said for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The growth.
    pub leak: Leak,
    /// When it meets the limit, if that is known.
    pub forecast: Option<Forecast>,
    /// Whether it was said before its time, because the limit is near: it may still be a job that warms up.
    pub is_early: bool,
}

/// Follows one series.
#[derive(Clone, Debug)]
pub struct Watch {
    rule: Rule,
    next_x: f64,
    next_early_x: f64,
    is_said: bool,
}

impl Watch {
    /// Begins.
    pub fn new(rule: Rule) -> Watch {
        Watch { rule, next_x: rule.enough_x, next_early_x: rule.least_x, is_said: false }
    }

    /// Looks, if it is time; gives what it finds the first time. Costs next to nothing when it is not time.
    pub fn look(&mut self, series: &Series, limit_bytes: Option<u64>) -> Option<Found> {
        let (first, last) = (series.buckets().first()?, series.buckets().last()?);
        let length_x = last.last_x - first.first_x;
        let is_time = length_x >= self.next_x;
        let is_early_time = limit_bytes.is_some() && length_x >= self.next_early_x;
        if self.is_said || !(is_time || is_early_time) {
            return None;
        }
        self.next_early_x = length_x * SLIGHTLY_LONGER;
        if is_time {
            self.next_x = length_x * LONGER;
        }
        let leak = leak(series, self.rule)?;
        let forecast = limit_bytes.and_then(|limit_bytes| forecast(series, &leak, limit_bytes));
        let dies_first = forecast.is_some_and(|forecast| length_x + forecast.left_x < self.next_x);
        self.is_said = is_time || dies_first;
        self.is_said.then_some(Found { leak, forecast, is_early: !is_time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps at which something is said, of a job with this size at each step.
    fn said(limit_bytes: Option<u64>, size: impl Fn(u64) -> u64) -> Vec<(u64, bool)> {
        let (mut series, mut watch) = (Series::default(), Watch::new(Rule::STEPS));
        let mut look = |step: u64| {
            series.push(step as f64, size(step));
            watch.look(&series, limit_bytes).map(|found| (step, found.is_early))
        };
        (0..3000).filter_map(&mut look).collect()
    }

    #[test]
    fn a_leak_is_said_once_and_early_if_the_limit_is_near() {
        let leaks = |step: u64| 1_000_000_000 + 1_000_000 * step;
        assert_eq!(said(None, leaks), [(596, false)]);
        assert_eq!(said(Some(100_000_000_000), leaks), [(596, false)]);
        let early = said(Some(1_400_000_000), leaks);
        assert!(matches!(early[..], [(200..300, true)]), "{early:?}");
    }

    #[test]
    fn a_leak_that_begins_late_is_found_later() {
        let late = said(None, |step| 1_000_000_000 + 1_000_000 * step.saturating_sub(700));
        assert!(matches!(late[..], [(1300..3000, false)]), "{late:?}");
        assert_eq!(said(Some(10_000_000_000), |step| 1_000_000_000 + 1_000_000 * step.min(150)), []);
    }
}

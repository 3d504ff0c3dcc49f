//! The course of one figure over a run of any length, in bounded room: the last minutes finely, the whole coarsely.
//!
//! In: values with their times. Out: one value for each of so many equal stretches of time: the highest of what is held, because a job dies of
//! its peaks, and the mean of what flows. Values that are no numbers are left out; one that comes late counts as the latest.

use std::collections::VecDeque;

/// How finely the last minutes are kept, and how many of them: five.
const FINE_MS: u64 = 500;
const MOST_FINE: usize = 600;
/// How finely the whole is kept at first. Whenever there are more stretches than this, each becomes twice as long.
const FIRST_COARSE_MS: u64 = 1000;
const MOST_COARSE: usize = 600;

/// What stands for several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The highest.
    Highest,
    /// The mean.
    Mean,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    begin_ms: u64,
    values: Values,
}

/// Several values.
#[derive(Clone, Copy, Debug)]
struct Values {
    high: f64,
    sum: f64,
    count: f64,
}

impl Values {
    fn add(&mut self, other: &Values) {
        self.high = self.high.max(other.high);
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// One figure's past.
#[derive(Clone, Debug)]
pub struct History {
    kept: Kept,
    fine: VecDeque<Stretch>,
    coarse: Vec<Stretch>,
    coarse_ms: u64,
}

impl History {
    /// Empty.
    pub fn of(kept: Kept) -> History {
        History { kept, fine: VecDeque::new(), coarse: Vec::new(), coarse_ms: FIRST_COARSE_MS }
    }

    /// As far back as the fine grain goes.
    pub const FINE_SPAN_MS: u64 = FINE_MS * MOST_FINE as u64;

    /// Adds a value.
    pub fn push(&mut self, at_ms: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let values = Values { high: value, sum: value, count: 1.0 };
        let raised = self.fine.back_mut().is_some_and(|last| raise(last, FINE_MS, at_ms, &values));
        if !raised {
            self.fine.push_back(Stretch { begin_ms: at_ms - at_ms % FINE_MS, values });
            if self.fine.len() > MOST_FINE {
                self.fine.pop_front();
            }
        }
        let raised = self.coarse.last_mut().is_some_and(|last| raise(last, self.coarse_ms, at_ms, &values));
        if !raised {
            self.coarse.push(Stretch { begin_ms: at_ms - at_ms % self.coarse_ms, values });
            while self.coarse.len() > MOST_COARSE {
                self.coarsen();
            }
        }
    }

    fn coarsen(&mut self) {
        self.coarse_ms = self.coarse_ms.saturating_mul(2);
        let coarse_ms = self.coarse_ms;
        for stretch in &mut self.coarse {
            stretch.begin_ms -= stretch.begin_ms % coarse_ms;
        }
        self.coarse.dedup_by(|later, earlier| {
            let is_same = later.begin_ms == earlier.begin_ms;
            if is_same {
                earlier.values.add(&later.values);
            }
            is_same
        });
    }

    /// The value of each of `columns` equal parts of a time; none before the first and after the last. Where a part has no
    /// value of its own, the one before lasts.
    pub fn over(&self, from_ms: u64, to_ms: u64, columns: usize) -> Vec<Option<f64>> {
        let mut parts: Vec<Option<Values>> = vec![None; columns];
        let Some(span_ms) = to_ms.checked_sub(from_ms).filter(|span_ms| *span_ms > 0 && columns > 0) else {
            return vec![None; columns];
        };
        let is_fine = self.fine.front().is_some_and(|first| first.begin_ms <= from_ms) || self.fine.len() < MOST_FINE;
        let (width_ms, stretches): (u64, &mut dyn Iterator<Item = &Stretch>) =
            if is_fine { (FINE_MS, &mut self.fine.iter()) } else { (self.coarse_ms, &mut self.coarse.iter()) };
        let mut stretches = stretches.peekable();
        while let Some(stretch) = stretches.next() {
            let end_ms = stretches.peek().map_or(stretch.begin_ms.saturating_add(width_ms), |next| next.begin_ms);
            if end_ms <= from_ms || stretch.begin_ms >= to_ms {
                continue;
            }
            let column = |at_ms: u64| (u128::from(at_ms - from_ms) * columns as u128 / u128::from(span_ms)) as usize;
            let (first, last) = (column(stretch.begin_ms.max(from_ms)), column((end_ms - 1).min(to_ms - 1)));
            for part in &mut parts[first..=last] {
                match part {
                    Some(values) => values.add(&stretch.values),
                    None => *part = Some(stretch.values),
                }
            }
        }
        parts.into_iter().map(|part| part.map(|values| self.value(&values))).collect()
    }

    fn value(&self, values: &Values) -> f64 {
        match self.kept {
            Kept::Highest => values.high,
            Kept::Mean => values.sum / values.count,
        }
    }

    /// Whether there was never a value.
    pub fn is_empty(&self) -> bool {
        self.fine.is_empty()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.fine.len() + self.coarse.len()
    }
}

/// Whether the value belongs to this stretch, which then has it.
fn raise(last: &mut Stretch, width_ms: u64, at_ms: u64, values: &Values) -> bool {
    let is_here = at_ms < last.begin_ms.saturating_add(width_ms);
    if is_here {
        last.values.add(values);
    }
    is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_at_ten_a_second_keeps_its_peak_in_little_room() {
        let mut history = History::of(Kept::Highest);
        for tick in 0..864_000_u64 {
            history.push(tick * 100, if tick == 300_123 { 9.0 } else { 1.0 });
        }
        assert!(history.len() <= MOST_FINE + MOST_COARSE);
        let whole = history.over(0, 86_400_000, 60);
        assert_eq!(whole.iter().filter(|high| **high == Some(9.0)).count(), 1, "{whole:?}");
        assert!(whole.iter().all(Option::is_some));
        assert_eq!(history.over(86_100_000, 86_400_000, 10), [Some(1.0); 10]);
    }

    #[test]
    fn parts_without_values_take_the_one_before_and_the_future_has_none() {
        let mut history = History::of(Kept::Highest);
        for (at_ms, value) in [(2000, 5.0), (2100, f64::NAN), (2200, 4.0), (6000, 7.0), (1000, 3.0)] {
            history.push(at_ms, value);
        }
        let highs = history.over(0, 10_000, 10);
        let known = [5.0, 5.0, 5.0, 5.0, 7.0].map(Some);
        assert_eq!((&highs[..2], &highs[2..7], &highs[7..]), (&[None; 2][..], &known[..], &[None; 3][..]));
    }

    #[test]
    fn what_flows_is_the_mean() {
        let mut history = History::of(Kept::Mean);
        for tick in 0..20_000_u64 {
            history.push(tick * 100, if tick % 4 == 0 { 100.0 } else { 0.0 });
        }
        let means = history.over(0, 2_000_000, 10);
        assert!(means.iter().flatten().all(|mean| (mean - 25.0).abs() < 1.0) && means.len() == 10, "{means:?}");
    }

    #[test]
    fn no_time_is_too_strange() {
        let mut history = History::of(Kept::Highest);
        for at_ms in [0, u64::MAX, 3, u64::MAX - 1] {
            history.push(at_ms, 1.0);
        }
        for (from, to) in [(0, 0), (5, 3), (0, u64::MAX), (u64::MAX, u64::MAX), (0, 1)] {
            assert_eq!(history.over(from, to, 7).len(), 7);
            assert!(history.over(from, to, 0).is_empty());
        }
    }
}

//! A series that stays small however long the job is.
//!
//! In: points, in the order of time or nearly. Out: at most so many of them, among them the first, the last, and of each stretch of time the lowest
//! and the highest: a spike of one sample in a day is still there, at its height. It takes a little more than what it keeps.

/// Points of a series, thinned when there are too many.
#[derive(Clone, Debug, Default)]
pub struct Thin {
    points: Vec<(u64, f64)>,
    most: usize,
    seen: u64,
}

/// Fewer points than this say nothing.
const LEAST: usize = 16;

impl Thin {
    /// An empty series that keeps so many points.
    pub fn new(most: usize) -> Thin {
        Thin { points: Vec::new(), most: most.max(LEAST), seen: 0 }
    }

    /// Adds a point; what is no number is not one.
    pub fn push(&mut self, at: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.seen += 1;
        self.points.push((at, value));
        if self.points.len() >= 2 * self.most {
            thin(&mut self.points, self.most);
        }
    }

    /// How many points there were.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The highest value.
    pub fn highest(&self) -> Option<f64> {
        self.points.iter().map(|point| point.1).reduce(f64::max)
    }

    /// The points, at most so many, in the order of time.
    pub fn points(&self, most: usize) -> Vec<(u64, f64)> {
        let mut points = self.points.clone();
        points.sort_by_key(|point| point.0);
        if points.len() > most.min(self.most).max(LEAST) {
            thin(&mut points, most.min(self.most).max(LEAST));
        }
        points
    }
}

/// Keeps the first, the last and the extremes of each stretch: no more than `most` of them.
fn thin(points: &mut Vec<(u64, f64)>, most: usize) {
    points.sort_by_key(|point| point.0);
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return };
    let stretches = (most / 2 - 1) as f64;
    let span = (last.0 - first.0) as f64 + 1.0;
    let stretch = |point: &(u64, f64)| ((point.0 - first.0) as f64 / span * stretches) as u64;
    let mut kept = vec![first];
    for group in points.chunk_by(|a, b| stretch(a) == stretch(b)) {
        let by_value = |a: &&(u64, f64), b: &&(u64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (group.iter().min_by(by_value), group.iter().max_by(by_value)) else { continue };
        let (early, late) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.extend([early, late].into_iter().filter(|point| **point != first && **point != last));
    }
    kept.push(last);
    kept.dedup();
    *points = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_in_a_day_is_kept_at_its_height() {
        let mut thin = Thin::new(2000);
        for at in 0..864_000u64 {
            let spike = if at == 700_001 {
                1e9
            } else if at == 300_007 {
                -50.0
            } else {
                0.0
            };
            thin.push(at * 100, 1000.0 + (at % 10) as f64 + spike);
        }
        let points = thin.points(2000);
        assert!((1000..=2000).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by_key(|point| point.0));
        assert_eq!((thin.seen(), points[0].0, points[points.len() - 1].0), (864_000, 0, 86_399_900));
        assert!(points.contains(&(70_000_100, 1e9 + 1001.0)) && points.contains(&(30_000_700, 957.0)));
        assert!(thin.points(100).contains(&(70_000_100, 1e9 + 1001.0)) && thin.points(100).len() <= 100);
    }

    #[test]
    fn few_points_stay_as_they_are_and_time_may_go_back() {
        let mut thin = Thin::new(100);
        for (at, value) in [(5, 1.0), (3, 2.0), (u64::MAX, 4.0), (9, f64::NAN)] {
            thin.push(at, value);
        }
        assert_eq!(thin.points(100), [(3, 2.0), (5, 1.0), (u64::MAX, 4.0)]);
        (0..1000).for_each(|value| thin.push(7, f64::from(value)));
        assert!(thin.points(100).len() <= 100);
        assert_eq!(thin.highest(), Some(999.0));
    }
}

//! Sizes over steps or minutes, in bounded memory.
//!
//! In: a size at each step (or minute), in order. Out: [`Bucket`]s, of one size each at first; whenever there are too many, neighbours are
//! joined and keep their lowest and highest. A run of a day takes as much as one of minutes. Not kept: where in a bucket a size was.

/// From here on neighbours are joined.
const MOST_BUCKETS: usize = 1024;

/// Neighbouring sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The first step, or minute.
    pub first_x: f64,
    /// The last one.
    pub last_x: f64,
    /// The smallest size.
    pub low_bytes: f64,
    /// The largest.
    pub high_bytes: f64,
}

impl Bucket {
    /// Two neighbours as one.
    pub fn join(self, next: Bucket) -> Bucket {
        Bucket {
            first_x: self.first_x,
            last_x: next.last_x,
            low_bytes: self.low_bytes.min(next.low_bytes),
            high_bytes: self.high_bytes.max(next.high_bytes),
        }
    }

    /// Its middle.
    pub fn middle_x(&self) -> f64 {
        self.first_x + (self.last_x - self.first_x) / 2.0
    }
}

/// Sizes in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    buckets: Vec<Bucket>,
    sizes_in_bucket: usize,
    sizes_in_last: usize,
}

impl Default for Series {
    fn default() -> Series {
        Series { buckets: Vec::new(), sizes_in_bucket: 1, sizes_in_last: 0 }
    }
}

impl Series {
    /// Takes a size. A step or minute that does not lie behind the last one is left out, and so is one that is no number.
    pub fn push(&mut self, x: f64, bytes: u64) {
        self.push_between(x, bytes, bytes);
    }

    /// Takes the lowest and highest size of a step that was looked at several times.
    pub fn push_between(&mut self, x: f64, low_bytes: u64, high_bytes: u64) {
        if !x.is_finite() || self.buckets.last().is_some_and(|last| x <= last.last_x) {
            return;
        }
        let one = Bucket { first_x: x, last_x: x, low_bytes: low_bytes as f64, high_bytes: high_bytes as f64 };
        match self.buckets.last_mut() {
            Some(last) if self.sizes_in_last < self.sizes_in_bucket => {
                *last = last.join(one);
                self.sizes_in_last += 1;
            }
            _ => {
                self.join_neighbours_if_full();
                self.buckets.push(one);
                self.sizes_in_last = 1;
            }
        }
    }

    fn join_neighbours_if_full(&mut self) {
        if self.buckets.len() >= MOST_BUCKETS {
            self.buckets = self.buckets.chunks_exact(2).map(|pair| pair[0].join(pair[1])).collect();
            self.sizes_in_bucket *= 2;
        }
    }

    /// Neighbours of at least so many sizes, and not more than so many of them. What does not fill one at the beginning is left out.
    pub fn windows(&self, from: usize, least_sizes: usize, most_windows: usize) -> Vec<Bucket> {
        let buckets = self.buckets.get(from..).unwrap_or_default();
        let length = least_sizes.div_ceil(self.sizes_in_bucket).max(buckets.len().div_ceil(most_windows.max(1))).max(1);
        let join = |chunk: &[Bucket]| chunk.iter().copied().reduce(Bucket::join);
        buckets.get(buckets.len() % length..).unwrap_or_default().chunks_exact(length).filter_map(join).collect()
    }

    /// Steps, or minutes, from one size to the next, on average.
    pub fn spacing_x(&self) -> f64 {
        let sizes =
            (self.buckets.len().saturating_sub(1) * self.sizes_in_bucket + self.sizes_in_last).saturating_sub(1);
        let length_x =
            self.buckets.first().zip(self.buckets.last()).map_or(0.0, |(first, last)| last.last_x - first.first_x);
        if sizes == 0 { 0.0 } else { length_x / sizes as f64 }
    }

    /// All buckets.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }
}

impl FromIterator<(f64, u64)> for Series {
    fn from_iter<I: IntoIterator<Item = (f64, u64)>>(sizes: I) -> Series {
        let mut series = Series::default();
        sizes.into_iter().for_each(|(x, bytes)| series.push(x, bytes));
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_at_ten_a_second_stays_small_and_loses_no_extreme() {
        let day: Series =
            (0..864_000).map(|n| (f64::from(n), if n == 777_777 { 5000 } else { 1000 + n as u64 % 7 })).collect();
        assert!(day.buckets().len() <= MOST_BUCKETS && day.buckets().len() >= MOST_BUCKETS / 2);
        let all = day.buckets().iter().copied().reduce(Bucket::join).unwrap();
        assert_eq!(all, Bucket { first_x: 0.0, last_x: 863_999.0, low_bytes: 1000.0, high_bytes: 5000.0 });
        assert!(day.windows(0, 20, 48).len() <= 48 && day.windows(0, 20, 48).len() >= 24);
    }

    #[test]
    fn steps_that_go_back_are_left_out() {
        let series: Series = [(1.0, 1), (1.0, 2), (0.0, 3), (f64::NAN, 4), (2.0, 5)].into_iter().collect();
        assert_eq!(series.buckets().len(), 2);
        assert!(series.windows(9, 1, 1).is_empty() && series.windows(0, 20, 0).is_empty());
    }
}

//! A random order of any number of rows, without a list of them.
//!
//! In: how many, a seed. Out: which row comes at a place. A Feistel network over the next power of four, walked until the number is
//! below the count: every row comes at exactly one place, in constant memory and time.

use super::Random;
use super::random::mix;

/// With fewer, small counts show a bias; with these, none is found (see the tests).
const ROUNDS: usize = 8;

/// A random order of `count` numbers.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The order that belongs to a generator.
    pub fn new(count: u64, random: &mut Random) -> Permutation {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Permutation { count, half_bits, keys: std::array::from_fn(|_| random.next()) }
    }

    /// The number at a place; both are below the count.
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.count);
        let mut number = place;
        loop {
            number = self.once(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn once(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right.wrapping_add(key)) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for count in [1, 2, 3, 7, 64, 1000, 4097] {
            let permutation = Permutation::new(count, &mut Random::new(count, &[]));
            let mut seen: Vec<u64> = (0..count).map(|place| permutation.at(place)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }

    /// Chi-square of where each number comes to lie over many seeds, and of which number follows which.
    #[test]
    fn places_and_neighbours_are_uniform() {
        for count in [5u64, 13, 37] {
            let seeds = 40_000u64;
            let cells = (count * count) as usize;
            let (mut places, mut pairs) = (vec![0f64; cells], vec![0f64; cells]);
            for seed in 0..seeds {
                let permutation = Permutation::new(count, &mut Random::new(seed, &[1]));
                let order: Vec<u64> = (0..count).map(|place| permutation.at(place)).collect();
                for (place, number) in order.iter().enumerate() {
                    places[place * count as usize + *number as usize] += 1.0;
                }
                for pair in order.windows(2) {
                    pairs[(pair[0] * count + pair[1]) as usize] += 1.0;
                }
            }
            let chi = |seen: &[f64], expected: f64, skip: &dyn Fn(usize) -> bool| -> f64 {
                seen.iter()
                    .enumerate()
                    .filter(|(at, _)| !skip(*at))
                    .map(|(_, n)| (n - expected).powi(2) / expected)
                    .sum()
            };
            let free = ((count - 1) * (count - 1)) as f64;
            let places = chi(&places, seeds as f64 / count as f64, &|_| false);
            assert!((places - free).abs() < 5.0 * (2.0 * free).sqrt(), "{count}: {places} for {free}");
            let diagonal = |at: usize| at as u64 / count == at as u64 % count;
            let pairs = chi(&pairs, seeds as f64 / count as f64, &diagonal);
            let free = (count * (count - 1) - 1) as f64;
            assert!((pairs - free).abs() < 5.0 * (2.0 * free).sqrt(), "{count}: {pairs} for {free}");
        }
    }
}

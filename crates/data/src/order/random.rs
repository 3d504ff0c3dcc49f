//! Random numbers that are the same everywhere and in every version.
//!
//! SplitMix64 (Steele, Lea, Flood 2014); numbers below a bound without bias (Lemire 2019).

/// A generator, from a seed and what it is for.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Mixes all bits of a number into all others.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// Numbers that differ for every seed and every use.
    pub fn new(seed: u64, uses: &[u64]) -> Random {
        Random(uses.iter().fold(mix(seed ^ 0x6272_696d_6675_6c21), |state, one| {
            mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(mix(one.wrapping_add(1))))
        }))
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below a bound, each as likely as the others.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            // The remainder is below the bound: only where the low half is, too, need it be divided for.
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Puts things into a random order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

//! From text to a number, the same in every format.

use super::Conversion;

impl Conversion {
    /// The number of this text; nothing where it is none of the categories. Text of a column of numbers has none either.
    pub fn number(&self, text: &[u8]) -> Option<i64> {
        match self {
            Conversion::Number => None,
            Conversion::Categories(known) => known.get(text).copied(),
            Conversion::Hash(below) => Some((hash(text) % (*below).max(1)) as i64),
        }
    }
}

/// FNV-1a with a last round that spreads every bit: our own, so that a model's inputs stay the same from one version to the next.
fn hash(text: &[u8]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state ^ (state >> 33)
}

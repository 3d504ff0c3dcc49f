//! A row of figures as what changed since the last one.
//!
//! In: a row, or bytes. Out: the reverse. A row is the set of the figures that changed, and for each how: nothing for one that is no longer known,
//! or the difference from the last known value.

use super::varint::{push, push_signed, take, take_signed};

/// The last known value of each figure, and whether it is known now.
#[derive(Clone)]
pub struct Row<const N: usize> {
    values: [u64; N],
    known: [bool; N],
}

impl<const N: usize> Default for Row<N> {
    fn default() -> Row<N> {
        // The set of figures is one number.
        const { assert!(N <= 63) };
        Row { values: [0; N], known: [false; N] }
    }
}

impl<const N: usize> Row<N> {
    /// Adds what changed.
    pub fn encode(&mut self, row: &[Option<u64>; N], bytes: &mut Vec<u8>) {
        let changed: u64 = (0..N).filter(|&index| row[index] != self.now(index)).map(|index| 1 << index).sum();
        push(bytes, changed);
        for index in (0..N).filter(|index| changed >> index & 1 == 1) {
            match row[index] {
                // One that was known and stays known differs, so zero is free to say that it is known no longer; one that becomes known
                // says so by being unknown before.
                Some(value) => push_signed(bytes, value.wrapping_sub(self.values[index]) as i64),
                None => push(bytes, 0),
            }
            self.known[index] = row[index].is_some();
            self.values[index] = row[index].unwrap_or(self.values[index]);
        }
    }

    /// Takes what changed, and gives the whole row. Figures of a later version come last, and are left.
    pub fn decode(&mut self, bytes: &mut &[u8]) -> Option<[Option<u64>; N]> {
        let changed = take(bytes)?;
        for index in (0..N).filter(|index| changed >> index & 1 == 1) {
            let difference = take_signed(bytes)?;
            let goes = self.known[index] && difference == 0;
            self.known[index] = !goes;
            self.values[index] = self.values[index].wrapping_add(difference as u64);
        }
        Some(std::array::from_fn(|index| self.now(index)))
    }

    fn now(&self, index: usize) -> Option<u64> {
        self.known[index].then_some(self.values[index])
    }
}

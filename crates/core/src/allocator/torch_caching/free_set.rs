//! The free blocks of one pool in the order of best fit: by size, then by address.
//!
//! In: keys that pack size, address and block. Out: the smallest key not below another. A handful of free blocks is the
//! rule, so keys lie sorted in short runs and most operations touch one run; the run length bounds what one insertion
//! moves, so that a hundred thousand free blocks are slow in proportion only.

use super::options::MIN_BLOCK_BYTES;

/// Runs split beyond this many keys (one KiB): moving half a run costs no more than finding it.
const RUN_LEN: usize = 64;

/// Size in 41 bits, address in 55 (both in units of 512 bytes, which no two blocks share), block in 32: one comparison
/// orders by all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u128);

impl Key {
    pub(super) fn new(size_bytes: u64, address: u64, block: u32) -> Key {
        debug_assert!(size_bytes / MIN_BLOCK_BYTES < 1 << 41);
        let (size, address) = (size_bytes / MIN_BLOCK_BYTES, address / MIN_BLOCK_BYTES);
        Key(u128::from(size) << 87 | u128::from(address) << 32 | u128::from(block))
    }

    /// Below every block of this size, above every smaller one.
    pub(super) fn smallest_of(size_bytes: u64) -> Key {
        Key::new(size_bytes, 0, 0)
    }

    pub(super) fn block(self) -> u32 {
        self.0 as u32
    }
}

/// Where a key lies. Any change of the set makes it stale.
#[derive(Clone, Copy)]
pub(super) struct Position {
    run: usize,
    index: usize,
}

/// An ordered set of keys.
#[derive(Clone, Debug)]
pub(super) struct FreeSet {
    /// `lows[i]` is not above any key of run `i`, and above every key of the runs before it. `lows[0]` is the least
    /// key.
    lows: Vec<Key>,
    /// No run is empty, except when it is the only one.
    runs: Vec<Vec<Key>>,
}

impl FreeSet {
    pub(super) fn new() -> FreeSet {
        FreeSet { lows: vec![Key(0)], runs: vec![Vec::with_capacity(RUN_LEN)] }
    }

    fn locate(&self, key: Key) -> Position {
        let run = if self.lows.len() == 1 { 0 } else { self.lows.partition_point(|low| *low <= key) - 1 };
        Position { run, index: self.runs[run].partition_point(|other| *other < key) }
    }

    /// The smallest key that is not below this one.
    pub(super) fn lower_bound(&self, key: Key) -> Option<(Position, Key)> {
        self.at_or_after(self.locate(key))
    }

    /// The key that follows.
    pub(super) fn after(&self, position: Position) -> Option<(Position, Key)> {
        self.at_or_after(Position { index: position.index + 1, ..position })
    }

    fn at_or_after(&self, position: Position) -> Option<(Position, Key)> {
        if let Some(key) = self.runs[position.run].get(position.index) {
            return Some((position, *key));
        }
        let run = position.run + 1;
        self.runs.get(run).map(|keys| (Position { run, index: 0 }, keys[0]))
    }

    /// The largest key.
    pub(super) fn last(&self) -> Option<Key> {
        self.runs.last().and_then(|run| run.last()).copied()
    }

    pub(super) fn insert(&mut self, key: Key) {
        let Position { run, index } = self.locate(key);
        let keys = &mut self.runs[run];
        keys.insert(index, key);
        if keys.len() > RUN_LEN {
            let mut upper = Vec::with_capacity(RUN_LEN + 1);
            upper.extend(keys.drain(RUN_LEN / 2..));
            self.lows.insert(run + 1, upper[0]);
            self.runs.insert(run + 1, upper);
        }
    }

    pub(super) fn remove(&mut self, key: Key) {
        let position = self.locate(key);
        debug_assert_eq!(self.runs[position.run].get(position.index), Some(&key));
        self.remove_at(position);
    }

    pub(super) fn remove_at(&mut self, Position { run, index }: Position) {
        self.runs[run].remove(index);
        if self.runs[run].is_empty() && self.runs.len() > 1 {
            self.runs.remove(run);
            self.lows.remove(run);
            self.lows[0] = Key(0);
        }
    }

    /// All keys, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        self.runs.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_agrees_with_a_plain_ordered_set() {
        let (mut set, mut plain) = (FreeSet::new(), BTreeSet::new());
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for round in 0..60_000 {
            // Growing, then shrinking to nothing, twice: runs split and vanish.
            let growing = round % 30_000 < 12_000;
            let key = Key::new(random(200) * 512, random(50) * 512, 7);
            if growing && plain.insert(key) {
                set.insert(key);
            } else if let Some(&key) = plain.range(key..).next().or(plain.first()) {
                plain.remove(&key);
                set.remove(key);
            }
            let probe = Key::smallest_of(random(210) * 512);
            assert_eq!(set.lower_bound(probe).map(|(_, key)| key), plain.range(probe..).next().copied());
            if let Some((position, key)) = set.lower_bound(probe) {
                assert_eq!(set.after(position).map(|(_, key)| key), plain.range(key..).nth(1).copied());
            }
            assert_eq!(set.last(), plain.last().copied());
        }
        assert!(set.iter().eq(plain.iter().copied()));
    }
}

//! The free chunks of a pool, in the order in which they are searched.

use super::UNIT_BYTES;

/// A free chunk, ordered by size, then address.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeChunk {
    pub(super) bytes: u64,
    pub(super) address: u64,
    pub(super) index: u32,
}

impl FreeChunk {
    /// No two chunks have the same. One wide number is compared without a branch, which a search spends most of its time on.
    fn key(&self) -> u128 {
        u128::from(self.bytes) << 64 | u128::from(self.address)
    }
}

/// The free chunks in order.
///
/// The real allocator keeps 21 bins by powers of two, each ordered by size and address, and searches from the request's
/// bin upwards. A bin holds only larger chunks than the bin before, so that search finds the first chunk of the whole order
/// that is large enough; other bins give the same answer, and narrower ones mostly hold a few chunks each.
#[derive(Clone, Debug)]
pub(super) struct FreeChunks {
    bins: Vec<Bin>,
    /// One bit for each bin that is not empty.
    filled: [u64; BINS / 64],
}

/// A place in the list, until the list changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    bin: usize,
    in_bin: InBin,
}

/// Bins for each power of two.
const STEPS: u32 = 8;

/// Enough for every size.
const BINS: usize = 64 * STEPS as usize;

/// The bin of a size: one for each unit at first, then ever wider ones. No size has a lower bin than a smaller one.
fn bin(bytes: u64) -> usize {
    let units = bytes / UNIT_BYTES;
    let halvings = units.checked_ilog2().unwrap_or(0).saturating_sub(STEPS.ilog2());
    (halvings * STEPS) as usize + (units >> halvings) as usize
}

impl Default for FreeChunks {
    fn default() -> FreeChunks {
        FreeChunks { bins: vec![Bin::default(); BINS], filled: [0; BINS / 64] }
    }
}

impl FreeChunks {
    pub(super) fn insert(&mut self, chunk: FreeChunk) {
        let bin = bin(chunk.bytes);
        self.bins[bin].insert(chunk);
        self.filled[bin / 64] |= 1 << (bin % 64);
    }

    pub(super) fn remove(&mut self, chunk: &FreeChunk) {
        let bin = bin(chunk.bytes);
        let in_bin = self.bins[bin].first(|other| other.key() < chunk.key());
        debug_assert_eq!(
            self.bins[bin].get(in_bin).map(|known| known.index),
            Some(chunk.index),
            "a free chunk is listed"
        );
        self.remove_at(Place { bin, in_bin });
    }

    /// Where the smallest chunk of at least this size is listed, the lowest address among equals.
    pub(super) fn find_smallest(&self, bytes: u64) -> Option<Place> {
        let bin = bin(bytes);
        let in_bin = self.bins[bin].first(|other| other.bytes < bytes);
        if self.bins[bin].get(in_bin).is_some() {
            return Some(Place { bin, in_bin });
        }
        self.next_filled(bin + 1).map(|bin| Place { bin, in_bin: InBin::default() })
    }

    /// The first bin from this one on that is not empty.
    fn next_filled(&self, from: usize) -> Option<usize> {
        let (mut word, mut mask) = (from / 64, u64::MAX << (from % 64));
        while let Some(filled) = self.filled.get(word) {
            if filled & mask != 0 {
                return Some(word * 64 + (filled & mask).trailing_zeros() as usize);
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        None
    }

    pub(super) fn get(&self, place: Place) -> FreeChunk {
        self.bins[place.bin].block(place.in_bin.block)[place.in_bin.position]
    }

    /// A listed chunk shrinks: alone in its bin, as the rest of a large chunk mostly is, it stays where it is.
    pub(super) fn replace(&mut self, place: Place, smaller: FreeChunk) {
        if bin(smaller.bytes) == place.bin && self.bins[place.bin].replace_only(smaller) {
            return;
        }
        self.remove_at(place);
        self.insert(smaller);
    }

    pub(super) fn remove_at(&mut self, place: Place) {
        let bin = &mut self.bins[place.bin];
        bin.remove_at(place.in_bin);
        if bin.few.is_empty() {
            self.filled[place.bin / 64] &= !(1 << (place.bin % 64));
        }
    }

    pub(super) fn largest_bytes(&self) -> u64 {
        let chunks = self.bins.iter().rev().find_map(|bin| bin.block(bin.more.len()).last());
        chunks.map_or(0, |chunk| chunk.bytes)
    }
}

/// Chunks of about one size in order, cut into blocks: inserting moves at most one block, however many chunks are free.
#[derive(Clone, Debug, Default)]
struct Bin {
    /// The first block: mostly the only one, and empty only if it is.
    few: Vec<FreeChunk>,
    /// Further blocks, none of them empty.
    more: Vec<Vec<FreeChunk>>,
}

/// A block of a bin, and a place in it.
#[derive(Clone, Copy, Debug, Default)]
struct InBin {
    block: usize,
    position: usize,
}

/// A block that grows beyond this is halved. Chosen by `benches/bfc_replay.rs`.
const BLOCK_CHUNKS: usize = 128;

impl Bin {
    fn block(&self, block: usize) -> &[FreeChunk] {
        if block == 0 { &self.few } else { &self.more[block - 1] }
    }

    /// The first chunk that is not before the one looked for; where it would be if there is none.
    fn first(&self, before: impl Fn(&FreeChunk) -> bool) -> InBin {
        let mut block = 0;
        if !self.more.is_empty() && self.few.last().is_some_and(&before) {
            let larger = self.more.partition_point(|block| block.last().is_some_and(&before));
            block = (larger + 1).min(self.more.len());
        }
        InBin { block, position: self.block(block).partition_point(before) }
    }

    fn get(&self, place: InBin) -> Option<&FreeChunk> {
        self.block(place.block).get(place.position)
    }

    fn insert(&mut self, chunk: FreeChunk) {
        let key = chunk.key();
        let InBin { block: at, position } = self.first(|other| other.key() < key);
        let block = if at == 0 { &mut self.few } else { &mut self.more[at - 1] };
        block.insert(position, chunk);
        if block.len() > BLOCK_CHUNKS {
            let upper = block.split_off(BLOCK_CHUNKS / 2);
            self.more.insert(at, upper);
        }
    }

    /// Puts a chunk in the place of the only one, if there is but one.
    fn replace_only(&mut self, chunk: FreeChunk) -> bool {
        let ([only], []) = (&mut self.few[..], &self.more[..]) else { return false };
        *only = chunk;
        true
    }

    fn remove_at(&mut self, place: InBin) {
        if place.block > 0 {
            self.more[place.block - 1].remove(place.position);
            if self.more[place.block - 1].is_empty() {
                self.more.remove(place.block - 1);
            }
            return;
        }
        self.few.remove(place.position);
        if self.few.is_empty() && !self.more.is_empty() {
            self.few = self.more.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every listed chunk; none is in a bin or block where it is not found.
    fn listed(free: &FreeChunks) -> Vec<FreeChunk> {
        let blocks = free.bins.iter().flat_map(|bin| (0..=bin.more.len()).map(|block| bin.block(block)));
        let listed = blocks.collect::<Vec<_>>().concat();
        assert!(listed.is_sorted_by_key(FreeChunk::key));
        assert!((0..BINS).all(|bin| free.bins[bin].few.is_empty() == (free.filled[bin / 64] >> (bin % 64) & 1 == 0)));
        listed
    }

    fn is_searched_in_order(bytes: impl Fn(u64) -> u64) {
        let mut free = FreeChunks::default();
        let chunk = |at: u64| FreeChunk { bytes: bytes(at), address: at * 7919 % 1009, index: at as u32 };
        for at in 0..1009 {
            free.insert(chunk(at));
        }
        assert_eq!(listed(&free).len(), 1009);
        for at in (0..1009).step_by(2) {
            free.remove(&chunk(at));
        }
        let mut left = listed(&free);
        assert_eq!(left.len(), 504);
        assert_eq!(free.largest_bytes(), left[503].bytes);
        while !left.is_empty() {
            let wanted = left[left.len() / 2].bytes;
            let first = left.iter().position(|chunk| chunk.bytes >= wanted).unwrap();
            let place = free.find_smallest(wanted).unwrap();
            assert_eq!(free.get(place).index, left.remove(first).index);
            free.remove_at(place);
            assert_eq!(listed(&free).len(), left.len());
        }
        assert!(free.find_smallest(0).is_none() && free.largest_bytes() == 0);
    }

    #[test]
    fn chunks_of_one_size_and_of_many_are_searched_in_order() {
        is_searched_in_order(|_| 4096);
        is_searched_in_order(|at| 256 << (at % 3));
        is_searched_in_order(|at| at * 7919 % 1009 * 256);
        is_searched_in_order(|at| (1 << (at % 56)) / 256 * 256);
    }
}

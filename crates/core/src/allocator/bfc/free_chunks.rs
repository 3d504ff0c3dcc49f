//! The free chunks of a pool, in the order in which they are searched.

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
/// that is large enough; one list without bins gives the same answer.
///
/// The list is cut into blocks: inserting moves at most one block, however many chunks are free.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeChunks {
    /// No block is empty; each is in order, and so are the blocks.
    blocks: Vec<Vec<FreeChunk>>,
}

/// A place in the list, until the list changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    block: usize,
    position: usize,
}

/// A block that grows beyond this is halved. Chosen by `benches/bfc_replay.rs`.
const BLOCK_CHUNKS: usize = 128;

impl FreeChunks {
    pub(super) fn insert(&mut self, chunk: FreeChunk) {
        // Larger than all others: the last block grows.
        let key = chunk.key();
        let at =
            self.blocks.partition_point(|block| block[block.len() - 1].key() < key).min(self.blocks.len().max(1) - 1);
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(vec![chunk]);
            return;
        };
        let position = block.partition_point(|other| other.key() < key);
        block.insert(position, chunk);
        if block.len() > BLOCK_CHUNKS {
            let upper = block.split_off(BLOCK_CHUNKS / 2);
            self.blocks.insert(at + 1, upper);
        }
    }

    pub(super) fn remove(&mut self, chunk: &FreeChunk) {
        let key = chunk.key();
        let at = self.blocks.partition_point(|block| block[block.len() - 1].key() < key);
        let position = self.blocks[at].partition_point(|other| other.key() < key);
        debug_assert_eq!(self.blocks[at][position].index, chunk.index, "a free chunk is listed");
        self.remove_at(Place { block: at, position });
    }

    /// Where the smallest chunk of at least this size is listed, the lowest address among equals.
    pub(super) fn find_smallest(&self, bytes: u64) -> Option<Place> {
        let block = self.blocks.partition_point(|block| block[block.len() - 1].bytes < bytes);
        let position = self.blocks.get(block)?.partition_point(|other| other.bytes < bytes);
        Some(Place { block, position })
    }

    pub(super) fn get(&self, place: Place) -> FreeChunk {
        self.blocks[place.block][place.position]
    }

    /// A listed chunk shrinks: it stays where it is if it is still larger than the one before it, as the rest of a large
    /// chunk mostly is.
    pub(super) fn replace(&mut self, place: Place, smaller: FreeChunk) {
        let before = match place.position.checked_sub(1) {
            Some(position) => Some(self.blocks[place.block][position]),
            None => place.block.checked_sub(1).and_then(|block| self.blocks[block].last().copied()),
        };
        if before.is_none_or(|before| before.key() < smaller.key()) {
            self.blocks[place.block][place.position] = smaller;
        } else {
            self.remove_at(place);
            self.insert(smaller);
        }
    }

    pub(super) fn remove_at(&mut self, place: Place) {
        let block = &mut self.blocks[place.block];
        block.remove(place.position);
        if block.is_empty() {
            self.blocks.remove(place.block);
        }
    }

    pub(super) fn largest_bytes(&self) -> u64 {
        self.blocks.last().and_then(|block| block.last()).map_or(0, |chunk| chunk.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_chunks_stay_in_order_across_blocks() {
        let mut free = FreeChunks::default();
        let chunk = |at: u64| FreeChunk { bytes: at * 7919 % 1009 * 256, address: at, index: at as u32 };
        for at in 0..1009 {
            free.insert(chunk(at));
        }
        assert!(free.blocks.len() > 8 && free.blocks.concat().is_sorted_by_key(FreeChunk::key));
        for at in (0..1009).step_by(2) {
            free.remove(&chunk(at));
        }
        assert!(free.blocks.concat().is_sorted_by_key(FreeChunk::key));
        let mut last_bytes = 0;
        for _ in (1..1009).step_by(2) {
            let place = free.find_smallest(last_bytes).unwrap();
            let taken = free.get(place).index;
            free.remove_at(place);
            assert!(chunk(taken.into()).bytes >= last_bytes);
            last_bytes = chunk(taken.into()).bytes;
        }
        assert!(free.find_smallest(0).is_none() && free.largest_bytes() == 0);
    }
}

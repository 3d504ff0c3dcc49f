//! Expandable segments: ranges of addresses into which memory is mapped page by page.
//!
//! In: a rounded request that no free block serves, or a free block to shrink. Out: a block with memory behind all of
//! it, or pages given back. A segment's block list covers its whole range; unmapped blocks start and end on pages.

use super::{Block, Driver, NONE, SegmentEvent, State, TorchCaching};

impl<D: Driver> TorchCaching<D> {
    /// A block of at least this size, mapping what is missing. None when the device has no memory for it; pages mapped
    /// on the way stay as free blocks.
    pub(super) fn expand(&mut self, small: bool, size_bytes: u64) -> Option<u32> {
        let mut id = match self.room(small, size_bytes) {
            Some(id) => id,
            // Below the device's memory a request always fits into a new range.
            None if size_bytes <= self.capacity_bytes => self.new_range(small),
            None => return None,
        };
        let block = &self.blocks[id as usize];
        if block.state == State::Unmapped && !self.map(id, size_bytes.min(block.size_bytes)) {
            return None;
        }
        // What follows a free block with room is unmapped: two free neighbours would be one.
        loop {
            let block = &self.blocks[id as usize];
            let Some(missing_bytes) = size_bytes.checked_sub(block.size_bytes).filter(|&bytes| bytes > 0) else {
                break;
            };
            let next = block.next;
            if !self.map(next, missing_bytes.min(self.blocks[next as usize].size_bytes)) {
                return None;
            }
            id = next;
        }
        self.remove_free(id);
        Some(id)
    }

    /// The lowest address from which free and unmapped blocks together hold this much, at least one of them unmapped.
    fn room(&mut self, small: bool, size_bytes: u64) -> Option<u32> {
        let pool = if small { &self.small } else { &self.large };
        let usable = |id: u32| self.blocks.get(id as usize).filter(|block| block.state != State::Allocated);
        pool.unmapped.values().copied().find_map(|unmapped| {
            let before = self.blocks[unmapped as usize].prev;
            let start = if usable(before).is_some() { before } else { unmapped };
            let (mut held_bytes, mut id) = (0, start);
            while held_bytes < size_bytes
                && let Some(block) = usable(id)
            {
                held_bytes += block.size_bytes;
                id = block.next;
            }
            (held_bytes >= size_bytes).then_some(start)
        })
    }

    /// A new range of addresses: nine eighths of the device, so that freed pages can move to its end.
    fn new_range(&mut self, small: bool) -> u32 {
        let device_bytes = self.options.device_total_bytes.min(2 * super::MAX_REQUEST_BYTES);
        let bytes = (device_bytes + device_bytes / 8).next_multiple_of(self.options.page_bytes(small));
        let address = self.driver.reserve(bytes);
        let id = self.new_block(Block {
            address,
            size_bytes: bytes,
            prev: NONE,
            next: NONE,
            free_since: 0,
            base: address,
            state: State::Unmapped,
            small,
        });
        self.pool(small).unmapped.insert(address, id);
        id
    }

    /// Puts pages behind the first bytes of an unmapped block, which becomes free and merges. False when there are
    /// none.
    fn map(&mut self, id: u32, wanted_bytes: u64) -> bool {
        let Block { address, size_bytes, small, .. } = self.blocks[id as usize];
        let bytes = wanted_bytes.next_multiple_of(self.options.page_bytes(small));
        if self.usage.reserved_bytes + bytes > self.capacity_bytes {
            return false;
        }
        self.pool(small).unmapped.remove(&address);
        self.blocks[id as usize].state = State::Free;
        if bytes < size_bytes {
            self.blocks[id as usize].size_bytes = bytes;
            let rest = self.insert_after(id, size_bytes - bytes, State::Unmapped);
            self.pool(small).unmapped.insert(address + bytes, rest);
        }
        self.merge_neighbours(id);
        self.add_free(id);
        self.usage.reserved_bytes += bytes;
        self.driver.observe(SegmentEvent::Map { address, bytes });
        true
    }

    /// Gives back the pages that lie wholly inside a free block; the ends stay. A range without any page is dropped.
    pub(super) fn unmap(&mut self, id: u32) {
        let Block { address, size_bytes, base, small, .. } = self.blocks[id as usize];
        let page_bytes = self.options.page_bytes(small);
        let start = base + (address - base).next_multiple_of(page_bytes);
        let end = address + size_bytes;
        let end = end - (end - base) % page_bytes;
        if start >= end {
            return;
        }
        self.remove_free(id);
        // The block keeps the front, if there is one; `middle` is what loses its memory.
        let middle = if start > address {
            self.blocks[id as usize].size_bytes = start - address;
            let middle = self.insert_after(id, address + size_bytes - start, State::Free);
            self.add_free(id);
            middle
        } else {
            id
        };
        let tail_bytes = address + size_bytes - end;
        if tail_bytes > 0 {
            self.blocks[middle as usize].size_bytes = end - start;
            let tail = self.insert_after(middle, tail_bytes, State::Free);
            self.add_free(tail);
        }
        self.blocks[middle as usize].state = State::Unmapped;
        self.merge_neighbours(middle);
        self.usage.reserved_bytes -= end - start;
        self.driver.observe(SegmentEvent::Unmap { address: start, bytes: end - start });
        let block = &self.blocks[middle as usize];
        if block.is_split() {
            let address = block.address;
            self.pool(small).unmapped.insert(address, middle);
        } else {
            self.spare.push(middle);
        }
    }
}

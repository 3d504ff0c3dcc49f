//! An allocator in the middle of its life: set to a state that was seen, and told what really went back to the driver.
//!
//! In: segments with the buffers in them, and recorded releases. Out: an allocator that goes on from there. Not known from
//! outside: how long free blocks have been free, and where the address range of an expandable segment starts (taken is the
//! lowest address that has memory).

use super::{Block, Driver, Handle, MIN_BLOCK_BYTES, NONE, State, TorchCaching, free_set::Key};

/// A piece of memory that an allocator held, with the buffers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSegment {
    /// Where it starts.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Whether it belongs to the pool of small requests.
    pub small: bool,
    /// Whether it is a mapped part of an expandable segment.
    pub expandable: bool,
    /// Address and block size of each buffer, in the order of addresses.
    pub buffers: Vec<(u64, u64)>,
}

/// Parts of expandable segments beyond this number are not taken over: each costs time at every growth.
const MAX_PARTS: usize = 4096;

impl<D: Driver> TorchCaching<D> {
    /// Takes these segments over, in the order of addresses, on top of what is held. Gives a handle for each buffer, in the
    /// same order; none for one that does not fit where it is said to be.
    pub fn take_over(&mut self, segments: &[SeenSegment]) -> Vec<Option<Handle>> {
        let mut handles = Vec::new();
        // The last block of the expandable range of each pool: large, small.
        let mut last_parts = [NONE; 2];
        let mut parts = 0;
        for segment in segments {
            let usable = segment.bytes >= MIN_BLOCK_BYTES
                && segment.bytes <= super::MAX_REQUEST_BYTES
                && segment.address < 1 << 60
                && self.usage.reserved_bytes + segment.bytes <= self.capacity_bytes;
            parts += usize::from(segment.expandable);
            if !usable || (segment.expandable && parts > MAX_PARTS) {
                handles.extend(segment.buffers.iter().map(|_| None));
                continue;
            }
            let last = &mut last_parts[usize::from(segment.small)];
            let before = if segment.expandable { *last } else { NONE };
            let end = self.take_over_one(segment, before, &mut handles);
            if segment.expandable {
                *last = end;
            }
        }
        for last in last_parts.into_iter().filter(|last| *last != NONE) {
            self.add_unmapped_rest(last);
        }
        handles
    }

    /// One segment, behind a block of the same range if there is one. Gives its last block.
    fn take_over_one(&mut self, segment: &SeenSegment, before: u32, handles: &mut Vec<Option<Handle>>) -> u32 {
        let &SeenSegment { address, bytes, small, .. } = segment;
        self.usage.reserved_bytes += bytes;
        let mut last = before;
        let mut at = address;
        if let Some(block) = self.blocks.get(before as usize) {
            let gap_start = block.address + block.size_bytes;
            // Overlapping parts are not possible: such a part starts a range of its own.
            match address.checked_sub(gap_start) {
                Some(0) => {}
                Some(gap_bytes) => {
                    last = self.insert_after(before, gap_bytes, State::Unmapped);
                    self.pool(small).unmapped.insert(gap_start, last);
                }
                None => last = NONE,
            }
        }
        let end = address + bytes;
        for &(start, block_bytes) in &segment.buffers {
            let fits = start >= at
                && block_bytes >= MIN_BLOCK_BYTES
                && start.checked_add(block_bytes).is_some_and(|block_end| block_end <= end);
            if !fits {
                handles.push(None);
                continue;
            }
            last = self.add_piece(last, at, start - at, small, State::Free);
            last = self.add_piece(last, start, block_bytes, small, State::Allocated);
            self.usage.allocated_bytes += block_bytes;
            handles.push(Some(Handle(last)));
            at = start + block_bytes;
        }
        self.add_piece(last, at, end - at, small, State::Free)
    }

    /// A block of this size behind the last one, or the first of a segment. Nothing is added for no bytes.
    fn add_piece(&mut self, last: u32, address: u64, size_bytes: u64, small: bool, state: State) -> u32 {
        if size_bytes == 0 {
            return last;
        }
        let id = match last {
            NONE => self.new_block(Block {
                address,
                size_bytes,
                prev: NONE,
                next: NONE,
                free_since: 0,
                base: address,
                state,
                small,
            }),
            _ => self.insert_after(last, size_bytes, state),
        };
        if state == State::Free {
            self.merge_neighbours(id);
            self.add_free(id);
        }
        id
    }

    /// Addresses into which an expandable segment can still grow.
    fn add_unmapped_rest(&mut self, last: u32) {
        let Block { address, size_bytes, base, small, .. } = self.blocks[last as usize];
        let device_bytes = self.options.device_total_bytes.min(2 * super::MAX_REQUEST_BYTES);
        let range_bytes = (device_bytes + device_bytes / 8).next_multiple_of(self.options.page_bytes(small));
        let used_bytes = address + size_bytes - base;
        if let Some(rest_bytes) = range_bytes.checked_sub(used_bytes).filter(|bytes| *bytes > 0) {
            let rest = self.insert_after(last, rest_bytes, State::Unmapped);
            self.pool(small).unmapped.insert(address + size_bytes, rest);
        }
    }

    /// Gives back what really went back: the free segment that starts here, or the whole pages of the free block around this
    /// address. False if there is no such thing.
    pub fn give_back(&mut self, address: u64) -> bool {
        for small in [false, true] {
            let holds = |block: &Block| {
                let whole = !block.is_split() && block.address == address;
                let part = address.checked_sub(block.address).is_some_and(|offset| offset < block.size_bytes);
                if self.options.expandable_segments { part } else { whole }
            };
            let pool = if small { &self.small } else { &self.large };
            let found = pool.free.iter().map(Key::block).find(|id| holds(&self.blocks[*id as usize]));
            if let Some(id) = found {
                if self.options.expandable_segments {
                    self.unmap(id);
                } else {
                    self.release(id);
                }
                return true;
            }
        }
        false
    }

    /// The free bytes in blocks that lie beside buffers (`inactive_split_bytes`), and the largest free block.
    pub fn free_bytes_beside_buffers(&self) -> (u64, u64) {
        let mut beside_bytes = 0;
        let mut largest_bytes = 0;
        for id in self.large.free.iter().chain(self.small.free.iter()).map(Key::block) {
            let block = &self.blocks[id as usize];
            largest_bytes = largest_bytes.max(block.size_bytes);
            beside_bytes += if block.is_split() { block.size_bytes } else { 0 };
        }
        (beside_bytes, largest_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, RisingAddresses};
    use super::*;
    use crate::allocator::{Allocator, Usage};
    use crate::bytes::MIB;

    fn segment(address: u64, mebibytes: u64, expandable: bool, buffers: &[(u64, u64)]) -> SeenSegment {
        SeenSegment { address, bytes: mebibytes * MIB, small: false, expandable, buffers: buffers.to_vec() }
    }

    #[test]
    fn a_segment_is_taken_over_with_its_gaps() {
        let mut torch = TorchCaching::with_driver(Options::default(), RisingAddresses::default());
        let handles = torch.take_over(&[segment(
            20 * MIB,
            20,
            false,
            &[(22 * MIB, 4 * MIB), (30 * MIB, 2 * MIB), (31 * MIB, 2 * MIB), (39 * MIB, 2 * MIB)],
        )]);
        assert_eq!(handles.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(torch.usage(), Usage { allocated_bytes: 6 * MIB, reserved_bytes: 20 * MIB });
        assert_eq!(torch.free_bytes_beside_buffers(), (14 * MIB, 8 * MIB));
        // Best fit: the gap of 4 MiB, not the one of 8.
        let fits = torch.alloc(3 * MIB).unwrap();
        assert_eq!(torch.placement(fits), Some((26 * MIB, 4 * MIB)));
        for handle in [Some(fits), handles[0], handles[1]].into_iter().flatten() {
            torch.free(handle);
        }
        assert!(!torch.give_back(21 * MIB) && torch.give_back(20 * MIB));
        assert_eq!(torch.usage(), Usage::default());
    }

    #[test]
    fn an_expandable_segment_goes_on_growing() {
        let options = Options { expandable_segments: true, ..Options::default() };
        let mut torch = TorchCaching::with_driver(options, RisingAddresses::default());
        let parts = [segment(0, 20, true, &[(0, 20 * MIB)]), segment(60 * MIB, 20, true, &[(70 * MIB, 10 * MIB)])];
        let handles = torch.take_over(&parts);
        // The gap of 40 MiB and the free start of the second part.
        let filled = torch.alloc(50 * MIB).unwrap();
        assert_eq!(torch.placement(filled), Some((20 * MIB, 50 * MIB)));
        assert_eq!(torch.usage(), Usage { allocated_bytes: 80 * MIB, reserved_bytes: 80 * MIB });
        let behind = torch.alloc(15 * MIB).unwrap();
        assert_eq!(torch.placement(behind).unwrap().0, 80 * MIB);
        torch.free(filled);
        assert!(torch.give_back(30 * MIB));
        assert_eq!(torch.usage().reserved_bytes, 60 * MIB);
        torch.free(handles[1].unwrap());
        torch.free(behind);
        torch.free(handles[0].unwrap());
        torch.empty_cache();
        assert_eq!(torch.usage(), Usage::default());
    }
}

//! PyTorch's own CUDA allocator: blocks cut from cached segments by best fit, with its options.
//!
//! In: requests and frees, [`Options`], and a [`Driver`] that gives addresses. Out: blocks, bytes allocated and
//! reserved as `torch.cuda.memory_allocated` and `memory_reserved` count them, out-of-memory when PyTorch would report
//! it. Not counted: other streams (a block freed while another stream uses it is reusable later in reality), private
//! pools of CUDA graphs, and memory that libraries take from the driver themselves.
//!
//! The rules are those of `c10/cuda/CUDACachingAllocator.cpp`, read at pytorch/pytorch@001074d2 and, for what changed
//! since, at lakshayg/pytorch@204e889c; runs recorded with PyTorch 2.11 (`fixtures/traces/torch`) replay to the byte. How
//! memory goes back to the driver is in `reclaim.rs`, expandable segments are in `expandable.rs`.

mod conf;
mod driver;
mod expandable;
mod free_set;
mod options;
mod reclaim;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use conf::ConfError;
pub use driver::{Driver, RisingAddresses, SegmentEvent};
pub use options::{
    DIVISION_INTERVALS, LARGE_SEGMENT_BYTES, MAX_REQUEST_BYTES, MIN_BLOCK_BYTES, MIN_LARGE_BYTES, Options,
    ROUND_LARGE_BYTES, SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES,
};
pub use restore::SeenSegment;

use super::{Allocator, Handle, OutOfMemory, Usage};
use free_set::{FreeSet, Key};

/// No block: the end of a segment, or the handle of a request for nothing.
const NONE: u32 = u32::MAX;

/// A piece of a segment. The blocks of a segment form a list in the order of addresses, without gaps.
#[derive(Clone, Debug)]
struct Block {
    address: u64,
    size_bytes: u64,
    prev: u32,
    next: u32,
    /// Searches of its pool up to the moment it became free: its age, for garbage collection.
    free_since: u64,
    /// Where the address range of its expandable segment starts.
    base: u64,
    state: State,
    small: bool,
}

impl Block {
    fn is_split(&self) -> bool {
        self.prev != NONE || self.next != NONE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Allocated,
    Free,
    /// Free addresses of an expandable segment, with no memory behind them.
    Unmapped,
}

/// Free blocks of one class of sizes.
#[derive(Clone, Debug)]
struct Pool {
    free: FreeSet,
    /// By address. Used with expandable segments only.
    unmapped: BTreeMap<u64, u32>,
    searches: u64,
}

impl Pool {
    fn new() -> Pool {
        Pool { free: FreeSet::new(), unmapped: BTreeMap::new(), searches: 0 }
    }
}

/// The allocator of one device, as one stream sees it.
#[derive(Clone, Debug)]
pub struct TorchCaching<D: Driver = RisingAddresses> {
    options: Options,
    driver: D,
    /// What the process allows itself.
    limit_bytes: u64,
    /// What the driver has.
    capacity_bytes: u64,
    collects_garbage: bool,
    /// Live blocks, and places for new ones, which `spare` lists.
    blocks: Vec<Block>,
    spare: Vec<u32>,
    large: Pool,
    small: Pool,
    usage: Usage,
}

impl TorchCaching {
    /// An allocator that holds nothing yet, with made-up addresses.
    pub fn new(options: Options) -> TorchCaching {
        TorchCaching::with_driver(options, RisingAddresses::default())
    }
}

impl<D: Driver> Allocator for TorchCaching<D> {
    fn alloc(&mut self, bytes: u64) -> Result<Handle, OutOfMemory> {
        if bytes == 0 {
            return Ok(Handle(NONE));
        }
        let out_of_memory = OutOfMemory { requested_bytes: bytes };
        if bytes > MAX_REQUEST_BYTES {
            return Err(out_of_memory);
        }
        let size_bytes = self.options.round_request(bytes);
        let small = size_bytes <= SMALL_MAX_BYTES;
        let found = self.take_free(small, size_bytes);
        let id = found.or_else(|| self.take_new(small, size_bytes)).ok_or(out_of_memory)?;

        let block = &mut self.blocks[id as usize];
        block.state = State::Allocated;
        let remainder_bytes = block.size_bytes - size_bytes;
        let splits = if small || self.options.expandable_segments {
            remainder_bytes >= MIN_BLOCK_BYTES
        } else {
            size_bytes < self.options.max_split_size_bytes && remainder_bytes > SMALL_MAX_BYTES
        };
        if splits {
            block.size_bytes = size_bytes;
            let rest = self.insert_after(id, remainder_bytes, State::Free);
            self.add_free(rest);
        }
        self.usage.allocated_bytes += self.blocks[id as usize].size_bytes;
        Ok(Handle(id))
    }

    fn free(&mut self, handle: Handle) {
        if handle.0 == NONE {
            return;
        }
        let block = &mut self.blocks[handle.0 as usize];
        debug_assert_eq!(block.state, State::Allocated, "a handle is freed once");
        block.state = State::Free;
        self.usage.allocated_bytes -= block.size_bytes;
        self.merge_neighbours(handle.0);
        self.add_free(handle.0);
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

impl<D: Driver> TorchCaching<D> {
    /// An allocator that holds nothing yet and takes its segments from this driver.
    pub fn with_driver(mut options: Options, driver: D) -> TorchCaching<D> {
        // PyTorch refuses less. Blocks that are never cut are whole segments only because of it.
        options.max_split_size_bytes = options.max_split_size_bytes.max(options.large_segment_size_bytes);
        let own_limit_bytes = options.limit_bytes();
        TorchCaching {
            limit_bytes: own_limit_bytes.unwrap_or(u64::MAX),
            capacity_bytes: options.capacity_bytes.min(options.device_total_bytes),
            collects_garbage: own_limit_bytes.is_some() && options.garbage_collection_threshold > 0.0,
            options,
            driver,
            blocks: Vec::new(),
            spare: Vec::new(),
            large: Pool::new(),
            small: Pool::new(),
            usage: Usage::default(),
        }
    }

    /// The settings it runs with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Where its segments come from.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Where its segments come from, to be told something.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Address and size of a placed buffer; none for a buffer of zero bytes. The handle must not have been freed.
    pub fn placement(&self, handle: Handle) -> Option<(u64, u64)> {
        self.blocks.get(handle.0 as usize).map(|block| (block.address, block.size_bytes))
    }

    fn pool(&mut self, small: bool) -> &mut Pool {
        if small { &mut self.small } else { &mut self.large }
    }

    /// The best fitting free block, out of its pool.
    fn take_free(&mut self, small: bool, size_bytes: u64) -> Option<u32> {
        let pool = if small { &mut self.small } else { &mut self.large };
        // Ages matter to garbage collection only.
        pool.searches += u64::from(self.collects_garbage);
        let (mut position, mut key) = pool.free.lower_bound(Key::smallest_of(size_bytes))?;
        if self.options.expandable_segments {
            // A block that can still grow counts with what it can grow to, so that others are used up first.
            while let Some((next_position, next)) = pool.free.after(position) {
                if expandable_bytes(&self.blocks, next.block()) >= expandable_bytes(&self.blocks, key.block()) {
                    break;
                }
                (position, key) = (next_position, next);
            }
        }
        let found_bytes = self.blocks[key.block() as usize].size_bytes;
        let max_split_bytes = self.options.max_split_size_bytes;
        let refused = if size_bytes < max_split_bytes {
            found_bytes >= max_split_bytes
        } else {
            found_bytes >= size_bytes.saturating_add(self.options.max_non_split_rounding_bytes)
        };
        if refused {
            return None;
        }
        pool.free.remove_at(position);
        Some(key.block())
    }

    /// A block from new memory, trying harder and harder to make room for it.
    #[cold]
    fn take_new(&mut self, small: bool, size_bytes: u64) -> Option<u32> {
        if self.collects_garbage {
            self.collect_garbage();
        }
        if let Some(id) = self.grow(small, size_bytes) {
            return Some(id);
        }
        if self.release_oversize(small, size_bytes)
            && let Some(id) = self.grow(small, size_bytes)
        {
            return Some(id);
        }
        self.empty_cache();
        self.grow(small, size_bytes)
    }

    /// One try to take memory from the driver.
    fn grow(&mut self, small: bool, size_bytes: u64) -> Option<u32> {
        let segment_bytes = self.options.segment_bytes(size_bytes);
        let would_reserve_bytes = self.usage.reserved_bytes + segment_bytes;
        // The process's own limit is checked against a whole segment even where single pages would do.
        if would_reserve_bytes > self.limit_bytes {
            return None;
        }
        if self.options.expandable_segments {
            return self.expand(small, size_bytes);
        }
        if would_reserve_bytes > self.capacity_bytes {
            return None;
        }
        let address = self.driver.reserve(segment_bytes);
        self.usage.reserved_bytes = would_reserve_bytes;
        self.driver.observe(SegmentEvent::Alloc { address, bytes: segment_bytes });
        Some(self.new_block(Block {
            address,
            size_bytes: segment_bytes,
            prev: NONE,
            next: NONE,
            free_since: 0,
            base: address,
            state: State::Free,
            small,
        }))
    }

    /// Makes one block of this and its neighbours in the same state; they leave their sets, this one is in none.
    fn merge_neighbours(&mut self, id: u32) {
        let Block { prev, next, state, .. } = self.blocks[id as usize];
        if prev != NONE && self.blocks[prev as usize].state == state {
            self.remove(prev);
            let Block { address, size_bytes, prev: before, .. } = self.blocks[prev as usize];
            let block = &mut self.blocks[id as usize];
            block.address = address;
            block.size_bytes += size_bytes;
            block.prev = before;
            if before != NONE {
                self.blocks[before as usize].next = id;
            }
            self.spare.push(prev);
        }
        if next != NONE && self.blocks[next as usize].state == state {
            self.remove(next);
            let Block { size_bytes, next: after, .. } = self.blocks[next as usize];
            let block = &mut self.blocks[id as usize];
            block.size_bytes += size_bytes;
            block.next = after;
            if after != NONE {
                self.blocks[after as usize].prev = id;
            }
            self.spare.push(next);
        }
    }

    /// A new block behind this one, in no set yet.
    fn insert_after(&mut self, id: u32, size_bytes: u64, state: State) -> u32 {
        let Block { address, size_bytes: before_bytes, next, base, small, .. } = self.blocks[id as usize];
        let address = address + before_bytes;
        let new = self.new_block(Block { address, size_bytes, prev: id, next, free_since: 0, base, state, small });
        self.blocks[id as usize].next = new;
        if next != NONE {
            self.blocks[next as usize].prev = new;
        }
        new
    }

    fn new_block(&mut self, block: Block) -> u32 {
        if let Some(id) = self.spare.pop() {
            self.blocks[id as usize] = block;
            return id;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }

    fn key(&self, id: u32) -> Key {
        let block = &self.blocks[id as usize];
        Key::new(block.size_bytes, block.address, id)
    }

    fn add_free(&mut self, id: u32) {
        let key = self.key(id);
        let block = &mut self.blocks[id as usize];
        let pool = if block.small { &mut self.small } else { &mut self.large };
        block.free_since = pool.searches;
        pool.free.insert(key);
    }

    fn remove_free(&mut self, id: u32) {
        let key = self.key(id);
        let small = self.blocks[id as usize].small;
        self.pool(small).free.remove(key);
    }

    /// Out of the set that its state puts it in.
    fn remove(&mut self, id: u32) {
        let Block { state, address, small, .. } = self.blocks[id as usize];
        match state {
            State::Free => self.remove_free(id),
            State::Unmapped => drop(self.pool(small).unmapped.remove(&address)),
            State::Allocated => {}
        }
    }
}

/// What a free block can serve without moving: itself, and unmapped addresses right behind it.
fn expandable_bytes(blocks: &[Block], id: u32) -> u64 {
    let block = &blocks[id as usize];
    let after = blocks.get(block.next as usize).filter(|after| after.state == State::Unmapped);
    block.size_bytes + after.map_or(0, |after| after.size_bytes)
}

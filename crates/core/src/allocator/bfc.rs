//! TensorFlow's best-fit-with-coalescing allocator ("BFC"), which TensorFlow uses for GPUs, on request for the CPU, and
//! which JAX uses too.
//!
//! In: requests in bytes, and where the device puts each region (a [`RegionSource`]). Out: the same chunks at the same
//! addresses as the real allocator, its bytes in use, its pool and the request at which it gives up. Not counted: the ten
//! seconds for which the real one waits for other threads to free something (a trace has no clock: a request that cannot
//! be served now has failed), chunks held back by stream timestamps (an option TensorFlow leaves off), and what the device
//! itself adds around a region.
//!
//! The mechanism, as read in `xla/tsl/framework/bfc_allocator.{cc,h}` (openxla/xla) and confirmed event by event by
//! `tests/bfc_logs.rs` against logs of TensorFlow 2.21:
//!
//! - A request is rounded up to 256 bytes and gets the smallest free chunk that holds it, the lowest address among equals.
//! - The chunk is cut only if it is at least twice the request, or if at least 128 MiB would be left over. Otherwise the
//!   caller keeps all of it, and all of it counts as in use.
//! - If no chunk fits, the pool grows by one region: 2 MiB at first, twice as much each time ([`Growth::Growing`]), or the
//!   whole limit at once ([`Growth::Fixed`]).
//! - A freed chunk merges with its free neighbours of the same region.

mod free_chunks;
mod regions;

use super::{Allocator, Handle, OutOfMemory, Usage};
use crate::bytes::MIB;

use self::free_chunks::{FreeChunk, FreeChunks};
pub use self::regions::{RecordedRegions, RegionOrder, RegionSource, SpacedRegions};

/// Every chunk is a multiple of this. Source: `kMinAllocationSize` in bfc_allocator.h.
pub const UNIT_BYTES: u64 = 256;

/// The first region of a growing pool. Source: the constructor in bfc_allocator.cc (`2 << 20`).
pub const FIRST_REGION_BYTES: u64 = 2 * MIB;

/// A remainder this large is always cut off, unless a fragmentation fraction is set. Source: `128 << 20` in
/// bfc_allocator.cc.
pub const MAX_INTERNAL_FRAGMENTATION_BYTES: u64 = 128 * MIB;

/// What is tried next when the device refuses a region. Source: `kBackpedalFactor` in bfc_allocator.cc, where it is a
/// `float`: the product is rounded to 24 bits.
const BACKPEDAL_FACTOR: f32 = 0.9;

/// The handle of a request for zero bytes, for which the real allocator returns a null pointer.
const NOTHING: Handle = Handle(u32::MAX);

/// No chunk: the end of a region, or the end of the list of unused slots.
const NONE: u32 = u32::MAX;

/// How the pool takes memory from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// In regions that double, from [`FIRST_REGION_BYTES`]: TensorFlow's CPU, and GPUs under "memory growth".
    Growing,
    /// One region of the whole limit, at the first request: the default on GPUs.
    Fixed,
}

/// The settings of a [`Bfc`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BfcOptions {
    /// The pool never exceeds this.
    pub limit_bytes: u64,
    /// How the pool grows.
    pub growth: Growth,
    /// Whether wholly free regions go back to the device when a request cannot be served otherwise.
    pub garbage_collection: bool,
    /// If positive: a chunk is cut when this fraction of the limit would be left over, instead of
    /// [`MAX_INTERNAL_FRAGMENTATION_BYTES`].
    pub fragmentation_fraction: f64,
    /// Where the device puts new regions, for [`Bfc::new`].
    pub region_order: RegionOrder,
}

impl BfcOptions {
    /// TensorFlow's CPU allocator under `TF_CPU_ALLOCATOR_USE_BFC=true`, with the limit of `TF_CPU_BFC_MEM_LIMIT_IN_MB`
    /// (binary megabytes). Source: process_state.cc of TensorFlow. Linux places large `malloc`s from the top down, as every
    /// log of `fixtures/traces/tensorflow_bfc` shows.
    pub const fn tensorflow_cpu(limit_bytes: u64) -> BfcOptions {
        BfcOptions {
            limit_bytes,
            growth: Growth::Growing,
            garbage_collection: false,
            fragmentation_fraction: 0.0,
            region_order: RegionOrder::Descending,
        }
    }

    /// TensorFlow's GPU allocator; `Growth::Fixed` unless memory growth is on. Source: gpu_bfc_allocator.cc of TensorFlow,
    /// where `TF_ENABLE_GPU_GARBAGE_COLLECTION` is true by default. The order of regions is assumed, not measured; a fixed
    /// pool has but one.
    pub const fn tensorflow_gpu(limit_bytes: u64, growth: Growth) -> BfcOptions {
        BfcOptions {
            limit_bytes,
            growth,
            garbage_collection: true,
            fragmentation_fraction: 0.0,
            region_order: RegionOrder::Ascending,
        }
    }
}

/// What happened to the pool, for those who compare with a real log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionEvent {
    /// The pool took a region from the device.
    Extended {
        /// Where it lies.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// Garbage collection gave a region back.
    Released {
        /// Where it lay.
        address: u64,
        /// Its size.
        bytes: u64,
    },
}

/// A piece of a region, as [`Bfc::chunks`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkView {
    /// Where it begins.
    pub address: u64,
    /// Its size, a multiple of [`UNIT_BYTES`].
    pub bytes: u64,
    /// Whether a caller has it.
    pub in_use: bool,
}

/// One chunk of the arena. Regions are doubly linked lists of chunks in address order.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    address: u64,
    bytes: u64,
    previous: u32,
    /// The next chunk of the region; for an unused slot, the next unused slot.
    next: u32,
    in_use: bool,
}

/// A stretch of device memory. Its first chunk never changes: chunks are cut and merged at their upper end.
#[derive(Clone, Copy, Debug)]
struct Region {
    address: u64,
    bytes: u64,
    first: u32,
}

/// The allocator. [`Bfc::new`] for predictions, [`Bfc::with_source`] to say where regions lie.
#[derive(Clone, Debug)]
pub struct Bfc<S = SpacedRegions> {
    limit_bytes: u64,
    garbage_collection: bool,
    /// A remainder of at least this is cut off.
    max_waste_bytes: u64,
    source: S,
    /// The size of the next region, limit permitting.
    next_region_bytes: u64,
    pool_bytes: u64,
    in_use_bytes: u64,
    peak_in_use_bytes: u64,
    /// The highest address that was ever handed out, exclusive.
    highest_end: u64,
    chunks: Vec<Chunk>,
    /// The first unused slot of `chunks`.
    unused: u32,
    free: FreeChunks,
    regions: Vec<Region>,
    log: Option<Vec<RegionEvent>>,
}

impl Bfc {
    /// An empty pool on a device that never refuses a region within the limit.
    pub fn new(options: BfcOptions) -> Bfc {
        Bfc::with_source(options, SpacedRegions::unlimited(options.region_order))
    }
}

impl<S: RegionSource> Bfc<S> {
    /// An empty pool over this source of regions.
    pub fn with_source(options: BfcOptions, source: S) -> Bfc<S> {
        let first_region_bytes = match options.growth {
            Growth::Growing => options.limit_bytes.min(FIRST_REGION_BYTES),
            Growth::Fixed => options.limit_bytes,
        };
        let max_waste_bytes = if options.fragmentation_fraction > 0.0 {
            // At least one byte: a rest of nothing is no chunk.
            ((options.fragmentation_fraction * options.limit_bytes as f64) as u64).max(1)
        } else {
            MAX_INTERNAL_FRAGMENTATION_BYTES
        };
        Bfc {
            limit_bytes: options.limit_bytes,
            garbage_collection: options.garbage_collection,
            max_waste_bytes,
            source,
            next_region_bytes: rounded(first_region_bytes).unwrap_or(first_region_bytes),
            pool_bytes: 0,
            in_use_bytes: 0,
            peak_in_use_bytes: 0,
            highest_end: 0,
            chunks: Vec::new(),
            unused: NONE,
            free: FreeChunks::default(),
            regions: Vec::new(),
            log: None,
        }
    }

    /// Takes room for the bookkeeping of this many chunks at once, where about so many are expected.
    pub fn reserve(&mut self, chunks: usize) {
        self.chunks.reserve(chunks);
    }

    /// From now on, keeps what happens to the pool for [`Bfc::take_log`].
    pub fn keep_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// What happened to the pool since the last call; nothing unless [`Bfc::keep_log`] was called.
    pub fn take_log(&mut self) -> Vec<RegionEvent> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// From the start of a fixed pool to the highest byte that was ever used. A pool of this size and
    /// [`MAX_INTERNAL_FRAGMENTATION_BYTES`] more serves the same requests at the same places: its last chunk is always cut.
    pub fn span_bytes(&self) -> u64 {
        self.regions.first().map_or(0, |region| self.highest_end.saturating_sub(region.address))
    }

    /// The most bytes in use so far: what `tf.config.experimental.get_memory_info` calls the peak.
    pub fn peak_in_use_bytes(&self) -> u64 {
        self.peak_in_use_bytes
    }

    /// The largest free chunk: free memory beyond it is fragmented.
    pub fn largest_free_bytes(&self) -> u64 {
        self.free.largest_bytes()
    }

    /// Where a live buffer lies and the chunk it holds; `None` for a request for zero bytes.
    pub fn chunk(&self, handle: Handle) -> Option<ChunkView> {
        if handle == NOTHING {
            return None;
        }
        Some(view(&self.chunks[handle.0 as usize]))
    }

    /// Every chunk, region by region in the order in which the regions were taken, each region in address order.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkView> + '_ {
        self.regions.iter().flat_map(|region| {
            let chunk_at = |index: u32| self.chunks.get(index as usize);
            std::iter::successors(chunk_at(region.first), move |chunk| chunk_at(chunk.next)).map(view)
        })
    }

    /// Serves a request from a free chunk.
    fn place(&mut self, bytes: u64) -> Option<Handle> {
        let found = self.free.find_smallest(bytes)?;
        let index = self.free.get(found).index;
        let chunk = self.chunks[index as usize];
        let rest_bytes = chunk.bytes - bytes;
        // Below twice the request the two pieces would be of little use apart, so the caller gets the whole.
        if rest_bytes >= bytes || rest_bytes >= self.max_waste_bytes {
            let rest = self.new_chunk(Chunk {
                address: chunk.address + bytes,
                bytes: rest_bytes,
                previous: index,
                next: chunk.next,
                in_use: false,
            });
            if chunk.next != NONE {
                self.chunks[chunk.next as usize].previous = rest;
            }
            let cut = &mut self.chunks[index as usize];
            cut.next = rest;
            cut.bytes = bytes;
            let rest = FreeChunk { bytes: rest_bytes, address: chunk.address + bytes, index: rest };
            self.free.replace(found, rest);
        } else {
            self.free.remove_at(found);
        }
        let taken = &mut self.chunks[index as usize];
        taken.in_use = true;
        self.in_use_bytes += taken.bytes;
        self.highest_end = self.highest_end.max(taken.address + taken.bytes);
        self.peak_in_use_bytes = self.peak_in_use_bytes.max(self.in_use_bytes);
        Some(Handle(index))
    }

    /// Takes a region that holds at least `bytes` from the device. Says whether it could.
    fn extend(&mut self, bytes: u64) -> bool {
        let available_bytes = (self.limit_bytes - self.pool_bytes) / UNIT_BYTES * UNIT_BYTES;
        if bytes > available_bytes {
            return false;
        }
        let mut doubled = false;
        while bytes > self.next_region_bytes {
            self.next_region_bytes = self.next_region_bytes.saturating_mul(2);
            doubled = true;
        }
        let mut region_bytes = self.next_region_bytes.min(available_bytes);
        let address = loop {
            if let Some(address) = self.source.take(region_bytes) {
                break address;
            }
            // Rounding up can undo the reduction of a small region; the loop must end all the same.
            let fewer_bytes = rounded((region_bytes as f32 * BACKPEDAL_FACTOR) as u64).unwrap_or(region_bytes);
            region_bytes = fewer_bytes.min(region_bytes - UNIT_BYTES);
            if region_bytes < bytes {
                return false;
            }
        };
        if !doubled {
            self.next_region_bytes = self.next_region_bytes.saturating_mul(2);
        }
        self.pool_bytes += region_bytes;
        if let Some(log) = &mut self.log {
            log.push(RegionEvent::Extended { address, bytes: region_bytes });
        }

        let chunk = Chunk { address, bytes: region_bytes, previous: NONE, next: NONE, in_use: false };
        let index = self.new_chunk(chunk);
        let below = if self.source.coalesces() {
            self.regions.iter().position(|region| region.address + region.bytes == address)
        } else {
            None
        };
        match below {
            Some(position) => {
                let region = &mut self.regions[position];
                region.bytes += region_bytes;
                let mut last = region.first;
                while self.chunks[last as usize].next != NONE {
                    last = self.chunks[last as usize].next;
                }
                self.chunks[last as usize].next = index;
                self.chunks[index as usize].previous = last;
            }
            None => self.regions.push(Region { address, bytes: region_bytes, first: index }),
        }
        let merged = self.merge(index);
        self.insert_free(merged);
        true
    }

    /// Gives wholly free regions back to the device if that, with what the limit leaves, could serve the request.
    fn collect_garbage(&mut self, bytes: u64) -> bool {
        if !self.garbage_collection {
            return false;
        }
        // Free neighbours are always merged, so a free region is one free chunk.
        let chunks = &self.chunks;
        let is_free = |region: &Region| {
            let first = &chunks[region.first as usize];
            !first.in_use && first.bytes == region.bytes
        };
        let free_bytes: u64 = self.regions.iter().filter(|region| is_free(region)).map(|region| region.bytes).sum();
        if free_bytes == 0 || bytes > self.limit_bytes - self.pool_bytes + free_bytes {
            return false;
        }
        let released: Vec<Region> = self.regions.extract_if(.., |region| is_free(region)).collect();
        for region in released {
            self.remove_free(region.first);
            self.delete_chunk(region.first);
            self.pool_bytes -= region.bytes;
            self.source.give_back(region.address, region.bytes);
            if let Some(log) = &mut self.log {
                log.push(RegionEvent::Released { address: region.address, bytes: region.bytes });
            }
        }
        true
    }

    /// Merges a chunk that is free and not listed with its free neighbours, and returns the chunk that remains, not listed.
    fn merge(&mut self, index: u32) -> u32 {
        let Chunk { previous, next, .. } = self.chunks[index as usize];
        if next != NONE && !self.chunks[next as usize].in_use {
            self.remove_free(next);
            self.absorb_next(index);
        }
        if previous != NONE && !self.chunks[previous as usize].in_use {
            self.remove_free(previous);
            self.absorb_next(previous);
            return previous;
        }
        index
    }

    /// Makes a chunk and the one after it one.
    fn absorb_next(&mut self, index: u32) {
        let gone = self.chunks[index as usize].next;
        let Chunk { bytes, next, .. } = self.chunks[gone as usize];
        let chunk = &mut self.chunks[index as usize];
        chunk.bytes += bytes;
        chunk.next = next;
        if next != NONE {
            self.chunks[next as usize].previous = index;
        }
        self.delete_chunk(gone);
    }

    fn insert_free(&mut self, index: u32) {
        let Chunk { address, bytes, .. } = self.chunks[index as usize];
        self.free.insert(FreeChunk { bytes, address, index });
    }

    fn remove_free(&mut self, index: u32) {
        let Chunk { address, bytes, .. } = self.chunks[index as usize];
        self.free.remove(&FreeChunk { bytes, address, index });
    }

    fn new_chunk(&mut self, chunk: Chunk) -> u32 {
        if self.unused != NONE {
            let index = self.unused;
            self.unused = self.chunks[index as usize].next;
            self.chunks[index as usize] = chunk;
            return index;
        }
        let index = u32::try_from(self.chunks.len()).ok().filter(|&index| index != NONE);
        self.chunks.push(chunk);
        index.expect("fewer than 2^32 - 1 chunks")
    }

    fn delete_chunk(&mut self, index: u32) {
        self.chunks[index as usize].next = self.unused;
        self.unused = index;
    }
}

impl<S: RegionSource> Allocator for Bfc<S> {
    fn alloc(&mut self, bytes: u64) -> Result<Handle, OutOfMemory> {
        if bytes == 0 {
            return Ok(NOTHING);
        }
        let error = OutOfMemory { requested_bytes: bytes };
        let rounded_bytes = rounded(bytes).ok_or(error)?;
        if let Some(handle) = self.place(rounded_bytes) {
            return Ok(handle);
        }
        if self.extend(rounded_bytes) || (self.collect_garbage(rounded_bytes) && self.extend(rounded_bytes)) {
            return self.place(rounded_bytes).ok_or(error);
        }
        Err(error)
    }

    fn free(&mut self, handle: Handle) {
        if handle == NOTHING {
            return;
        }
        let chunk = &mut self.chunks[handle.0 as usize];
        debug_assert!(chunk.in_use, "freed twice");
        chunk.in_use = false;
        self.in_use_bytes -= chunk.bytes;
        let merged = self.merge(handle.0);
        self.insert_free(merged);
    }

    fn usage(&self) -> Usage {
        Usage { allocated_bytes: self.in_use_bytes, reserved_bytes: self.pool_bytes }
    }
}

/// Up to the next multiple of [`UNIT_BYTES`], if that exists.
fn rounded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(UNIT_BYTES)
}

fn view(chunk: &Chunk) -> ChunkView {
    ChunkView { address: chunk.address, bytes: chunk.bytes, in_use: chunk.in_use }
}

#[cfg(test)]
mod tests;

//! What holds for the BFC simulator under any sequence of requests and frees.
//!
//! The real logs of `bfc_logs.rs` show that placement is right; these show that nothing is lost, shared or counted twice,
//! also under settings for which there is no log: a fixed pool, garbage collection, coalescing regions, a device that
//! refuses, a fragmentation fraction.

use brimful_core::allocator::bfc::{
    Bfc, BfcOptions, ChunkView, Growth, RegionOrder, RegionSource, SpacedRegions, UNIT_BYTES,
};
use brimful_core::allocator::floor::Floor;
use brimful_core::allocator::{Allocator, Handle, Usage};
use brimful_core::bytes::{KIB, MIB};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u64),
    /// Frees one of the live buffers, chosen by this number.
    Free(usize),
}

/// Where regions lie relative to each other.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Spaced,
    /// Each region begins where the one before ends, and becomes one with it.
    Coalescing,
    /// Each region ends where the one before begins, and stays apart.
    Descending,
}

#[derive(Debug)]
struct TestRegions {
    layout: Layout,
    spaced: SpacedRegions,
    end: u64,
    begin: u64,
}

impl TestRegions {
    fn new(layout: Layout, capacity_bytes: u64) -> TestRegions {
        TestRegions {
            layout,
            spaced: SpacedRegions::with_capacity(RegionOrder::Ascending, capacity_bytes),
            end: 1 << 40,
            begin: 1 << 40,
        }
    }
}

impl RegionSource for TestRegions {
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let address = self.spaced.take(bytes)?;
        match self.layout {
            Layout::Spaced => Some(address),
            Layout::Coalescing => {
                self.end += bytes;
                Some(self.end - bytes)
            }
            Layout::Descending => {
                self.begin -= bytes;
                Some(self.begin)
            }
        }
    }

    fn give_back(&mut self, address: u64, bytes: u64) {
        self.spaced.give_back(address, bytes);
    }

    fn coalesces(&self) -> bool {
        matches!(self.layout, Layout::Coalescing)
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![
        1 => Just(0_u64),
        6 => 1..2 * KIB,
        6 => 1..256 * KIB,
        3 => 1..8 * MIB,
        1 => 1..300 * MIB,
        1 => Just(u64::MAX),
    ];
    let step = prop_oneof![3 => bytes.prop_map(Step::Alloc), 2 => any::<usize>().prop_map(Step::Free)];
    prop::collection::vec(step, 1..200)
}

fn options() -> impl Strategy<Value = BfcOptions> {
    let limit_bytes = prop_oneof![0..4 * KIB, 1..3 * MIB, MIB..600 * MIB];
    let growth = prop_oneof![Just(Growth::Growing), Just(Growth::Fixed)];
    let fraction = prop_oneof![Just(0.0), 0.0..0.5];
    (limit_bytes, growth, any::<bool>(), fraction).prop_map(
        |(limit_bytes, growth, garbage_collection, fragmentation_fraction)| BfcOptions {
            limit_bytes,
            growth,
            garbage_collection,
            fragmentation_fraction,
            region_order: RegionOrder::Ascending,
        },
    )
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Spaced), Just(Layout::Coalescing), Just(Layout::Descending)]
}

/// Everything that must hold between two events.
fn check<S: RegionSource>(bfc: &Bfc<S>, live: &[(Handle, u64)], limit_bytes: u64) -> Result<(), TestCaseError> {
    let usage = bfc.usage();
    let chunks: Vec<ChunkView> = bfc.chunks().collect();
    prop_assert!(usage.allocated_bytes <= usage.reserved_bytes);
    prop_assert!(usage.reserved_bytes <= limit_bytes);
    prop_assert_eq!(chunks.iter().map(|chunk| chunk.bytes).sum::<u64>(), usage.reserved_bytes);
    let in_use = |chunk: &&ChunkView| chunk.in_use;
    prop_assert_eq!(chunks.iter().filter(in_use).map(|chunk| chunk.bytes).sum::<u64>(), usage.allocated_bytes);
    prop_assert!(chunks.iter().all(|chunk| chunk.bytes > 0 && chunk.bytes % UNIT_BYTES == 0));
    let free = chunks.iter().filter(|chunk| !chunk.in_use).map(|chunk| chunk.bytes);
    prop_assert_eq!(free.max().unwrap_or(0), bfc.largest_free_bytes());

    // In a region, chunks follow each other without a gap, and two free ones would have been merged.
    for pair in chunks.windows(2) {
        let touching = pair[0].address + pair[0].bytes == pair[1].address;
        prop_assert!(!touching || pair[0].in_use || pair[1].in_use, "two free neighbours: {:?}", pair);
    }
    let mut by_address = chunks.clone();
    by_address.sort_by_key(|chunk| chunk.address);
    for pair in by_address.windows(2) {
        prop_assert!(pair[0].address + pair[0].bytes <= pair[1].address, "chunks overlap: {:?}", pair);
    }

    // Each live buffer has a chunk of its own that holds it, and no chunk is in use without a buffer.
    let mut held: Vec<ChunkView> = Vec::new();
    for &(handle, requested_bytes) in live {
        match bfc.chunk(handle) {
            Some(chunk) => {
                prop_assert!(chunk.in_use && chunk.bytes >= requested_bytes && requested_bytes > 0);
                held.push(chunk);
            }
            None => prop_assert_eq!(requested_bytes, 0),
        }
    }
    held.sort_by_key(|chunk| chunk.address);
    by_address.retain(|chunk| chunk.in_use);
    prop_assert_eq!(held, by_address);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bfc_accounts_for_every_chunk(
        steps in steps(),
        options in options(),
        layout in layout(),
        capacity_bytes in prop_oneof![Just(u64::MAX), 1..200 * MIB],
    ) {
        let mut bfc = Bfc::with_source(options, TestRegions::new(layout, capacity_bytes));
        let mut floor = Floor::new();
        let mut live: Vec<(Handle, u64)> = Vec::new();
        let mut floor_handles: Vec<Handle> = Vec::new();
        for step in steps {
            match step {
                Step::Alloc(bytes) => {
                    let before = bfc.usage();
                    match bfc.alloc(bytes) {
                        Ok(handle) => {
                            live.push((handle, bytes));
                            floor_handles.push(floor.alloc(bytes).unwrap());
                        }
                        Err(error) => {
                            prop_assert_eq!(error.requested_bytes, bytes);
                            prop_assert_eq!(bfc.usage().allocated_bytes, before.allocated_bytes);
                        }
                    }
                }
                Step::Free(number) if !live.is_empty() => {
                    let (handle, _) = live.swap_remove(number % live.len());
                    bfc.free(handle);
                    floor.free(floor_handles.swap_remove(number % floor_handles.len()));
                }
                Step::Free(_) => {}
            }
            check(&bfc, &live, options.limit_bytes)?;
            prop_assert!(floor.usage().allocated_bytes <= bfc.usage().allocated_bytes);
            prop_assert!(bfc.usage().allocated_bytes <= bfc.peak_in_use_bytes());
            prop_assert!(bfc.usage().reserved_bytes <= capacity_bytes);
        }
        for (handle, _) in live.drain(..) {
            bfc.free(handle);
        }
        check(&bfc, &live, options.limit_bytes)?;
        prop_assert_eq!(bfc.usage().allocated_bytes, 0);
    }

    /// The rule itself, without lists or blocks: a scan of all free chunks finds the chunk that the simulator takes.
    #[test]
    fn bfc_takes_the_smallest_chunk_then_the_lowest_address(steps in steps(), options in options(), layout in layout()) {
        let mut bfc = Bfc::with_source(options, TestRegions::new(layout, u64::MAX));
        let mut live: Vec<Handle> = Vec::new();
        for step in steps {
            match step {
                Step::Alloc(bytes) => {
                    let fits = |chunk: &ChunkView| !chunk.in_use && bytes > 0 && chunk.bytes >= bytes;
                    let best = bfc.chunks().filter(fits).min_by_key(|chunk| (chunk.bytes, chunk.address));
                    let reserved_bytes = bfc.usage().reserved_bytes;
                    let Ok(handle) = bfc.alloc(bytes) else {
                        prop_assert_eq!(best, None);
                        continue;
                    };
                    live.push(handle);
                    if let Some(best) = best {
                        let chunk = bfc.chunk(handle).unwrap();
                        prop_assert_eq!(chunk.address, best.address);
                        prop_assert_eq!(bfc.usage().reserved_bytes, reserved_bytes, "no growth while a chunk fits");
                        let rounded_bytes = bytes.next_multiple_of(UNIT_BYTES);
                        let whole = chunk.bytes == best.bytes;
                        prop_assert!(whole || chunk.bytes == rounded_bytes);
                        prop_assert!(!whole || best.bytes < 2 * rounded_bytes);
                    }
                }
                Step::Free(number) if !live.is_empty() => bfc.free(live.swap_remove(number % live.len())),
                Step::Free(_) => {}
            }
        }
    }

    /// What was freed entirely can be had again entirely.
    #[test]
    fn bfc_fixed_pool_is_whole_again_after_everything_is_freed(steps in steps(), limit_mib in 1..512_u64) {
        let limit_bytes = limit_mib * MIB;
        let mut bfc = Bfc::new(BfcOptions::tensorflow_gpu(limit_bytes, Growth::Fixed));
        let handles: Vec<Handle> = steps
            .iter()
            .filter_map(|step| match *step {
                Step::Alloc(bytes) => bfc.alloc(bytes).ok(),
                Step::Free(_) => None,
            })
            .collect();
        for handle in handles {
            bfc.free(handle);
        }
        prop_assert!(bfc.alloc(limit_bytes).is_ok());
        let full = Usage { allocated_bytes: limit_bytes, reserved_bytes: limit_bytes };
        prop_assert_eq!(bfc.usage(), full);
        prop_assert!(bfc.alloc(1).is_err());
    }
}

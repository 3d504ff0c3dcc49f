//! What holds for PyTorch's allocator whatever is asked of it, under every option.
//!
//! In: made-up requests and frees. Checked after each: blocks lie apart and in memory that the driver gave, the
//! counters agree with the blocks and with the driver, and out-of-memory comes only when nothing is left to give back.

use std::collections::BTreeMap;

use brimful_core::{
    allocator::{
        Allocator, Handle,
        torch_caching::{
            Driver, Options, RisingAddresses, SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES, SegmentEvent, TorchCaching,
        },
    },
    bytes::{KIB, MIB},
};
use proptest::prelude::*;

/// Keeps account of what the allocator holds of the device, in pieces by address.
#[derive(Default)]
struct Ledger {
    addresses: RisingAddresses,
    held: BTreeMap<u64, u64>,
}

impl Driver for Ledger {
    fn reserve(&mut self, bytes: u64) -> u64 {
        self.addresses.reserve(bytes)
    }

    fn observe(&mut self, event: SegmentEvent) {
        match event {
            SegmentEvent::Alloc { address, bytes } => assert!(self.held.insert(address, bytes).is_none()),
            SegmentEvent::Free { address, bytes } => assert_eq!(self.held.remove(&address), Some(bytes)),
            // Two MiB divide the pages of both pools.
            SegmentEvent::Map { address, bytes } => {
                for page in (address..address + bytes).step_by(SMALL_SEGMENT_BYTES as usize) {
                    assert!(self.held.insert(page, SMALL_SEGMENT_BYTES).is_none(), "mapped twice");
                }
            }
            SegmentEvent::Unmap { address, bytes } => {
                for page in (address..address + bytes).step_by(SMALL_SEGMENT_BYTES as usize) {
                    assert!(self.held.remove(&page).is_some(), "not mapped");
                }
            }
        }
    }
}

impl Ledger {
    fn holds(&self, address: u64, bytes: u64) -> bool {
        let mut reached = address;
        while reached < address + bytes {
            match self.held.range(..=reached).next_back() {
                Some((start, held_bytes)) if start + held_bytes > reached => reached = start + held_bytes,
                _ => return false,
            }
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    /// Frees one of the live buffers: which, as a share of all.
    Free(prop::sample::Index),
    EmptyCache,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        1 => Just(0_u64),
        4 => 1..4 * KIB,
        4 => 4 * KIB..MIB + KIB,
        4 => MIB..10 * MIB,
        3 => 10 * MIB..90 * MIB,
        // Equal sizes meet equal free blocks, where addresses decide.
        3 => prop::sample::select(vec![512, MIB, MIB + 512, 10 * MIB, 20 * MIB, 21 * MIB]),
    ];
    prop_oneof![
        60 => bytes.prop_map(Step::Alloc),
        50 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => Just(Step::EmptyCache),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (
        any::<bool>(),
        prop_oneof![Just(u64::MAX), (20..100_u64).prop_map(|count| count * MIB)],
        prop::sample::select(vec![20 * MIB, 12 * MIB, 64 * MIB]),
        prop::sample::select(vec![0_u64, 1, 2, 4, 8]),
        prop_oneof![Just(0.0), 0.1..0.9],
        prop::option::of(0.05..1.0),
        prop_oneof![Just(u64::MAX), (64..512_u64).prop_map(|count| count * MIB)],
    )
        .prop_map(|(expandable_segments, max_split, segment, divisions, threshold, memory_fraction, capacity)| {
            Options {
                max_split_size_bytes: max_split,
                max_non_split_rounding_bytes: segment,
                large_segment_size_bytes: segment,
                roundup_power2_divisions: [divisions; 16],
                garbage_collection_threshold: threshold,
                expandable_segments,
                memory_fraction,
                device_total_bytes: 512 * MIB,
                capacity_bytes: capacity,
            }
        })
}

struct Live {
    handle: Handle,
    requested_bytes: u64,
}

fn check(allocator: &TorchCaching<Ledger>, live: &[Live]) {
    let usage = allocator.usage();
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for buffer in live {
        match allocator.placement(buffer.handle) {
            Some((address, bytes)) => {
                assert!(bytes >= buffer.requested_bytes && bytes % 512 == 0);
                assert!(allocator.driver().holds(address, bytes), "a block without memory");
                blocks.push((address, bytes));
            }
            None => assert_eq!(buffer.requested_bytes, 0),
        }
    }
    blocks.sort_unstable();
    assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "two live blocks overlap");
    assert_eq!(usage.allocated_bytes, blocks.iter().map(|(_, bytes)| bytes).sum::<u64>());
    assert_eq!(usage.reserved_bytes, allocator.driver().held.values().sum::<u64>());
    let floor_bytes: u64 = live.iter().map(|buffer| buffer.requested_bytes).sum();
    assert!(floor_bytes <= usage.allocated_bytes && usage.allocated_bytes <= usage.reserved_bytes);
}

/// A request failed: then it did not fit, and everything that could be given back was.
fn check_out_of_memory(allocator: &mut TorchCaching<Ledger>, bytes: u64) {
    let options = allocator.options().clone();
    let reserved_bytes = allocator.usage().reserved_bytes;
    let rounded_bytes = options.round_request(bytes);
    let segment_bytes = options.segment_bytes(rounded_bytes);
    let own_limit = options.limit_bytes().is_some_and(|limit| reserved_bytes + segment_bytes > limit);
    let capacity_bytes = options.capacity_bytes.min(options.device_total_bytes);
    if options.expandable_segments {
        let small = rounded_bytes <= SMALL_MAX_BYTES;
        let page_bytes = if small { SMALL_SEGMENT_BYTES } else { options.large_segment_size_bytes };
        let no_pages = reserved_bytes + rounded_bytes.next_multiple_of(page_bytes) > capacity_bytes;
        assert!(own_limit || no_pages, "{bytes} bytes fit, but failed");
    } else {
        assert!(own_limit || reserved_bytes + segment_bytes > capacity_bytes, "{bytes} bytes fit, but failed");
        allocator.empty_cache();
        assert_eq!(allocator.usage().reserved_bytes, reserved_bytes, "free segments were kept");
    }
}

fn run(options: Options, steps: &[Step]) {
    let mut allocator = TorchCaching::with_driver(options, Ledger::default());
    let mut live: Vec<Live> = Vec::new();
    for step in steps {
        match step {
            Step::Alloc(bytes) => match allocator.alloc(*bytes) {
                Ok(handle) => live.push(Live { handle, requested_bytes: *bytes }),
                Err(error) => {
                    assert_eq!(error.requested_bytes, *bytes);
                    check_out_of_memory(&mut allocator, *bytes);
                }
            },
            Step::Free(_) if live.is_empty() => {}
            Step::Free(which) => allocator.free(live.swap_remove(which.index(live.len())).handle),
            Step::EmptyCache => allocator.empty_cache(),
        }
        check(&allocator, &live);
        if let Some(limit_bytes) = allocator.options().limit_bytes() {
            // With expandable segments pages may pass the limit that was checked for a whole segment; see `grow`.
            assert!(allocator.options().expandable_segments || allocator.usage().reserved_bytes <= limit_bytes);
        }
    }
    for buffer in live.drain(..) {
        allocator.free(buffer.handle);
    }
    check(&allocator, &live);
    assert_eq!(allocator.usage().allocated_bytes, 0);
    allocator.empty_cache();
    assert_eq!(allocator.usage().reserved_bytes, 0, "with nothing live everything can be given back");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_settings(steps in prop::collection::vec(step(), 0..250)) {
        run(Options::default(), &steps);
    }

    #[test]
    fn with_expandable_segments(steps in prop::collection::vec(step(), 0..250)) {
        run(Options { expandable_segments: true, ..Options::default() }, &steps);
    }

    #[test]
    fn under_any_options_and_limits(options in options(), steps in prop::collection::vec(step(), 0..250)) {
        run(options, &steps);
    }
}

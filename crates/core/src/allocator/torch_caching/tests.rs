//! Rules that the recorded runs do not reach: options, limits, and memory going back to the driver.

use super::*;
use crate::bytes::MIB;

/// Remembers segment events.
#[derive(Default)]
struct Log {
    addresses: RisingAddresses,
    events: Vec<SegmentEvent>,
}

impl Driver for Log {
    fn reserve(&mut self, bytes: u64) -> u64 {
        self.addresses.reserve(bytes)
    }

    fn observe(&mut self, event: SegmentEvent) {
        self.events.push(event);
    }
}

impl Log {
    /// Bytes taken (positive) and given back (negative), in MiB, since the last call.
    fn moved_mib(&mut self) -> Vec<i64> {
        let signed = |event: SegmentEvent| match event {
            SegmentEvent::Alloc { bytes, .. } | SegmentEvent::Map { bytes, .. } => (bytes / MIB) as i64,
            SegmentEvent::Free { bytes, .. } | SegmentEvent::Unmap { bytes, .. } => -((bytes / MIB) as i64),
        };
        self.events.drain(..).map(signed).collect()
    }
}

fn allocator(options: Options) -> TorchCaching<Log> {
    TorchCaching::with_driver(options, Log::default())
}

#[test]
fn an_unsplit_tail_counts_as_allocated() {
    let mut torch = allocator(Options::default());
    // Of 12 MiB one is left over, which is not cut off; one and a half are.
    torch.alloc(11 * MIB).unwrap();
    assert_eq!(torch.usage(), Usage { allocated_bytes: 12 * MIB, reserved_bytes: 12 * MIB });
    torch.alloc(10 * MIB + MIB / 2).unwrap();
    assert_eq!(torch.usage().allocated_bytes, (12 + 10) * MIB + MIB / 2);
}

#[test]
fn nothing_takes_nothing_and_the_absurd_fails() {
    let mut torch = allocator(Options::default());
    let nothing = torch.alloc(0).unwrap();
    assert_eq!(torch.placement(nothing), None);
    torch.free(nothing);
    for bytes in [u64::MAX, MAX_REQUEST_BYTES + 1] {
        assert_eq!(torch.alloc(bytes), Err(OutOfMemory { requested_bytes: bytes }));
    }
    assert_eq!(torch.usage(), Usage::default());
}

#[test]
fn free_segments_go_back_before_memory_runs_out() {
    let mut torch = allocator(Options { capacity_bytes: 100 * MIB, ..Options::default() });
    let (first, small) = (torch.alloc(60 * MIB).unwrap(), torch.alloc(4096).unwrap());
    torch.free(first);
    torch.alloc(80 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [60, 2, -60, 80]);
    assert!(torch.alloc(19 * MIB).is_err());
    torch.free(small);
    torch.alloc(19 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [-2, 20]);
}

#[test]
fn the_own_limit_is_a_share_of_the_device() {
    let limits = Options { memory_fraction: Some(0.5), device_total_bytes: 100 * MIB, ..Options::default() };
    for expandable_segments in [false, true] {
        let mut torch = allocator(Options { expandable_segments, ..limits.clone() });
        torch.alloc(30 * MIB).unwrap();
        // Within the limit as such, but a whole segment of 20 MiB would pass it once two pages (40 MiB) are held.
        let more = torch.alloc(9 * MIB).and_then(|_| torch.alloc(2 * MIB));
        assert_eq!(more.is_err(), expandable_segments);
    }
}

#[test]
fn blocks_beyond_the_split_limit_stay_whole() {
    let options = Options { max_split_size_bytes: 64 * MIB, ..Options::default() };
    let mut torch = allocator(Options { capacity_bytes: 300 * MIB, ..options });
    let large = torch.alloc(100 * MIB).unwrap();
    torch.free(large);
    // Too small a request, then one that leaves too much (20 MiB or more), then one that fits.
    let small = torch.alloc(30 * MIB).unwrap();
    let other = torch.alloc(80 * MIB).unwrap();
    let close = torch.alloc(81 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [100, 30, 80]);
    assert_eq!(torch.usage().allocated_bytes, 210 * MIB);
    // Memory is short, and no block is enough alone: the largest go back, no more than needed.
    for handle in [small, other, close] {
        torch.free(handle);
    }
    torch.alloc(120 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [-100, -80, 120]);
}

#[test]
fn a_block_at_the_split_limit_is_beyond_it() {
    let mut torch = allocator(Options { max_split_size_bytes: 64 * MIB, ..Options::default() });
    let at_limit = torch.alloc(64 * MIB).unwrap();
    torch.free(at_limit);
    torch.alloc(30 * MIB).unwrap();
    torch.alloc(64 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [64, 30]);
}

#[test]
fn garbage_collection_takes_the_oldest() {
    let options = Options {
        memory_fraction: Some(1.0),
        device_total_bytes: 200 * MIB,
        garbage_collection_threshold: 0.5,
        ..Options::default()
    };
    let mut torch = allocator(options);
    let [_kept, older, younger] = [40, 50, 60].map(|count| torch.alloc(count * MIB).unwrap());
    torch.free(older);
    torch.free(younger);
    // Used again and again, the other block stays young.
    for _ in 0..3 {
        let handle = torch.alloc(58 * MIB).unwrap();
        torch.free(handle);
    }
    assert_eq!(torch.driver_mut().moved_mib(), [40, 50, 60]);
    // 150 MiB are held, 100 are the threshold. The older block is enough.
    torch.alloc(70 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [-50, 70]);
}

#[test]
fn equal_blocks_are_taken_from_the_lowest_address() {
    let mut torch = allocator(Options::default());
    let handles: Vec<Handle> = (0..4).map(|_| torch.alloc(16 * MIB).unwrap()).collect();
    let address = |torch: &TorchCaching<Log>, handle| torch.placement(handle).unwrap().0;
    let (second, fourth) = (address(&torch, handles[1]), address(&torch, handles[3]));
    torch.free(handles[3]);
    torch.free(handles[1]);
    let (low, high) = (torch.alloc(16 * MIB).unwrap(), torch.alloc(16 * MIB).unwrap());
    assert_eq!((address(&torch, low), address(&torch, high)), (second, fourth));
}

#[test]
fn expandable_segments_grow_by_pages_and_shrink_by_whole_pages() {
    let mut torch = allocator(Options { expandable_segments: true, ..Options::default() });
    let first = torch.alloc(15 * MIB).unwrap();
    let second = torch.alloc(50 * MIB).unwrap();
    let third = torch.alloc(10 * MIB).unwrap();
    // 75 MiB in a row need four pages of 20 MiB, where cached segments would have taken 16, 50 and 10.
    assert_eq!(torch.driver_mut().moved_mib(), [20, 60]);
    torch.free(second);
    torch.empty_cache();
    // Free is 15..65; the pages inside are 20..60. The last 5 MiB of the last page are too little for a page.
    assert_eq!(torch.driver_mut().moved_mib(), [-40]);
    assert_eq!(torch.usage(), Usage { allocated_bytes: 25 * MIB, reserved_bytes: 40 * MIB });
    // The gap is filled first: it holds 50 MiB with its edges.
    let again = torch.alloc(48 * MIB).unwrap();
    assert_eq!(torch.driver_mut().moved_mib(), [40]);
    assert_eq!(torch.placement(again).unwrap().0, torch.placement(first).unwrap().0 + 15 * MIB);
    for handle in [first, again, third] {
        torch.free(handle);
    }
    torch.empty_cache();
    assert_eq!((torch.driver_mut().moved_mib(), torch.usage()), (vec![-80], Usage::default()));
}

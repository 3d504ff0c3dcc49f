//! The rules of the allocator, one by one.

use super::*;
use crate::bytes::{GIB, KIB};

fn regions<S: RegionSource>(bfc: &mut Bfc<S>) -> Vec<i64> {
    let signed = |event| match event {
        RegionEvent::Extended { bytes, .. } => bytes as i64,
        RegionEvent::Released { bytes, .. } => -(bytes as i64),
    };
    bfc.take_log().into_iter().map(signed).collect()
}

#[test]
fn a_chunk_is_cut_at_twice_the_request_or_at_128_mib_left_over() {
    let held = |chunk_bytes: u64, requested_bytes: u64| {
        let mut bfc = Bfc::new(BfcOptions::tensorflow_gpu(chunk_bytes, Growth::Fixed));
        bfc.alloc(requested_bytes).unwrap();
        bfc.usage().allocated_bytes
    };
    assert_eq!(held(1024, 257), 512, "cut: exactly twice");
    assert_eq!(held(1280, 513), 1280, "whole: less than twice");
    assert_eq!(held(500 * MIB, 372 * MIB), 372 * MIB, "cut: 128 MiB left over");
    assert_eq!(held(500 * MIB, 372 * MIB + 1), 500 * MIB, "whole: a little less is left over");
    let options = BfcOptions { fragmentation_fraction: 0.1, ..BfcOptions::tensorflow_cpu(2 * MIB) };
    let mut bfc = Bfc::new(options);
    bfc.alloc(1800 * KIB).unwrap();
    assert_eq!(bfc.usage().allocated_bytes, 1800 * KIB, "cut: a tenth of the limit is left over");
}

#[test]
fn regions_double_and_stop_at_the_limit() {
    let mut bfc = Bfc::new(BfcOptions::tensorflow_cpu(20 * MIB + 100));
    bfc.keep_log();
    bfc.alloc(2 * MIB).unwrap();
    bfc.alloc(4 * MIB).unwrap();
    assert_eq!(regions(&mut bfc), [2 << 20, 4 << 20]);
    // The next is 8 MiB and serves 5 MiB whole; then 16 MiB, of which the limit leaves 6 MiB.
    bfc.alloc(5 * MIB).unwrap();
    assert_eq!(bfc.alloc(7 * MIB), Err(OutOfMemory { requested_bytes: 7 * MIB }));
    bfc.alloc(6 * MIB).unwrap();
    assert_eq!(regions(&mut bfc), [8 << 20, 6 << 20]);
    assert_eq!(bfc.usage(), Usage { allocated_bytes: 20 * MIB, reserved_bytes: 20 * MIB });
}

#[test]
fn a_request_beyond_the_next_region_doubles_it_once_only() {
    let mut bfc = Bfc::new(BfcOptions::tensorflow_cpu(GIB));
    bfc.keep_log();
    bfc.alloc(5 * MIB).unwrap();
    bfc.alloc(5 * MIB).unwrap();
    bfc.alloc(5 * MIB).unwrap();
    assert_eq!(regions(&mut bfc), [8 << 20, 8 << 20, 16 << 20]);
}

#[test]
fn a_device_that_refuses_is_asked_for_less() {
    let options = BfcOptions::tensorflow_gpu(100 * MIB, Growth::Fixed);
    let mut bfc = Bfc::with_source(options, SpacedRegions::with_capacity(RegionOrder::Ascending, 85 * MIB));
    bfc.alloc(1).unwrap();
    // 0.9 is a `float`, so the second size is not exactly 81 MiB.
    let mut expected_bytes = 100 * MIB;
    while expected_bytes > 85 * MIB {
        expected_bytes = ((expected_bytes as f32 * 0.9) as u64).next_multiple_of(256);
    }
    assert_eq!(bfc.usage().reserved_bytes, expected_bytes);
    let nothing = SpacedRegions::with_capacity(RegionOrder::Ascending, 255);
    assert!(Bfc::with_source(options, nothing).alloc(1).is_err());
}

#[test]
fn garbage_collection_trades_free_regions_for_a_larger_one() {
    let options = BfcOptions { garbage_collection: true, ..BfcOptions::tensorflow_cpu(16 * MIB) };
    let mut bfc = Bfc::new(options);
    bfc.keep_log();
    let small = bfc.alloc(2 * MIB).unwrap();
    let large = bfc.alloc(4 * MIB).unwrap();
    bfc.free(large);
    // The limit leaves 10 MiB, and 4 MiB are free but apart.
    assert!(bfc.clone().alloc(15 * MIB).is_err());
    bfc.alloc(13 * MIB).unwrap();
    assert_eq!(regions(&mut bfc), [2 << 20, 4 << 20, -(4 << 20), 14 << 20]);
    bfc.free(small);
    assert_eq!(bfc.chunks().count(), 2);
    let mut without = Bfc::new(BfcOptions::tensorflow_cpu(16 * MIB));
    without.alloc(2 * MIB).unwrap();
    let large = without.alloc(4 * MIB).unwrap();
    without.free(large);
    assert!(without.alloc(13 * MIB).is_err());
}

#[test]
fn touching_regions_become_one_only_if_the_source_says_so() {
    for (coalesces, expected_chunks) in [(true, 1), (false, 2)] {
        let source = RecordedRegions::new([GIB, GIB + 2 * MIB], coalesces);
        let mut bfc = Bfc::with_source(BfcOptions::tensorflow_cpu(GIB), source);
        let first = bfc.alloc(2 * MIB).unwrap();
        let second = bfc.alloc(4 * MIB).unwrap();
        bfc.free(first);
        bfc.free(second);
        assert_eq!(bfc.chunks().count(), expected_chunks);
        assert_eq!(bfc.alloc(6 * MIB).is_ok(), coalesces);
    }
}

#[test]
fn nothing_takes_nothing_and_too_much_is_refused() {
    let mut bfc = Bfc::new(BfcOptions::tensorflow_cpu(u64::MAX));
    let nothing = bfc.alloc(0).unwrap();
    assert_eq!(bfc.chunk(nothing), None);
    bfc.free(nothing);
    assert_eq!(bfc.usage(), Usage::default());
    assert!(bfc.alloc(u64::MAX).is_err());
    assert!(Bfc::new(BfcOptions::tensorflow_cpu(0)).alloc(1).is_err());
}

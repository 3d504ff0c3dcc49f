//! What a user can set on PyTorch's CUDA allocator, and the sizes that follow from it.
//!
//! In: a `PYTORCH_ALLOC_CONF` string, or fields set by hand. Out: [`Options`], rounded request sizes and segment sizes.
//! Not counted: settings of the host (pinned) allocator, which take no device memory; they are read and passed over.

use crate::bytes::MIB;

// Source of each: the constant named behind it, in c10/cuda/CUDACachingAllocator.cpp at pytorch/pytorch@001074d2. Later
// versions have them in c10/core/AllocatorConfig.h, with the same values.

/// Every block is a multiple of this (`kMinBlockSize`).
pub const MIN_BLOCK_BYTES: u64 = 512;
/// The largest rounded request that the small pool serves (`kSmallSize`).
pub const SMALL_MAX_BYTES: u64 = MIB;
/// A segment, and a page of an expandable segment, of the small pool (`kSmallBuffer`).
pub const SMALL_SEGMENT_BYTES: u64 = 2 * MIB;
/// From here on a segment is cut to its request instead of being shared (`kMinLargeAlloc`).
pub const MIN_LARGE_BYTES: u64 = 10 * MIB;
/// What such a segment is rounded to (`kRoundLarge`).
pub const ROUND_LARGE_BYTES: u64 = 2 * MIB;
/// A shared segment of the large pool, unless `large_segment_size_mb` says otherwise (`kLargeBuffer`).
pub const LARGE_SEGMENT_BYTES: u64 = 20 * MIB;
/// Intervals of `roundup_power2_divisions`: 1 MiB and below, then each power of two up to 32 GiB and above
/// (`kRoundUpPowerOfTwoIntervals`).
pub const DIVISION_INTERVALS: usize = 16;
/// Requests above this fail on any device. It keeps sums of sizes and addresses far from overflow.
pub const MAX_REQUEST_BYTES: u64 = 1 << 46;

/// Settings of the allocator. [`Options::default`] is what PyTorch does with no settings on a device without end.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Blocks of at least this size are never cut for smaller requests. Default: no limit. Not below a large
    /// segment.
    pub max_split_size_bytes: u64,
    /// How much larger than its request an uncuttable block may be. Default: the size of a large segment.
    pub max_non_split_rounding_bytes: u64,
    /// The segment that requests below 10 MiB share, and the page of expandable segments in the large pool.
    /// Default: 20 MiB. Above 10 MiB.
    pub large_segment_size_bytes: u64,
    /// Steps between two powers of two to which requests are rounded, for each interval of sizes; 0 and 1 mean off.
    /// Default: off.
    pub roundup_power2_divisions: [u64; DIVISION_INTERVALS],
    /// The share of the process's limit above which unused segments are given back before new ones are taken. Default:
    /// 0, off. It acts only together with [`memory_fraction`](Options::memory_fraction).
    pub garbage_collection_threshold: f64,
    /// Grow a few segments page by page instead of taking many. Default: off.
    pub expandable_segments: bool,
    /// The share of [`device_total_bytes`](Options::device_total_bytes) that the process allows itself
    /// (`set_per_process_memory_fraction`). Default: none.
    pub memory_fraction: Option<f64>,
    /// The device's memory as the driver states it. It scales the fraction, and address ranges of expandable segments.
    /// Default: 64 TiB, more than any device has.
    pub device_total_bytes: u64,
    /// What the driver can really give to this allocator: the device less contexts and other processes. Default: no
    /// limit.
    pub capacity_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_split_size_bytes: u64::MAX,
            max_non_split_rounding_bytes: LARGE_SEGMENT_BYTES,
            large_segment_size_bytes: LARGE_SEGMENT_BYTES,
            roundup_power2_divisions: [0; DIVISION_INTERVALS],
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            memory_fraction: None,
            device_total_bytes: 1 << 46,
            capacity_bytes: u64::MAX,
        }
    }
}

impl Options {
    /// The process's own limit, where one is set.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.memory_fraction.map(|fraction| (fraction * self.device_total_bytes as f64) as u64)
    }

    /// The block size that serves a request: what `memory_allocated` counts for it, short of an unsplit tail.
    pub fn round_request(&self, bytes: u64) -> u64 {
        if bytes < MIN_BLOCK_BYTES {
            return MIN_BLOCK_BYTES;
        }
        let divisions = self.roundup_power2_divisions[interval(bytes / MIB)];
        if divisions > 1 && bytes > MIN_BLOCK_BYTES.saturating_mul(divisions) {
            // The condition makes the step at least one minimal block, so results stay multiples of it.
            bytes.next_multiple_of(1 << (bytes.ilog2() - divisions.ilog2()))
        } else {
            bytes.next_multiple_of(MIN_BLOCK_BYTES)
        }
    }

    /// The segment that would be taken from the driver for a rounded request: the figure in "Tried to allocate".
    pub fn segment_bytes(&self, rounded_bytes: u64) -> u64 {
        if rounded_bytes <= SMALL_MAX_BYTES {
            SMALL_SEGMENT_BYTES
        } else if rounded_bytes < MIN_LARGE_BYTES {
            // The parser refuses smaller segments; a field set by hand must not give a segment below its request.
            self.large_segment_size_bytes.max(MIN_LARGE_BYTES)
        } else {
            rounded_bytes.next_multiple_of(ROUND_LARGE_BYTES)
        }
    }

    /// Pages of an expandable segment: physical memory comes and goes in these.
    pub(super) fn page_bytes(&self, small: bool) -> u64 {
        if small { SMALL_SEGMENT_BYTES } else { self.large_segment_size_bytes.max(MIN_LARGE_BYTES) }
    }
}

/// Which interval of `roundup_power2_divisions` a number of MiB falls into.
pub(super) fn interval(mebibytes: u64) -> usize {
    (mebibytes.max(1).ilog2() as usize).min(DIVISION_INTERVALS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{GIB, KIB};

    #[test]
    fn requests_round_to_512_bytes() {
        let options = Options::default();
        for (asked, given) in [(1, 512), (512, 512), (513, 1024), (MIB + 1, MIB + 512), (3 * GIB, 3 * GIB)] {
            assert_eq!(options.round_request(asked), given, "{asked}");
        }
    }

    #[test]
    fn requests_round_to_divisions_of_a_power_of_two() {
        let options = Options { roundup_power2_divisions: [4; 16], ..Options::default() };
        // Between 1024 and 2048 PyTorch's manual gives 1280, 1536, 1792; below 512 × 4 the plain rule still holds.
        assert_eq!(options.round_request(1200), 1536);
        assert_eq!(options.round_request(1200 * KIB), 1280 * KIB);
        assert_eq!(options.round_request(1280 * KIB), 1280 * KIB);
        assert_eq!(options.round_request(1281 * KIB), 1536 * KIB);
        assert_eq!(options.round_request(1800 * KIB), 2048 * KIB);
        assert_eq!(options.round_request(1024 * KIB), 1024 * KIB);
    }

    #[test]
    fn segments_are_shared_below_10_mib() {
        let options = Options::default();
        for (rounded, segment) in [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
        ] {
            assert_eq!(options.segment_bytes(rounded), segment, "{rounded}");
        }
    }
}

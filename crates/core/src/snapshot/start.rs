//! What the allocator held before the first event.
//!
//! In: the segments at the end, the history, and the buffers that were there before it. Out: segments with buffers in them,
//! for each stream and pool. Taken back is every recorded segment event, from the last to the first. Guessed: the pool of
//! a segment that went back to the device (by its size), and the block around a buffer whose block was never seen.

use std::collections::BTreeMap;

use super::timeline::{BufferIndex, Timeline};
use super::{Action, Device, LaneId};
use crate::allocator::torch_caching::{Options, SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES, SeenSegment};

/// The state of one stream and pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StartLane {
    /// In the order of addresses.
    pub(super) segments: Vec<SeenSegment>,
    /// The buffers of all segments, in the same order.
    pub(super) buffers: Vec<BufferIndex>,
}

/// The state of a device before its first event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Start {
    pub(super) lanes: BTreeMap<LaneId, StartLane>,
    /// What the segments hold together.
    pub(super) reserved_bytes: u64,
    /// Buffers that were there before, but in no segment that is known.
    pub(super) homeless: u64,
}

#[derive(Clone, Copy)]
struct Range {
    bytes: u64,
    lane: LaneId,
    small: bool,
    expandable: bool,
}

impl Start {
    pub(super) fn new(device: &Device, timeline: &Timeline, options: &Options) -> Start {
        let ranges = ranges_before(device, options);
        let mut start = Start::default();
        let mut homes: BTreeMap<u64, (LaneId, usize)> = BTreeMap::new();
        for (address, range) in ranges {
            let lane = start.lanes.entry(range.lane).or_default();
            homes.insert(address, (range.lane, lane.segments.len()));
            let Range { bytes, small, expandable, .. } = range;
            start.reserved_bytes = start.reserved_bytes.saturating_add(bytes);
            lane.segments.push(SeenSegment { address, bytes, small, expandable, buffers: Vec::new() });
        }
        let mut there: Vec<usize> = (0..timeline.buffers.len()).filter(|i| timeline.buffers[*i].from_start).collect();
        there.sort_by_key(|index| timeline.buffers[*index].address);
        for index in there {
            let buffer = &timeline.buffers[index];
            let home = homes.range(..=buffer.address).next_back().map(|(_, home)| *home);
            // A free says which stream the buffer was of: another one's segment is not its home.
            let inside = home.filter(|(lane, _)| *lane == buffer.lane).and_then(|(lane, segment)| {
                let lane = start.lanes.get_mut(&lane)?;
                let segment = lane.segments.get_mut(segment)?;
                let room_bytes = segment.bytes.checked_sub(buffer.address - segment.address)?;
                let block_bytes = buffer.block_bytes.unwrap_or(options.round_request(buffer.requested_bytes));
                (block_bytes <= room_bytes).then_some(())?;
                segment.buffers.push((buffer.address, block_bytes));
                lane.buffers.push(BufferIndex(index as u32));
                Some(())
            });
            start.homeless += u64::from(inside.is_none());
        }
        start.lanes.values_mut().flat_map(|lane| &mut lane.segments).for_each(add_unsplit_tails);
        start
    }
}

/// The segments before the first event, by address.
fn ranges_before(device: &Device, options: &Options) -> BTreeMap<u64, Range> {
    let mut ranges: BTreeMap<u64, Range> = device
        .segments
        .iter()
        .map(|segment| {
            let &super::Segment { bytes, lane, small, expandable, .. } = segment;
            (segment.address, Range { bytes, lane, small, expandable })
        })
        .collect();
    for event in device.events.iter().rev() {
        let (address, bytes, lane) = (event.address, event.bytes, event.lane);
        match event.action {
            Action::SegmentAlloc => drop(ranges.remove(&address)),
            Action::SegmentFree => {
                let small = bytes <= SMALL_SEGMENT_BYTES;
                ranges.insert(address, Range { bytes, lane, small, expandable: false });
            }
            Action::SegmentMap => cut(&mut ranges, address, address + bytes),
            Action::SegmentUnmap => {
                // Small pages are of 2 MiB, large ones of 20: a multiple of both is more likely a large one.
                let neighbour = ranges.range(..address).next_back().map(|(_, range)| *range);
                let neighbour = neighbour.filter(|range| range.expandable && range.lane == lane);
                let whole_pages = bytes % options.large_segment_size_bytes == 0;
                let small = neighbour.map_or(!whole_pages, |range| range.small);
                join(&mut ranges, address, Range { bytes, lane, small, expandable: true });
            }
            _ => {}
        }
    }
    ranges
}

/// Takes these addresses out of the expandable segments.
fn cut(ranges: &mut BTreeMap<u64, Range>, start: u64, end: u64) {
    let Some((&address, &range)) = ranges.range(..=start).next_back() else { return };
    let range_end = address + range.bytes;
    if !range.expandable || range_end < end {
        return;
    }
    ranges.remove(&address);
    if address < start {
        ranges.insert(address, Range { bytes: start - address, ..range });
    }
    if end < range_end {
        ranges.insert(end, Range { bytes: range_end - end, ..range });
    }
}

/// Puts a part of an expandable segment back, as one with its neighbours.
fn join(ranges: &mut BTreeMap<u64, Range>, mut address: u64, mut part: Range) {
    let same = |other: &Range| other.expandable && other.lane == part.lane && other.small == part.small;
    if let Some((&before, range)) = ranges.range(..address).next_back()
        && same(range)
        && before + range.bytes == address
    {
        part.bytes += range.bytes;
        address = before;
    }
    let after = address + part.bytes;
    if let Some(range) = ranges.get(&after).filter(|range| same(range)) {
        part.bytes += range.bytes;
        ranges.remove(&after);
    }
    ranges.insert(address, part);
}

/// In the large pool a rest of at most 1 MiB is never cut off: it belongs to the block before it.
fn add_unsplit_tails(segment: &mut SeenSegment) {
    if segment.small || segment.expandable {
        return;
    }
    let mut next = segment.address + segment.bytes;
    for (address, block_bytes) in segment.buffers.iter_mut().rev() {
        let end = *address + *block_bytes;
        if let Some(gap_bytes) = next.checked_sub(end).filter(|gap_bytes| *gap_bytes <= SMALL_MAX_BYTES) {
            *block_bytes += gap_bytes;
        }
        next = *address;
    }
}

//! The history as the lives of buffers.
//!
//! In: the events of a device, and the blocks in use at its end. Out: [`Timeline`]: every buffer once, and steps that refer
//! to buffers instead of addresses. A buffer that is freed but never allocated, or in use but never allocated, was there
//! before the recording. Not known: buffers that came and went before it.

use std::collections::HashMap;

use super::{Action, BlockState, Device, Lane, LaneId, SiteId};

/// A buffer's place in [`Timeline::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferIndex(pub(super) u32);

/// A piece of memory that somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) address: u64,
    pub(super) requested_bytes: u64,
    /// What it takes with its rounding, where the snapshot says so.
    pub(super) block_bytes: Option<u64>,
    pub(super) site: SiteId,
    pub(super) lane: LaneId,
    /// Whether it was there before the first event.
    pub(super) from_start: bool,
}

/// Something that happens to a buffer, or to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Alloc(BufferIndex),
    /// Given up; counts as allocated no more.
    Requested(BufferIndex),
    /// Free for others.
    Completed(BufferIndex),
    /// One of the events about segments.
    Segment,
    OutOfMemory,
}

/// One step, with the event that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) event: u32,
    pub(super) lane: LaneId,
    pub(super) change: Change,
}

/// The lives of all buffers of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Timeline {
    pub(super) buffers: Vec<Buffer>,
    pub(super) steps: Vec<Step>,
    /// Buffers in use after the last event that the segments do not show: the recording was stopped before the snapshot.
    pub(super) gone_at_the_end: u64,
}

/// Private pools by address: only recordings of versions after PyTorch 2.11 name the pool of an event.
struct PrivatePools(Vec<(u64, u64, LaneId)>);

impl PrivatePools {
    fn new(device: &Device, lanes: &[Lane]) -> PrivatePools {
        let private = |lane: LaneId| lanes.get(usize::from(lane.0)).is_some_and(|lane| lane.pool != (0, 0));
        let segments = device.segments.iter().filter(|segment| private(segment.lane));
        let mut ranges: Vec<_> =
            segments.map(|segment| (segment.address, segment.address + segment.bytes, segment.lane)).collect();
        ranges.sort_unstable();
        PrivatePools(ranges)
    }

    fn lane(&self, address: u64, said: LaneId) -> LaneId {
        let index = self.0.partition_point(|range| range.0 <= address);
        match index.checked_sub(1).map(|index| self.0[index]) {
            Some((_, end, lane)) if address < end => lane,
            _ => said,
        }
    }
}

impl Timeline {
    pub(super) fn new(device: &Device, lanes: &[Lane]) -> Timeline {
        let pools = PrivatePools::new(device, lanes);
        // Some recordings leave completions out: then a request completes itself.
        let completions = device.events.iter().any(|event| event.action == Action::FreeCompleted);
        let mut builder = Builder { timeline: Timeline::default(), live: HashMap::new() };
        builder.timeline.steps.reserve_exact(device.events.len());
        for (index, event) in device.events.iter().enumerate() {
            let lane = match event.action {
                Action::OutOfMemory => event.lane,
                _ => pools.lane(event.address, event.lane),
            };
            let mut seen = Buffer {
                address: event.address,
                requested_bytes: event.bytes,
                block_bytes: None,
                site: event.site,
                lane,
                from_start: false,
            };
            let at = index as u32;
            match event.action {
                Action::Alloc => builder.alloc(at, seen),
                Action::FreeRequested | Action::FreeCompleted => {
                    // Who frees says nothing about who allocated.
                    seen.site = SiteId::default();
                    builder.free(at, seen, event.action == Action::FreeCompleted || !completions);
                }
                Action::OutOfMemory => builder.push(at, lane, Change::OutOfMemory),
                Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap => {
                    builder.push(at, lane, Change::Segment);
                }
                Action::Snapshot => {}
            }
        }
        builder.finish(device)
    }
}

struct Builder {
    timeline: Timeline,
    live: HashMap<u64, BufferIndex>,
}

impl Builder {
    fn push(&mut self, event: u32, lane: LaneId, change: Change) {
        self.timeline.steps.push(Step { event, lane, change });
    }

    fn add(&mut self, buffer: Buffer) -> BufferIndex {
        self.timeline.buffers.push(buffer);
        BufferIndex((self.timeline.buffers.len() - 1) as u32)
    }

    fn alloc(&mut self, event: u32, buffer: Buffer) {
        let index = self.add(buffer);
        // An address is handed out again only after a free, whether that was recorded or not.
        if let Some(old) = self.live.insert(buffer.address, index) {
            let lane = self.timeline.buffers[old.0 as usize].lane;
            self.push(event, lane, Change::Completed(old));
        }
        self.push(event, buffer.lane, Change::Alloc(index));
    }

    fn free(&mut self, event: u32, seen: Buffer, completes: bool) {
        let index = match self.live.get(&seen.address) {
            Some(index) => *index,
            None => {
                let index = self.add(Buffer { from_start: true, ..seen });
                self.live.insert(seen.address, index);
                index
            }
        };
        let lane = self.timeline.buffers[index.0 as usize].lane;
        if completes {
            self.live.remove(&seen.address);
            self.push(event, lane, Change::Completed(index));
        } else {
            self.push(event, lane, Change::Requested(index));
        }
    }

    /// Compares what is in use after the last event with the segments.
    fn finish(mut self, device: &Device) -> Timeline {
        for segment in &device.segments {
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Free) {
                match self.live.remove(&block.address) {
                    Some(index) => {
                        let buffer = &mut self.timeline.buffers[index.0 as usize];
                        buffer.block_bytes = Some(block.bytes);
                        if buffer.site == SiteId::default() {
                            buffer.site = block.site;
                        }
                    }
                    None => drop(self.add(Buffer {
                        address: block.address,
                        requested_bytes: block.requested_bytes,
                        block_bytes: Some(block.bytes),
                        site: block.site,
                        lane: segment.lane,
                        from_start: true,
                    })),
                }
            }
        }
        self.timeline.gone_at_the_end = self.live.len() as u64;
        self.timeline
    }
}

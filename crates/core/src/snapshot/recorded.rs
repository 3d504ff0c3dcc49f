//! The history replayed as it was: with the recorded settings, from the recorded start, at the recorded addresses.
//!
//! In: the timeline and the state before it. Out: [`Recorded`]: the peak and its moment, what was reserved then, and how
//! much of the recording the replay reproduces. What was reserved is counted from the recorded events themselves; the size
//! of a block with its rounding comes from the replay. Not simulated: why memory went back to the device; it goes when the
//! recording says so.

use std::collections::BTreeMap;

use super::start::Start;
use super::timeline::{Change, Step, Timeline};
use super::{Action, Device, Event, LaneId};
use crate::allocator::torch_caching::{Driver, Options, RisingAddresses, SegmentEvent, TorchCaching};
use crate::allocator::{Allocator, Handle};

/// More than any device has: what is replayed here did fit.
pub(super) const DEVICE_BYTES: u64 = 1 << 41;

/// What the replay says about the recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recorded {
    /// The step after which most was allocated; none if that was before the first.
    pub(super) peak_step: Option<usize>,
    pub(super) peak_allocated_bytes: u64,
    /// What was reserved at that moment.
    pub(super) reserved_at_peak_bytes: u64,
    /// Most bytes reserved at any moment, by the recorded events.
    pub(super) peak_reserved_bytes: u64,
    /// The same by the replay.
    pub(super) replayed_peak_reserved_bytes: u64,
    /// What was allocated and reserved at each failed request.
    pub(super) at_failures: Vec<(u64, u64)>,
    /// Free bytes in blocks beside buffers after the last step, and the largest free block.
    pub(super) free_at_the_end: (u64, u64),
    pub(super) check: Check,
}

/// How much of the recording came out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Check {
    /// Segment events in the recording.
    pub(super) segment_events: u64,
    /// Of which the replay did the same at the same moment.
    pub(super) reproduced: u64,
    /// Segment events of the replay that the recording does not have.
    pub(super) invented: u64,
    pub(super) allocations: u64,
    /// Of which the replay placed at the recorded address.
    pub(super) at_recorded_address: u64,
}

/// Gives the addresses that the real driver gave, and remembers what the allocator did.
#[derive(Clone, Debug, Default)]
struct RealAddresses {
    upcoming: Vec<SegmentEvent>,
    seen: Vec<SegmentEvent>,
    others: RisingAddresses,
}

impl Driver for RealAddresses {
    fn reserve(&mut self, bytes: u64) -> u64 {
        match self.upcoming.get(self.seen.len()) {
            Some(SegmentEvent::Alloc { address, bytes: real_bytes }) if *real_bytes == bytes => *address,
            Some(SegmentEvent::Map { address, .. }) => *address,
            _ => self.others.reserve(bytes),
        }
    }

    fn observe(&mut self, event: SegmentEvent) {
        self.seen.push(event);
    }
}

/// Replays all steps, or those up to and with `last_step`.
pub(super) fn replay(
    device: &Device,
    timeline: &Timeline,
    start: &Start,
    options: &Options,
    last_step: Option<usize>,
) -> Recorded {
    let mut run = Run::new(timeline, start, options);
    let count = last_step.map_or(timeline.steps.len(), |last| last + 1);
    run.see(None);
    for (index, step) in timeline.steps.iter().take(count).enumerate() {
        run.step(timeline, step, &device.events[step.event as usize]);
        run.see(Some(index));
    }
    let free = run.lanes.values().map(TorchCaching::free_bytes_beside_buffers);
    run.result.free_at_the_end = free.fold((0, 0), |sum, (beside, largest)| (sum.0 + beside, sum.1.max(largest)));
    run.result
}

struct Run {
    options: Options,
    lanes: BTreeMap<LaneId, TorchCaching<RealAddresses>>,
    handles: Vec<Option<Handle>>,
    /// Given up, but still in use by another stream.
    pending: Vec<bool>,
    /// Block sizes of buffers that are pending.
    pending_bytes: u64,
    /// Sums over the lanes.
    allocated_bytes: u64,
    replayed_reserved_bytes: u64,
    reserved_bytes: u64,
    result: Recorded,
}

impl Run {
    fn new(timeline: &Timeline, start: &Start, options: &Options) -> Run {
        let options = Options {
            // The recording says when memory went back: no reason of its own.
            garbage_collection_threshold: 0.0,
            memory_fraction: None,
            device_total_bytes: DEVICE_BYTES,
            ..options.clone()
        };
        let mut handles = vec![None; timeline.buffers.len()];
        let mut lanes = BTreeMap::new();
        let (mut allocated_bytes, mut replayed_reserved_bytes) = (0, 0);
        for (lane, state) in &start.lanes {
            let mut allocator = TorchCaching::with_driver(options.clone(), RealAddresses::default());
            for (buffer, handle) in state.buffers.iter().zip(allocator.take_over(&state.segments)) {
                handles[buffer.0 as usize] = handle;
            }
            allocated_bytes += allocator.usage().allocated_bytes;
            replayed_reserved_bytes += allocator.usage().reserved_bytes;
            lanes.insert(*lane, allocator);
        }
        Run {
            options,
            lanes,
            handles,
            pending: vec![false; timeline.buffers.len()],
            pending_bytes: 0,
            allocated_bytes,
            replayed_reserved_bytes,
            reserved_bytes: start.reserved_bytes,
            result: Recorded::default(),
        }
    }

    /// Looks whether this moment is a peak.
    fn see(&mut self, step: Option<usize>) {
        let allocated_bytes = self.allocated_bytes - self.pending_bytes;
        let result = &mut self.result;
        if allocated_bytes > result.peak_allocated_bytes {
            result.peak_step = step;
            result.peak_allocated_bytes = allocated_bytes;
            result.reserved_at_peak_bytes = self.reserved_bytes;
        }
        result.peak_reserved_bytes = result.peak_reserved_bytes.max(self.reserved_bytes);
        result.replayed_peak_reserved_bytes = result.replayed_peak_reserved_bytes.max(self.replayed_reserved_bytes);
    }

    fn step(&mut self, timeline: &Timeline, step: &Step, event: &Event) {
        let options = &self.options;
        let lane = self.lanes.entry(step.lane);
        let lane = lane.or_insert_with(|| TorchCaching::with_driver(options.clone(), RealAddresses::default()));
        let before = lane.usage();
        match step.change {
            Change::Alloc(buffer) => {
                let buffer = buffer.0 as usize;
                let handle = lane.alloc(timeline.buffers[buffer].requested_bytes).ok();
                self.handles[buffer] = handle;
                let check = &mut self.result.check;
                let placed = handle.and_then(|handle| lane.placement(handle)).map(|(address, _)| address);
                check.allocations += 1;
                check.at_recorded_address += u64::from(placed == Some(timeline.buffers[buffer].address));
                let driver = lane.driver_mut();
                let same = driver.seen.iter().zip(&driver.upcoming).filter(|(seen, real)| seen == real).count() as u64;
                check.reproduced += same;
                check.invented += driver.seen.len() as u64 - same;
                driver.seen.clear();
                driver.upcoming.clear();
            }
            Change::Requested(buffer) => {
                let index = buffer.0 as usize;
                if let Some((_, bytes)) = self.handles[index].and_then(|handle| lane.placement(handle))
                    && !std::mem::replace(&mut self.pending[index], true)
                {
                    self.pending_bytes += bytes;
                }
            }
            Change::Completed(buffer) => {
                let index = buffer.0 as usize;
                if let Some(handle) = self.handles[index].take() {
                    if std::mem::take(&mut self.pending[index]) {
                        self.pending_bytes -= lane.placement(handle).map_or(0, |(_, bytes)| bytes);
                    }
                    lane.free(handle);
                }
            }
            Change::OutOfMemory => {
                let allocated_bytes = self.allocated_bytes - self.pending_bytes;
                self.result.at_failures.push((allocated_bytes, self.reserved_bytes));
            }
            Change::Segment => {
                self.result.check.segment_events += 1;
                let (address, bytes) = (event.address, event.bytes);
                let taken = match event.action {
                    Action::SegmentAlloc => Some(SegmentEvent::Alloc { address, bytes }),
                    Action::SegmentMap => Some(SegmentEvent::Map { address, bytes }),
                    _ => None,
                };
                if let Some(taken) = taken {
                    self.reserved_bytes = self.reserved_bytes.saturating_add(bytes);
                    lane.driver_mut().upcoming.push(taken);
                } else {
                    self.reserved_bytes = self.reserved_bytes.saturating_sub(bytes);
                    lane.give_back(address);
                    let real = match event.action {
                        Action::SegmentUnmap => SegmentEvent::Unmap { address, bytes },
                        _ => SegmentEvent::Free { address, bytes },
                    };
                    let given = std::mem::take(&mut lane.driver_mut().seen);
                    let same = u64::from(given.contains(&real));
                    self.result.check.reproduced += same;
                    self.result.check.invented += given.len() as u64 - same;
                }
            }
        }
        let after = lane.usage();
        self.allocated_bytes = self.allocated_bytes - before.allocated_bytes + after.allocated_bytes;
        self.replayed_reserved_bytes = self.replayed_reserved_bytes - before.reserved_bytes + after.reserved_bytes;
    }
}

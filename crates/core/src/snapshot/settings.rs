//! What other settings of the allocator would have needed.
//!
//! In: the timeline, and settings. Out: the most that each would have reserved. What was there before the recording is
//! placed anew under each, in the order of addresses; the cache is emptied where the recording emptied it; a request that
//! failed is made again. Not simulated: other timing, which other settings cause, and other streams' delays.

use std::collections::BTreeMap;

use super::recorded::DEVICE_BYTES;
use super::start::Start;
use super::timeline::{BufferIndex, Change, Timeline};
use super::{Action, Device, LaneId};
use crate::allocator::torch_caching::{Options, TorchCaching};
use crate::allocator::{Allocator, Handle};

/// What is tried besides the recorded settings: those of PyTorch's documented options that change what is reserved, with
/// usual values. Every other value would be a replay of its own.
const CONFS: [&str; 5] = [
    "", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:4", "roundup_power2_divisions:8",
];
/// Tried only where a limit is known: it does nothing without one.
const GARBAGE_COLLECTION: &str = "garbage_collection_threshold:0.8";

/// What one set of settings would have needed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`.
    pub(super) conf: String,
    /// Whether these are the recorded settings.
    pub(super) recorded: bool,
    pub(super) peak_reserved_bytes: u64,
    pub(super) peak_allocated_bytes: u64,
    /// Whether a request could not be served within the limit.
    pub(super) failed: bool,
}

/// Every setting that is worth a try, the one that reserves least first.
pub(super) fn needs(
    device: &Device,
    timeline: &Timeline,
    start: &Start,
    recorded: (&str, &Options),
    limit_bytes: Option<u64>,
) -> Vec<Need> {
    let script = Script::new(device, timeline, start);
    let mut needs = vec![script.run(recorded.0, recorded.1, true)];
    for conf in CONFS {
        let Ok(options) = conf.parse::<Options>() else { continue };
        if options != *recorded.1 {
            needs.push(script.run(conf, &options, false));
        }
    }
    // The threshold is a share of a limit that several streams share: only one stream can be simulated.
    if let Some(limit_bytes) = limit_bytes.filter(|bytes| *bytes <= DEVICE_BYTES && script.lanes() <= 1)
        && let Ok(options) = GARBAGE_COLLECTION.parse::<Options>()
        && options.garbage_collection_threshold != recorded.1.garbage_collection_threshold
    {
        let limited = Options { memory_fraction: Some(1.0), device_total_bytes: limit_bytes, ..options };
        needs.push(script.run(GARBAGE_COLLECTION, &limited, false));
    }
    // Among equals the recorded one comes first: no need to change anything.
    needs.sort_by_key(|need| (need.failed, need.peak_reserved_bytes, !need.recorded));
    needs
}

#[derive(Clone, Copy)]
enum Deed {
    Alloc(LaneId, BufferIndex),
    Free(LaneId, BufferIndex),
    EmptyCache,
    /// A request that failed in the recording.
    Try(LaneId, u64),
}

/// What is asked of the allocator, without addresses.
struct Script<'a> {
    timeline: &'a Timeline,
    deeds: Vec<Deed>,
}

impl<'a> Script<'a> {
    fn new(device: &Device, timeline: &'a Timeline, start: &Start) -> Script<'a> {
        let mut deeds = Vec::with_capacity(timeline.buffers.len() * 2);
        for (lane, state) in &start.lanes {
            deeds.extend(state.buffers.iter().map(|buffer| Deed::Alloc(*lane, *buffer)));
        }
        for step in &timeline.steps {
            match step.change {
                Change::Alloc(buffer) => deeds.push(Deed::Alloc(step.lane, buffer)),
                Change::Completed(buffer) => deeds.push(Deed::Free(step.lane, buffer)),
                Change::OutOfMemory => deeds.push(Deed::Try(step.lane, device.events[step.event as usize].bytes)),
                Change::Segment => {
                    let action = device.events[step.event as usize].action;
                    let gives = matches!(action, Action::SegmentFree | Action::SegmentUnmap);
                    // Many segments that go at once are one emptying.
                    if gives && !matches!(deeds.last(), Some(Deed::EmptyCache)) {
                        deeds.push(Deed::EmptyCache);
                    }
                }
                Change::Requested(_) => {}
            }
        }
        Script { timeline, deeds }
    }

    fn lanes(&self) -> usize {
        let lane = |deed: &Deed| match deed {
            Deed::Alloc(lane, _) | Deed::Free(lane, _) | Deed::Try(lane, _) => Some(*lane),
            Deed::EmptyCache => None,
        };
        let mut lanes: Vec<LaneId> = self.deeds.iter().filter_map(lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes.len()
    }

    fn run(&self, conf: &str, options: &Options, recorded: bool) -> Need {
        let options = match options.memory_fraction {
            Some(_) if !recorded => options.clone(),
            _ => Options {
                garbage_collection_threshold: 0.0,
                memory_fraction: None,
                device_total_bytes: DEVICE_BYTES,
                ..options.clone()
            },
        };
        let mut lanes: BTreeMap<LaneId, TorchCaching> = BTreeMap::new();
        let mut handles: Vec<Option<Handle>> = vec![None; self.timeline.buffers.len()];
        let (mut allocated_bytes, mut reserved_bytes) = (0, 0);
        let mut need =
            Need { conf: conf.to_owned(), recorded, peak_reserved_bytes: 0, peak_allocated_bytes: 0, failed: false };
        for deed in &self.deeds {
            let (lane, before) = match deed {
                Deed::EmptyCache => {
                    lanes.values_mut().for_each(TorchCaching::empty_cache);
                    reserved_bytes = lanes.values().map(|lane| lane.usage().reserved_bytes).sum();
                    continue;
                }
                Deed::Alloc(lane, _) | Deed::Free(lane, _) | Deed::Try(lane, _) => {
                    let lane = lanes.entry(*lane).or_insert_with(|| TorchCaching::new(options.clone()));
                    let before = lane.usage();
                    (lane, before)
                }
            };
            match *deed {
                Deed::Alloc(_, buffer) => {
                    let handle = lane.alloc(self.timeline.buffers[buffer.0 as usize].requested_bytes).ok();
                    need.failed |= handle.is_none();
                    handles[buffer.0 as usize] = handle;
                }
                Deed::Free(_, buffer) => {
                    if let Some(handle) = handles[buffer.0 as usize].take() {
                        lane.free(handle);
                    }
                }
                Deed::Try(_, bytes) => match lane.alloc(bytes) {
                    Ok(handle) => lane.free(handle),
                    Err(_) => need.failed = true,
                },
                Deed::EmptyCache => {}
            }
            let after = lane.usage();
            allocated_bytes = allocated_bytes - before.allocated_bytes + after.allocated_bytes;
            reserved_bytes = reserved_bytes - before.reserved_bytes + after.reserved_bytes;
            need.peak_reserved_bytes = need.peak_reserved_bytes.max(reserved_bytes);
            need.peak_allocated_bytes = need.peak_allocated_bytes.max(allocated_bytes);
        }
        need
    }
}

//! Recordings that begin in the middle: real runs, of which only the end was kept.
//!
//! In: `fixtures/traces/torch`, as snapshots whose history lacks its first part, as it does when `max_entries` is too small.
//! Checked: what was there before is found again, to the byte, and the rest of the run replays from it.

#[path = "support/torch_trace.rs"]
mod torch_trace;

use std::collections::{BTreeMap, HashMap};

use brimful_core::allocator::torch_caching::TorchCaching;
use brimful_core::allocator::torch_caching::{Driver, Options, SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES, SegmentEvent};
use brimful_core::allocator::{Allocator, Handle};
use brimful_core::report::snapshot::SnapshotReport;
use brimful_core::snapshot::{
    Action, Block, BlockState, Device, Event, Lane, LaneId, Question, RecordedSettings, Segment, SiteId, Snapshot,
    analyse,
};
use torch_trace::Recorded;

/// Gives the recorded addresses.
#[derive(Default)]
struct Addresses(Vec<u64>);

impl Driver for Addresses {
    fn reserve(&mut self, _bytes: u64) -> u64 {
        self.0.pop().expect("the recording has an address for every reservation")
    }
}

fn event(recorded: &Recorded) -> Event {
    let (action, address, bytes) = match *recorded {
        Recorded::Alloc { address, bytes } => (Action::Alloc, address, bytes),
        Recorded::FreeRequested { address } => (Action::FreeRequested, address, 0),
        Recorded::FreeCompleted { address } => (Action::FreeCompleted, address, 0),
        Recorded::Segment(SegmentEvent::Alloc { address, bytes }) => (Action::SegmentAlloc, address, bytes),
        Recorded::Segment(SegmentEvent::Free { address, bytes }) => (Action::SegmentFree, address, bytes),
        Recorded::Segment(SegmentEvent::Map { address, bytes }) => (Action::SegmentMap, address, bytes),
        Recorded::Segment(SegmentEvent::Unmap { address, bytes }) => (Action::SegmentUnmap, address, bytes),
    };
    Event { action, lane: LaneId(0), site: SiteId(0), address, bytes, time_us: 0 }
}

/// A whole run as a snapshot: its history, and the state at its end.
struct Run {
    events: Vec<Event>,
    segments: Vec<Segment>,
    options: Options,
    /// Allocated and reserved after each event.
    held: Vec<(u64, u64)>,
}

impl Run {
    /// Replays the run to learn the sizes of blocks, which a trace does not have.
    fn read(name: &str) -> Run {
        let recorded = torch_trace::read(name);
        let options = Options { expandable_segments: name.ends_with("expandable"), ..Options::default() };
        // One small segment was there before the recording: its address is that of the first small buffer.
        let first = recorded.iter().find_map(|event| match *event {
            Recorded::Alloc { address, bytes } if bytes <= SMALL_MAX_BYTES => Some(address),
            _ => None,
        });
        let first = first.expect("every run has small buffers");
        let mut allocator = TorchCaching::with_driver(options.clone(), Addresses(vec![first]));
        let handle = allocator.alloc(1).unwrap();
        allocator.free(handle);
        let mut ranges: BTreeMap<u64, (u64, bool)> = BTreeMap::from([(first, (SMALL_SEGMENT_BYTES, true))]);
        let mut live: HashMap<u64, (Handle, u64)> = HashMap::new();
        let mut events: Vec<Event> = Vec::new();
        let mut held = Vec::new();
        for line in &recorded {
            let mut event = event(line);
            match *line {
                Recorded::Segment(SegmentEvent::Alloc { address, bytes } | SegmentEvent::Map { address, bytes }) => {
                    allocator.driver_mut().0 = vec![address];
                    let small = bytes <= SMALL_SEGMENT_BYTES;
                    ranges.insert(address, (bytes, small));
                }
                Recorded::Segment(other) => panic!("{name}: {other:?}: these runs give nothing back"),
                Recorded::Alloc { address, bytes } => {
                    live.insert(address, (allocator.alloc(bytes).unwrap(), bytes));
                }
                Recorded::FreeRequested { address } => event.bytes = live[&address].1,
                Recorded::FreeCompleted { address } => {
                    let (handle, bytes) = live.remove(&address).expect("it was allocated");
                    event.bytes = bytes;
                    allocator.free(handle);
                }
            }
            events.push(event);
            held.push((allocator.usage().allocated_bytes, ranges.values().map(|range| range.0).sum()));
        }
        let mut blocks: Vec<Block> = live
            .iter()
            .map(|(address, (handle, requested_bytes))| Block {
                address: *address,
                bytes: allocator.placement(*handle).unwrap().1,
                requested_bytes: *requested_bytes,
                state: BlockState::Allocated,
                site: SiteId(0),
            })
            .collect();
        blocks.sort_by_key(|block| block.address);
        Run { segments: segments(&ranges, &blocks, options.expandable_segments), events, options, held }
    }

    /// The snapshot with this many events missing at the start of its history.
    fn without(&self, missing: usize) -> Snapshot {
        Snapshot {
            devices: vec![Device {
                index: 0,
                events: self.events[missing..].to_vec(),
                segments: self.segments.clone(),
            }],
            sites: vec![Default::default()],
            lanes: vec![Lane::default()],
            settings: RecordedSettings { options: self.options.clone(), ..RecordedSettings::default() },
        }
    }

    /// Most bytes allocated from this event on, the state before it included.
    fn peak_allocated_after(&self, missing: usize) -> u64 {
        self.held[missing.saturating_sub(1)..].iter().map(|held| held.0).max().unwrap()
    }
}

/// Parts of expandable segments that touch are one; a block list covers its segment.
fn segments(ranges: &BTreeMap<u64, (u64, bool)>, live: &[Block], expandable: bool) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (&address, &(bytes, small)) in ranges {
        match segments.last_mut() {
            Some(last) if expandable && last.address + last.bytes == address => last.bytes += bytes,
            _ => segments.push(Segment { address, bytes, lane: LaneId(0), small, expandable, blocks: Vec::new() }),
        }
    }
    for segment in &mut segments {
        let end = segment.address + segment.bytes;
        let inside = live.iter().filter(|block| (segment.address..end).contains(&block.address));
        segment.blocks = inside.copied().collect();
    }
    segments
}

fn report(snapshot: &Snapshot) -> SnapshotReport {
    analyse(snapshot, &Question::default())
}

#[test]
fn cut_recordings_go_on_from_what_was_there() {
    for name in torch_trace::TRACES {
        let run = Run::read(name);
        let count = run.events.len();
        let mut with_buffers = 0;
        for missing in [0, count / 10, count / 3, count / 2, count * 9 / 10] {
            // The events of one request are never torn apart: the history is cut between two requests.
            let missing =
                (missing..count).find(|at| matches!(run.events[*at].action, Action::FreeRequested)).unwrap_or(0);
            let report = report(&run.without(missing));
            let device = &report.devices[0];
            let check = device.self_check.as_ref().unwrap();
            let at = format!("{name} without {missing} events: {check:?}");
            assert_eq!((check.reproduced, check.invented), (check.segment_events, 0), "{at}");
            assert_eq!(check.at_recorded_address, check.allocations, "{at}");
            assert_eq!(check.replayed_peak_reserved_bytes, check.recorded_peak_reserved_bytes, "{at}");
            let peak = device.peak.as_ref().unwrap();
            assert_eq!(peak.allocated_bytes, run.peak_allocated_after(missing), "{at}");
            assert_eq!(peak.most_reserved_bytes, run.held[count - 1].1, "{at}");
            let held: u64 = device.holders.iter().map(|holder| holder.bytes).sum();
            assert_eq!(held, peak.requested_bytes, "{at}");
            with_buffers += u64::from(device.before_recording.as_ref().unwrap().buffers > 100);
        }
        assert!(with_buffers >= 3 || name.starts_with("seed"), "{name}: the cuts lie within the run");
    }
}

#[test]
fn the_recorded_setting_needs_what_was_recorded() {
    for name in torch_trace::TRACES {
        let report = report(&Run::read(name).without(0));
        let device = &report.devices[0];
        let recorded = device.settings.iter().find(|setting| setting.recorded).unwrap();
        let really = device.peak.as_ref().unwrap().most_reserved_bytes;
        // Made-up addresses decide between equal blocks only: half a percent, and the small segment that was there before.
        let difference = recorded.peak_reserved_bytes.abs_diff(really);
        assert!(difference <= SMALL_SEGMENT_BYTES + really / 200, "{name}: {recorded:?}, really {really}");
    }
}

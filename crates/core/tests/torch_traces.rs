//! Replays recorded runs of PyTorch's allocator and compares everything it did, to the byte.
//!
//! In: `fixtures/traces/torch`. Checked: each segment event with its size and its place among the requests, the address
//! of each buffer, and the peaks that PyTorch itself reported. Fed in: sizes, the order of frees, and the addresses at
//! which the driver put segments.

#[path = "support/torch_trace.rs"]
mod torch_trace;

use std::collections::HashMap;

use brimful_core::allocator::{
    Allocator, Handle, Usage,
    torch_caching::{
        Driver, MIN_BLOCK_BYTES, Options, SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES, SegmentEvent, TorchCaching,
    },
};
use torch_trace::Recorded;

/// Gives the addresses that the real driver gave, and remembers what the allocator did.
#[derive(Default)]
struct Replay {
    /// Segment events of the real run before the request that is replayed now.
    upcoming: Vec<SegmentEvent>,
    seen: Vec<SegmentEvent>,
}

impl Driver for Replay {
    fn reserve(&mut self, _bytes: u64) -> u64 {
        match self.upcoming.get(self.seen.len()) {
            Some(SegmentEvent::Alloc { address, .. } | SegmentEvent::Map { address, .. }) => *address,
            other => panic!("memory is taken from the driver, but the real run has {other:?} here"),
        }
    }

    fn observe(&mut self, event: SegmentEvent) {
        self.seen.push(event);
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Peaks {
    allocated_bytes: u64,
    reserved_bytes: u64,
}

impl Peaks {
    fn see(&mut self, usage: Usage) {
        self.allocated_bytes = self.allocated_bytes.max(usage.allocated_bytes);
        self.reserved_bytes = self.reserved_bytes.max(usage.reserved_bytes);
    }
}

/// The recording began with one free segment in the small pool. Its address is that of the first small buffer, which
/// takes its low end.
fn with_first_segment(events: &[Recorded], expandable_segments: bool) -> TorchCaching<Replay> {
    let address = events.iter().find_map(|event| match *event {
        Recorded::Alloc { address, bytes } if bytes <= SMALL_MAX_BYTES => Some(address),
        _ => None,
    });
    let (address, bytes) = (address.expect("every run has small buffers"), SMALL_SEGMENT_BYTES);
    let first = match expandable_segments {
        true => SegmentEvent::Map { address, bytes },
        false => SegmentEvent::Alloc { address, bytes },
    };
    let options = Options { expandable_segments, ..Options::default() };
    let mut allocator = TorchCaching::with_driver(options, Replay { upcoming: vec![first], seen: Vec::new() });
    let handle = allocator.alloc(1).unwrap();
    allocator.free(handle);
    assert_eq!(allocator.driver().seen, [first]);
    *allocator.driver_mut() = Replay::default();
    allocator
}

/// Replays a trace, comparing on the way, and gives the simulated peaks.
fn replay(name: &str) -> Peaks {
    let events = torch_trace::read(name);
    let mut allocator = with_first_segment(&events, name.ends_with("expandable"));
    let mut live: HashMap<u64, Handle> = HashMap::new();
    let mut peaks = Peaks::default();
    for (line, event) in events.iter().enumerate() {
        let at = || format!("{name}, line {}", line + 1);
        match *event {
            Recorded::Segment(event) => allocator.driver_mut().upcoming.push(event),
            Recorded::Alloc { address, bytes } => {
                let handle = allocator.alloc(bytes).expect("the device has no limit");
                let Replay { upcoming, seen } = std::mem::take(allocator.driver_mut());
                assert_eq!(seen, upcoming, "segment events before {}", at());
                assert_eq!(allocator.placement(handle).map(|(address, _)| address), Some(address), "{}", at());
                assert!(live.insert(address, handle).is_none(), "{}", at());
            }
            // Nothing else ran on the device: a free was always completed at once.
            Recorded::FreeRequested { address } => {
                assert_eq!(events.get(line + 1), Some(&Recorded::FreeCompleted { address }), "{}", at());
            }
            Recorded::FreeCompleted { address } => {
                allocator.free(live.remove(&address).unwrap_or_else(|| panic!("{}: not allocated", at())));
                assert_eq!(allocator.driver().seen, [], "{}", at());
            }
        }
        peaks.see(allocator.usage());
    }
    let rest = allocator.driver();
    assert_eq!(rest.upcoming, [], "{name}: segment events at the end");
    peaks
}

/// What PyTorch itself reported: `max_memory_allocated` and `max_memory_reserved`, over three steps.
fn reported() -> HashMap<String, Peaks> {
    let text = std::fs::read_to_string(torch_trace::folder().join("runs.jsonl")).expect("runs.jsonl is in fixtures");
    let mut runs = HashMap::new();
    for line in text.lines() {
        let run: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        let name = run["snapshot"].as_str().and_then(|file| file.strip_suffix(".trace.gz")).expect("a name");
        let peaks: &mut Peaks = runs.entry(name.to_owned()).or_default();
        for step in run["steps"].as_array().expect("steps") {
            peaks.see(Usage {
                allocated_bytes: step["peak_alloc"].as_u64().expect("bytes"),
                reserved_bytes: step["peak_reserved"].as_u64().expect("bytes"),
            });
        }
    }
    runs
}

/// Peaks of an expandable run from its own lines: blocks are cut to 512 bytes, and reserved is what is mapped.
fn recorded_peaks(name: &str) -> Peaks {
    let mut now = Usage { allocated_bytes: 0, reserved_bytes: SMALL_SEGMENT_BYTES };
    let mut live = HashMap::new();
    let mut peaks = Peaks::default();
    for event in torch_trace::read(name) {
        match event {
            Recorded::Alloc { address, bytes } => {
                let block_bytes = bytes.next_multiple_of(MIN_BLOCK_BYTES);
                live.insert(address, block_bytes);
                now.allocated_bytes += block_bytes;
            }
            Recorded::FreeCompleted { address } => now.allocated_bytes -= live[&address],
            Recorded::Segment(SegmentEvent::Map { bytes, .. }) => now.reserved_bytes += bytes,
            Recorded::Segment(SegmentEvent::Unmap { bytes, .. }) => now.reserved_bytes -= bytes,
            Recorded::Segment(other) => panic!("{name}: {other:?} in an expandable run"),
            Recorded::FreeRequested { .. } => {}
        }
        peaks.see(now);
    }
    peaks
}

#[test]
fn default_runs_replay_to_the_byte() {
    let reported = reported();
    let default = torch_trace::TRACES.into_iter().filter(|name| !name.ends_with("expandable"));
    let mut count = 0;
    for name in default {
        assert_eq!(replay(name), reported[name], "{name}");
        count += 1;
    }
    assert_eq!(count, reported.len(), "every reported run has its trace");
}

#[test]
fn expandable_runs_replay_to_the_byte() {
    for name in torch_trace::TRACES.into_iter().filter(|name| name.ends_with("expandable")) {
        assert_eq!(replay(name), recorded_peaks(name), "{name}");
    }
}

/// A prediction has no recorded addresses. They decide only between free blocks of equal size, which matters little.
#[test]
fn made_up_addresses_hardly_change_the_peaks() {
    for name in torch_trace::TRACES {
        let options = Options { expandable_segments: name.ends_with("expandable"), ..Options::default() };
        let mut allocator = TorchCaching::new(options);
        let first = allocator.alloc(1).unwrap();
        allocator.free(first);
        let mut live = HashMap::new();
        let mut peaks = Peaks::default();
        for event in torch_trace::read(name) {
            match event {
                Recorded::Alloc { address, bytes } => drop(live.insert(address, allocator.alloc(bytes).unwrap())),
                Recorded::FreeCompleted { address } => allocator.free(live.remove(&address).unwrap()),
                _ => {}
            }
            peaks.see(allocator.usage());
        }
        let real = replay(name);
        let pairs = [(peaks.allocated_bytes, real.allocated_bytes), (peaks.reserved_bytes, real.reserved_bytes)];
        for (made_up_bytes, real_bytes) in pairs {
            // Half a percent; the largest difference of these runs is 0.16 %.
            assert!(made_up_bytes.abs_diff(real_bytes) * 200 <= real_bytes, "{name}: {peaks:?}, really {real:?}");
        }
    }
}

//! Snapshots made by hand: what is counted where, and what is said about gaps in the recording.

use super::*;
use crate::bytes::MIB;
use crate::report::Style;
use crate::report::snapshot::{HolderKind, SnapshotReport};

/// Where the first segment lies.
const BASE: u64 = 0x7f00_0000_0000;

fn event(action: Action, offset_mib: u64, mebibytes: u64) -> Event {
    Event {
        action,
        lane: LaneId(0),
        site: SiteId(0),
        address: BASE + offset_mib * MIB,
        bytes: mebibytes * MIB,
        time_us: 0,
    }
}

/// Both events of a free.
fn free(offset_mib: u64, mebibytes: u64) -> [Event; 2] {
    [event(Action::FreeRequested, offset_mib, mebibytes), event(Action::FreeCompleted, offset_mib, mebibytes)]
}

fn block(offset_mib: u64, mebibytes: u64, state: BlockState) -> Block {
    let bytes = mebibytes * MIB;
    Block { address: BASE + offset_mib * MIB, bytes, requested_bytes: bytes, state, site: SiteId(0) }
}

fn segment(offset_mib: u64, mebibytes: u64, blocks: Vec<Block>) -> Segment {
    let (address, bytes) = (BASE + offset_mib * MIB, mebibytes * MIB);
    Segment { address, bytes, lane: LaneId(0), small: false, expandable: false, blocks }
}

fn snapshot(events: Vec<Event>, segments: Vec<Segment>) -> Snapshot {
    let line = |file: &str, line| Some(Line { file: file.to_owned(), line, function: "f".to_owned() });
    Snapshot {
        devices: vec![Device { index: 0, events, segments }],
        sites: vec![
            Site::default(),
            Site { user: line("train.py", 1), library: line("torch/nn/a.py", 7), backward: None },
            Site { user: line("train.py", 1), library: line("torch/nn/b.py", 8), backward: None },
            Site { user: None, library: line("torch/c.py", 9), backward: None },
        ],
        lanes: vec![Lane::default()],
        settings: RecordedSettings::default(),
    }
}

fn report(snapshot: &Snapshot) -> SnapshotReport {
    analyse(snapshot, &Question::default())
}

fn codes(report: &SnapshotReport) -> Vec<&str> {
    report.notes.iter().map(|note| note.code.as_str()).collect()
}

#[test]
fn a_history_from_the_start_is_exact() {
    let mut events = vec![
        event(Action::SegmentAlloc, 0, 40),
        event(Action::Alloc, 0, 40),
        event(Action::SegmentAlloc, 40, 12),
        event(Action::Alloc, 40, 12),
    ];
    events.extend(free(0, 40));
    events.push(event(Action::Alloc, 0, 10));
    let blocks = vec![block(0, 10, BlockState::Allocated), block(10, 30, BlockState::Free)];
    let segments = vec![segment(0, 40, blocks), segment(40, 12, vec![block(40, 12, BlockState::Allocated)])];
    let report = report(&snapshot(events, segments));
    let device = &report.devices[0];
    let peak = device.peak.as_ref().unwrap();
    assert_eq!((peak.allocated_bytes, peak.requested_bytes, peak.event), (52 * MIB, 52 * MIB, Some(3)));
    assert_eq!((peak.reserved_bytes, peak.most_reserved_bytes), (52 * MIB, 52 * MIB));
    let check = device.self_check.as_ref().unwrap();
    assert_eq!((check.segment_events, check.reproduced, check.invented), (2, 2, 0));
    assert_eq!((check.allocations, check.at_recorded_address), (3, 3));
    assert_eq!((device.now.allocated_bytes, device.now.reserved_bytes), (22 * MIB, 52 * MIB));
    assert_eq!((device.now.largest_free_bytes, device.now.beside_buffers_bytes), (30 * MIB, 30 * MIB));
    assert_eq!(device.before_recording.as_ref().unwrap().buffers, 0);
    assert_eq!((codes(&report), device.fits, report.does_not_fit()), (vec![], None, false));
}

#[test]
fn what_was_there_before_is_counted_and_said() {
    // One buffer is freed, one stays; neither was seen to be allocated.
    let mut events = free(0, 16).to_vec();
    events.push(event(Action::Alloc, 0, 2));
    let blocks =
        vec![block(0, 2, BlockState::Allocated), block(2, 14, BlockState::Free), block(16, 4, BlockState::Allocated)];
    let report = report(&snapshot(events, vec![segment(0, 20, blocks)]));
    let device = &report.devices[0];
    let before = device.before_recording.as_ref().unwrap();
    assert_eq!((before.bytes, before.buffers, before.freed_bytes), (20 * MIB, 2, 16 * MIB));
    let peak = device.peak.as_ref().unwrap();
    assert_eq!((peak.allocated_bytes, peak.event), (20 * MIB, None));
    assert_eq!((device.holders[0].kind, device.holders[0].bytes), (HolderKind::BeforeRecording, 20 * MIB));
    assert_eq!(device.self_check.as_ref().unwrap().at_recorded_address, 1);
    assert_eq!(codes(&report), ["start_packed"]);
}

#[test]
fn holders_are_grouped_by_the_users_line() {
    let mut events = vec![event(Action::SegmentAlloc, 0, 20)];
    for (offset, site, bytes) in [(0, 1, 2), (2, 2, 3), (5, 3, 4), (9, 0, 5)] {
        events.push(Event { site: SiteId(site), ..event(Action::Alloc, offset, bytes) });
    }
    let report = report(&snapshot(events, vec![]));
    let holders = &report.devices[0].holders;
    let rows: Vec<_> =
        holders.iter().map(|one| (one.kind, one.source.as_deref(), one.bytes / MIB, one.buffers)).collect();
    assert_eq!(
        rows,
        [
            (HolderKind::NoStack, None, 5, 1),
            (HolderKind::UserLine, Some("train.py:1"), 5, 2),
            (HolderKind::LibraryLine, Some("torch/c.py:9"), 4, 1),
        ]
    );
    // The heavier of the two library lines stands for the group; a library's own line is not repeated.
    assert_eq!((holders[1].library.as_deref(), holders[2].library.as_deref()), (Some("torch/nn/b.py:8 f"), None));
    let requested: u64 = holders.iter().map(|one| one.bytes).sum();
    assert_eq!(Some(requested), report.devices[0].peak.as_ref().map(|peak| peak.requested_bytes));
    assert_eq!(codes(&report), ["stopped_early"]);
}

#[test]
fn a_failed_request_says_what_was_free() {
    let oom = Event { address: 3 * MIB, ..event(Action::OutOfMemory, 0, 30) };
    let events = vec![event(Action::SegmentAlloc, 0, 40), event(Action::Alloc, 0, 40), oom];
    let used = vec![segment(0, 40, vec![block(0, 40, BlockState::Allocated)])];
    let by_device = report(&snapshot(events.clone(), used.clone()));
    let device = &by_device.devices[0];
    let failure = &device.out_of_memory[0];
    assert_eq!((failure.requested_bytes, failure.device_free_bytes, failure.own_limit), (30 * MIB, 3 * MIB, false));
    assert_eq!((failure.allocated_bytes, failure.reserved_bytes), (40 * MIB, 40 * MIB));
    assert_eq!((device.limit_bytes, device.fits, by_device.does_not_fit()), (Some(43 * MIB), Some(false), true));
    // The request is made again: 70 MiB are needed, and no setting has them.
    assert!(device.settings.iter().all(|setting| setting.fits == Some(false)), "{:?}", device.settings);
    assert!(device.settings.iter().any(|setting| setting.conf == "garbage_collection_threshold:0.8"));
    assert!(codes(&by_device).contains(&"failed_requests_made_again"));

    let own = Event { address: 900 * MIB, ..oom };
    let by_process = report(&snapshot(vec![events[0], events[1], own], used));
    let device = &by_process.devices[0];
    assert!(device.out_of_memory[0].own_limit);
    assert_eq!((device.limit_bytes, device.fits), (None, Some(false)));
}

#[test]
fn a_limit_that_is_asked_about_decides() {
    let events = vec![event(Action::SegmentAlloc, 0, 40), event(Action::Alloc, 0, 40)];
    let used = vec![segment(0, 40, vec![block(0, 40, BlockState::Allocated)])];
    let snapshot = snapshot(events, used);
    for (limit_mib, fits) in [(39, false), (40, true)] {
        let report = analyse(&snapshot, &Question { limit_bytes: Some(limit_mib * MIB) });
        assert_eq!((report.devices[0].fits, report.does_not_fit()), (Some(fits), !fits));
        let default = report.devices[0].settings.iter().find(|setting| setting.recorded).unwrap();
        assert_eq!(default.fits, Some(fits));
    }
}

#[test]
fn fragmentation_leads_to_advice() {
    // Ten buffers of 30 MiB, every other one freed: none of the gaps serves 60 MiB, expandable segments do not need to.
    let mut events = Vec::new();
    for index in 0..10 {
        events.push(event(Action::SegmentAlloc, index * 100, 30));
        events.push(event(Action::Alloc, index * 100, 30));
    }
    (0..10).for_each(|index| events.extend(free(index * 100, 30)));
    for index in 0..5 {
        events.push(event(Action::SegmentAlloc, 2000 + index * 100, 60));
        events.push(event(Action::Alloc, 2000 + index * 100, 60));
    }
    let report = report(&snapshot(events, vec![]));
    let device = &report.devices[0];
    let best = &device.settings[0];
    assert_eq!((best.conf.as_str(), best.peak_reserved_bytes), ("expandable_segments:True", 300 * MIB));
    let advice = device.advice.as_ref().unwrap();
    assert_eq!(advice.environment, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    assert_eq!((advice.saves_bytes, device.peak.as_ref().unwrap().most_reserved_bytes), (300 * MIB, 600 * MIB));
    assert!(device.settings.is_sorted_by_key(|setting| setting.peak_reserved_bytes));
}

#[test]
fn streams_do_not_share_memory() {
    let other = |event: Event| Event { lane: LaneId(1), ..event };
    let mut events = vec![event(Action::SegmentAlloc, 0, 40), event(Action::Alloc, 0, 40)];
    events.extend(free(0, 40));
    events.extend([other(event(Action::SegmentAlloc, 100, 40)), other(event(Action::Alloc, 100, 40))]);
    let mut snapshot = snapshot(events, vec![]);
    snapshot.lanes.push(Lane { stream: 7, pool: (0, 0) });
    let report = report(&snapshot);
    let check = report.devices[0].self_check.as_ref().unwrap();
    assert_eq!((check.reproduced, check.invented, check.replayed_peak_reserved_bytes), (2, 0, 80 * MIB));
}

#[test]
fn an_unnamed_private_pool_is_found_by_its_addresses() {
    // Free memory of the shared pool would have served it.
    let mut events = vec![event(Action::SegmentAlloc, 0, 40), event(Action::Alloc, 0, 40)];
    events.extend(free(0, 40));
    events.extend([event(Action::SegmentAlloc, 100, 40), event(Action::Alloc, 100, 40)]);
    let private = Segment { lane: LaneId(1), ..segment(100, 40, vec![block(100, 40, BlockState::Allocated)]) };
    let mut snapshot = snapshot(events, vec![segment(0, 40, vec![block(0, 40, BlockState::Free)]), private]);
    snapshot.lanes.push(Lane { stream: 0, pool: (0, 3) });
    let check = report(&snapshot).devices[0].self_check.clone().unwrap();
    assert_eq!((check.segment_events, check.reproduced, check.at_recorded_address), (2, 2, 2));
}

#[test]
fn a_free_that_waits_counts_as_reserved_but_not_as_allocated() {
    let events = vec![
        event(Action::SegmentAlloc, 0, 20),
        event(Action::Alloc, 0, 20),
        event(Action::FreeRequested, 0, 20),
        event(Action::SegmentAlloc, 100, 30),
        event(Action::Alloc, 100, 30),
        event(Action::FreeCompleted, 0, 20),
    ];
    let report = report(&snapshot(events, vec![]));
    let peak = report.devices[0].peak.as_ref().unwrap();
    assert_eq!((peak.allocated_bytes, peak.reserved_bytes), (30 * MIB, 50 * MIB));
    assert_eq!(report.devices[0].self_check.as_ref().unwrap().reproduced, 2);
}

#[test]
fn without_a_history_the_segments_answer() {
    let blocks = vec![block(0, 15, BlockState::Allocated), block(15, 5, BlockState::Free)];
    let report = report(&snapshot(vec![], vec![segment(0, 20, blocks)]));
    let device = &report.devices[0];
    assert_eq!((device.now.allocated_bytes, device.now.reserved_bytes), (15 * MIB, 20 * MIB));
    assert_eq!((device.peak.is_none(), device.holders[0].bytes), (true, 15 * MIB));
    assert_eq!(codes(&report), ["no_history"]);
    let text = report.to_text(Style::default());
    assert!(text.starts_with("Held: 15.0 MiB allocated and 20.0 MiB reserved on cuda:0"), "{text}");
    assert!(text.contains("torch.cuda.memory._record_memory_history()"), "{text}");
}

#[test]
fn an_empty_snapshot_says_so() {
    let report = report(&Snapshot::default());
    assert_eq!(codes(&report), ["empty_snapshot"]);
    assert!(report.to_text(Style::default()).starts_with("Nothing is on a GPU"));
}

#[test]
fn lines_keep_to_the_width() {
    let oom = Event { address: 3 * MIB, ..event(Action::OutOfMemory, 0, 30) };
    let events =
        vec![event(Action::SegmentAlloc, 0, 40), Event { site: SiteId(1), ..event(Action::Alloc, 0, 40) }, oom];
    let report = report(&snapshot(events, vec![]));
    for width in [40, 60, 80, 120] {
        let text = report.to_text(Style { colour: false, width });
        // Code is never wrapped, nor is a single long word.
        let long = text.lines().find(|line| line.chars().count() > width && line.trim().contains(' '));
        assert_eq!(long, None, "{width}");
    }
}

#[test]
fn a_free_of_another_stream_has_no_home() {
    let events = vec![Event { lane: LaneId(1), ..event(Action::FreeCompleted, 0, 16) }];
    let mut snapshot = snapshot(events, vec![segment(0, 20, vec![block(0, 20, BlockState::Free)])]);
    snapshot.lanes.push(Lane { stream: 7, pool: (0, 0) });
    assert_eq!(codes(&report(&snapshot)), ["start_packed", "start_incomplete"]);
}

#[test]
fn pages_that_went_back_are_known_from_the_start() {
    // Before the recording 60 MiB were mapped, with one buffer in the first 20.
    let events = vec![
        event(Action::SegmentUnmap, 20, 40),
        event(Action::SegmentMap, 20, 20),
        event(Action::Alloc, 20, 15),
        event(Action::SegmentMap, 40, 40),
        event(Action::Alloc, 35, 40),
    ];
    let blocks = vec![
        block(0, 20, BlockState::Allocated),
        block(20, 15, BlockState::Allocated),
        block(35, 40, BlockState::Allocated),
        block(75, 5, BlockState::Free),
    ];
    let mut snapshot = snapshot(events, vec![Segment { expandable: true, ..segment(0, 80, blocks) }]);
    snapshot.settings.options.expandable_segments = true;
    let report = report(&snapshot);
    let check = report.devices[0].self_check.as_ref().unwrap();
    assert_eq!((check.segment_events, check.reproduced, check.invented), (3, 3, 0), "{check:?}");
    assert_eq!((check.allocations, check.at_recorded_address), (2, 2));
    let peak = report.devices[0].peak.as_ref().unwrap();
    assert_eq!((peak.allocated_bytes, peak.most_reserved_bytes), (75 * MIB, 80 * MIB));
}

#[test]
fn segments_that_went_back_are_known_from_the_start() {
    let mut events = free(0, 15).to_vec();
    events.extend([
        event(Action::SegmentFree, 0, 20),
        event(Action::SegmentAlloc, 100, 30),
        event(Action::Alloc, 100, 30),
    ]);
    let report = report(&snapshot(events, vec![segment(100, 30, vec![block(100, 30, BlockState::Allocated)])]));
    let device = &report.devices[0];
    let check = device.self_check.as_ref().unwrap();
    assert_eq!((check.segment_events, check.reproduced, check.invented), (2, 2, 0), "{check:?}");
    assert_eq!(check.recorded_peak_reserved_bytes, 30 * MIB);
    assert_eq!(device.before_recording.as_ref().unwrap().freed_bytes, 15 * MIB);
}

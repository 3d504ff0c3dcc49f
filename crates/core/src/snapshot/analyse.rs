//! From a snapshot to its report.
//!
//! In: a [`Snapshot`] and a [`Question`]. Out: a [`SnapshotReport`]: for each device the peak and who held it, what was
//! reserved for nothing, failed requests, and what other settings would have needed.

use super::holders::{Held, group, held_after};
use super::recorded::{self, Recorded};
use super::settings::{self, Need};
use super::start::Start;
use super::timeline::{Change, Timeline};
use super::{Action, Block, BlockState, Device, Event, Snapshot};
use crate::report::snapshot::{
    AdviceReport, BeforeReport, CheckReport, DeviceReport, FailureReport, FragmentationReport, NowReport, PeakReport,
    RecordingReport, SettingReport, SnapshotReport,
};
use crate::report::{NoteReport, SCHEMA};

/// Another setting is worth a line when it saves at least this share of what was reserved.
const WORTH_SAVING: f64 = 0.05;

/// What is asked of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// How much may be reserved; without it, what the device had when a request failed.
    pub limit_bytes: Option<u64>,
}

/// Answers it.
pub fn analyse(snapshot: &Snapshot, question: &Question) -> SnapshotReport {
    let mut notes = Vec::new();
    if let Some(reason) = &snapshot.settings.not_understood {
        let text = format!("The recorded allocator settings are used in part only: {reason}.");
        note(&mut notes, "settings_not_understood", text);
    }
    let devices: Vec<DeviceReport> =
        snapshot.devices.iter().map(|device| device_report(snapshot, device, question, &mut notes)).collect();
    if devices.is_empty() {
        let text = "The snapshot holds no memory and no history: nothing had been allocated on a GPU.";
        note(&mut notes, "empty_snapshot", text.to_owned());
    } else if devices.iter().all(|device| device.recording.is_none()) {
        let text = "No history was recorded, so there is no peak and nothing to replay: call \
                    torch.cuda.memory._record_memory_history() before the first tensor is put on the GPU, and \
                    torch.cuda.memory._dump_snapshot('snapshot.pickle') at the end.";
        note(&mut notes, "no_history", text.to_owned());
    }
    SnapshotReport {
        schema: SCHEMA,
        kind: "torch_snapshot".to_owned(),
        recorded_conf: snapshot.settings.conf.clone(),
        devices,
        notes,
    }
}

fn note(notes: &mut Vec<NoteReport>, code: &str, text: String) {
    notes.push(NoteReport { code: code.to_owned(), layer: None, text });
}

fn device_report(
    snapshot: &Snapshot,
    device: &Device,
    question: &Question,
    notes: &mut Vec<NoteReport>,
) -> DeviceReport {
    let name = format!("cuda:{}", device.index);
    let now = now(device);
    if device.events.is_empty() {
        let held = held_now(device);
        let fits = question.limit_bytes.map(|limit_bytes| now.reserved_bytes <= limit_bytes);
        return DeviceReport {
            device: name,
            holders: group(&held, &snapshot.sites),
            limit_bytes: question.limit_bytes,
            fits,
            now,
            recording: None,
            peak: None,
            fragmentation: None,
            before_recording: None,
            out_of_memory: Vec::new(),
            settings: Vec::new(),
            advice: None,
            self_check: None,
        };
    }
    let options = &snapshot.settings.options;
    let timeline = Timeline::new(device, &snapshot.lanes);
    let start = Start::new(device, &timeline, options);
    let recorded = recorded::replay(device, &timeline, &start, options, None);
    let held = held_after(&timeline, recorded.peak_step);
    let out_of_memory = failures(snapshot, device, &timeline, &recorded);
    // Where the process had a limit of its own, what the device had says nothing.
    let by_device = out_of_memory.iter().filter(|failure| !failure.own_limit);
    let had_bytes = by_device.map(|failure| failure.reserved_bytes.saturating_add(failure.device_free_bytes)).min();
    let limit_bytes = question.limit_bytes.or(had_bytes);
    let conf = snapshot.settings.conf.as_str();
    let needs = settings::needs(device, &timeline, &start, (conf, options), limit_bytes);
    let before_recording = before(&timeline);
    device_notes(&timeline, &start, &before_recording, &name, notes);
    if !out_of_memory.is_empty() {
        let text = format!(
            "{name}: the settings are compared with the failed requests made again: the figures are what it takes to get past \
             them."
        );
        note(notes, "failed_requests_made_again", text);
    }
    // A request that failed is proof; otherwise what was reserved counts.
    let fits = match out_of_memory.is_empty() {
        false if question.limit_bytes.is_none() => Some(false),
        _ => limit_bytes.map(|limit_bytes| recorded.peak_reserved_bytes <= limit_bytes),
    };
    DeviceReport {
        device: name,
        recording: Some(recording(device, &before_recording)),
        peak: Some(peak(snapshot, device, &timeline, &recorded, &held)),
        holders: group(&held, &snapshot.sites),
        fragmentation: Some(fragmentation(device, &timeline, &start, snapshot, &recorded)),
        now,
        before_recording: Some(before_recording),
        out_of_memory,
        limit_bytes,
        fits,
        advice: advice(&needs, limit_bytes),
        settings: needs.into_iter().map(|need| setting(need, limit_bytes)).collect(),
        self_check: Some(check(&recorded)),
    }
}

/// Seconds since the first event, where the recording has times.
fn seconds(device: &Device, event: &Event) -> Option<f64> {
    let first_us = device.events.first()?.time_us;
    (first_us > 0 && event.time_us >= first_us).then(|| (event.time_us - first_us) as f64 / 1e6)
}

fn source(snapshot: &Snapshot, event: &Event) -> Option<String> {
    let site = snapshot.sites.get(event.site.0 as usize)?;
    site.user.as_ref().or(site.library.as_ref()).map(super::Line::place_and_function)
}

fn recording(device: &Device, before: &BeforeReport) -> RecordingReport {
    let count = |action: Action| device.events.iter().filter(|event| event.action == action).count() as u64;
    RecordingReport {
        events: device.events.len() as u64,
        allocations: count(Action::Alloc),
        seconds: device.events.last().and_then(|last| seconds(device, last)),
        // A block with a stack was allocated while history was being recorded.
        cut: before.with_stack > 0,
    }
}

fn peak(snapshot: &Snapshot, device: &Device, timeline: &Timeline, recorded: &Recorded, held: &[Held]) -> PeakReport {
    let event_index = recorded.peak_step.map(|step| timeline.steps[step].event);
    let event = event_index.map(|index| &device.events[index as usize]);
    let requested_bytes = held.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
    PeakReport {
        allocated_bytes: recorded.peak_allocated_bytes.max(requested_bytes),
        requested_bytes,
        reserved_bytes: recorded.reserved_at_peak_bytes,
        most_reserved_bytes: recorded.peak_reserved_bytes,
        event: event_index.map(u64::from),
        seconds: event.and_then(|event| seconds(device, event)),
        source: event.and_then(|event| source(snapshot, event)),
    }
}

/// Runs up to the peak again, to look at the gaps there.
fn fragmentation(
    device: &Device,
    timeline: &Timeline,
    start: &Start,
    snapshot: &Snapshot,
    recorded: &Recorded,
) -> FragmentationReport {
    let options = &snapshot.settings.options;
    let at_peak = match recorded.peak_step {
        Some(step) => recorded::replay(device, timeline, start, options, Some(step)),
        None => {
            let nothing = Timeline { steps: Vec::new(), ..timeline.clone() };
            recorded::replay(device, &nothing, start, options, None)
        }
    };
    FragmentationReport {
        unused_bytes: recorded.reserved_at_peak_bytes.saturating_sub(recorded.peak_allocated_bytes),
        beside_buffers_bytes: at_peak.free_at_the_end.0,
        largest_free_bytes: at_peak.free_at_the_end.1,
    }
}

fn failures(snapshot: &Snapshot, device: &Device, timeline: &Timeline, recorded: &Recorded) -> Vec<FailureReport> {
    let steps = timeline.steps.iter().filter(|step| step.change == Change::OutOfMemory);
    let failure = |(step, held): (&super::timeline::Step, &(u64, u64))| {
        let event = &device.events[step.event as usize];
        FailureReport {
            requested_bytes: event.bytes,
            device_free_bytes: event.address,
            allocated_bytes: held.0,
            reserved_bytes: held.1,
            own_limit: event.address >= snapshot.settings.options.segment_bytes(event.bytes),
            event: u64::from(step.event),
            seconds: seconds(device, event),
            source: source(snapshot, event),
        }
    };
    steps.zip(&recorded.at_failures).map(failure).collect()
}

fn held_now(device: &Device) -> Vec<Held> {
    let blocks = device.segments.iter().flat_map(|segment| &segment.blocks);
    let used = blocks.filter(|block| block.state != BlockState::Free);
    used.map(|block| Held { site: block.site, bytes: block.requested_bytes, from_start: true }).collect()
}

fn now(device: &Device) -> NowReport {
    // Sizes come from a file: a sum that no device has must not wrap.
    let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
    let mut now = NowReport { segments: device.segments.len() as u64, ..NowReport::default() };
    for segment in &device.segments {
        add(&mut now.reserved_bytes, segment.bytes);
        let whole = segment.blocks.len() == 1;
        for &Block { bytes, requested_bytes, state, .. } in &segment.blocks {
            match state {
                BlockState::Allocated => {
                    add(&mut now.allocated_bytes, bytes);
                    add(&mut now.requested_bytes, requested_bytes);
                }
                BlockState::PendingFree => add(&mut now.pending_free_bytes, bytes),
                BlockState::Free => {
                    now.largest_free_bytes = now.largest_free_bytes.max(bytes);
                    add(&mut now.beside_buffers_bytes, if whole { 0 } else { bytes });
                }
            }
        }
    }
    now
}

fn before(timeline: &Timeline) -> BeforeReport {
    let mut report = BeforeReport::default();
    for buffer in timeline.buffers.iter().filter(|buffer| buffer.from_start) {
        report.bytes = report.bytes.saturating_add(buffer.requested_bytes);
        report.buffers += 1;
        report.with_stack += u64::from(buffer.site != super::SiteId::default());
    }
    let freed = timeline.steps.iter().filter_map(|step| match step.change {
        Change::Completed(buffer) => Some(&timeline.buffers[buffer.0 as usize]),
        _ => None,
    });
    report.freed_bytes =
        freed.filter(|buffer| buffer.from_start).map(|buffer| buffer.requested_bytes).fold(0, u64::saturating_add);
    report
}

fn device_notes(timeline: &Timeline, start: &Start, before: &BeforeReport, name: &str, notes: &mut Vec<NoteReport>) {
    if before.with_stack > 0 {
        let text = format!(
            "{name}: {} of the buffers from before the recording have a stack, so an earlier part of the history is \
             missing: it was full (max_entries) or was cleared. What was allocated then is counted; an earlier peak is not \
             known.",
            before.with_stack
        );
        note(notes, "history_cut", text);
    }
    if before.buffers > 0 {
        let text = format!(
            "{name}: the settings are compared with what was there before the recording packed anew, without the gaps it \
             had."
        );
        note(notes, "start_packed", text);
    }
    if timeline.gone_at_the_end > 0 {
        let text = format!(
            "{name}: {} buffers of the history are not in the final state: recording was stopped before the snapshot was \
             taken.",
            timeline.gone_at_the_end
        );
        note(notes, "stopped_early", text);
    }
    if start.homeless > 0 {
        let text = format!(
            "{name}: {} buffers from before the recording lie in no known segment; the replay goes without them.",
            start.homeless
        );
        note(notes, "start_incomplete", text);
    }
}

fn setting(need: Need, limit_bytes: Option<u64>) -> SettingReport {
    SettingReport {
        fits: limit_bytes.map(|limit_bytes| !need.failed && need.peak_reserved_bytes <= limit_bytes),
        conf: need.conf,
        recorded: need.recorded,
        peak_reserved_bytes: need.peak_reserved_bytes,
        peak_allocated_bytes: need.peak_allocated_bytes,
    }
}

/// The best setting, if it is worth the change.
fn advice(needs: &[Need], limit_bytes: Option<u64>) -> Option<AdviceReport> {
    let recorded = needs.iter().find(|need| need.recorded)?;
    let best = needs.iter().find(|need| !need.failed && !need.recorded)?;
    let saves_bytes = recorded.peak_reserved_bytes.checked_sub(best.peak_reserved_bytes)?;
    let worth = saves_bytes as f64 >= WORTH_SAVING * recorded.peak_reserved_bytes as f64;
    let decides = limit_bytes.is_some_and(|limit_bytes| {
        recorded.peak_reserved_bytes > limit_bytes && best.peak_reserved_bytes <= limit_bytes
    });
    (saves_bytes > 0 && (worth || decides)).then(|| AdviceReport {
        conf: best.conf.clone(),
        saves_bytes,
        environment: match best.conf.as_str() {
            "" => "unset PYTORCH_CUDA_ALLOC_CONF".to_owned(),
            conf => format!("export PYTORCH_CUDA_ALLOC_CONF={conf}"),
        },
    })
}

fn check(recorded: &Recorded) -> CheckReport {
    let check = recorded.check;
    CheckReport {
        segment_events: check.segment_events,
        reproduced: check.reproduced,
        invented: check.invented,
        allocations: check.allocations,
        at_recorded_address: check.at_recorded_address,
        recorded_peak_reserved_bytes: recorded.peak_reserved_bytes,
        replayed_peak_reserved_bytes: recorded.replayed_peak_reserved_bytes,
    }
}

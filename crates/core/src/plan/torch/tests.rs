use std::collections::BTreeMap;

use super::remedies::{Change, Context, REGISTRY};
use super::simulate::replay;
use super::*;
use crate::bytes::{GIB, KIB, MIB};
use crate::capture::samples::captured;
use crate::capture::{Event, Recording};
use crate::trace::{Phase, Role};

const BLOCKS: usize = 8;

/// A chain of blocks, and its modules as the request lists them.
fn job(batch: u64, more: &str) -> (Capture, Request) {
    let capture = captured(batch, BLOCKS, 256 * KIB as i64);
    let blocks = (0..BLOCKS).map(|block| {
        format!(
            r#",{{"path": "h.{block}", "class": "Block"}},{{"path": "h.{block}.fc", "class": "Linear", "parameters": 4194304}},
            {{"path": "h.{block}.act", "class": "GELU"}}"#
        )
    });
    let modules = format!(r#"[{{"path": "", "class": "Net"}}{}]"#, blocks.collect::<String>());
    let text = format!(r#"{{"batch": {batch}, "optimizer": "adamw", "model": "Net", "modules": {modules}{more}}}"#);
    (capture, Request::from_json(&text).unwrap())
}

fn planned(batch: u64, more: &str) -> Report {
    let (capture, request) = job(batch, more);
    plan(&capture, &request).unwrap()
}

/// Every form of every remedy, applied to the job.
fn all_changes(context: &Context<'_>) -> Vec<(&'static str, Change)> {
    let setup = &context.base.setup;
    REGISTRY
        .iter()
        .flat_map(|remedy| remedy.options(context, setup).into_iter().map(|change| (remedy.id(), change)))
        .collect()
}

#[test]
fn the_parts_add_up_and_the_peaks_are_in_order() {
    for (batch, more) in
        [(4, ""), (64, r#", "device": "t4""#), (256, r#", "memory": "2GiB""#), (32, r#", "widen": 0.2"#)]
    {
        let report = planned(batch, more);
        let peak = &report.peak;
        assert_eq!(report.breakdown.total(), peak.device_bytes, "{more}");
        assert_eq!(peak.device_bytes, peak.reserved_bytes + report.breakdown.context);
        assert!(peak.floor_bytes <= peak.allocated_bytes && peak.allocated_bytes <= peak.reserved_bytes);
        assert!(peak.low_bytes <= peak.device_bytes && peak.device_bytes <= peak.high_bytes);
        assert!(report.layers.iter().any(|layer| layer.layer == "h.0.fc" && layer.class == "Linear"));
        assert!(report.lines.iter().any(|line| line.source.starts_with("train.py:") && line.bytes > MIB));
        assert!(report.lines.is_sorted_by(|a, b| a.bytes >= b.bytes));
        assert_eq!((report.model.layers, report.model.parameters), (3 * BLOCKS as u64, BLOCKS as u64 * 4_194_304));
    }
}

#[test]
fn the_moment_names_op_module_and_line() {
    let at = planned(64, "").peak.at.unwrap();
    assert_eq!((at.phase.as_str(), at.op.as_str()), ("backward", "aten.gelu_backward"));
    assert_eq!((at.layer.as_str(), at.source.as_deref()), ("h.7.act", Some("train.py:12")));
}

#[test]
fn the_verdict_follows_the_limit() {
    let needed = planned(64, "").peak.reserved_bytes;
    let verdict = |limit: u64, more: &str| planned(64, &format!(r#", "limit_bytes": {limit}{more}"#)).verdict;
    assert_eq!(verdict(needed * 2, ""), Verdict::Fits);
    assert_eq!(verdict(needed, ""), Verdict::Tight);
    assert_eq!(verdict(needed * 2, r#", "widen": 1.0"#), Verdict::Tight);
    assert_eq!(verdict(needed * 3, r#", "widen": 1.0"#), Verdict::Fits);
    assert_eq!(verdict(needed / 2, ""), Verdict::DoesNotFit);
}

#[test]
fn the_largest_batch_is_replayed_and_the_next_one_does_not_fit() {
    let (capture, request) = job(64, r#", "memory": "1GiB""#);
    let report = plan(&capture, &request).unwrap();
    let most = report.max_batch.unwrap();
    let setup = Setup::of(&capture, &request);
    // Of a batch that was not recorded a fiftieth of the limit stays free.
    let fits = |batch| replay(&setup, batch, Some(GIB - GIB / 50)).failure.is_none();
    assert!(most > 1 && fits(most) && !fits(most + 1), "{most}");
    assert!(report.safe_batches.iter().all(|&batch| batch <= most && fits(batch)));
    assert!(report.safe_batches.contains(&most));
    // What is wider is offered less.
    assert!(planned(64, r#", "memory": "1GiB", "widen": 0.3"#).max_batch.unwrap() < most);
}

#[test]
fn remedies_fit_where_they_say_so() {
    let report = planned(64, r#", "memory": "600MiB""#);
    assert_eq!(report.verdict, Verdict::DoesNotFit);
    let ids: Vec<&str> = report.remedies.iter().map(|remedy| remedy.id.as_str()).collect();
    for id in ["micro_batches", "smaller_batch", "activation_checkpointing", "mixed_precision", "lighter_optimizer"] {
        assert!(ids.contains(&id), "{id} is not among {ids:?}");
    }
    let usable = report.device.usable_bytes.unwrap();
    for remedy in &report.remedies {
        assert!(!remedy.fits || remedy.peak_bytes <= usable, "{}", remedy.id);
        assert!(remedy.apply.torch.is_some() && remedy.time_cost > 0.0, "{}", remedy.id);
    }
    let cheapest = report.cheapest_fit.unwrap();
    assert!(cheapest.peak_bytes <= usable, "{cheapest:?}");
}

#[test]
fn remedies_lose_no_buffers() {
    let (capture, request) = job(16, "");
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    let left = |recording: &Recording| {
        let ends =
            |event: &Event| i64::from(matches!(event, Event::Alloc(_))) - i64::from(matches!(event, Event::Free(_)));
        recording.events.iter().map(ends).sum::<i64>()
    };
    let before = left(&capture.recording);
    for (id, change) in all_changes(&context) {
        let recording = &change.setup.steps.recording;
        assert!(recording.is_sound(), "{id}");
        // What is left at the end is the state: weights, slots, inputs.
        let more = i64::from(id == "data_parallel");
        let state = matches!(id, "cpu_offload" | "lighter_optimizer");
        assert!(state || left(recording) == before + more, "{id} leaves {} of {before}", left(recording));
        for (second, change) in all_second(&context, &change) {
            assert!(change.setup.steps.recording.is_sound(), "{id} and {second}");
        }
    }
}

fn all_second(context: &Context<'_>, first: &Change) -> Vec<(&'static str, Change)> {
    REGISTRY
        .iter()
        .flat_map(|remedy| {
            remedy.options(context, &first.setup).into_iter().map(|change| (remedy.id(), change)).take(2)
        })
        .collect()
}

fn bytes_of(recording: &Recording, role: Role, batch: u64) -> u64 {
    let asked = recording.events.iter().filter_map(|event| match *event {
        Event::Alloc(buffer) => Some(recording.buffers[buffer as usize]),
        _ => None,
    });
    asked.filter(|buffer| buffer.role == role).map(|buffer| buffer.size.at(batch)).sum()
}

#[test]
fn checkpointing_keeps_weights_and_gradients_and_frees_the_rest_early() {
    let (capture, request) = job(64, "");
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    let before = &capture.recording;
    let changes = all_changes(&context);
    let all = changes.iter().rfind(|(id, _)| *id == "activation_checkpointing").unwrap();
    let after = &all.1.setup.steps.recording;
    for role in [Role::Parameter, Role::Gradient, Role::OptimizerState, Role::Input] {
        assert_eq!(bytes_of(before, role, 64), bytes_of(after, role, 64), "{role:?}");
    }
    // The forward pass of the blocks is made twice.
    assert!(bytes_of(after, Role::SavedActivation, 64) > bytes_of(before, Role::SavedActivation, 64));
    // Alive when the backward pass begins: of each block its output, of the last one nothing else.
    let alive = |recording: &Recording| {
        let begin = recording.events.iter().position(|event| *event == Event::Mark(Phase::Backward)).unwrap();
        let mut alive: BTreeMap<u32, u64> = BTreeMap::new();
        for event in &recording.events[..begin] {
            match *event {
                Event::Alloc(buffer) if recording.buffers[buffer as usize].role == Role::SavedActivation => {
                    alive.insert(buffer, recording.buffers[buffer as usize].size.at(64));
                }
                Event::Free(buffer) => drop(alive.remove(&buffer)),
                _ => {}
            }
        }
        alive.values().sum::<u64>()
    };
    let sample = 64 * 256 * KIB;
    assert_eq!(alive(before), 3 * sample * BLOCKS as u64 + 4);
    assert_eq!(alive(after), sample * BLOCKS as u64 + 4);
}

#[test]
fn micro_batches_keep_the_gradients_of_the_first_part() {
    let (capture, request) = job(64, "");
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    let changes = all_changes(&context);
    let halves = &changes.iter().find(|(id, _)| *id == "micro_batches").unwrap().1.setup;
    assert_eq!((halves.micro_batches, halves.at_once()), (2, 32));
    let recording = &halves.steps.recording;
    let last = recording.events.iter().rposition(|event| *event == Event::Mark(Phase::Forward)).unwrap();
    let alive = recording.events[..last].iter().fold(0i64, |sum, event| match *event {
        Event::Alloc(b) if recording.buffers[b as usize].role == Role::Gradient => sum + 1,
        Event::Free(b) if recording.buffers[b as usize].role == Role::Gradient => sum - 1,
        _ => sum,
    });
    assert_eq!(alive, BLOCKS as i64);
    // It needs more than half the batch alone, for the gradients, and less than the whole.
    let peak = |setup: &Setup| replay(setup, setup.at_once(), None).floor_peak_bytes;
    let half = Setup { batch: 32, ..context.base.setup.clone() };
    assert!(peak(halves) > peak(&half) && peak(halves) < peak(&context.base.setup));
}

#[test]
fn a_job_that_accumulates_already_does_so_in_more_parts() {
    let (capture, request) = job(64, r#", "accumulate": 4"#);
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    let changes = all_changes(&context);
    let more = &changes.iter().find(|(id, _)| *id == "micro_batches").unwrap().1;
    assert!(more.title.starts_with("Take each batch as 8 micro-batches of 8"), "{}", more.title);
    assert!(more.code.contains("chunk(8)"));
    // The recording shows what a second pass finds as it is.
    assert_eq!((more.setup.repeats, more.setup.at_once()), (1, 32));
}

#[test]
fn time_follows_the_work() {
    let (capture, request) = job(64, "");
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    for (id, change) in all_changes(&context) {
        let parts = 64.0 / change.setup.at_once() as f64;
        let cost = context.time_cost(&context.run(change.setup));
        let expected = match id {
            "activation_checkpointing" => 1.05..1.6,
            "micro_batches" | "smaller_batch" => 1.0..parts,
            "mixed_precision" | "freeze_layers" => 0.3..1.0,
            "data_parallel" | "cpu_offload" => 0.5..3.0,
            _ => 0.8..1.01,
        };
        assert!(expected.contains(&cost), "{id}: {cost}");
    }
}

#[test]
fn remedies_of_the_optimizer_touch_nothing_else() {
    let (capture, request) = job(16, "");
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    let before = &capture.recording;
    let state = bytes_of(before, Role::OptimizerState, 16);
    let mut seen = 0;
    for (id, change) in all_changes(&context) {
        let after = &change.setup.steps.recording;
        let left = bytes_of(after, Role::OptimizerState, 16);
        match id {
            "cpu_offload" => assert_eq!(left, 0),
            "eight_bit_optimizer" => assert_eq!(left, state * 65 / 256),
            "lighter_optimizer" if change.bounded => assert_eq!(left, state / 64),
            "lighter_optimizer" => assert_eq!(left, 0),
            "fused_optimizer" => assert_eq!(left, state),
            _ => continue,
        }
        seen += 1;
        for role in [Role::Parameter, Role::Gradient, Role::SavedActivation, Role::Input] {
            assert_eq!(bytes_of(before, role, 16), bytes_of(after, role, 16), "{id}: {role:?}");
        }
    }
    assert_eq!(seen, 5);
}

#[test]
fn autocast_halves_results_and_copies_weights() {
    let (capture, request) = job(64, r#", "device": "t4""#);
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    let changes = all_changes(&context);
    let change = &changes.iter().find(|(id, _)| *id == "mixed_precision").unwrap().1;
    assert!(change.bounded && change.title.contains("float16") && change.code.contains("GradScaler"));
    let (before, after) = (&capture.recording, &change.setup.steps.recording);
    // All that is saved here but the losses' 4 bytes, which stay float32 in both steps.
    let saved = bytes_of(before, Role::SavedActivation, 64);
    assert_eq!(bytes_of(after, Role::SavedActivation, 64), (saved - 8) / 2 + 8);
    assert_eq!(bytes_of(after, Role::Gradient, 64), bytes_of(before, Role::Gradient, 64));
    let (_, request) = job(64, r#", "precision": "autocast_bfloat16""#);
    let context = Context::new(&capture, &request, Outcome::new(Setup::of(&capture, &request), 0.0));
    assert!(all_changes(&context).iter().all(|(id, _)| *id != "mixed_precision"));
}

#[test]
fn an_unpaired_recording_says_nothing_about_other_batches() {
    let (capture, request) = job(64, r#", "memory": "600MiB""#);
    let alone = Capture { paired: false, known_up_to: Some(64), ..capture };
    let report = plan(&alone, &request).unwrap();
    assert_eq!((report.max_batch, report.safe_batches.len()), (None, 0));
    assert!(report.notes.iter().any(|note| note.code == "batch_fixed"));
    for remedy in &report.remedies {
        assert!(!matches!(remedy.id.as_str(), "micro_batches" | "smaller_batch" | "data_parallel"));
        assert_eq!(remedy.max_batch, None, "{}", remedy.id);
    }
    let (_, other) = job(32, "");
    assert!(matches!(plan(&alone, &other), Err(RequestError::UnknownBatch { asked: 32, recorded: 64 })));
}

#[test]
fn batches_beyond_what_is_known_are_not_offered() {
    let (capture, request) = job(8, r#", "memory": "4GiB""#);
    let known = Capture { known_up_to: Some(8), ..capture };
    let report = plan(&known, &request).unwrap();
    assert_eq!(report.max_batch, Some(8));
    assert!(report.notes.iter().any(|note| note.code == "batch_superlinear"));
}

#[test]
fn memory_that_others_hold_can_be_freed() {
    let needed = planned(64, "").peak.reserved_bytes;
    let device = format!(
        r#", "device": {{"name": "x", "capacity_bytes": {}}}, "held_by_others_bytes": {}"#,
        needed + 64 * MIB,
        needed / 2
    );
    let report = planned(64, &device);
    assert_eq!(report.verdict, Verdict::DoesNotFit);
    let free = report.remedies.iter().find(|remedy| remedy.id == "free_memory").unwrap();
    assert!(free.fits);
}

use super::samples::{Writer, captured, chain};
use super::*;
use crate::allocator::place;
use crate::allocator::torch_caching::{Options, TorchCaching};
use crate::trace::Role;

/// A buffer of a phase that lives on, and one that does not.
fn small(change: impl FnOnce(&mut Writer)) -> Result<Capture, CaptureError> {
    let mut writer = Writer::new();
    writer.mark(0);
    writer.alloc("aten.empty", 0, 4096);
    writer.step(0);
    writer.mark(1);
    change(&mut writer);
    Capture::new(writer.strings(), 8, &writer.bytes(), 0, None)
}

#[test]
fn two_recordings_give_sizes_for_every_batch() {
    let capture = captured(8, 3, 1000);
    assert!(capture.paired && capture.known_up_to.is_none());
    for batch in [1, 5, 8, 64] {
        let alone = chain(batch, 3, 1000);
        let alone = Capture::new(alone.strings(), batch as u64, &alone.bytes(), 0, None).unwrap();
        assert!(!alone.paired && alone.knows(batch as u64) && !alone.knows(batch as u64 + 1));
        let peak = |capture: &Capture| {
            place(&capture.recording.trace(batch as u64), batch as u64, &mut TorchCaching::new(Options::default()))
        };
        assert_eq!(peak(&capture), peak(&alone), "batch {batch}");
    }
}

#[test]
fn forward_results_that_live_into_backward_are_saved() {
    let capture = small(|writer| {
        let gone = writer.alloc("aten.relu", 5, 100);
        let kept = writer.alloc("aten.relu", 5, 200);
        let workspace = writer.alloc("cudnn_workspace", 6, 300);
        writer.free(gone);
        writer.mark(2);
        writer.free(kept);
        writer.free(workspace);
        writer.step(1);
        writer.mark(1);
        // No backward pass follows this one.
        writer.alloc("aten.relu", 5, 400);
    });
    let roles: Vec<Role> = capture.unwrap().recording.buffers.iter().map(|buffer| buffer.role).collect();
    let expected = [Role::Parameter, Role::Temporary, Role::SavedActivation, Role::Workspace, Role::Temporary];
    assert_eq!(roles, expected);
}

#[test]
fn causes_have_module_and_source() {
    let capture = captured(4, 2, 100);
    let recording = &capture.recording;
    let gelu = recording.buffers.iter().find(|buffer| recording.string(buffer.op) == "aten.gelu").unwrap();
    let cause = recording.causes.get(gelu.cause);
    assert_eq!((cause.op.as_ref(), cause.layer.as_ref()), ("aten.gelu", "h.0.act"));
    assert_eq!(cause.source.as_deref(), Some("train.py:10"));
}

#[test]
fn scratch_may_come_and_go_with_the_batch() {
    let record = |batch: i64, scratch: &[i64]| {
        let mut writer = Writer::new();
        writer.mark(0);
        writer.step(0);
        writer.mark(1);
        let first = writer.alloc("aten.convolution", 5, 100 * batch);
        for &bytes in scratch {
            let buffer = writer.alloc("workspace", 6, bytes);
            writer.free(buffer);
        }
        let second = writer.alloc("aten.relu", 5, 50 * batch);
        writer.free(first);
        writer.free(second);
        writer
    };
    let capture = |scratch_a: &[i64], scratch_b: &[i64]| {
        let (a, b) = (record(4, scratch_a), record(8, scratch_b));
        let mut strings = a.strings();
        strings.extend(b.strings().into_iter().skip(strings.len()));
        // Both recordings number the strings alike only if the first has all of them.
        assert!(!scratch_a.is_empty());
        Capture::new(strings, 4, &a.bytes(), 8, Some(&b.bytes())).unwrap()
    };
    let peak = |capture: &Capture, batch: u64| {
        place(&capture.recording.trace(batch), batch, &mut TorchCaching::new(Options::default())).floor_peak_bytes
    };
    let comes = capture(&[10], &[10, 8000]);
    assert!(comes.paired && comes.known_up_to.is_none());
    assert_eq!((peak(&comes, 4), peak(&comes, 8), peak(&comes, 2)), (600, 8800, 2200));
    let goes = capture(&[10, 8000], &[10]);
    assert_eq!((peak(&goes, 4), peak(&goes, 8)), (8400, 8800));
    let shrinks = capture(&[400], &[300]);
    assert_eq!((peak(&shrinks, 4), peak(&shrinks, 8)), (800, 1200));
}

#[test]
fn buffers_that_go_at_once_go_in_any_order() {
    let record = |batch: i64, order: [i64; 3]| {
        let mut writer = Writer::new();
        writer.step(0);
        writer.mark(1);
        for place in 0..3 {
            writer.alloc("aten._to_copy", 5, (place + 1) * batch);
        }
        order.into_iter().for_each(|buffer| writer.free(buffer));
        writer.alloc("aten.relu", 5, batch);
        writer
    };
    let paired = |order: [i64; 3]| {
        let (a, b) = (record(4, [0, 1, 2]), record(8, order));
        Capture::new(a.strings(), 4, &a.bytes(), 8, Some(&b.bytes())).unwrap().paired
    };
    assert!(paired([0, 1, 2]) && paired([2, 0, 1]));
    let (a, mut b) = (record(4, [0, 1, 2]), Writer::new());
    b.step(0);
    b.mark(1);
    let first = b.alloc("aten._to_copy", 5, 8);
    b.alloc("aten._to_copy", 5, 16);
    b.free(first);
    assert!(!Capture::new(a.strings(), 4, &a.bytes(), 8, Some(&b.bytes())).unwrap().paired);
}

#[test]
fn other_steps_are_not_paired() {
    let (a, b) = (chain(8, 3, 100), chain(4, 4, 100));
    let mut strings = b.strings();
    strings.extend(a.strings());
    let capture = Capture::new(strings, 8, &a.bytes(), 4, Some(&b.bytes())).unwrap();
    assert!(!capture.paired && capture.knows(8) && !capture.knows(4));
}

#[test]
fn rows_that_contradict_themselves_are_errors() {
    let error = |change: fn(&mut Writer)| small(change).unwrap_err().to_string();
    let said = [
        error(|writer| writer.row([0, 0, 8, 0, 0, 0, 5, -1, 1])),
        error(|writer| {
            writer.free(0);
            writer.free(0);
        }),
        error(|writer| writer.free(3)),
        error(|writer| writer.row([2, 2, 0, 0, 0, 0, 1, -1, 0])),
        error(|writer| writer.row([0, 2, 8, 0, 0, 0, 5, -1, 1])),
        error(|writer| writer.row([0, 1, -8, 0, 0, 0, 5, -1, 1])),
        error(|writer| writer.row([0, 1, i64::MAX, 0, 0, 0, 5, -1, 1])),
        error(|writer| writer.row([0, -1, 8, 0, 0, 0, 5, -1, 1])),
        error(|writer| writer.row([0, i64::MAX, 8, 0, 0, 0, 5, -1, 1])),
        error(|writer| writer.row([0, 1, 8, 99, 0, 0, 5, -1, 1])),
        error(|writer| writer.row([0, 1, 8, 0, -1, 0, 5, -1, 1])),
        error(|writer| writer.row([0, 1, 8, 0, 0, i64::MIN, 5, -1, 1])),
        error(|writer| writer.row([0, 1, 8, 0, 0, 0, 7, -1, 1])),
        error(|writer| writer.row([0, 1, 8, 0, 0, 0, 5, -1, 8])),
        error(|writer| writer.row([5, 1, 8, 0, 0, 0, 5, -1, 1])),
        error(|writer| writer.mark(4)),
        error(|writer| writer.step(2)),
        error(|writer| writer.values.clear()),
        error(|writer| writer.values.truncate(18)),
    ];
    let fragments = [
        "allocated again", "freed but is not alive", "freed but is not alive", "relabelled but is not alive",
        "buffer 1 is never allocated", "bytes is -8", "64 TiB", "buffer is -1", "numbered from 0", "op is string 99",
        "module is string -1", "source is string", "role is 7", "dtype is 8", "kind is 5", "phase is 4", "step is 2",
        "no rows", "no step",
    ];
    for (said, fragment) in said.iter().zip(fragments) {
        assert!(said.contains(fragment), "'{said}' lacks '{fragment}'");
    }
}

#[test]
fn strings_batches_and_lengths_are_checked() {
    let rows = chain(8, 1, 8);
    let read = |strings: Vec<String>, batch_a, bytes: &[u8], batch_b| {
        Capture::new(strings, batch_a, bytes, batch_b, Some(bytes)).unwrap_err()
    };
    let bytes = rows.bytes();
    assert_eq!(read(vec![], 8, &bytes, 4), CaptureError::NoEmptyString);
    assert_eq!(read(vec!["x".into()], 8, &bytes, 4), CaptureError::NoEmptyString);
    assert_eq!(read(rows.strings(), 0, &bytes, 4), CaptureError::BadBatch(0));
    assert_eq!(read(rows.strings(), 8, &bytes, u64::MAX), CaptureError::BadBatch(u64::MAX));
    assert_eq!(read(rows.strings(), 8, &bytes, 8), CaptureError::SameBatch(8));
    assert!(matches!(read(rows.strings(), 8, &bytes[1..], 4), CaptureError::CutOff { .. }));
}

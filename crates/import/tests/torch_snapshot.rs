//! Memory snapshots: recorded ones, and those that somebody made to do harm.
//!
//! In: `fixtures/snapshots`, and pickles made by hand. Checked: what is read, that nothing is run, and that time and memory
//! keep to the size of the file.

#[path = "support/cpu_time.rs"]
mod cpu_time;
#[path = "support/pickle_writer.rs"]
mod pickle_writer;

use std::path::PathBuf;
use std::time::Duration;

use brimful_core::report::Style;
use brimful_core::report::snapshot::{HolderKind, SnapshotReport};
use brimful_core::snapshot::{Action, Question, Snapshot, analyse};
use brimful_import::{ImportError, is_pickle, read_snapshot};
use cpu_time::CpuClock;
use pickle_writer::{ADDRESS, Writer, entry, snapshot};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/snapshots").join(name);
    std::fs::read(path).expect("the snapshot is in fixtures")
}

fn report(snapshot: &Snapshot) -> SnapshotReport {
    analyse(snapshot, &Question::default())
}

/// The usual history: a segment is taken, a buffer placed in it.
fn history(writer: Writer) -> Writer {
    entry(entry(writer, "segment_alloc", ADDRESS, 12 << 20), "alloc", ADDRESS, 12 << 20)
}

#[test]
fn a_recorded_job_replays_to_the_byte() {
    let bytes = fixture("mlp.pickle");
    assert!(is_pickle(&bytes));
    let snapshot = read_snapshot(&bytes).unwrap();
    let device = &snapshot.devices[0];
    assert_eq!((snapshot.devices.len(), device.events.len(), device.segments.len()), (1, 264, 6));
    assert_eq!(device.events.iter().filter(|event| event.action == Action::Alloc).count(), 88);
    let report = report(&snapshot);
    let device = &report.devices[0];
    let peak = device.peak.as_ref().unwrap();
    // Counted from the file by a script of its own: blocks of 512 bytes over what is there at the end, backwards.
    assert_eq!((peak.allocated_bytes, peak.event, peak.most_reserved_bytes), (74_326_528, Some(69), 75_497_472));
    let check = device.self_check.as_ref().unwrap();
    assert_eq!((check.segment_events, check.reproduced, check.invented), (2, 2, 0));
    assert_eq!((check.allocations, check.at_recorded_address), (88, 88));
    let kinds: Vec<HolderKind> = device.holders.iter().take(3).map(|holder| holder.kind).collect();
    assert_eq!(kinds, [HolderKind::BeforeRecording, HolderKind::Backward, HolderKind::UserLine]);
    assert_eq!(device.holders[1].function.as_deref(), Some("AddmmBackward0"));
    let state = &device.holders[2];
    assert!(state.source.as_ref().unwrap().ends_with("probe_torch_context.py:74"), "{state:?}");
    assert_eq!(state.library.as_deref(), Some("torch/optim/adam.py:178 _init_group"));
}

#[test]
fn a_recorded_failure_is_found() {
    let report = report(&read_snapshot(&fixture("out_of_memory.pickle")).unwrap());
    let device = &report.devices[0];
    let failure = &device.out_of_memory[0];
    assert_eq!((failure.requested_bytes, failure.device_free_bytes), (819_200_000, 148_821_377_024));
    assert!(failure.own_limit && failure.source.as_ref().unwrap().ends_with("probe_torch_context.py:72 train"));
    assert!(device.recording.as_ref().unwrap().cut && report.does_not_fit());
    let check = device.self_check.as_ref().unwrap();
    assert_eq!((check.reproduced, check.at_recorded_address), (check.segment_events, check.allocations));
}

#[test]
fn a_pickle_by_hand_is_read() {
    let read = read_snapshot(&snapshot(history)).unwrap();
    let device = &read.devices[0];
    assert_eq!((device.events.len(), device.events[1].address, device.events[1].bytes), (2, ADDRESS as u64, 12 << 20));
    assert_eq!(device.segments[0].blocks[0].requested_bytes, 12 << 20);
    let line = read.sites[device.segments[0].blocks[0].site.0 as usize].user.as_ref().unwrap();
    assert_eq!((line.file.as_str(), line.line), ("train.py", 12));
    assert_eq!(report(&read).devices[0].self_check.as_ref().unwrap().reproduced, 1);
}

#[test]
fn older_protocols_say_the_same() {
    // What `pickle.dumps({'segments': [{'device': 1, 'address': 512, 'total_size': 1024}]}, protocol)` gives.
    let zero = b"(dp0\nVsegments\np1\n(lp2\n(dp3\nVdevice\np4\nI1\nsVaddress\np5\nI512\nsVtotal_size\np6\nI1024\nsas.";
    let two =
        b"\x80\x02}q\x00X\x08\x00\x00\x00segmentsq\x01]q\x02}q\x03(X\x06\x00\x00\x00deviceq\x04K\x01X\x07\x00\x00\x00\
                addressq\x05M\x00\x02X\n\x00\x00\x00total_sizeq\x06M\x00\x04uas.";
    let read = read_snapshot(zero).unwrap();
    assert_eq!((read.devices[0].index, read.devices[0].segments[0].bytes), (1, 1024));
    assert_eq!(read, read_snapshot(two).unwrap());
}

#[test]
fn the_forward_line_stands_for_a_gradient() {
    let traced = snapshot(|writer| {
        let numbers = [("addr", ADDRESS), ("size", 512), ("stream", 0)];
        writer.dict(&numbers, &[("action", "alloc")], |writer| {
            writer
                .text("forward_frames")
                .raw(b"](")
                .text("  File \"/x/site-packages/torch/nn/a.py\", line 3, in relu")
                .text("  File \"net.py\", line 8, in forward")
                .raw(b"e")
        })
    });
    let read = read_snapshot(&traced).unwrap();
    let site = &read.sites[read.devices[0].events[0].site.0 as usize];
    assert_eq!(site.user.as_ref().map(|line| (line.file.as_str(), line.line)), Some(("net.py", 8)));
}

#[test]
fn a_list_of_segments_is_a_snapshot_without_history() {
    let numbers = [("address", ADDRESS), ("total_size", 2 << 20)];
    let bytes = Writer::new().raw(b"](").dict(&numbers, &[("segment_type", "small")], |w| w).raw(b"e").stop();
    let read = read_snapshot(&bytes).unwrap();
    assert!(read.devices[0].events.is_empty() && read.devices[0].segments[0].small);
}

#[test]
fn settings_are_taken_from_text_and_fields() {
    let with = |conf: &str, expandable: &[u8]| {
        let settings = |writer: Writer| writer.text("expandable_segments").raw(expandable);
        let whole = |writer: Writer| {
            let writer = writer.text("segments").raw(b"]").text("allocator_settings");
            writer.dict(&[("max_split_size", -1)], &[("PYTORCH_CUDA_ALLOC_CONF", conf)], settings)
        };
        read_snapshot(&Writer::new().dict(&[], &[], whole).stop()).unwrap().settings
    };
    let default = with("", b"\x89");
    assert_eq!((default.conf.as_str(), default.options == Default::default()), ("", true));
    // Set by a call: the text is empty.
    let called = with("", b"\x88");
    assert_eq!((called.conf.as_str(), called.options.expandable_segments), ("expandable_segments:True", true));
    let unknown = with("new_option:3", b"\x88");
    assert!(unknown.not_understood.unwrap().contains("new_option") && unknown.options.expandable_segments);
}

#[test]
fn code_is_refused_and_named() {
    let system = b"cos\nsystem\n(S'touch /tmp/brimful_was_here'\ntR.";
    let modern = Writer::new().text("os").text("system").raw(b"\x93").text("true").raw(b"\x85R").stop();
    let hidden = snapshot(|writer| history(writer).raw(b"cbuiltins\nexec\n"));
    for (bytes, opcode) in [
        (&system[..], "GLOBAL"),
        (&modern, "STACK_GLOBAL"),
        (&hidden, "GLOBAL"),
        (b"\x80\x04NNR.", "REDUCE"),
        (b"\x80\x04NNb.", "BUILD"),
        (b"(ios\nsystem\n.", "INST"),
        (b"\x80\x04(No.", "OBJ"),
        (b"\x80\x04NN\x81.", "NEWOBJ"),
        (b"\x80\x04\x82\x01.", "EXT1"),
        (b"\x80\x04\x84\x01\x00\x00\x00.", "EXT4"),
        (b"\x80\x04NQ.", "BINPERSID"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
    ] {
        match read_snapshot(bytes) {
            Err(ImportError::PickleRunsCode { opcode: named, .. }) => assert_eq!(named, opcode),
            other => panic!("{opcode}: {other:?}"),
        }
    }
    let said = read_snapshot(system).unwrap_err().to_string();
    assert!(said.contains("asks Python to run code (GLOBAL at byte 0)") && said.contains("nothing was run"), "{said}");
    assert!(!std::path::Path::new("/tmp/brimful_was_here").exists());
}

#[test]
fn truncation_at_every_byte_is_an_error() {
    let whole = snapshot(history);
    assert!(read_snapshot(&whole).is_ok());
    for length in 0..whole.len() {
        let said = read_snapshot(&whole[..length]).unwrap_err().to_string();
        assert!(length == 0 || said.contains("cut short"), "{length}: {said}");
    }
    let recorded = fixture("out_of_memory.pickle");
    for length in (1..recorded.len()).step_by(97) {
        assert!(matches!(read_snapshot(&recorded[..length]), Err(ImportError::Pickle { .. })), "{length}");
    }
}

/// Reads within seconds, whatever comes out.
fn quickly(bytes: &[u8]) -> Result<Snapshot, ImportError> {
    let start = CpuClock::start();
    let result = read_snapshot(bytes);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?} for {} bytes", start.elapsed(), bytes.len());
    result
}

#[test]
fn values_that_double_are_kept_once() {
    // Each list holds the one before it twice: 2^200 items, if they were copied.
    let mut laughs = Writer::new().raw(b"]\x94");
    for index in 0..200u8 {
        laughs = laughs.raw(&[b']', 0x94, b'(', b'h', index, b'h', index, b'e']);
    }
    assert!(matches!(quickly(&laughs.0), Err(ImportError::Pickle { .. })));
    let said = quickly(&laughs.raw(b".").0).unwrap_err().to_string();
    assert!(said.contains("a list that is not of segments"), "{said}");
}

#[test]
fn entries_that_are_used_again_and_again_are_refused() {
    // One entry a thousand times in a trace, that trace a thousand times.
    let many = 1000;
    let bomb = snapshot(|writer| {
        let writer = entry(writer, "alloc", ADDRESS, 512).raw(b"\x94");
        let writer = (0..many).fold(writer, |writer, _| writer.raw(b"h\x00"));
        let writer = writer.raw(b"e\x94");
        // The outer mark is that of the list of traces.
        (0..many).fold(writer, |writer, _| writer.raw(b"h\x01")).raw(b"](")
    });
    let said = quickly(&bomb).unwrap_err().to_string();
    assert!(said.contains("used again and again"), "{said}");
}

#[test]
fn deep_nesting_is_no_recursion() {
    let depth = 300_000;
    for (open, close) in [(&b"]"[..], &b"a"[..]), (b"(", b"l"), (b"N", b"\x85")] {
        let bytes = Writer::new().raw(&open.repeat(depth)).raw(&close.repeat(depth)).stop();
        assert!(quickly(&bytes).is_err());
    }
}

#[test]
fn memory_keeps_to_the_size_of_the_file() {
    let said = quickly(&Writer::new().raw(&b"]".repeat(2_000_000)).stop()).unwrap_err().to_string();
    assert!(said.contains("far more than a file of this size can hold"), "{said}");
    for put in [&b"Nr\xff\xff\xff\xff."[..], b"Np99999999999999\n.", b"\x80\x04N\x8e\xff\xff\xff\xff\xff\xff\xff\xff."]
    {
        assert!(matches!(quickly(put), Err(ImportError::Pickle { .. })));
    }
}

#[test]
fn impossible_numbers_are_refused() {
    for (address, bytes) in [(-1, 512), (1 << 60, 512), (ADDRESS, -512), (ADDRESS, 1 << 60)] {
        let said = read_snapshot(&snapshot(|writer| entry(writer, "alloc", address, bytes))).unwrap_err().to_string();
        assert!(said.starts_with("a device trace's events[0] is not what PyTorch writes"), "{said}");
    }
    let not_a_dict = snapshot(|writer| writer.int(3));
    assert!(read_snapshot(&not_a_dict).unwrap_err().to_string().contains("it is no dictionary"));
    // An action that a later version may have is passed over.
    let later = read_snapshot(&snapshot(|writer| entry(history(writer), "moved", ADDRESS, 512))).unwrap();
    assert_eq!(later.devices[0].events.len(), 2);
}

/// Changes bytes of real snapshots at random: whatever can be read can be analysed, and nothing panics.
#[test]
fn damaged_snapshots_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let seeds = [fixture("out_of_memory.pickle"), snapshot(history)];
    let mut analysed = 0;
    for round in 0..3000 {
        let mut bytes = seeds[usize::from(round % 4 != 0)].clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        if let Ok(snapshot) = read_snapshot(&bytes) {
            assert!(!report(&snapshot).to_text(Style::default()).is_empty());
            analysed += 1;
        }
    }
    assert!(analysed > 500, "{analysed}: most damage should be to values");
}

/// Each number is possible, their sum is not.
#[test]
fn absurd_sums_do_not_wrap() {
    let huge = 1 << 46;
    let block = |writer: Writer| writer.dict(&[("size", huge)], &[("state", "active_allocated")], |w| w);
    let whole = |writer: Writer| {
        let mut writer =
            writer.text("segments").raw(b"](").dict(&[("address", ADDRESS), ("total_size", huge)], &[], |w| {
                (0..300_000).fold(w.text("blocks").raw(b"]("), |w, _| block(w)).raw(b"e")
            });
        writer = writer.raw(b"e").text("device_traces").raw(b"](](");
        let event = |writer: Writer, index: i64| entry(writer, "segment_alloc", index << 9, huge);
        (0..300_000).fold(writer, event).raw(b"ee")
    };
    let read = quickly(&Writer::new().dict(&[], &[], whole).stop()).unwrap();
    let report = report(&read);
    assert_eq!(report.devices[0].now.allocated_bytes, u64::MAX);
    assert_eq!(report.devices[0].peak.as_ref().unwrap().most_reserved_bytes, u64::MAX);
    assert!(!report.to_text(Style::default()).is_empty());
}

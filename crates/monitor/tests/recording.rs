//! What holds for every recording, whole or damaged.
//!
//! In: random frames, written; then cut, or with a byte changed. Checked: what is read back is the beginning of what was written, and says how
//! much was good; random bytes never panic.

use std::io::{self, Write};

use brimful_monitor::error::MonitorError;
use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{
    End, Finding, Frame, FrameworkMemory, Holder, Holders, Line, Reader, Start, StepMark, Writer,
};
use brimful_monitor::sample::Sample;
use proptest::prelude::*;

fn figure() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0_u64..4).prop_map(Some), any::<u64>().prop_map(Some)]
}

fn sample() -> impl Strategy<Value = Sample> {
    (any::<u64>(), proptest::collection::vec(figure(), Sample::NAMES.len()))
        .prop_map(|(at_ms, row)| Sample::from_row(at_ms, row.try_into().unwrap()))
}

fn frame() -> impl Strategy<Value = Frame> {
    let mark = (any::<u64>(), any::<u64>(), figure(), proptest::option::of(-1e300..1e300), figure()).prop_map(
        |(at_ms, step, epoch, loss, waited_us)| Frame::Step(StepMark { at_ms, step, epoch, loss, waited_us }),
    );
    let gpu = (any::<u64>(), 0..3_u32, proptest::collection::vec(figure(), GpuSample::NAMES.len()))
        .prop_map(|(at_ms, index, row)| Frame::Gpu(GpuSample::from_row(at_ms, index, row.try_into().unwrap())));
    let framework = (any::<u64>(), any::<u32>(), "[a-z:0-9]{0,9}", figure(), figure(), figure()).prop_map(
        |(at_ms, pid, device, allocated_bytes, peak_allocated_bytes, limit_bytes)| {
            let framework = "torch".to_owned();
            let memory = FrameworkMemory {
                at_ms,
                pid,
                framework,
                device,
                allocated_bytes,
                reserved_bytes: None,
                peak_allocated_bytes,
                limit_bytes,
            };
            Frame::Framework(memory)
        },
    );
    let finding = (any::<u64>(), "[a-zé ]{0,20}")
        .prop_map(|(at_ms, text)| Frame::Finding(Finding { at_ms, text, ..Finding::default() }));
    let line = (any::<u64>(), "[a-zé ]{0,20}").prop_map(|(at_ms, text)| Frame::Line(Line { at_ms, text }));
    let end = (any::<u64>(), any::<Option<i32>>(), any::<Option<i32>>())
        .prop_map(|(at_ms, exit_code, signal)| Frame::End(End { at_ms, exit_code, signal, ..End::default() }));
    let holder = (any::<u32>(), "[a-zé]{0,9}", any::<u64>(), any::<u64>(), figure()).prop_map(
        |(pid, name, rss_bytes, peak_rss_bytes, pss_bytes)| Holder { pid, name, rss_bytes, peak_rss_bytes, pss_bytes },
    );
    let holders = (any::<u64>(), proptest::collection::vec(holder, 0..4))
        .prop_map(|(at_ms, processes)| Frame::Holders(Holders { at_ms, processes }));
    let sample = sample().prop_map(Frame::Sample);
    prop_oneof![4 => sample, 2 => mark, 1 => line, 1 => end, 1 => holders, 2 => gpu, 1 => framework, 1 => finding]
}

fn start() -> Start {
    let command = ["python", "train.py", "--api-key", "abc"].map(str::to_owned).to_vec();
    Start { command, pid: 42, started_unix_ms: 1_700_000_000_000, ..Start::default() }
}

/// The frames that a reader should give, and the file.
fn written(frames: &[Frame]) -> (Vec<Frame>, Vec<u8>) {
    let mut writer = Writer::new(Vec::new(), &start()).unwrap();
    frames.iter().for_each(|frame| writer.push(frame));
    let all = [Frame::Start(start().masked())].into_iter().chain(frames.iter().cloned()).collect();
    let taken = writer.taken();
    let bytes = writer.finish().unwrap();
    // What the writer says of it is what a reader finds.
    let mut reader = Reader::new(&bytes).unwrap();
    reader.by_ref().for_each(drop);
    assert_eq!(taken, reader.good());
    (all, bytes)
}

fn read(bytes: &[u8]) -> Vec<Frame> {
    let Ok(mut reader) = Reader::new(bytes) else { return Vec::new() };
    let frames: Vec<Frame> = reader.by_ref().collect();
    let good = reader.good();
    assert_eq!((good.frames, good.good_bytes + good.bad_bytes), (frames.len() as u64, bytes.len() as u64));
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_comes_back(frames in proptest::collection::vec(frame(), 0..20)) {
        let (all, bytes) = written(&frames);
        prop_assert_eq!(read(&bytes), all);
    }

    #[test]
    fn every_beginning_gives_the_frames_that_are_whole(frames in proptest::collection::vec(frame(), 0..8)) {
        let (all, bytes) = written(&frames);
        let mut most = 0;
        for end in 0..=bytes.len() {
            let found = read(&bytes[..end]);
            prop_assert!(all.starts_with(&found) && found.len() >= most, "{} of {}", end, bytes.len());
            most = found.len();
        }
        prop_assert_eq!(most, all.len());
    }

    #[test]
    fn a_changed_byte_ends_it_there(frames in proptest::collection::vec(frame(), 0..8), change in 1..=255_u8) {
        let (all, bytes) = written(&frames);
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= change;
            let found = read(&changed);
            prop_assert!(all.starts_with(&found) && found.len() < all.len(), "byte {}", place);
        }
    }

    #[test]
    fn a_missing_or_doubled_stretch_is_noticed(frames in proptest::collection::vec(frame(), 1..8), places in any::<(u16, u16)>()) {
        let (all, bytes) = written(&frames);
        let (from, to) = (usize::from(places.0) % bytes.len(), usize::from(places.1) % bytes.len());
        let (from, to) = (from.min(to), from.max(to));
        let without = [&bytes[..from], &bytes[to..]].concat();
        let doubled = [&bytes[..to], &bytes[from..]].concat();
        prop_assert!(all.starts_with(&read(&without)));
        prop_assert!(all.starts_with(&read(&doubled)));
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>, behind_a_header: bool) {
        let header: &[u8] = if behind_a_header { b"BRIMFUL-RUN\n\x01\x00" } else { b"" };
        let bytes = [header, &bytes].concat();
        let _ = read(&bytes);
    }
}

#[test]
fn other_files_are_refused() {
    assert_eq!(Reader::new(b"PK\x03\x04 and so on").err(), Some(MonitorError::NotARecording));
    assert_eq!(Reader::new(b"PK").err(), Some(MonitorError::NotARecording));
    let newer = b"BRIMFUL-RUN\n\x09\x00";
    assert_eq!(Reader::new(newer).err(), Some(MonitorError::TooNew { found: 9, known: 1 }));
    assert!(Reader::new(b"").unwrap().next().is_none());
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let claims =
        [&b"BRIMFUL-RUN\n\x01\x00"[..], &[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]].concat();
    assert!(read(&claims).is_empty());
}

#[test]
fn secrets_are_not_in_the_file() {
    let line = Frame::Line(Line { at_ms: 5, text: "using HF_TOKEN=hunter2secret".to_owned() });
    let bytes = written(&[line]).1;
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("hunter2secret") && !text.contains("\"abc\"") && text.contains("--api-key"), "{text}");
}

/// A disk that is full for a while: it takes a few bytes of each write, then none.
struct Full {
    kept: Vec<u8>,
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room).min(7);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= count;
        self.kept.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_tears_nothing_and_says_what_was_lost() {
    let samples =
        |count: u64| (0..count).map(|n| Sample { at_ms: n * 100, rss_bytes: Some(n << 33), ..Sample::default() });
    let mut disk = Full { kept: Vec::new(), room: 1000 };
    let mut writer = Writer::new(&mut disk, &start()).unwrap();
    let mut errors = 0;
    for sample in samples(300_000) {
        writer.push(&Frame::Sample(sample));
        errors += u64::from(writer.tick(sample.at_ms).is_err());
    }
    assert!(errors > 1000 && writer.dropped() > 0);
    drop(writer);
    // What did get out is a recording that was cut.
    let found = read(&disk.kept);
    assert!(found.len() > 20, "{}", found.len());
}

#[test]
fn writing_goes_on_when_there_is_room_again() {
    use std::cell::RefCell;
    use std::rc::Rc;
    struct Shared(Rc<RefCell<Full>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let disk = Rc::new(RefCell::new(Full { kept: Vec::new(), room: 500 }));
    let mut writer = Writer::new(Shared(Rc::clone(&disk)), &start()).unwrap();
    let push = |writer: &mut Writer<Shared>, from: u64, to: u64| {
        for n in from..to {
            writer.push(&Frame::Sample(Sample { at_ms: n * 100, rss_bytes: Some(n << 33), ..Sample::default() }));
            let _ = writer.tick(n * 100);
        }
    };
    push(&mut writer, 0, 300_000);
    let dropped = writer.dropped();
    assert!(dropped > 0);
    disk.borrow_mut().room = usize::MAX;
    push(&mut writer, 300_000, 300_100);
    writer.finish().unwrap();
    let frames = read(&disk.borrow().kept);
    let lines: Vec<&Line> =
        frames.iter().filter_map(|frame| if let Frame::Line(line) = frame { Some(line) } else { None }).collect();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].text.contains("entries were dropped"), "{lines:?}");
    let last =
        frames.iter().rev().find_map(|frame| if let Frame::Sample(sample) = frame { Some(sample) } else { None });
    assert_eq!(last.and_then(|sample| sample.rss_bytes), Some(300_099 << 33));
    assert!(frames.len() as u64 + dropped >= 300_000);
}

/// Not a test: the process that the next test kills. Writes as fast as it can, with a clock of its own, and says how far it is.
#[test]
#[cfg(unix)]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os("BRIMFUL_TEST_RECORDING") else { return };
    let mut writer = Writer::new(std::fs::File::create(path).unwrap(), &start()).unwrap();
    for at_ms in (0_u64..).step_by(100) {
        writer.push(&Frame::Sample(Sample { at_ms, rss_bytes: Some(at_ms * 977 % 4096), ..Sample::default() }));
        writer.tick(at_ms).unwrap();
        io::stdout().write_all(format!("at {at_ms}\n").as_bytes()).unwrap();
    }
}

#[test]
#[cfg(unix)]
fn a_killed_writer_loses_a_second_at_most() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    for kill in 0..20_usize {
        let path = folder.path().join(format!("{kill}.run"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env("BRIMFUL_TEST_RECORDING", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = vec![0; 300 + 7919 * kill];
        let mut pipe = child.stdout.take().unwrap();
        pipe.read_exact(&mut said).unwrap();
        child.kill().unwrap();
        pipe.read_to_end(&mut said).unwrap();
        child.wait().unwrap();
        let said = String::from_utf8_lossy(&said);
        let (whole, _) = said.rsplit_once('\n').unwrap();
        let said_ms = whole.rsplit("at ").next().and_then(|at| at.trim().parse::<u64>().ok()).unwrap_or(0);
        let bytes = std::fs::read(&path).unwrap();
        let last_ms = read(&bytes).iter().rev().find_map(|frame| match frame {
            Frame::Sample(sample) => Some(sample.at_ms),
            _ => None,
        });
        assert!(last_ms.unwrap_or(0) + 1000 >= said_ms, "{kill}: {last_ms:?} of {said_ms}");
    }
}

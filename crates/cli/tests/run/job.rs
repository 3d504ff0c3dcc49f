//! A job under `brimful run`, its recording, and what this machine allows.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use brimful_monitor::recording::{End, Frame, Reader, Start};
use brimful_monitor::sample::Sample;
use tempfile::TempDir;

use crate::support::{command, stderr};

/// A folder for recordings.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn recording(&self) -> PathBuf {
        self.0.path().join("a.run")
    }

    /// `brimful run -o a.run OPTIONS -- COMMAND`, without Python: the job is seen from outside.
    pub fn command(&self, options: &[&str], job: &[&str]) -> Command {
        let recording = self.recording();
        let mut args = vec!["run", "-o", recording.to_str().unwrap()];
        args.extend(options);
        args.push("--");
        args.extend(job);
        let mut command = command(&args);
        command.env("BRIMFUL_PYTHON", "/nowhere/python").env("XDG_STATE_HOME", self.0.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, options: &[&str], job: &[&str]) -> Output {
        self.command(options, job).output().unwrap()
    }

    pub fn frames(&self) -> Vec<Frame> {
        let bytes = fs::read(self.recording()).unwrap();
        let mut reader = Reader::new(&bytes).unwrap();
        let frames = reader.by_ref().collect();
        assert_eq!(reader.good().bad_bytes, 0);
        frames
    }

    pub fn end(&self) -> End {
        match self.frames().pop() {
            Some(Frame::End(end)) => end,
            other => panic!("the last frame is {other:?}"),
        }
    }
}

pub fn samples(frames: &[Frame]) -> Vec<Sample> {
    frames.iter().filter_map(|frame| if let Frame::Sample(sample) = frame { Some(*sample) } else { None }).collect()
}

pub fn start(frames: &[Frame]) -> &Start {
    match frames.first() {
        Some(Frame::Start(start)) => start,
        other => panic!("the first frame is {other:?}"),
    }
}

/// Whether this machine lets us make a cgroup with a limit; a test that needs one says that it was left out.
pub fn can_limit() -> bool {
    let folder = Folder::new();
    let output = folder.run(&["--limit", "1GiB"], &["true"]);
    let can = !stderr(&output).contains("address space instead");
    if !can {
        eprintln!("skipped: no cgroup can be made here");
    }
    can
}

/// Runs a script that mounts what it likes; none where that is not allowed, which is said.
pub fn in_a_namespace(script: &str) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("BRIMFUL_PYTHON", "/nowhere/python");
    let output = command
        .output()
        .ok()
        .filter(|output| !stderr(output).contains("unshare:") && !stderr(output).contains("mount:"));
    if output.is_none() {
        eprintln!("skipped: no mount namespace can be made here");
    }
    output
}

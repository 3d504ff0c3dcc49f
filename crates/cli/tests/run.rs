//! `brimful run` around a command: what passes through, what is recorded, how each end is told, and what happens when things go wrong. What Python
//! jobs say of their steps is tested with Python (`tests/test_run.py`).
#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use brimful_monitor::recording::{End, Frame, Reader, Start};
use brimful_monitor::sample::Sample;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use support::{command, stderr, stdout};
use tempfile::TempDir;

/// A folder for recordings.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn recording(&self) -> PathBuf {
        self.0.path().join("a.run")
    }

    /// `brimful run -o a.run OPTIONS -- COMMAND`, without Python: the job is seen from outside.
    fn command(&self, options: &[&str], job: &[&str]) -> Command {
        let recording = self.recording();
        let mut args = vec!["run", "-o", recording.to_str().unwrap()];
        args.extend(options);
        args.push("--");
        args.extend(job);
        let mut command = command(&args);
        command.env("BRIMFUL_PYTHON", "/nowhere/python").env("XDG_STATE_HOME", self.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, options: &[&str], job: &[&str]) -> Output {
        self.command(options, job).output().unwrap()
    }

    fn frames(&self) -> Vec<Frame> {
        let bytes = fs::read(self.recording()).unwrap();
        let mut reader = Reader::new(&bytes).unwrap();
        let frames = reader.by_ref().collect();
        assert_eq!(reader.good().bad_bytes, 0);
        frames
    }

    fn end(&self) -> End {
        match self.frames().pop() {
            Some(Frame::End(end)) => end,
            other => panic!("the last frame is {other:?}"),
        }
    }
}

fn samples(frames: &[Frame]) -> Vec<Sample> {
    frames.iter().filter_map(|frame| if let Frame::Sample(sample) = frame { Some(*sample) } else { None }).collect()
}

fn start(frames: &[Frame]) -> &Start {
    match frames.first() {
        Some(Frame::Start(start)) => start,
        other => panic!("the first frame is {other:?}"),
    }
}

/// Whether this machine lets us make a cgroup with a limit; a test that needs one says that it was left out.
fn can_limit() -> bool {
    let folder = Folder::new();
    let output = folder.run(&["--limit", "1GiB"], &["true"]);
    let can = !stderr(&output).contains("address space instead");
    if !can {
        eprintln!("skipped: no cgroup can be made here");
    }
    can
}

/// Runs a script that mounts what it likes; none where that is not allowed, which is said.
fn in_a_namespace(script: &str) -> Option<Output> {
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

#[test]
fn streams_and_exit_code_are_the_jobs_own() {
    let folder = Folder::new();
    let script = "printf 'out\\n'; printf 'err\\n' >&2; cat; printf '\\377\\000\\033[1m'; exit 7";
    let mut child = folder.command(&["--quiet"], &["sh", "-c", script]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"given\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\ngiven\n\xff\x00\x1b[1m");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!((folder.end().exit_code, folder.end().signal), (Some(7), None));
}

#[test]
fn lines_of_both_streams_stay_in_order_where_both_are_one_file() {
    let folder = Folder::new();
    let log = fs::File::create(folder.0.path().join("log")).unwrap();
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done";
    let mut command = folder.command(&["-q"], &["sh", "-c", script]);
    let status = command.stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
    let expected: String = (1..=9).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert!(status.success());
    assert_eq!(fs::read_to_string(folder.0.path().join("log")).unwrap(), expected);
}

#[test]
fn a_reader_that_stops_early_ends_the_job_as_without_us() {
    let folder = Folder::new();
    let mut child = folder.command(&["-q"], &["yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "y\n");
    // SIGPIPE is 13, as shells say it.
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}

#[test]
fn a_slow_reader_gets_all() {
    let folder = Folder::new();
    let mut child =
        folder.command(&["-q"], &["head", "-c", "300000", "/dev/zero"]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut bytes).unwrap();
    assert_eq!((bytes.len(), child.wait().unwrap().code()), (300_000, Some(0)));
}

#[test]
fn output_that_cannot_be_written_is_said() {
    let folder = Folder::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = folder.command(&["-q"], &["echo", "words"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert!(stderr(&output).contains("the job's output cannot be written: No space left"), "{}", stderr(&output));
}

#[test]
fn a_command_that_cannot_start_leaves_recordings_as_they_were() {
    let folder = Folder::new();
    folder.run(&[], &["no-such-command"]);
    assert!(!folder.recording().exists());
    folder.run(&["-q"], &["true"]);
    let before = fs::read(folder.recording()).unwrap();
    folder.run(&[], &["no-such-command"]);
    assert_eq!(fs::read(folder.recording()).unwrap(), before);
    fs::remove_file(folder.recording()).unwrap();
    assert!(Command::new("mkfifo").arg(folder.recording()).status().unwrap().success());
    let output = folder.run(&[], &["true"]);
    assert!(stderr(&output).contains("exists and is no recording"), "{}", stderr(&output));
}

#[test]
fn what_a_fork_shares_counts_once() {
    let folder = Folder::new();
    let script = "import os, time\nx = b'x' * (200 << 20)\nfor _ in range(5):\n    if os.fork() == 0:\n        time.sleep(4); os._exit(0)\ntime.sleep(4.2)";
    let output = folder.run(&["-q"], &["python3", "-c", script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let samples = samples(&folder.frames());
    let forked_ms = samples.iter().find(|sample| sample.process_count >= Some(6)).map(|sample| sample.at_ms).unwrap();
    // Between the fork and the next look at what is shared, a second at most, it is not known.
    let is_known = |sample: &&Sample| sample.at_ms > forked_ms + 1500 && sample.process_count >= Some(6);
    let held: Vec<u64> = samples.iter().filter(is_known).filter_map(Sample::held_bytes).collect();
    assert!(!held.is_empty() && held.iter().all(|&held| held < 600_000_000), "{held:?}");
}

#[test]
fn a_signal_is_passed_on_and_the_end_is_told() {
    let folder = Folder::new();
    let script = "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child =
        folder.command(&[], &["sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "asked");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(stderr(&output).contains("the job ended with exit code 9"), "{}", stderr(&output));
}

#[test]
fn a_signal_to_the_whole_group_reaches_the_job_once() {
    let folder = Folder::new();
    let script = "trap 'echo got' USR1; trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = folder
        .command(&[], &["sh", "-c", script])
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().unwrap(), "ready");
    // To the group, to Brimful alone, and to the group again: each arrives once. The shell's `sleep` ends with it, which it may say.
    for to_group in [true, false, true] {
        let sent = if to_group { kill_process_group(group, Signal::USR1) } else { kill_process(group, Signal::USR1) };
        sent.unwrap();
        assert_eq!(lines.next().unwrap(), "got");
        // What came twice would be here by the time the next one is answered: it is not hurried.
        std::thread::sleep(Duration::from_millis(400));
    }
    kill_process(group, Signal::TERM).unwrap();
    assert_eq!(lines.collect::<Vec<_>>(), ["bye"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    // Who told is not the job's.
    assert!(!stderr(&output).contains("cat (process"), "{}", stderr(&output));
}

#[test]
fn a_command_that_does_not_exist_is_refused_and_nothing_is_left() {
    let folder = Folder::new();
    let output = folder.run(&[], &["no-such-command"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "error: there is no command 'no-such-command': nothing was started\n");
    let output = folder.run(&[], &["/etc/passwd"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot be started"), "{}", stderr(&output));
    let output = folder.run(&["--limit", "12 parsecs"], &["true"]);
    assert_eq!(output.status.code(), Some(2));
    let output = folder.run(&["--limit", "1kB"], &["true"]);
    assert!(stderr(&output).contains("less than any job needs"), "{}", stderr(&output));
}

#[test]
fn a_place_that_cannot_be_written_is_said_before_anything_runs() {
    let folder = Folder::new();
    let output = command(&["run", "-o", "/nowhere/a.run", "--", "touch", folder.recording().to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/a.run cannot be written: nothing was started"), "{}", stderr(&output));
    assert!(!folder.recording().exists());
}

#[test]
fn a_file_of_the_users_is_not_written_over() {
    let folder = Folder::new();
    fs::write(folder.recording(), "import torch\n").unwrap();
    let output = folder.run(&[], &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("exists and is no recording"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(folder.recording()).unwrap(), "import torch\n");
    // An older recording is.
    fs::remove_file(folder.recording()).unwrap();
    assert!(folder.run(&[], &["true"]).status.success() && folder.run(&[], &["true"]).status.success());
}

#[test]
fn the_latest_run_is_reported_without_a_name() {
    let folder = Folder::new();
    let with_state = |args: &[&str]| {
        let mut command = command(args);
        command.env("XDG_STATE_HOME", folder.0.path()).env("BRIMFUL_PYTHON", "/nowhere/python").output().unwrap()
    };
    let nothing = with_state(&["report"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("no run has been recorded yet"), "{}", stderr(&nothing));
    assert_eq!(with_state(&["run", "-q", "--", "sh", "-c", "exit 3"]).status.code(), Some(3));
    let report = with_state(&["report"]);
    assert!(stdout(&report).starts_with("Failed with exit code 3"), "{}", stdout(&report));
}

#[test]
fn a_disk_that_is_full_is_said_once_and_the_job_goes_on() {
    let output = command(&["run", "-o", "/dev/full", "--", "sh", "-c", "sleep 0.3; echo done"])
        .env("BRIMFUL_PYTHON", "/nowhere/python")
        .output()
        .unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "done\n"));
    let said = stderr(&output);
    assert_eq!(said.matches("is not recorded").count(), 1, "{said}");
}

#[test]
fn a_kill_by_the_limit_and_a_kill_by_a_person_are_told_apart() {
    if !can_limit() {
        return;
    }
    let folder = Folder::new();
    // Fills what it may have, 4 MiB at a time.
    let hungry = "x=$(head -c 4194304 /dev/zero | tr '\\0' x); while :; do x=$x$x; done";
    let output = folder.run(&["--limit", "96MiB"], &["sh", "-c", hungry]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(
        said.contains("the kernel killed 1 process of the job at the memory limit of 96.0 MiB of its cgroup"),
        "{said}"
    );
    let end = folder.end();
    assert_eq!((end.signal, end.oom_kills), (Some(9), Some(1)));
    let explanation = end.explanation.unwrap();
    assert_eq!(explanation["cause"]["code"], "container_or_scheduler_limit");
    assert_eq!(
        (&explanation["resource"], &explanation["numbers"]["capacity_bytes"]),
        (&"container_limit".into(), &(96 << 20).into())
    );

    let output = folder.run(&["--limit", "96MiB"], &["sh", "-c", "sleep 0.2; kill -9 $$"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(
        said.contains("the kernel killed nothing of the job for memory: a person, a script or a scheduler ended it"),
        "{said}"
    );
    assert_eq!((folder.end().oom_kills, folder.end().explanation), (Some(0), None));
}

#[test]
fn a_child_that_the_limit_kills_is_told_although_the_job_goes_on() {
    if !can_limit() {
        return;
    }
    let folder = Folder::new();
    let hungry = "x=$(head -c 4194304 /dev/zero | tr '\\0' x); while :; do x=$x$x; done";
    let output = folder.run(
        &["--limit", "96MiB"],
        &["sh", "-c", &format!("sh -c '{}'; echo went on; exit 1", hungry.replace('\'', "'\\''"))],
    );
    assert_eq!((output.status.code(), stdout(&output).contains("went on")), (Some(1), true));
    assert!(stderr(&output).contains("the kernel killed 1 process of the job"), "{}", stderr(&output));
}

#[test]
fn no_cgroup_is_left_behind() {
    if !can_limit() {
        return;
    }
    let folder = Folder::new();
    let mut command = folder.command(&["--limit", "64MiB"], &["cat", "/proc/self/cgroup"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let name = format!("brimful-{}", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).contains(&name), "{}", stdout(&output));
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounted.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    for point in points {
        let left = walk(point.as_ref(), 6);
        assert!(!left.iter().any(|path| path.ends_with(&name)), "{name} is left in {point}");
    }
}

fn walk(folder: &std::path::Path, depth: usize) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut found: Vec<PathBuf> = entries.collect();
    if depth > 0 {
        found.extend(found.clone().iter().flat_map(|path| walk(path, depth - 1)));
    }
    found
}

#[test]
fn a_job_that_closes_its_streams_is_waited_for() {
    let folder = Folder::new();
    let output = folder.run(&["-q"], &["sh", "-c", "echo last words; exec >&- 2>&-; sleep 0.5; exit 5"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(5), "last words\n"));
}

#[test]
fn what_detaches_is_still_the_jobs_and_is_named_when_it_is_left() {
    let folder = Folder::new();
    let detached = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ready > $0; sleep 2; echo ${#x} > /dev/null";
    let mark = folder.0.path().join("ready");
    let script = format!(
        "(setsid sh -c '{}' {} >/dev/null 2>&1 &); while [ ! -e {} ]; do sleep 0.05; done; sleep 1",
        detached.replace('\'', "'\\''"),
        mark.display(),
        mark.display()
    );
    let output = folder.run(&[], &["sh", "-c", &script]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("of the job still run") && said.contains("brimful watch "), "{said}");
    let held = samples(&folder.frames()).iter().filter_map(|sample| sample.rss_bytes).max().unwrap();
    assert!(held > 30_000_000, "{held}");
}

#[test]
fn what_is_left_behind_can_still_write() {
    let folder = Folder::new();
    let go = folder.0.path().join("go");
    // It would be ended by a closed pipe at its first word, and say nothing of the second.
    let later = format!("while [ ! -e {} ]; do sleep 0.05; done; echo late; sleep 0.1; echo later", go.display());
    let script =
        format!("({later}) & (while [ ! -e {} ]; do sleep 0.05; done; echo wrong >&2) & echo job", go.display());
    for is_one in [true, false] {
        let _ = fs::remove_file(&go);
        let (out, err) = (folder.0.path().join("out"), folder.0.path().join("err"));
        let stdout = fs::File::create(&out).unwrap();
        let stderr = if is_one { stdout.try_clone().unwrap() } else { fs::File::create(&err).unwrap() };
        let mut command = folder.command(&["-q"], &["sh", "-c", &script]);
        assert_eq!(command.stdout(stdout).stderr(stderr).status().unwrap().code(), Some(0));
        assert_eq!(fs::read_to_string(&out).unwrap(), "job\n");
        fs::write(&go, "").unwrap();
        let text = || fs::read_to_string(&out).unwrap() + &fs::read_to_string(&err).unwrap_or_default();
        for _ in 0..300 {
            if text().contains("later") && text().contains("wrong") {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let written = fs::read_to_string(&out).unwrap();
        assert!(written.contains("late\n") && written.contains("later\n"), "{written}");
        assert!(text().contains("wrong\n"), "{}", text());
        fs::remove_file(folder.recording()).unwrap();
    }
}

#[test]
fn the_end_is_one_line_for_programs() {
    let folder = Folder::new();
    let output = folder.run(&["--format", "json"], &["sh", "-c", "echo out; echo err >&2; exit 4"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("out\n", Some(4)));
    let said = stderr(&output);
    let (before, last) = said.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(before, "err");
    let said: serde_json::Value = serde_json::from_str(last).unwrap();
    // The same as what a report of the recording says.
    let reported = command(&["report", folder.recording().to_str().unwrap(), "--format", "json"]).output().unwrap();
    let mut reported: serde_json::Value = serde_json::from_slice(&reported.stdout).unwrap();
    assert_eq!(said["exit_code"], 4);
    // Of the recording itself, only its reader can tell.
    reported["recording"] = said["recording"].clone();
    assert_eq!(said, reported);
    let quiet = Folder::new().run(&["--format", "json", "-q"], &["true"]);
    assert_eq!((stdout(&quiet), stderr(&quiet)), (String::new(), String::new()));
}

#[test]
fn secrets_are_not_recorded() {
    let folder = Folder::new();
    let mut command =
        folder.command(&["-q"], &["sh", "-c", "exit 0", "--api-key", "abcd1234efgh", "TOKEN=ijkl5678mnop"]);
    let status =
        command.env("TF_API_TOKEN", "qrst9012uvwx").env("AWS_SECRET_ACCESS_KEY", "yzab3456cdef").status().unwrap();
    assert!(status.success());
    let bytes = fs::read(folder.recording()).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for secret in ["abcd1234efgh", "ijkl5678mnop", "qrst9012uvwx", "yzab3456cdef"] {
        assert!(!text.contains(secret), "{secret} is in the recording");
    }
    assert!(text.contains("--api-key") && !text.contains("AWS_SECRET"));
}

#[test]
fn a_job_without_proc_runs_and_nothing_is_made_up() {
    let folder = Folder::new();
    let recording = folder.recording();
    let inner = format!(
        "mount -t tmpfs none /proc && exec {} run -o {} -- sh -c 'echo ran; exit 4'",
        env!("CARGO_BIN_EXE_brimful"),
        recording.display()
    );
    let Some(output) = in_a_namespace(&inner) else { return };
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(4), "ran\n"), "{}", stderr(&output));
    assert!(samples(&folder.frames()).iter().all(|sample| sample.rss_bytes.unwrap_or(0) == 0));
    assert!(stderr(&output).contains("the job ended with exit code 4"));
}

#[test]
fn without_a_cgroup_the_address_space_is_limited_and_that_is_said() {
    let folder = Folder::new();
    let inner = format!(
        "mount -t tmpfs none /sys/fs/cgroup && exec {} run -o {} --limit 200MiB -- sh -c 'ulimit -v; head -c 400M /dev/zero | sort >/dev/null'",
        env!("CARGO_BIN_EXE_brimful"),
        folder.recording().display()
    );
    let Some(output) = in_a_namespace(&inner) else { return };
    assert!(stderr(&output).contains("of address space instead"), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().next(), Some("204800"));
}

#[test]
fn a_disk_that_fills_up_while_a_job_runs_is_said_once() {
    let folder = Folder::new();
    let place = folder.0.path().join("small");
    let inner = format!(
        "mkdir -p {0} && mount -t tmpfs -o size=4k none {0} && exec {1} run -o {0}/a.run -- sh -c 'head -c 1M /dev/zero > {0}/fill 2>/dev/null; sleep 2.5; echo done'",
        place.display(),
        env!("CARGO_BIN_EXE_brimful")
    );
    let Some(output) = in_a_namespace(&inner) else { return };
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "done\n"), "{}", stderr(&output));
    let said = stderr(&output);
    let complaints = said.lines().filter(|line| line.contains("No space left")).count();
    assert!((1..=2).contains(&complaints), "{said}");
}

#[test]
fn a_job_that_moves_to_another_cgroup_is_followed() {
    if !can_limit() {
        return;
    }
    let folder = Folder::new();
    // The job moves itself below the group that it is in, as batch systems do with it.
    let script = "own=$(sed -n 's/.*:memory:\\(.*\\)/\\/sys\\/fs\\/cgroup\\/memory\\1/p' /proc/self/cgroup); new=$own/moved-$$; \
        mkdir $new && echo 90M > $new/memory.limit_in_bytes && echo $$ > $new/cgroup.procs || exit 77; sleep 3; echo $$ > $own/cgroup.procs; rmdir $new";
    let output = folder.run(&[], &["sh", "-c", script]);
    if output.status.code() == Some(77) {
        eprintln!("skipped: no cgroup of version 1 can be made here");
        return;
    }
    let limits: Vec<u64> = samples(&folder.frames()).iter().filter_map(|sample| sample.cgroup_limit_bytes).collect();
    assert!(limits.contains(&(90 << 20)), "{limits:?} {}", stderr(&output));
}

#[test]
fn a_job_that_drops_its_privileges_is_followed() {
    let folder = Folder::new();
    let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 1.5; echo ${#x}; id -u";
    let output = folder.run(&[], &["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", script]);
    if !output.status.success() {
        eprintln!("skipped: privileges cannot be dropped here: {}", stderr(&output));
        return;
    }
    assert_eq!(stdout(&output), "30000000\n65534\n");
    let held = samples(&folder.frames()).iter().filter_map(|sample| sample.rss_bytes).max().unwrap();
    assert!(held > 30_000_000, "{held}");
}

#[test]
fn the_job_is_recorded_from_its_start() {
    let folder = Folder::new();
    let output = folder.run(&[], &["sh", "-c", "x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 0.6; echo ${#x}"]);
    assert_eq!(stdout(&output), "30000000\n");
    let frames = folder.frames();
    assert_eq!(start(&frames).command[..2], ["sh", "-c"]);
    assert!(start(&frames).started_unix_ms > 1_700_000_000_000 && start(&frames).pid > 0);
    let samples = samples(&frames);
    assert!(samples.len() >= 4, "{} samples", samples.len());
    let peak = samples.iter().filter_map(|sample| sample.peak_rss_bytes).max().unwrap();
    assert!((30_000_000..200_000_000).contains(&peak), "{peak}");
    assert!(stderr(&output).contains("Peak of memory: "), "{}", stderr(&output));
    assert!(frames.iter().any(|frame| matches!(frame, Frame::Holders(holders) if !holders.processes.is_empty())));
    assert_eq!(output.status.signal(), None);
}

#[test]
fn brimful_killed_leaves_a_recording_and_the_job() {
    let folder = Folder::new();
    let alive = folder.0.path().join("alive");
    let script = format!("sleep 2.2; echo alive > {}", alive.display());
    let mut child = folder.command(&["-q"], &["sh", "-c", &script]).spawn().unwrap();
    let recorded =
        || fs::read(folder.recording()).map_or(0, |bytes| Reader::new(&bytes).map_or(0, |reader| reader.count()));
    while recorded() < 5 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let bytes = fs::read(folder.recording()).unwrap();
    let frames: Vec<Frame> = Reader::new(&bytes).unwrap().collect();
    assert!(samples(&frames).len() >= 4);
    while !alive.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

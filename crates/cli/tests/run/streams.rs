//! What passes through: output, signals, exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::job::Folder;
use crate::support::{command, stderr, stdout};

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
fn a_job_that_closes_its_streams_is_waited_for() {
    let folder = Folder::new();
    let output = folder.run(&["-q"], &["sh", "-c", "echo last words; exec >&- 2>&-; sleep 0.5; exit 5"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(5), "last words\n"));
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
    let reported: serde_json::Value = serde_json::from_slice(&reported.stdout).unwrap();
    assert_eq!(said["exit_code"], 4);
    assert_eq!(said, reported);
    assert_eq!(said["recording"]["good_bytes"], std::fs::metadata(folder.recording()).unwrap().len());
    assert_eq!(said["recording"]["entries"], folder.frames().len());
    let quiet = Folder::new().run(&["--format", "json", "-q"], &["true"]);
    assert_eq!((stdout(&quiet), stderr(&quiet)), (String::new(), String::new()));
}

//! Where a recording is written, and what happens where it cannot be.

use std::fs;
use std::process::Command;

use crate::job::{Folder, in_a_namespace};
use crate::support::{command, stderr, stdout};

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
    // What there is not is not said to be empty.
    let output = command(&["run", "--format", "json", "-o", "/dev/full", "--", "true"])
        .env("BRIMFUL_PYTHON", "/nowhere/python")
        .output()
        .unwrap();
    let summary: serde_json::Value = serde_json::from_str(stderr(&output).lines().last().unwrap()).unwrap();
    assert_eq!((&summary["outcome"], &summary["recording"]), (&"ended_well".into(), &serde_json::Value::Null));
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

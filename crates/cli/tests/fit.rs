//! `brimful fit` around a command: what it gets, how it ends, and what is refused before anything starts. What Python then
//! does is tested with Python (`tests/test_fit_command.py`).
#![cfg(unix)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use support::{command, stderr, stdout};
use tempfile::TempDir;

/// A folder with a stand-in for Python, which says where the package is and otherwise does what its arguments say.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.script("python", "[ \"$1\" = -c ] && { echo /opt/brimful; exit 0; }\nexec \"$@\"");
        folder
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("BRIMFUL_PYTHON", self.0.path().join("python")).env_remove("PYTHONPATH");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
        stderr(&output).replace(self.0.path().to_str().unwrap(), "FOLDER")
    }
}

#[test]
fn the_environment_is_the_users_and_two_variables() {
    let folder = Folder::new();
    let shown = |command: &mut Command| stdout(&command.output().unwrap());
    let print = ["--", "sh", "-c", "echo \"$PYTHONPATH $BRIMFUL_FIT $MINE\""];
    assert_eq!(
        shown(folder.command(&[&["fit"][..], &print].concat()).env("MINE", "kept")),
        "/opt/brimful/_bootstrap {\"allow\":\"exact\",\"memory\":\"auto\"} kept\n"
    );
    let given = [&["fit", "--memory", "3GiB", "--allow", "numerics"][..], &print].concat();
    assert_eq!(
        shown(folder.command(&given).env("PYTHONPATH", "lib::/b")),
        "/opt/brimful/_bootstrap:lib::/b {\"allow\":\"numerics\",\"memory\":3221225472} \n"
    );
}

#[test]
fn the_exit_code_is_that_of_the_job() {
    let folder = Folder::new();
    let ended = |script: &str| {
        let output = folder.run(&["fit", "--", "sh", "-c", script]);
        (output.status.code(), stderr(&output))
    };
    assert_eq!(ended("exit 0"), (Some(0), String::new()));
    assert_eq!(ended("echo out of memory >&2; exit 7"), (Some(7), "out of memory\n".to_owned()));
    assert_eq!(ended("kill -TERM $$"), (Some(143), String::new()));
    let killed = "brimful: the job was ended by signal 9, as the system does when memory runs out\n";
    assert_eq!(ended("kill -KILL $$"), (Some(137), killed.to_owned()));
}

#[test]
fn standard_input_is_the_job_s() {
    let folder = Folder::new();
    let mut child = folder.command(&["fit", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"rows").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "rows");
}

/// Starts a job that counts the signals it gets, sends one to Brimful alone, and gives what was counted and the exit code.
fn counted(signal: &str) -> (String, Option<i32>) {
    let folder = Folder::new();
    // It waits for the first, then a moment for a second.
    let script = format!(
        "count=0; trap 'count=$((count+1))' {signal}; echo ready; \
         for i in 1 2 3 4 5 6 7 8 9 10; do [ $count = 0 ] && sleep 0.5; done; sleep 0.5; echo $count; exit 5"
    );
    let mut child = folder.command(&["fit", "--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
    let count = lines.next().unwrap().unwrap();
    (count, child.wait().unwrap().code())
}

#[test]
fn a_signal_to_brimful_alone_reaches_the_job_and_is_waited_for() {
    // What is ignored where the tests run (`nohup make test &`) no shell can count: the job ignores it, too.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let ignored = u64::from_str_radix(mask, 16).unwrap();
    for signal in [("INT", 2), ("TERM", 15), ("USR1", 10)].iter().filter(|(_, n)| ignored >> (n - 1) & 1 == 0) {
        let (signal, _) = signal;
        assert_eq!(counted(signal), ("1".to_owned(), Some(5)), "{signal}");
    }
}

#[test]
fn nothing_starts_where_something_is_wrong() {
    let folder = Folder::new();
    let marker = folder.0.path().join("started");
    let touch = ["--", "touch", marker.to_str().unwrap()];
    let with = |options: &[&str]| folder.refused(&[&["fit"][..], options, &touch].concat());
    assert_eq!(
        with(&["--memory", "lots"]),
        "error: 'lots' is not a size: write a number and a unit, such as 15GiB, 512MiB or 8GB\n"
    );
    assert_eq!(
        with(&["--memory", "3"]),
        "error: --memory 3 is 3 B, too little for any job: write a size with its unit, such as 15GiB\n"
    );
    assert!(with(&["--allow", "all"]).starts_with("error: invalid value 'all' for '--allow <WHAT>'"));
    folder.script("python", "exit 3");
    assert_eq!(
        with(&[]),
        "error: FOLDER/python (named by BRIMFUL_PYTHON) has no brimful: install it with 'FOLDER/python -m pip install .' \
         in the folder of Brimful's source; nothing was started\n"
    );
    folder.script("python", "echo 'Fatal Python error' >&2; exit 1");
    assert_eq!(with(&[]), "error: FOLDER/python (named by BRIMFUL_PYTHON) ended with code 1: Fatal Python error\n");
    assert!(!marker.exists());
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let folder = Folder::new();
    assert_eq!(
        folder.refused(&["fit", "--", "trian.sh"]),
        "error: there is no command 'trian.sh': nothing was started\n"
    );
    assert_eq!(
        folder.refused(&["fit", "--", "/nowhere/python3", "train.py"]),
        "error: there is no /nowhere/python3 (of the command): nothing was started\n"
    );
    assert!(folder.refused(&["fit"]).contains("Usage: brimful fit [OPTIONS] -- COMMAND..."));
    assert!(folder.refused(&["fit", "python", "train.py"]).contains("Usage: brimful fit [OPTIONS] -- COMMAND..."));
}

#[test]
fn the_python_of_the_command_is_the_one_that_is_asked() {
    let folder = Folder::new();
    folder.script("python3.11", "exit 3");
    let named = folder.0.path().join("python3.11");
    let said = folder.refused(&["fit", "--", named.to_str().unwrap(), "train.py"]);
    assert!(said.starts_with("error: FOLDER/python3.11 (of the command) has no brimful"), "{said}");
    assert_eq!(
        folder.refused(&["fit", "--", "python3", "-uI", "train.py"]),
        "error: python3 -I leaves out the environment by which Brimful comes in: run it without -I\n"
    );
}

//! `--limit`: who killed what, and what is left of the cgroup.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::job::{Folder, can_limit, in_a_namespace};
use crate::support::{stderr, stdout};

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

/// It is in no group any more when it is first looked at, as on a busy machine a job of a fifth of a second may be.
#[test]
fn the_group_of_a_job_that_ends_at_once_is_known() {
    if !can_limit() {
        return;
    }
    let folder = Folder::new();
    for _ in 0..10 {
        let output = folder.run(&["--limit", "96MiB"], &["sh", "-c", "kill -9 $$"]);
        assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
        assert_eq!((folder.end().oom_kills, folder.end().explanation), (Some(0), None));
    }
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

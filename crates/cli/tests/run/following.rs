//! Which processes are the job's: forks, those that detach, move or drop their privileges, and those that outlive us.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use brimful_monitor::recording::{Frame, Reader};
use brimful_monitor::sample::Sample;
use serde_json::Value;

use crate::job::{Folder, can_limit, in_a_namespace, samples, start};
use crate::support::{command, stderr, stdout};

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

/// A job that ends at once has often ended when it is first looked at; then nothing is known, which is not the same as none.
#[test]
fn what_was_not_measured_is_not_said_to_be_nothing() {
    let folder = Folder::new();
    let is_measured = |bytes: &Value| bytes.is_null() || bytes.as_u64() > Some(0);
    for _ in 0..5 {
        let output = folder.run(&[], &["sh", "-c", "kill -9 $$"]);
        let said = stderr(&output);
        assert!(said.contains("the job was ended by signal 9") && !said.contains(" 0 B"), "{said}");
        assert!(said.lines().all(|line| !line.ends_with([';', ' '])), "{said}");

        let output = folder.run(&["--format", "json"], &["sh", "-c", "exit 3"]);
        let said: Value = serde_json::from_str(&stderr(&output)).unwrap();
        assert!(is_measured(&said["peak"]["held_bytes"]) && is_measured(&said["peak_rss_bytes"]), "{said}");
        let as_csv = command(&["report", folder.recording().to_str().unwrap(), "--format", "csv"]).output().unwrap();
        let as_csv = stdout(&as_csv);
        let mut rows = as_csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = rows.next().unwrap();
        for (row, name) in
            rows.flat_map(|row| ["rss_bytes", "peak_rss_bytes", "anon_bytes"].map(|name| (row.clone(), name)))
        {
            let at = names.iter().position(|each| *each == name).unwrap();
            assert_ne!(row[at], "0", "{name}: {as_csv}");
        }
    }
}

#[test]
fn what_a_fork_shares_counts_once() {
    let folder = Folder::new();
    let script = "import os, time\nx = b'x' * (200 << 20)\nfor _ in range(5):\n    if os.fork() == 0:\n        time.sleep(4); os._exit(0)\ntime.sleep(4.2)";
    let output = folder.run(&["-q"], &["python3", "-c", script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let samples = samples(&folder.frames());
    // Between a fork and the next look at what is shared, a second on a machine that has time, it is not known.
    let forked = samples.iter().filter(|sample| sample.process_count >= Some(6));
    // What starts Python may be a script, with as many processes before anything is held.
    let held: Vec<u64> = forked.filter_map(Sample::held_bytes).skip_while(|&held| held < 200 << 20).collect();
    let known = held.iter().position(|&held| held < 600_000_000).map(|at| &held[at..]);
    assert!(known.is_some_and(|known| known.iter().all(|&held| held < 600_000_000)), "{held:?}");
}

#[test]
fn what_detaches_is_still_the_jobs_and_is_named_when_it_is_left() {
    let folder = Folder::new();
    // Where many processes are started at once, it is found at the next look at all of them, which a busy machine puts off.
    let detached = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ready > $0; sleep 8; echo ${#x} > /dev/null";
    let mark = folder.0.path().join("ready");
    let script = format!(
        "(setsid sh -c '{}' {} >/dev/null 2>&1 &); while [ ! -e {} ]; do sleep 0.05; done; sleep 5",
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

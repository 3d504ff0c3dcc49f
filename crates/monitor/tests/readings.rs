//! Readings of trees that look like a machine's, and of this machine.
//!
//! In: folders made here, and `fixtures/cgroup`. Checked: figures, limits, processes that are gone or hidden, and a sampler that follows a job
//! through its life.

use std::fs;
use std::path::{Path, PathBuf};

use brimful_monitor::error::MonitorError;
use brimful_monitor::readings::Answer;
use brimful_monitor::readings::cgroup::Cgroup;
use brimful_monitor::readings::cgroup::place::Version;
use brimful_monitor::readings::process::{page_bytes, stat};
use brimful_monitor::sampler::Sampler;
use proptest::prelude::*;
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

/// A folder that looks like a machine.
struct Machine(TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put("proc/loadavg", "0.1 0.1 0.1 1/99 500\n");
        machine.put(
            "proc/meminfo",
            "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapTotal: 1024 kB\nSwapFree: 512 kB\n",
        );
        machine.put("proc/pressure/memory", "some avg10=0.00 total=7\nfull avg10=0.00 total=5\n");
        machine
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, parent: u32, start: u64, pages: u64, peak_kib: u64) {
        self.put(
            &format!("proc/{pid}/stat"),
            &format!("{pid} (python3) S {parent} 1 1 0 -1 0 0 0 0 0 10 5 0 0 20 0 3 0 {start} 0 0 0"),
        );
        self.put(&format!("proc/{pid}/statm"), &format!("999 {pages} 3 4 0 5 0\n"));
        self.put(&format!("proc/{pid}/status"), &format!("Name:\tpython3\nVmHWM:\t  {peak_kib} kB\n"));
        self.put(&format!("proc/{pid}/smaps_rollup"), &format!("00-ff ---p\nRss: 1 kB\nPss:  {} kB\n", pages * 2));
        self.put(&format!("proc/{pid}/io"), "read_bytes: 4096\nwrite_bytes: 100\ncancelled_write_bytes: 0\n");
        self.put(&format!("proc/{pid}/net/dev"), "eth0: 10 0 0 0 0 0 0 0 20 0\n");
        self.put(&format!("proc/{pid}/fd/0"), "");
    }

    fn end(&self, pid: u32) {
        fs::write(self.root().join(format!("proc/{pid}/statm")), "").unwrap();
        fs::remove_dir_all(self.root().join(format!("proc/{pid}"))).unwrap();
    }
}

#[test]
fn a_job_is_followed_through_its_life() {
    let machine = Machine::new();
    machine.process(100, 1, 50, 1000, 4000);
    machine.process(7, 1, 40, 5000, 20_000);
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    let first = sampler.sample(0);
    assert_eq!(
        (first.rss_bytes, first.process_count, first.thread_count),
        (Some(1000 * page_bytes()), Some(1), Some(3))
    );
    assert_eq!(
        (first.disk_read_bytes, first.disk_written_bytes, first.open_file_count),
        (Some(4096), Some(100), Some(1))
    );
    assert_eq!((first.namespace_received_bytes, first.namespace_sent_bytes), (Some(10), Some(20)));
    assert_eq!((first.machine_total_bytes, first.machine_swap_used_bytes), (Some(16 * GIB), Some(512 * 1024)));
    assert_eq!((first.machine_stall_some_us, first.cgroup_used_bytes, first.cgroup_limit_bytes), (Some(7), None, None));
    assert_eq!(first.pss_bytes, Some(2000 * 1024));
    // A child appears: it is found at the next look, which the last number brings forward.
    machine.process(101, 100, 60, 500, 2000);
    assert_eq!(sampler.sample(400).process_count, Some(1));
    machine.put("proc/loadavg", "0.1 0.1 0.1 1/99 501\n");
    assert_eq!(sampler.sample(600).process_count, Some(2));
    assert_eq!(sampler.sample(700).rss_bytes, Some(1500 * page_bytes()));
    // It ends, its number goes to a stranger: resident memory is that of the file that was kept open, then of the rest.
    machine.end(101);
    machine.process(101, 1, 99, 7000, 28_000);
    assert_eq!(sampler.sample(800).rss_bytes, Some(1000 * page_bytes()));
    assert_eq!(sampler.sample(2700).process_count, Some(1));
    // A job whose first process ended while a child goes on has not ended.
    machine.process(102, 100, 70, 300, 1200);
    assert_eq!(sampler.sample(4800).process_count, Some(2));
    machine.end(100);
    fs::write(machine.root().join("proc/102/stat"), "102 (x) S 1 1 1 0 -1 0 0 0 0 0 10 5 0 0 20 0 3 0 70 0").unwrap();
    assert_eq!(sampler.sample(6900).rss_bytes, Some(300 * page_bytes()));
    assert!(!sampler.has_ended());
    machine.end(102);
    assert_eq!(sampler.sample_all(7000).rss_bytes, Some(0));
    assert!(sampler.has_ended());
}

#[test]
fn a_rise_between_samples_is_in_the_peak() {
    let machine = Machine::new();
    machine.process(100, 1, 50, 1000, 4);
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    assert_eq!(sampler.sample(0).peak_rss_bytes, Some(1000 * page_bytes()));
    machine.process(100, 1, 50, 1100, 8 << 20);
    let sample = sampler.sample(1000);
    assert_eq!((sample.rss_bytes, sample.peak_rss_bytes), (Some(1100 * page_bytes()), Some(8 * GIB)));
}

#[test]
fn rises_at_different_moments_are_not_added_up() {
    let (machine, page) = (Machine::new(), page_bytes());
    let mib = (1 << 20) / page;
    // Two processes rise to 300 MiB, one after the other, and were seen at 299.
    let at = |first: u64, second: u64, peaks: [u64; 2]| {
        machine.process(100, 1, 50, first * mib, peaks[0] << 10);
        machine.process(101, 100, 60, second * mib, peaks[1] << 10);
    };
    at(10, 10, [10, 10]);
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    assert_eq!(sampler.sample(0).peak_rss_bytes, Some(20 << 20));
    at(299, 10, [299, 10]);
    sampler.sample(100);
    at(10, 299, [300, 299]);
    sampler.sample(200);
    at(10, 10, [300, 300]);
    assert_eq!(sampler.sample(300).peak_rss_bytes, Some(310 << 20));
    assert_eq!(sampler.sample(1100).peak_rss_bytes, Some(310 << 20));
    // Both at once, and not seen: that is added up.
    at(10, 10, [500, 500]);
    assert_eq!(sampler.sample(2200).peak_rss_bytes, Some(1000 << 20));
}

#[test]
fn a_new_process_is_found_at_the_next_sample_and_a_thread_is_none() {
    let machine = Machine::new();
    machine.process(100, 1, 50, 1000, 4);
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    assert_eq!(sampler.sample(0).process_count, Some(1));
    // A child, its child, a thread of the child, and a stranger.
    for (pid, parent) in [(501, 100), (502, 501), (503, 100), (504, 7)] {
        machine.process(pid, parent, 60, 10, 4);
    }
    machine.put("proc/503/status", "Name:\tpython3\nTgid:\t501\nVmHWM:\t4 kB\n");
    machine.put("proc/loadavg", "0.1 0.1 0.1 1/99 504\n");
    assert_eq!(sampler.sample(100).process_count, Some(3));
    assert_eq!(sampler.sample(200).rss_bytes, Some(1020 * page_bytes()));
}

#[test]
fn a_process_that_left_its_parent_is_known_by_its_guardian() {
    let machine = Machine::new();
    machine.process(100, 9, 50, 1000, 4);
    for (pid, parent) in [(200, 9), (201, 1), (202, 200)] {
        machine.process(pid, parent, 60, 10, 4);
    }
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    sampler.guarded_by(9);
    // A stranger is left out.
    assert_eq!(sampler.sample(0).rss_bytes, Some(1020 * page_bytes()));
    machine.process(501, 9, 70, 5, 4);
    machine.put("proc/loadavg", "0.1 0.1 0.1 1/99 501\n");
    assert_eq!(sampler.sample(100).process_count, Some(4));
    machine.end(100);
    assert_eq!(sampler.sample(2100).rss_bytes, Some(25 * page_bytes()));
    assert!(!sampler.has_ended());
}

#[test]
fn whoever_watches_is_not_the_jobs() {
    let machine = Machine::new();
    machine.process(100, 1, 50, 1000, 4);
    machine.process(101, 100, 60, 500, 4);
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    sampler.leave_out(101);
    assert_eq!(sampler.sample(0).rss_bytes, Some(1000 * page_bytes()));
}

#[test]
fn a_number_that_was_given_out_again_does_not_count_between_looks() {
    let machine = Machine::new();
    // More than files are kept open for.
    (100..300).for_each(|pid| machine.process(pid, if pid == 100 { 1 } else { 100 }, 50, 10, 4));
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    assert_eq!(sampler.sample(0).rss_bytes, Some(2000 * page_bytes()));
    machine.end(299);
    machine.process(299, 1, 99, 7000, 4);
    sampler.sample(1000);
    assert_eq!(sampler.members().iter().filter(|member| member.is_here()).count(), 199);
}

#[test]
fn a_process_that_becomes_hidden_is_still_counted() {
    let machine = Machine::new();
    machine.process(100, 1, 50, 1000, 4);
    machine.process(101, 100, 60, 500, 4);
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    assert_eq!(sampler.sample(0).rss_bytes, Some(1500 * page_bytes()));
    machine.put("proc/self/mountinfo", "22 28 0:20 / /proc rw,relatime - proc proc rw,hidepid=invisible\n");
    // The file that is open goes on to exist.
    fs::remove_dir_all(machine.root().join("proc/101")).unwrap();
    for at_ms in [1000, 2000, 4000] {
        assert_eq!(sampler.sample(at_ms).rss_bytes, Some(1500 * page_bytes()));
    }
    assert!(!sampler.has_ended());
}

#[test]
fn a_job_that_moves_to_another_cgroup_is_followed() {
    let machine = Machine::new();
    machine.process(100, 1, 50, 1000, 4);
    machine.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    for (group, limit, kills) in [("a", "5000", 0), ("b", "max", 3)] {
        machine.put(&format!("sys/fs/cgroup/{group}/memory.events"), &format!("oom_kill {kills}\n"));
        machine.put(&format!("sys/fs/cgroup/{group}/memory.current"), "77\n");
        machine.put(&format!("sys/fs/cgroup/{group}/memory.max"), limit);
    }
    machine.put("proc/100/cgroup", "0::/a\n");
    let mut sampler = Sampler::new(machine.root(), 100).unwrap();
    assert!(!sampler.has_ended());
    let sample = sampler.sample(0);
    assert_eq!((sample.cgroup_limit_bytes, sample.cgroup_used_bytes), (Some(5000), Some(77)));
    machine.put("proc/100/cgroup", "0::/b\n");
    // A moment after the last look at details, the new group's are read all the same: its kills were before the job came.
    sampler.sample(1900);
    let sample = sampler.sample(2000);
    assert_eq!((sample.cgroup_limit_bytes, sample.cgroup_oom_kill_count), (None, Some(3)));
    assert_eq!(sampler.cgroup().map(|cgroup| cgroup.own.folder.clone()), Some(PathBuf::from("/sys/fs/cgroup/b")));
}

#[test]
fn gone_and_hidden_are_told_apart() {
    let machine = Machine::new();
    assert_eq!(Sampler::new(machine.root(), 9).err(), Some(MonitorError::Gone { pid: 9 }));
    machine.put("proc/self/mountinfo", "22 28 0:20 / /proc rw,relatime - proc proc rw,hidepid=invisible\n");
    assert_eq!(Sampler::new(machine.root(), 9).err(), Some(MonitorError::Hidden { pid: 9 }));
    assert_eq!(stat(machine.root(), 9), Answer::Hidden);
    assert_eq!(stat(Path::new("/nowhere/at/all"), 9), Answer::Gone);
}

fn fixture(name: &str) -> Option<Cgroup> {
    Cgroup::find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cgroup").join(name), None)
}

#[test]
fn recorded_layouts_are_understood() {
    let found = |name: &str| {
        let cgroup = fixture(name).unwrap();
        let source = cgroup.limits.limit_source.clone();
        (cgroup.watched.version, cgroup.limits.limit_bytes, source.map(|path| path.display().to_string()))
    };
    let source = |path: &str| Some(format!("/sys/fs/cgroup/{path}"));
    let nested = source("user.slice/session.scope/memory.max");
    assert_eq!(found("v2_nested"), (Version::Two, Some(4 * GIB), nested));
    assert_eq!(found("v1"), (Version::One, Some(2 * GIB), source("memory/memory.limit_in_bytes")));
    assert_eq!(found("v1_hierarchical"), (Version::One, Some(3 * GIB), source("memory/memory.stat")));
    assert_eq!(found("hybrid"), (Version::One, Some(GIB), source("memory/job/memory.limit_in_bytes")));
    assert_eq!(found("v1_unlimited"), (Version::One, None, None));
    assert_eq!(found("v2_max"), (Version::Two, None, None));
    assert_eq!(fixture("absent"), None);
}

#[test]
fn a_group_of_version_2_tells_everything() {
    let machine = Machine::new();
    let group = "sys/fs/cgroup/job";
    machine.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    machine.put("proc/100/cgroup", "0::/job/inner\n");
    for (file, text) in [
        ("memory.max", "1000\n"),
        ("memory.high", "900\n"),
        ("memory.current", "800\n"),
        ("memory.peak", "950\n"),
        ("memory.stat", "anon 500\nfile 250\nshmem 50\ninactive_file 100\n"),
        ("memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 0\n"),
        ("memory.swap.current", "60\n"),
        ("memory.swap.max", "70\n"),
        ("memory.pressure", "some avg10=1.00 total=11\nfull avg10=1.00 total=12\n"),
        ("inner/memory.max", "max\n"),
        ("inner/memory.current", "700\n"),
        ("inner/memory.events", "oom 0\noom_kill 1\n"),
    ] {
        machine.put(&format!("{group}/{file}"), text);
    }
    let cgroup = Cgroup::find(machine.root(), Some(100)).unwrap();
    let (own, watched) = (&cgroup.own.folder, &cgroup.watched.folder);
    assert_eq!((own, watched), (&PathBuf::from("/sys/fs/cgroup/job/inner"), &PathBuf::from("/sys/fs/cgroup/job")));
    assert_eq!((cgroup.limits.high_bytes, cgroup.limits.swap_limit_bytes), (Some(900), Some(70)));
    let usage = cgroup.usage();
    assert_eq!((usage.used_bytes, usage.peak_bytes, usage.anon_bytes), (Some(800), Some(950), Some(500)));
    assert_eq!((usage.file_bytes, usage.shmem_bytes, usage.inactive_file_bytes), (Some(250), Some(50), Some(100)));
    assert_eq!((usage.swap_bytes, usage.oom_count, usage.oom_kill_count), (Some(60), Some(3), Some(4)));
    assert_eq!(usage.pressure.map(|pressure| (pressure.some.total_us, pressure.full.total_us)), Some((11, 12)));
}

#[test]
fn a_group_of_version_1_tells_what_it_can() {
    let machine = Machine::new();
    machine.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    machine.put("proc/100/cgroup", "4:memory:/job\n0::/\n");
    for (file, text) in [
        ("memory.limit_in_bytes", "1000\n"),
        ("memory.memsw.limit_in_bytes", "1500\n"),
        ("memory.usage_in_bytes", "800\n"),
        ("memory.max_usage_in_bytes", "950\n"),
        ("memory.failcnt", "6\n"),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("memory.stat", "cache 1\nrss 2\ntotal_cache 250\ntotal_rss 500\ntotal_inactive_file 100\ntotal_swap 60\n"),
    ] {
        machine.put(&format!("sys/fs/cgroup/memory/job/{file}"), text);
    }
    let cgroup = Cgroup::find(machine.root(), Some(100)).unwrap();
    assert_eq!((cgroup.limits.limit_bytes, cgroup.limits.swap_limit_bytes), (Some(1000), Some(500)));
    let usage = cgroup.usage();
    assert_eq!((usage.used_bytes, usage.peak_bytes, usage.anon_bytes), (Some(800), Some(950), Some(500)));
    assert_eq!((usage.swap_bytes, usage.oom_count, usage.oom_kill_count), (Some(60), Some(6), Some(2)));
}

#[test]
fn limits_that_are_none_are_none() {
    let machine = Machine::new();
    machine.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    machine.put("proc/100/cgroup", "0::/job\n");
    machine.put("sys/fs/cgroup/job/memory.current", "77\n");
    for (text, limit_bytes) in [
        ("max", None),
        ("garbage", None),
        ("-1", None),
        ("", None),
        ("9223372036854771712", None),
        ("4096\n", Some(4096)),
    ] {
        machine.put("sys/fs/cgroup/job/memory.max", text);
        let cgroup = Cgroup::find(machine.root(), Some(100)).unwrap();
        assert_eq!(cgroup.limits.limit_bytes, limit_bytes, "{text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_real_child_is_found_and_its_end_noticed() {
    use std::process::Command;
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let mut sampler = Sampler::new(Path::new("/"), std::process::id()).unwrap();
    let sample = sampler.sample(0);
    assert!(sampler.members().iter().any(|member| member.id.pid == child.id()), "{:?}", sampler.members());
    assert!(sample.rss_bytes.unwrap() > 100_000 && sample.peak_rss_bytes >= sample.rss_bytes, "{sample:?}");
    assert!(sample.machine_total_bytes.is_some() && sample.cpu_ms.is_some(), "{sample:?}");
    child.kill().unwrap();
    // Not waited for: it has ended and is still in the list.
    std::thread::sleep(std::time::Duration::from_millis(50));
    sampler.sample_all(3000);
    assert!(!sampler.members().iter().any(|member| member.id.pid == child.id()), "{:?}", sampler.members());
    child.wait().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_real_rise_between_two_samples_is_caught() {
    const RISE_BYTES: u64 = 256 << 20;
    let mut sampler = Sampler::new(Path::new("/"), std::process::id()).unwrap();
    let before = sampler.sample(0).rss_bytes.unwrap();
    let pages = vec![1_u8; RISE_BYTES as usize];
    assert_eq!(std::hint::black_box(&pages)[12_345], 1);
    drop(pages);
    let sample = sampler.sample(1000);
    let (now, peak) = (sample.rss_bytes.unwrap(), sample.peak_rss_bytes.unwrap());
    assert!(now < before + RISE_BYTES / 2, "it fell again");
    assert!(peak.abs_diff(before + RISE_BYTES) < RISE_BYTES / 20, "{before} {peak}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_that_a_file_says_is_fatal(texts in proptest::collection::vec("[ -~\n]{0,60}", 12), number in "[0-9]{18,20}") {
        let machine = Machine::new();
        machine.process(100, 1, 50, 1000, 4000);
        machine.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.put("proc/100/cgroup", "0::/job\n");
        let mut sampler = Sampler::new(machine.root(), 100).unwrap();
        for (path, text) in [
            "proc/100/statm", "proc/100/status", "proc/100/io", "proc/100/net/dev", "proc/100/smaps_rollup", "proc/meminfo",
            "proc/pressure/memory", "proc/loadavg", "sys/fs/cgroup/job/memory.stat", "sys/fs/cgroup/job/memory.events",
            "sys/fs/cgroup/job/memory.pressure", "proc/101/stat",
        ].iter().zip(&texts) {
            machine.put(path, text);
        }
        sampler.sample(0);
        // Numbers at the end of what fits.
        machine.put("proc/100/statm", &format!("1 {number}\n"));
        machine.put("proc/100/status", &format!("VmHWM: {number} kB\n"));
        machine.put("proc/100/io", &format!("read_bytes: {number}\nwrite_bytes: {number}\n"));
        machine.put("proc/102/stat", &format!("102 (x) S 100 1 1 0 -1 0 0 0 0 0 {number} {number} 0 0 20 0 {number} 0 70 0"));
        machine.put("proc/102/statm", &format!("1 {number}\n"));
        let sample = sampler.sample(5000);
        let _ = (sample.held_bytes(), sample.since(&sampler.sample_all(5001)));
    }
}

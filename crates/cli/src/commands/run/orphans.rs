//! Processes that a job leaves behind when their parents end.
//!
//! In: nothing. Out: they become children of ours instead of the system's, so that they are still seen, and are waited for when they end. When Brimful
//! ends, the system takes them over as it would have.

use std::fs;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

/// From now on; gives whether the system does so.
pub fn adopt() -> bool {
    set_child_subreaper(Some(getpid())).is_ok()
}

/// Waits for those that have ended. Those that we have started ourselves are waited for elsewhere.
pub fn reap(ours: &[Option<u32>]) {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for children in threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()) {
        let pids = children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
        for pid in pids.filter(|&pid| !ours.contains(&u32::try_from(pid).ok())).filter_map(Pid::from_raw) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

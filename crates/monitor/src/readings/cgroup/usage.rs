//! What a group holds, of what kind, and what has happened to it.
//!
//! In: the files of one cgroup. Out: [`Usage`]. Anonymous memory is the danger: page cache is dropped before anyone is killed. In version 1
//! a kill is counted in the group of its victim only, in version 2 also in those above. Not there: the peak before Linux 5.19 in version 2.

use std::path::Path;

use super::place::Version;
use crate::readings::file::{named, number, text_if_any};
use crate::readings::pressure::{Pressure, pressure_in};

/// One group, now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Held, page cache included.
    pub used_bytes: Option<u64>,
    /// The most that was ever held.
    pub peak_bytes: Option<u64>,
    /// Of it, memory without a file behind it.
    pub anon_bytes: Option<u64>,
    /// Of it, page cache, shared memory included.
    pub file_bytes: Option<u64>,
    /// Of that, what the kernel would drop first.
    pub inactive_file_bytes: Option<u64>,
    /// Of the page cache, shared memory, which cannot be dropped.
    pub shmem_bytes: Option<u64>,
    /// Swapped out.
    pub swap_bytes: Option<u64>,
    /// How often the limit was met with nothing left to free (version 2), or met at all (version 1).
    pub oom_count: Option<u64>,
    /// Processes killed for memory.
    pub oom_kill_count: Option<u64>,
    /// Time lost to a lack of memory in this group (version 2).
    pub pressure: Option<Pressure>,
}

/// Only what is held: the cheap part.
pub fn used_bytes(folder: &Path, version: Version) -> Option<u64> {
    number(&folder.join(match version {
        Version::One => "memory.usage_in_bytes",
        Version::Two => "memory.current",
    }))
}

/// Everything.
pub fn usage(folder: &Path, version: Version) -> Usage {
    let stat = text_if_any(&folder.join("memory.stat")).unwrap_or_default();
    let first = |names: &[&str]| names.iter().find_map(|name| named(&stat, name));
    let file = |name: &str| number(&folder.join(name));
    let event = |file: &str, name: &str| text_if_any(&folder.join(file)).and_then(|text| named(&text, name));
    let used_bytes = used_bytes(folder, version);
    match version {
        Version::One => Usage {
            used_bytes,
            peak_bytes: file("memory.max_usage_in_bytes"),
            // Without `total_` the groups below are not counted.
            anon_bytes: first(&["total_rss", "rss"]),
            file_bytes: first(&["total_cache", "cache"]),
            inactive_file_bytes: first(&["total_inactive_file", "inactive_file"]),
            shmem_bytes: first(&["total_shmem", "shmem"]),
            swap_bytes: first(&["total_swap", "swap"]),
            oom_count: file("memory.failcnt"),
            oom_kill_count: event("memory.oom_control", "oom_kill"),
            pressure: None,
        },
        Version::Two => Usage {
            used_bytes,
            peak_bytes: file("memory.peak"),
            anon_bytes: first(&["anon"]),
            file_bytes: first(&["file"]),
            inactive_file_bytes: first(&["inactive_file"]),
            shmem_bytes: first(&["shmem"]),
            swap_bytes: file("memory.swap.current"),
            oom_count: event("memory.events", "oom"),
            oom_kill_count: event("memory.events", "oom_kill"),
            pressure: pressure_in(&folder.join("memory.pressure")),
        },
    }
}

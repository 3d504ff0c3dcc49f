//! How much memory there is for data, when nobody says.
//!
//! In: the machine's available memory, what the cgroups up the tree leave, the limit of the address space. Out: bytes and which of
//! them decides. Never the machine's total: a container sees that of its host.

use std::path::Path;

use brimful_monitor::readings::cgroup::{groups_of, limits};
use brimful_monitor::readings::memory::machine_memory;

/// A quarter of what is left: the model, the framework and the page cache live from the rest.
const SHARE: u64 = 4;
/// More than this does not make reading faster.
const MOST_BYTES: u64 = 1 << 30;
/// Where nothing can be read (no /proc): small enough for any machine that trains.
const UNKNOWN_BYTES: u64 = 256 << 20;

/// A budget that nobody gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// The budget.
    pub memory_bytes: u64,
    /// Where it comes from, for the report.
    pub reason: String,
}

/// What the machine and the container leave to this process, and which of them decides.
fn left(root: &Path) -> Option<(u64, &'static str)> {
    let machine = machine_memory(root).available_bytes.map(|bytes| (bytes, "the machine's available memory"));
    let cgroup = limits::left_bytes(root, &groups_of(root, None)).map(|bytes| (bytes, "what the container leaves"));
    [machine, cgroup].into_iter().flatten().min()
}

/// Bytes that the machine and the container leave to this process, where that can be read; `root` is `/` but in tests.
pub fn left_bytes(root: &Path) -> Option<u64> {
    left(root).map(|(bytes, _)| bytes)
}

/// The default budget for this process; `root` is `/` but in tests.
pub fn available(root: &Path) -> Available {
    match left(root) {
        Some((bytes, what)) => {
            let memory_bytes = (bytes / SHARE).min(MOST_BYTES);
            let reason = match memory_bytes {
                MOST_BYTES => "the most that is taken unasked".to_owned(),
                _ => format!("a quarter of {what}"),
            };
            Available { memory_bytes, reason }
        }
        None => Available { memory_bytes: UNKNOWN_BYTES, reason: "memory cannot be read here".to_owned() },
    }
}

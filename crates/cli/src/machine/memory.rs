//! The host memory that this process may really use: the machine's, or the tightest limit of the cgroups it is in.
//!
//! In: `/proc/meminfo`, `/proc/self/cgroup`, `/proc/self/mountinfo` and the cgroup files, version 1, 2 or both. Out:
//! [`Memory`]. Page cache that the kernel would drop counts as available. Not counted: swap, and `memory.high`, which slows
//! a process down but does not end it.

use std::path::{Path, PathBuf};

use brimful_monitor::readings::cgroup::groups_of;
use brimful_monitor::readings::cgroup::limits::{Limits, left_bytes};
use brimful_monitor::readings::memory::machine_memory;

/// Host memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the machine has; none where `/proc/meminfo` does not say.
    pub total_bytes: Option<u64>,
    /// The tightest limit of a cgroup, if it is below what the machine has.
    pub limit_bytes: Option<u64>,
    /// The file that sets it.
    pub limit_source: Option<PathBuf>,
    /// What is left, under the limit and on the machine.
    pub available_bytes: Option<u64>,
}

impl Memory {
    /// Reads this machine.
    pub fn read() -> Memory {
        Memory::under(Path::new("/"))
    }

    /// Reads a tree that looks like a machine's: `proc/…` and `sys/fs/cgroup/…` under that folder.
    pub fn under(root: &Path) -> Memory {
        let machine = machine_memory(root);
        let groups = groups_of(root, None);
        let limits = Limits::read(root, &groups);
        let limit_bytes = limits.limit_bytes.filter(|limit| machine.total_bytes.is_none_or(|total| *limit < total));
        Memory {
            total_bytes: machine.total_bytes,
            limit_bytes,
            limit_source: limits.limit_source.filter(|_| limit_bytes.is_some()),
            available_bytes: left_bytes(root, &groups).into_iter().chain(machine.available_bytes).min(),
        }
    }

    /// What this process may hold at most: the limit, or all that the machine has.
    pub fn allowed_bytes(&self) -> Option<u64> {
        self.limit_bytes.or(self.total_bytes)
    }
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::{GIB, MIB};

    use super::*;

    fn fixture(name: &str) -> Memory {
        Memory::under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cgroup").join(name))
    }

    #[test]
    fn version_2_takes_the_tightest_of_the_groups_above() {
        let memory = fixture("v2_nested");
        assert_eq!(memory.total_bytes, Some(16 * GIB));
        assert_eq!(memory.limit_bytes, Some(4 * GIB));
        assert_eq!(
            memory.limit_source.as_deref(),
            Some(Path::new("/sys/fs/cgroup/user.slice/session.scope/memory.max"))
        );
        // 4 GiB less 3 GiB held, of which 1 GiB is cache to be dropped.
        assert_eq!(memory.available_bytes, Some(2 * GIB));
        assert_eq!(memory.allowed_bytes(), Some(4 * GIB));
    }

    #[test]
    fn version_2_without_a_limit_leaves_the_machine() {
        let memory = fixture("v2_max");
        assert_eq!((memory.limit_bytes, memory.limit_source.as_deref()), (None, None));
        assert_eq!(memory.available_bytes, Some(12 * GIB));
        assert_eq!(memory.allowed_bytes(), Some(16 * GIB));
    }

    #[test]
    fn a_container_of_version_1_is_limited_at_its_top() {
        let memory = fixture("v1");
        assert_eq!(memory.limit_bytes, Some(2 * GIB));
        // The path of the host is outside of what is mounted here.
        assert_eq!(memory.limit_source.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes")));
        assert_eq!(memory.available_bytes, Some(2 * GIB - 512 * MIB));
    }

    #[test]
    fn version_1_tells_the_limits_above_it() {
        let memory = fixture("v1_hierarchical");
        assert_eq!(memory.limit_bytes, Some(3 * GIB));
        assert_eq!(memory.limit_source.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/memory.stat")));
        assert_eq!(memory.available_bytes, Some(12 * GIB));
    }

    #[test]
    fn a_hybrid_machine_has_its_memory_in_version_1() {
        let memory = fixture("hybrid");
        assert_eq!(memory.limit_bytes, Some(GIB));
        assert_eq!(memory.limit_source.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/job/memory.limit_in_bytes")));
    }

    #[test]
    fn the_huge_number_of_version_1_is_no_limit() {
        let memory = fixture("v1_unlimited");
        assert_eq!(memory.limit_bytes, None);
        assert_eq!(memory.allowed_bytes(), Some(16 * GIB));
    }

    #[test]
    fn a_limit_beyond_the_machine_is_none() {
        assert_eq!(fixture("v2_beyond").limit_bytes, None);
    }

    #[test]
    fn nothing_readable_gives_nothing() {
        assert_eq!(fixture("absent"), Memory::default());
    }

    #[test]
    fn this_machine_is_read() {
        let memory = Memory::read();
        if cfg!(target_os = "linux") {
            assert!(memory.total_bytes.is_some() && memory.available_bytes <= memory.total_bytes, "{memory:?}");
        }
    }
}

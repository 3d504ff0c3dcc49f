//! Processes that the kernel killed for memory, on the whole machine since it started.
//!
//! In: `/proc/vmstat`. Out: a count; none where the kernel does not tell (before 4.13, or in some sandboxes).

use std::path::Path;

use super::file::{named, text_if_any};

/// The count.
pub fn machine_oom_kills(root: &Path) -> Option<u64> {
    named(&text_if_any(&root.join("proc/vmstat"))?, "oom_kill")
}

//! The machine's memory and swap.
//!
//! In: `/proc/meminfo`. Out: [`MachineMemory`]. Available is the kernel's own estimate of what can be had without swapping; page cache
//! counts as available. Not counted: limits of cgroups.

use std::path::Path;

use super::file::{named_kib_as_bytes, text_if_any};

/// The machine's memory; what the kernel does not say is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineMemory {
    /// All of it.
    pub total_bytes: Option<u64>,
    /// What can be had without swapping.
    pub available_bytes: Option<u64>,
    /// All swap.
    pub swap_total_bytes: Option<u64>,
    /// Swap that is free.
    pub swap_free_bytes: Option<u64>,
}

impl MachineMemory {
    /// Swap in use.
    pub fn swap_used_bytes(&self) -> Option<u64> {
        Some(self.swap_total_bytes?.saturating_sub(self.swap_free_bytes?))
    }
}

/// Reads the machine.
pub fn machine_memory(root: &Path) -> MachineMemory {
    let text = text_if_any(&root.join("proc/meminfo")).unwrap_or_default();
    let value = |name: &str| named_kib_as_bytes(&text, name);
    MachineMemory {
        total_bytes: value("MemTotal"),
        available_bytes: value("MemAvailable"),
        swap_total_bytes: value("SwapTotal"),
        swap_free_bytes: value("SwapFree"),
    }
}

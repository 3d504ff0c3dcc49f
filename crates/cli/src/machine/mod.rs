//! This machine: its GPUs and the memory it allows this process.
//!
//! In: the driver's library, `/proc` and `/sys/fs/cgroup`. Out: a [`Machine`], read once; what cannot be read is left out
//! with a reason, never an error. Not counted: GPUs of other makers, swap, and limits that are not cgroups (`ulimit`).

pub mod memory;
pub mod nvml;

use brimful_monitor::gpu::Gpus;
use memory::Memory;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// NVIDIA GPUs.
    pub gpus: Gpus,
    /// Host memory.
    pub memory: Memory,
}

impl Machine {
    /// Reads this machine, now.
    pub fn read() -> Machine {
        Machine { gpus: Gpus::read(), memory: Memory::read() }
    }
}

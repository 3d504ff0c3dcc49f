//! Where a job is to run: a device, what runs the kernels there, and how much the framework may take.
//!
//! In: a device and, where the user names one, a budget. Out: a [`Place`] with what to know about it. Which device and what
//! this machine has is for those who ask.

use crate::bytes;
use crate::device::Device;
use crate::framework::Framework;
use crate::report::NoteReport;
use crate::step::Processor;

/// The threads that CPU kernels are counted with: those of the machine on which predictions were measured.
pub const CPU_THREADS: u64 = 2;

/// The last-level cache that they are counted with; only convolutions on volumes depend on it. It is that of the machine on which most of them were
/// measured: the scratch of `video_conv3d` there is that of a cache between 314 and 327 MiB.
pub const CPU_CACHE_BYTES: u64 = 320 << 20;

/// Where a job runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The device.
    pub device: Device,
    /// What kernels run on.
    pub processor: Processor,
    /// What the framework may allocate; none if nothing limits it.
    pub limit_bytes: Option<u64>,
    /// What other processes hold of the device, and the limit leaves out.
    pub held_by_others_bytes: u64,
    /// What to know about the choice.
    pub notes: Vec<NoteReport>,
}

/// A budget that no job can be held to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// Below a megabyte somebody forgot the unit.
    #[error("--memory {written} is {}, too little for any job: write a size with its unit, such as 15GiB", bytes::human(*.bytes))]
    TooSmall {
        /// As the user wrote it.
        written: String,
        /// What it means.
        bytes: u64,
    },
    /// There is not so much.
    #[error("--memory {} is more than {device} has: {}", bytes::human(*.bytes), bytes::human(*.capacity_bytes))]
    MoreThanThereIs {
        /// What was asked.
        bytes: u64,
        /// Of this device.
        device: String,
        /// What it has.
        capacity_bytes: u64,
    },
}

/// A size that a job can be held to, from what the user wrote.
pub fn budget(written: &str, bytes: u64) -> Result<u64, PlaceError> {
    if bytes < bytes::MIB {
        return Err(PlaceError::TooSmall { written: written.to_owned(), bytes });
    }
    Ok(bytes)
}

impl Place {
    /// A device that the job has to itself.
    pub fn of(device: Device, framework: Framework) -> Place {
        let gpu = device.compute_capability.is_some();
        let processor =
            if gpu { Processor::Gpu } else { Processor::Cpu { threads: CPU_THREADS, cache_bytes: CPU_CACHE_BYTES } };
        let limit_bytes = device.usable_bytes(framework);
        Place { device, processor, limit_bytes, held_by_others_bytes: 0, notes: Vec::new() }
    }

    /// Holds the job to a budget, if there is one: who names a budget means it, whatever others hold.
    pub fn hold_to(&mut self, memory_bytes: Option<u64>) -> Result<(), PlaceError> {
        let Some(bytes) = memory_bytes else { return Ok(()) };
        if let Some(capacity_bytes) = self.device.capacity_bytes.filter(|&capacity| bytes > capacity) {
            return Err(PlaceError::MoreThanThereIs { bytes, device: self.device.name.clone(), capacity_bytes });
        }
        self.limit_bytes = Some(bytes);
        self.held_by_others_bytes = 0;
        Ok(())
    }

    /// Notes what is not as the user may think, on a machine with this many threads.
    pub fn note_limits(&mut self, host_threads: u64) {
        if self.limit_bytes.is_none() {
            self.note(
                "no_limit",
                "Nothing limits this job: give --memory, or leave --device out to plan for this machine.",
            );
        }
        if let Processor::Cpu { threads, .. } = self.processor
            && threads != host_threads
        {
            self.note(
                "cpu_threads",
                &format!(
                    "CPU kernels are counted with {threads} threads, as measured; this machine has {host_threads}."
                ),
            );
        }
    }

    fn note(&mut self, code: &str, text: &str) {
        self.notes.push(NoteReport { code: code.to_owned(), layer: None, text: text.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{GIB, MIB};

    fn place(name: &str) -> Place {
        Place::of(Device::find(name).unwrap().clone(), Framework::TensorFlow)
    }

    #[test]
    fn a_budget_is_at_most_what_there_is() {
        let mut t4 = place("t4");
        assert!(t4.hold_to(Some(100 * GIB)).unwrap_err().to_string().starts_with("--memory 100 GiB is more than"));
        t4.hold_to(Some(3 * GIB)).unwrap();
        assert_eq!(t4.limit_bytes, Some(3 * GIB));
        assert_eq!(budget("1MiB", MIB), Ok(MIB));
        assert!(budget("15", 15).unwrap_err().to_string().starts_with("--memory 15 is 15 B, too little for any job"));
    }

    #[test]
    fn a_cpu_without_a_limit_and_with_other_threads_is_noted() {
        let mut cpu = place("cpu");
        cpu.note_limits(16);
        let codes: Vec<&str> = cpu.notes.iter().map(|note| note.code.as_str()).collect();
        assert_eq!(codes, ["no_limit", "cpu_threads"]);
        let mut held = place("cpu");
        held.hold_to(Some(GIB)).unwrap();
        held.note_limits(CPU_THREADS);
        assert!(held.notes.is_empty());
    }
}

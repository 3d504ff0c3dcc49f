//! What `brimful run` says when a job has ended: readings of the kernel's own counters, in words.
//!
//! Origin of the wordings: `crates/cli/src/watching/ending.rs`, whose tests feed them to `explain`.

use super::super::causes::Code;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::size_after;

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::ContainerLimit),
        cause: Some(Code::ContainerOrSchedulerLimit),
        read: held,
        ..Sign::new(
            "brimful.group_kill",
            &["of the job at the memory limit", "in the job's cgroup at the memory limit"],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        read: held,
        ..Sign::new("brimful.machine_kill", &["killed the job: the machine had no memory left"], Weight::Failure)
    },
    Sign {
        cause: Some(Code::NotMemory),
        ..Sign::new("brimful.no_kill", &["the kernel killed nothing of the job for memory"], Weight::Denial)
    },
    Sign::new("brimful.others", &["other processes hold "], Weight::Context),
    Sign::new("brimful.leak", &[" each step, and has grown by ", " each minute, and has grown by "], Weight::Context),
];

/// `… at the memory limit of 300 MiB of its cgroup; it held 284 MiB at its peak`
fn held(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "memory limit of "));
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "it held "));
}

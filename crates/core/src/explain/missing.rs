//! What a log lacks to name a cause, and how to get it.
//!
//! In: a [`Case`] without a supported cause. Out: facts, the one that would decide most first.

use serde::Serialize;

use super::accelerator::Accelerator;
use super::case::Case;
use super::decode::NoText;
use super::phase::Phase;
use super::sign::{Resource, Weight};

/// A fact that the log does not have.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Missing {
    /// Which.
    pub fact: &'static str,
    /// How to get it.
    pub how: &'static str,
}

const END: Missing = Missing {
    fact: "a line that says how the job ended",
    how: "pass the job's whole output: python train.py 2>&1 | brimful explain -",
};
const WHERE: Missing = Missing { fact: "where in the job it failed", how: "pass the traceback above the message, too" };
const DEVICE: Missing =
    Missing { fact: "how much the device has, and who holds it", how: Accelerator::Cuda.shown_by() };
const REQUEST: Missing = Missing {
    fact: "how much was asked for",
    how: "pass the lines around the error: the allocator's message has the figures",
};
const KILLER: Missing = Missing {
    fact: "who ended the process",
    how: "sudo dmesg -T | grep -i -E 'out of memory|oom' (journalctl -k, kubectl describe pod, sacct -j JOB)",
};
const GROWTH: Missing = Missing {
    fact: "how its memory grew",
    how: "run it again with the memory written down: /usr/bin/time -v python train.py",
};
const FILLED: Missing = Missing {
    fact: "what filled the memory before",
    how: "write the memory down while it runs, step by step: free -m in a second terminal",
};
const NCCL: Missing = Missing {
    fact: "which call of CUDA failed inside NCCL",
    how: "run it again with NCCL_DEBUG=INFO, and pass the lines with NCCL WARN",
};
const SHARED: Missing = Missing { fact: "whether /dev/shm was full", how: "df -h /dev/shm while the job runs" };

/// A text, where there was none.
pub(super) fn text(found: NoText) -> Missing {
    Missing { fact: "the log as text: this is none", how: found.how }
}

/// What would decide.
pub(super) fn missing(case: &Case) -> Vec<Missing> {
    let Some(failure) = case.failure() else { return vec![END] };
    let numbers = &case.numbers;
    let unplaced = failure.frames.is_empty() && case.place.is_none();
    let asked = |facts: &[(bool, Missing)]| facts.iter().filter(|(lacks, _)| *lacks).map(|(_, fact)| *fact).collect();
    let device = Accelerator::of(case).map_or(DEVICE, |found| Missing { how: found.shown_by(), ..DEVICE });
    if failure.sign.id == "cuda.nccl_unhandled" {
        return vec![NCCL];
    }
    match case.resource {
        Some(Resource::GpuMemory) => asked(&[
            (unplaced || case.phase() == Some(Phase::MoveData), WHERE),
            (numbers.capacity_bytes.is_none(), device),
            (numbers.requested_bytes.is_none(), REQUEST),
        ]),
        Some(Resource::HostMemory | Resource::ContainerLimit) | None if failure.sign.weight <= Weight::Denial => {
            vec![KILLER, GROWTH]
        }
        Some(Resource::HostMemory) => asked(&[(unplaced, WHERE), (!unplaced, FILLED)]),
        Some(Resource::SharedMemory) => vec![SHARED],
        _ => Vec::new(),
    }
}

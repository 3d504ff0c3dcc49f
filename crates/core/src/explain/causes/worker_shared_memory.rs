//! `/dev/shm` is full: DataLoader workers hand over batches there, NCCL its buffers.

use super::super::case::Case;
use super::super::sign::Resource;
use super::super::sizes::has_any;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::WorkerSharedMemory,
    name: "worker_shared_memory",
    title: "Worker processes ran out of shared memory (/dev/shm)",
    remedies: &["shm_size", "fewer_workers", "sharing_strategy"],
    page: include_str!("../../../../../docs/causes/worker_shared_memory.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let claim = said(
        case,
        Code::WorkerSharedMemory,
        "the message names the shared memory that workers hand their batches over in",
    );
    if claim.is_some() {
        return claim;
    }
    let failure = case.failure()?;
    if case.of(Resource::SharedMemory) && failure.sign.id == "system.bus_error" {
        let workers =
            case.sightings.iter().any(|sighting| has_any(&sighting.text, &["worker", "dataloader", "multiprocessing"]));
        return if workers {
            Claim::likely("a bus error in worker processes is a page of /dev/shm that could not be had")
        } else {
            Claim::possible("a bus error is often a full /dev/shm, and sometimes a truncated file that was mapped")
        };
    }
    // No space, said of a file whose path does not show: the frames do.
    let files =
        ["multiprocessing/reductions", "multiprocessing/heap", "shared_memory.py", "synchronize.py", "pandarallel"];
    let told = ["_multiprocessing_helpers.py", "pandarallel", "SemLock"];
    let shared =
        case.sightings.iter().filter(|sighting| sighting.sign.resource == failure.sign.resource).any(|sighting| {
            has_any(&sighting.text, &told) || sighting.frames.iter().any(|frame| has_any(&frame.file, &files))
        });
    (case.of(Resource::Disk) && shared)
        .then(|| Claim::certain("the file without room is one of multiprocessing's, which lie in /dev/shm"))?
}

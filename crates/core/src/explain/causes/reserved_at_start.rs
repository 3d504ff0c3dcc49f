//! A framework takes most of the device when it starts, and something else then finds nothing.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Resource;
use super::super::sizes::has;
use super::super::traceback::Frame;
use super::other_process::OUTSIDE_ALLOCATOR_BYTES;
use super::{Cause, Claim, Code, said};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::ReservedAtStart,
    name: "reserved_at_start",
    title: "Memory is reserved at the start, and what was free did not suffice",
    remedies: &["memory_growth", "limit_per_process", "free_memory"],
    page: include_str!("../../../../../docs/causes/reserved_at_start.md"),
    judge,
};

/// What serving engines do to the model once the cache has its memory.
const CAPTURES: [&str; 3] = ["compile_or_warm_up_model", "capture_model", "init_cuda_graphs"];

fn judge(case: &Case) -> Option<Claim> {
    if let Some(claim) = said(
        case,
        Code::ReservedAtStart,
        "the job reserves a share of the device at its start, and less than that was free",
    ) {
        return Some(claim);
    }
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    let numbers = &case.numbers;
    if case.failure().is_some_and(|failure| failure.sign.id == "vllm.free_at_start") {
        return Claim::likely("the job reserves a share of the device at its start, and less than that was free");
    }
    // An engine gives its cache all that a share leaves, and then captures the model in what is beyond it.
    let captures = |frame: &&Frame| CAPTURES.contains(&frame.function.rsplit('.').next().unwrap_or(""));
    if let Some(frame) = case.failure().and_then(|failure| failure.frames.iter().find(captures)) {
        return Claim::likely(format!(
            "the engine had reserved its share for the cache, and found no room beside it to capture the model (in {})",
            frame.function
        ));
    }
    // An engine that slept takes its share back, and whoever had the device meanwhile has not given it up.
    let wakes = |frame: &&Frame| frame.function.ends_with("wake_up") || has(&frame.file, "cumem.py");
    if let Some(frame) = case.failure().and_then(|failure| failure.frames.iter().find(wakes)) {
        return Claim::likely(format!(
            "the engine was taking its share of the device back after a pause, and less than that was free (in {})",
            frame.function
        ));
    }
    // PyTorch tells its own from the rest of the process: another framework in it reserved that.
    if let (Some(process), Some(own), Some(capacity)) =
        (numbers.process_bytes, numbers.reserved_bytes, numbers.limit_bytes())
    {
        let foreign = process.saturating_sub(own);
        if foreign >= capacity / 4 && foreign > OUTSIDE_ALLOCATOR_BYTES {
            let because = format!(
                "this process holds {} outside PyTorch's allocator: another framework in it reserved them",
                human(foreign)
            );
            // Weights that are being loaded fill the device, and the larger part of it is theirs.
            let weights = case.phase() == Some(Phase::LoadModel) && own >= foreign.saturating_mul(2);
            return if weights { Claim::possible(because) } else { Claim::likely(because) };
        }
    }
    // XLA and TensorFlow take most of the device before cuDNN asks for its own.
    let handle = numbers
        .free_bytes
        .zip(numbers.limit_bytes())
        .filter(|(free, total)| case.saw("cuda.handle_memory") && *free < total / 10);
    if let Some((free, total)) = handle {
        return Claim::likely(format!(
            "when the handle was made, {} of {} were free: the framework had reserved the rest",
            human(free),
            human(total)
        ));
    }
    case.seen("jax.preallocation")
        .filter(|_| case.failure().is_some_and(|failure| failure.sign.cause == Some(Code::WorkspaceOrHandle)))
        .and_then(|seen| {
            Claim::likely(
                "JAX reserves three quarters of the device when it starts, and the library found no room beside it",
            )
            .map(|claim| Claim { lines: vec![seen.line], ..claim })
        })
}

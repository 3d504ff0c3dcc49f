//! A library found no room for its handle, its workspace or its buffers: they lie beside the framework's pool.

use super::super::case::Case;
use super::super::sign::{Resource, Weight};
use super::super::sizes::has_any;
use super::super::traceback::Frame;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::WorkspaceOrHandle,
    name: "workspace_or_handle",
    title: "A library found no room for its handle or workspace",
    remedies: &["memory_growth", "free_memory", "limit_per_process", "micro_batches", "smaller_batch"],
    page: include_str!("../../../../../docs/causes/workspace_or_handle.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let failure = case.failure()?;
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    // The compiler says it far from where it counts what failed.
    if case.saw("xla.autotuner") || case.saw("xla.picker") {
        return Claim::likely(
            "XLA found no room for the copies that it tries kernels out on, beside the program's memory",
        );
    }
    if let Some(frame) = first_collective(case) {
        return Claim::likely(format!(
            "CUDA itself refused memory in a collective ({}): NCCL makes its buffers there, beside the framework's pool",
            frame.function
        ));
    }
    let refused = failure.sign.weight == Weight::Failure;
    let tried_out = case.seen("tensorrt.no_kernel").or_else(|| case.seen("tensorrt.scratch"));
    if let Some(seen) = tried_out.filter(|_| refused) {
        let because =
            "TensorRT found no room for the workspace of the kernels that it tries out while it builds an engine";
        return Claim::likely(because).map(|claim| Claim { lines: vec![seen.line], ..claim });
    }
    said(case, Code::WorkspaceOrHandle, "")?;
    let because = match failure.sign.id {
        "cuda.algorithm" => {
            "no algorithm of a convolution could be run or tried out; each needs a workspace beside the pool"
        }
        "cuda.module" => "compiled kernels could not be loaded onto the device; they lie beside the framework's pool",
        "cuda.nccl_oom" => "NCCL found no room for its buffers, which lie beside the framework's pool",
        _ => "a handle of a CUDA library could not be made; it needs memory beside the framework's pool",
    };
    Claim::likely(because)
}

/// The collective that CUDA itself refused memory to. Tensors come from PyTorch's pool, which says what it was asked for: this was NCCL, whose
/// communicator is made when it is first used.
fn first_collective(case: &Case) -> Option<&Frame> {
    let failure = case.failure().filter(|failure| failure.sign.id == "cuda.out_of_memory")?;
    failure.frames.last().filter(|frame| has_any(&frame.file, &["distributed_c10d.py"]))
}

//! A framework takes most of the device when it starts, and something else then finds nothing.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::ReservedAtStart,
    name: "reserved_at_start",
    title: "Memory is reserved at the start, and what was free did not suffice",
    remedies: &["memory_growth", "limit_per_process", "free_memory"],
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if let Some(claim) = said(case, Code::ReservedAtStart, "the job reserves a share of the device at its start, and less than that was free") {
        return Some(claim);
    }
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    case.seen("jax.preallocation").filter(|_| case.failure().is_some_and(|failure| failure.sign.cause == Some(Code::WorkspaceOrHandle))).and_then(|seen| {
        Claim::likely("JAX reserves three quarters of the device when it starts, and the library found no room beside it").map(|claim| Claim { lines: vec![seen.line], ..claim })
    })
}

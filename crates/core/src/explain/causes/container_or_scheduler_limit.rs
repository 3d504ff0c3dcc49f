//! A container, a scheduler or a cluster's worker limits the memory, and the limit was reached; the machine may have plenty.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, Confidence, said};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::ContainerOrSchedulerLimit,
    name: "container_or_scheduler_limit",
    title: "The memory limit of a container, scheduler or worker was reached",
    remedies: &["raise_limit", "stream_data", "fewer_workers", "smaller_types"],
    page: include_str!("../../../../../docs/causes/container_or_scheduler_limit.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let mut claim = said(case, Code::ContainerOrSchedulerLimit, "the message names a limit, not the machine")?;
    if let Some(limit) = case.numbers.capacity_bytes.filter(|_| case.of(Resource::ContainerLimit)) {
        claim.because.push(format!("the limit is {}", human(limit)));
    }
    // A worker that is nearly full is paused, and soon terminated; that it was is not said.
    if case.failure().is_some_and(|failure| failure.sign.id == "dask.near_limit") && !case.saw("dask.paused") {
        claim.confidence = Confidence::Likely;
    }
    // The limit is where it ended; growth is why.
    if case.saw("brimful.leak") {
        claim.confidence = Confidence::Likely;
    }
    Some(claim)
}

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
    // Workers die of a crash, too, and with the machine that they run on.
    let died = case.failure().is_some_and(|failure| failure.sign.id == "dask.died");
    if died && case.saw("native.segfault") {
        claim.confidence = Confidence::Possible;
        claim.because = vec!["workers died; one of them crashed, and that its memory ran out is not said".to_owned()];
    } else if died && !["dask.limit", "dask.paused", "dask.near_limit"].iter().any(|sign| case.saw(sign)) {
        claim.confidence = Confidence::Likely;
        claim.because = vec![
            "every worker that ran one task died; of what is not said, and its memory limit is the usual reason"
                .to_owned(),
        ];
    }
    // The limit is where it ended; growth is why.
    if case.saw("brimful.leak") {
        claim.confidence = Confidence::Likely;
    }
    Some(claim)
}

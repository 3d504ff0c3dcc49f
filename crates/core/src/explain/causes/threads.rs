//! Too many threads or processes.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::Threads,
    name: "threads",
    title: "Too many threads or processes",
    remedies: &["fewer_threads", "raise_nproc"],
    page: include_str!("../../../../../docs/causes/threads.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let claim = said(case, Code::Threads, "the system refused to start another thread or process");
    claim.filter(|_| case.of(Resource::Threads))
}

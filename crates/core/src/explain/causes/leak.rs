//! Memory grows from step to step until it is gone: kept graphs, kept losses, functions traced anew.

use super::super::case::Case;
use super::{Cause, Claim, Code};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::Leak,
    name: "leak",
    title: "Memory grew from step to step until it was gone",
    remedies: &["detach_results", "stable_signatures", "clear_between_runs"],
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() && case.resource != Some(super::super::sign::Resource::ContainerLimit) {
        return None;
    }
    if let Some(growth) = &case.growth {
        let because = format!("the log's own figures rise from {} (line {}) to {} (line {}) and hardly ever fall", human(growth.first_bytes), growth.first_line, human(growth.last_bytes), growth.last_line);
        let lines = vec![growth.first_line, growth.last_line];
        return Claim::certain(because).map(|claim| Claim { lines, ..claim });
    }
    if let Some(retraced) = case.seen("tensorflow.retracing") {
        let claim = Claim::possible("a function was traced anew again and again, and each trace is kept");
        return claim.map(|claim| Claim { lines: vec![retraced.line], ..claim });
    }
    if case.saw("dask.high") {
        return Claim::possible("workers hold memory that Dask does not manage: kept results, or memory that the allocator did not give back");
    }
    None
}

//! Memory grows from step to step until it is gone: kept graphs, kept losses, functions traced anew.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Weight;
use super::super::sizes::has_any;
use super::{Cause, Claim, Code, Confidence};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::Leak,
    name: "leak",
    title: "Memory grew from step to step until it was gone",
    remedies: &["detach_results", "stable_signatures", "clear_between_runs"],
    page: include_str!("../../../../../docs/causes/leak.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() && case.resource != Some(super::super::sign::Resource::ContainerLimit) {
        return None;
    }
    if let Some(said) = case.seen("brimful.leak") {
        let claim = Claim::certain("the job was watched: its memory grew from step to step, and went on growing");
        return claim.map(|claim| Claim { lines: vec![said.line], ..claim });
    }
    // What is loaded piece by piece grows, and is meant to.
    if let Some(growth) = case.growth.as_ref().filter(|_| case.phase() != Some(Phase::LoadModel)) {
        let because = format!(
            "the log's own figures rise from {} (line {}) to {} (line {}) and hardly ever fall",
            human(growth.first_bytes),
            growth.first_line,
            human(growth.last_bytes),
            growth.last_line
        );
        let lines = vec![growth.first_line, growth.last_line];
        // The figures lead to what was in use in the end.
        let in_use = case.numbers.allocated_bytes.or(case.numbers.process_bytes);
        // Predictions that an evaluation keeps are no leak of the job's.
        let evaluates = case.phase() == Some(Phase::Evaluate) && has_any(&growth.text, &["eval", "valid", "predict"]);
        let confidence = if evaluates {
            Confidence::Possible
        } else if in_use.is_some_and(|bytes| growth.last_bytes >= bytes / 2) {
            Confidence::Certain
        } else {
            Confidence::Likely
        };
        return Claim::new(confidence, because).map(|claim| Claim { lines, ..claim });
    }
    if let Some(retraced) = case.seen("tensorflow.retracing") {
        let often = case.sightings.iter().filter(|sighting| sighting.sign.id == "tensorflow.retracing").count() >= 3;
        let confidence = if often { Confidence::Likely } else { Confidence::Possible };
        let claim = Claim::new(confidence, "a function was traced anew again and again, and each trace is kept");
        return claim.map(|claim| Claim { lines: vec![retraced.line], ..claim });
    }
    let tensorflow = case.failure().is_some_and(|failure| failure.sign.id.starts_with("tensorflow."));
    let numbered = case.numbers.op.as_deref().filter(|_| tensorflow).and_then(counter);
    if let Some(number) = numbered.filter(|&number| number >= MANY_NODES) {
        return Claim::likely(format!(
            "the operation that failed is the {number}th of its name: models were built again and again in one process"
        ));
    }
    // Whoever watched it saw it grow; what is loaded piece by piece does so, too, and so does whatever was killed in the end.
    let failed = case.failure().is_some_and(|failure| failure.sign.weight == Weight::Failure);
    if let Some(told) = case.seen("told.growth").filter(|_| failed && case.phase() != Some(Phase::LoadModel)) {
        let claim = Claim::likely("whoever reports it saw the memory grow while the job ran");
        return claim.map(|claim| Claim { lines: vec![told.line], ..claim });
    }
    if let Some(told) = case.seen("told.kept").filter(|_| failed && case.phase() != Some(Phase::LoadModel)) {
        let claim = Claim::likely(
            "whoever reports it ran several jobs in one process, and those before left their memory behind",
        );
        return claim.map(|claim| Claim { lines: vec![told.line], ..claim });
    }
    if case.saw("dask.high") {
        return Claim::possible(
            "workers hold memory that Dask does not manage: kept results, or memory that the allocator did not give back",
        );
    }
    None
}

/// TensorFlow numbers nodes of one name: no single model has this many.
const MANY_NODES: u64 = 1000;

/// The number that ends a part of a node's name: 1955 in `Variable_1955/Assign`. A part that is a number alone counts the copies from one device to
/// another in a single model: 4497 in `Tile_3/_4497`.
fn counter(op: &str) -> Option<u64> {
    let numbered = |part: &str| part.rsplit_once('_').filter(|(name, _)| !name.is_empty())?.1.parse().ok();
    op.split('/').filter_map(numbered).max()
}

//! Training fits, and evaluating, predicting or saving beside it does not.

use super::super::case::Case;
use super::super::phase::Phase;
use super::tensor_too_large::all_pairs;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::EvaluationOrCheckpoint,
    name: "evaluation_or_checkpoint",
    title: "Evaluation, prediction or saving needs more than training",
    remedies: &["smaller_evaluation_batch", "inference_mode", "move_results_to_host", "save_from_host"],
    page: include_str!("../../../../../docs/causes/evaluation_or_checkpoint.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() {
        return None;
    }
    if let Some(claim) = said(case, Code::EvaluationOrCheckpoint, "the message is of saving or gathering the state") {
        return Some(claim);
    }
    let place = case.place.as_ref().filter(|place| matches!(place.phase, Phase::Evaluate | Phase::Checkpoint))?;
    // Where nothing was trained before, what an evaluation computes for all pairs of rows is too large by itself.
    if place.phase == Phase::Evaluate && !place.training && all_pairs(case).is_some() {
        return None;
    }
    Claim::likely(format!("it failed {} ({})", place.phase.name(), place.shown_by))
}

//! The optimizer's own state does not fit: Adam keeps twice the weights, from the first update on.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sizes::has_any;
use super::{Cause, Claim, Code};

pub(super) const CAUSE: Cause = Cause {
    code: Code::OptimizerState,
    name: "optimizer_state",
    title: "The optimizer's state does not fit",
    remedies: &[
        "eight_bit_optimizer", "lighter_optimizer", "cpu_offload", "shard_model", "freeze_layers", "larger_share",
    ],
    page: include_str!("../../../../../docs/causes/optimizer_state.md"),
    judge,
};

/// Parts of names that TensorFlow gives to an optimizer's ops and slots.
const NODES: [&str; 9] = [
    "adam", "rmsprop", "momentum", "adagrad", "resourceapply", "optimizer/", "train_op", "update_step",
    "apply_gradients",
];

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() {
        return None;
    }
    if case.phase() == Some(Phase::Update) {
        let place = case.place.as_ref()?;
        return Claim::likely(format!("it failed in the optimizer ({}), where its state is made", place.shown_by));
    }
    let op = case.numbers.op.as_deref()?;
    (has_any(op, &NODES) && !has_any(op, &["gradient", "grad"]))
        .then(|| Claim::likely(format!("the operation that failed is the optimizer's: {op}")))?
}

//! An optimizer that keeps fewer numbers per weight.
//!
//! Adafactor keeps a row and a column of each matrix, which a recording does not show: bounded by a thirty-second of the
//! weights of linear layers and embeddings (64 by 64 and larger), and by twice the weights for all others, whose last two
//! dimensions may be 1 (a convolution of 1 by 1). Plain SGD keeps nothing; that is simulated.

use super::eight_bit_optimizer::CHOOSE_STATE;
use super::{Change, Context, Effect, Remedy, is_update_scratch, optimizer_class};
use crate::capture::{Buffer, Event, Recording};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::setup::Setup;
use crate::trace::{Phase, Role};

/// `lighter_optimizer`.
pub struct LighterOptimizer;

/// Classes whose weights are matrices with both sides long.
const MATRICES: [&str; 4] = ["Linear", "Embedding", "Conv1D", "NonDynamicallyQuantizableLinear"];
/// (64 + 64) / (64 × 64).
const FACTORED: (u64, u64) = (1, 32);
/// (1 + 1) / (1 × 1).
const UNFACTORED: (u64, u64) = (2, 1);

impl Remedy for LighterOptimizer {
    fn id(&self) -> &'static str {
        "lighter_optimizer"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let recording = &setup.steps.recording;
        let has_state = recording.buffers.iter().any(|buffer| buffer.role == Role::OptimizerState);
        if !context.training() || !has_state || setup.applied.iter().any(|id| CHOOSE_STATE.contains(id)) {
            return Vec::new();
        }
        let before = optimizer_class(&context.request.optimizer);
        let mut changes = Vec::new();
        if !matches!(before, "SGD" | "Adafactor") {
            let title =
                format!("Train with Adafactor, which keeps a row and a column per matrix, in place of {before}");
            let code = "optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)  # find the rate anew";
            let changed = setup.with_recording(with_adafactor(context, recording));
            changes.push(Change::new(title, changed, Effect::Training, code).bounded());
        }
        let plain = if before == "SGD" { "SGD without momentum" } else { "SGD" };
        let title = format!("Train with {plain}, which keeps nothing per weight, in place of {before}");
        let code = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # find the rate anew";
        changes.push(Change::new(title, setup.with_recording(stateless(recording).finish()), Effect::Training, code));
        changes
    }
}

/// Neither state nor scratch.
fn stateless(recording: &Recording) -> Edit {
    let mut edit = Edit::new(recording);
    for (index, buffer) in (0u32..).zip(&recording.buffers) {
        if buffer.role == Role::OptimizerState || is_update_scratch(buffer) {
            edit.drop(index);
        }
    }
    edit
}

fn with_adafactor(context: &Context<'_>, recording: &Recording) -> Recording {
    let mut edit = stateless(recording);
    let weights: Vec<Buffer> =
        recording.buffers.iter().filter(|buffer| buffer.role == Role::Parameter).copied().collect();
    let mut first = true;
    for (place, event) in recording.events.iter().enumerate() {
        if *event != Event::Mark(Phase::Optimizer) {
            continue;
        }
        // The state comes with the first update and stays.
        if std::mem::take(&mut first) {
            for weight in &weights {
                let matrix = MATRICES.contains(&context.request.class(recording.string(weight.module)));
                let (numerator, denominator) = if matrix { FACTORED } else { UNFACTORED };
                let sized = weight.scaled(numerator, denominator);
                let slot = edit.add(Buffer { role: Role::OptimizerState, born: Phase::Optimizer, ..sized });
                edit.insert(place + 1, Event::Alloc(slot));
            }
        }
        // It goes from weight to weight: the squared gradient and the update of one at a time.
        if let Some(&weight) = weights.iter().max_by_key(|weight| weight.size.fixed) {
            let scratch = Buffer { role: Role::Temporary, born: Phase::Optimizer, ..weight };
            let both = [edit.add(scratch), edit.add(scratch)];
            both.into_iter().for_each(|buffer| edit.insert(place + 1, Event::Alloc(buffer)));
            both.into_iter().for_each(|buffer| edit.insert(place + 1, Event::Free(buffer)));
        }
    }
    edit.finish()
}

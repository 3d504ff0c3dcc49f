//! One kernel for the whole update: no copies of the weights' size in between.
//!
//! Simulated by leaving out the buffers that the `_foreach` ops of the update ask for.

use super::{Change, Context, Effect, Remedy, is_update_scratch, optimizer_class};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::setup::Setup;

/// `fused_optimizer`.
pub struct FusedOptimizer;

/// Those that take `fused=True`. Source: torch/optim of PyTorch 2.11.
const FUSED: [&str; 4] = ["sgd", "adam", "adamw", "adagrad"];

impl Remedy for FusedOptimizer {
    fn id(&self) -> &'static str {
        "fused_optimizer"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let name = context.request.optimizer.as_str();
        let recording = &setup.steps.recording;
        let foreach = |op: u32| recording.string(op).contains("_foreach");
        let scratch: Vec<u32> = (0u32..)
            .zip(&recording.buffers)
            .filter(|(_, buffer)| is_update_scratch(buffer) && foreach(buffer.op))
            .map(|(index, _)| index)
            .collect();
        if !context.training() || !FUSED.contains(&name) || scratch.is_empty() {
            return Vec::new();
        }
        let mut edit = Edit::new(recording);
        scratch.into_iter().for_each(|buffer| edit.drop(buffer));
        let class = optimizer_class(name);
        let code = format!("optimizer = torch.optim.{class}(model.parameters(), ..., fused=True)");
        let changed = setup.with_recording(edit.finish());
        vec![Change::new("Update the weights in one fused kernel (fused=True)", changed, Effect::Numerics, code)]
    }
}

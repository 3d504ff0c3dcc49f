//! The optimizer's state and its update on the host.
//!
//! Simulated by leaving out the state and the update's scratch. Time: gradients go to the host and new weights come back over
//! PCIe in each step; the update itself, on the CPU, is assumed to hide behind that, so the cost is an estimate.

use super::eight_bit_optimizer::CHOOSE_STATE;
use super::{Change, Context, Effect, Remedy, is_update_scratch, optimizer_class, role_bytes};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::setup::Setup;
use crate::trace::Role;

/// `cpu_offload`.
pub struct CpuOffload;

impl Remedy for CpuOffload {
    fn id(&self) -> &'static str {
        "cpu_offload"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let recording = &setup.steps.recording;
        let has_state = recording.buffers.iter().any(|buffer| buffer.role == Role::OptimizerState);
        if !context.training() || !has_state || setup.applied.iter().any(|id| CHOOSE_STATE.contains(id)) {
            return Vec::new();
        }
        let mut edit = Edit::new(recording);
        for (index, buffer) in (0u32..).zip(&recording.buffers) {
            if buffer.role == Role::OptimizerState || is_update_scratch(buffer) {
                edit.drop(index);
            }
        }
        let mut changed = setup.with_recording(edit.finish());
        let weights = role_bytes(recording, Role::Parameter);
        changed.moved_bytes = changed.moved_bytes.saturating_add(weights.saturating_mul(2));
        let class = optimizer_class(&context.request.optimizer);
        let title = format!("Keep the state of {class} in the host's memory and update the weights there");
        let code = format!(
            "from torchao.optim import CPUOffloadOptimizer  # pip install torchao\n\
             optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.{class}, ...)"
        );
        vec![Change::new(title, changed, Effect::Numerics, code)]
    }
}

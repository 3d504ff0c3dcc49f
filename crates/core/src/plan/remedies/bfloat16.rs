//! Compute and store everything in bfloat16: weights, gradients and slots too.
//!
//! Weights keep 8 significant bits, so small updates are lost: that is more than other rounding. Time: as for mixed
//! precision.

use super::{Change, Context, Effect, Remedy};
use crate::plan::setup::Setup;

/// `bfloat16`.
pub struct BFloat16;

impl Remedy for BFloat16 {
    fn id(&self) -> &'static str {
        "bfloat16"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let wider = matches!(context.request.precision.as_str(), "float32" | "mixed_float16" | "mixed_bfloat16");
        if !wider || context.policy_chosen(setup) || (context.gpu() && !context.capability(8)) {
            return Vec::new();
        }
        let mut changed = Setup { change: setup.change.with_policy("bfloat16"), ..setup.clone() };
        changed.job.optimizer.loss_scaling = false;
        let title = "Compute and store everything in bfloat16, weights included".to_owned();
        // At inference no update is lost: only results are rounded.
        let effect = if context.training() { Effect::Training } else { Effect::Numerics };
        let code = "keras.config.set_dtype_policy(\"bfloat16\")  # before the model is built".to_owned();
        vec![Change::new(title, changed, effect, code, Some("model.to(torch.bfloat16); x = x.to(torch.bfloat16)"))]
    }
}

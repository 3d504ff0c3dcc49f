//! Compute in half precision, keep the weights in float32.
//!
//! bfloat16 where the device has it (compute capability 8.0 and CPUs), float16 with loss scaling on 7.x. Time: by the
//! smaller memory traffic and the casts; what tensor cores gain in arithmetic is not counted, and on a CPU no gain is.

use super::{Change, Context, Effect, Remedy, policy_chosen};
use crate::plan::Request;
use crate::plan::setup::Setup;

/// `mixed_precision`.
pub struct MixedPrecision;

impl Remedy for MixedPrecision {
    fn id(&self) -> &'static str {
        "mixed_precision"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let Some((policy, changed)) = mixed(context.request, setup) else { return Vec::new() };
        let half = policy.trim_start_matches("mixed_");
        let code = format!("keras.mixed_precision.set_global_policy(\"{policy}\")  # before the model is built");
        let torch = format!("with torch.autocast(\"cuda\", dtype=torch.{half}):\n    loss = loss_fn(model(x), y)");
        let title = format!("Compute in {half} and keep the weights in float32 ({policy})");
        vec![Change::new(title, changed, Effect::Numerics, code, Some(&torch))]
    }
}

/// The policy that suits the device, and the job under it; none where it does not apply.
pub(super) fn mixed(request: &Request<'_>, setup: &Setup) -> Option<(&'static str, Setup)> {
    if request.precision != "float32" || policy_chosen(request, setup) {
        return None;
    }
    let policy = if !request.gpu() || request.capability(8) {
        "mixed_bfloat16"
    } else if request.capability(7) {
        "mixed_float16"
    } else {
        return None;
    };
    let mut changed = Setup { change: setup.change.with_policy(policy), ..setup.clone() };
    // Keras wraps the optimizer by itself under this policy.
    changed.job.optimizer.loss_scaling |= policy == "mixed_float16" && request.training();
    Some((policy, changed))
}

//! An optimizer that keeps fewer numbers per weight.
//!
//! Lion keeps one slot, plain SGD none; both need another learning rate. Time: by the update's own kernels.

use super::{Change, Context, Effect, Remedy, optimizer_class};
use crate::model::OptimizerConfig;
use crate::plan::setup::Setup;
use crate::step::tensorflow::slot_count;

/// `lighter_optimizer`.
pub struct LighterOptimizer;

impl Remedy for LighterOptimizer {
    fn id(&self) -> &'static str {
        "lighter_optimizer"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let now = &setup.job.optimizer;
        if !context.training() || now.name != context.request.job.optimizer.name {
            return Vec::new();
        }
        // A vector stands for weights of any shape: no optimizer keeps more for a matrix.
        let slots = slot_count(now, &[1], false);
        let mut lighter = Vec::new();
        if slots > 1 {
            lighter.push("lion");
        }
        if slots > 0 {
            lighter.push("sgd");
        }
        lighter.into_iter().map(|name| change(setup, now, name)).collect()
    }
}

fn change(setup: &Setup, now: &OptimizerConfig, name: &str) -> Change {
    let plain = OptimizerConfig::named(name);
    // What does not belong to the rule itself stays as it is.
    let optimizer = OptimizerConfig {
        weight_decay: now.decays_weights(),
        clip_each: now.clip_each,
        clip_global: now.clip_global,
        ema: now.ema,
        accumulate_steps: now.accumulate_steps,
        loss_scaling: now.loss_scaling,
        ..plain
    };
    let mut changed = setup.clone();
    changed.job.optimizer = optimizer;
    let (before, after) = (optimizer_class(&now.name), optimizer_class(name));
    let (keeps, keras, torch) = match name {
        "lion" => (
            "one number per weight",
            "Lion(learning_rate=1e-4), ...)  # about a tenth of Adam's rate",
            "optimizer = lion_pytorch.Lion(model.parameters(), lr=1e-4)  # pip install lion-pytorch",
        ),
        _ => (
            "nothing per weight",
            "SGD(learning_rate=0.01), ...)  # find the rate anew",
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # find the rate anew",
        ),
    };
    let title = format!("Train with {after}, which keeps {keeps}, in place of {before}");
    let keras = format!("model.compile(optimizer=keras.optimizers.{keras}");
    Change::new(title, changed, Effect::Training, keras, Some(torch))
}

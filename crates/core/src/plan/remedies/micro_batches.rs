//! Take the batch in several parts and add up their gradients before the update.
//!
//! The parts are equal, so the mean of their means is the batch's: only divisors of the batch are tried. It needs one more
//! copy of the gradients, which the simulation counts. Time: each part reads and writes that sum, and starts every kernel
//! anew.

use super::{Change, Context, Effect, Remedy, couples_samples, optimizer_class};
use crate::plan::batch::MAX_BATCH;
use crate::plan::setup::Setup;

/// `micro_batches`.
pub struct MicroBatches;

impl Remedy for MicroBatches {
    fn id(&self) -> &'static str {
        "micro_batches"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if !context.training() || setup.job.micro_batches > 1 {
            return Vec::new();
        }
        let coupled = couples_samples(&context.base.model, "micro-batch");
        let per_device = setup.device_job().batch;
        let divisors = (2..=per_device.min(MAX_BATCH)).filter(|parts| per_device.is_multiple_of(*parts));
        divisors.filter_map(|parts| change(setup, parts, coupled.as_deref())).collect()
    }
}

fn change(setup: &Setup, parts: u64, coupled: Option<&str>) -> Option<Change> {
    let before = setup.job.optimizer.accumulate_steps.max(1);
    let steps = u32::try_from(parts).ok()?.checked_mul(before)?;
    let mut changed = setup.clone();
    changed.job.micro_batches = parts;
    changed.job.optimizer.accumulate_steps = steps;
    let samples = setup.job.batch / parts;
    let mut title = format!("Take each batch as {parts} micro-batches of {samples} and accumulate their gradients");
    if let Some(how) = coupled {
        title = format!("{title}; {how}");
    }
    let class = optimizer_class(&setup.job.optimizer.name);
    let keras = format!(
        "model.compile(optimizer=keras.optimizers.{class}(..., gradient_accumulation_steps={steps}), ...)\n\
         model.fit(x, y, batch_size={samples})"
    );
    let torch = format!(
        "for xs, ys in zip(x.chunk({parts}), y.chunk({parts})):\n    (loss_fn(model(xs), ys) / {parts}).backward()\n\
         optimizer.step(); optimizer.zero_grad()"
    );
    let effect = if coupled.is_some() { Effect::Statistics } else { Effect::Exact };
    Some(Change { only_batch: true, ..Change::new(title, changed, effect, keras, Some(&torch)) })
}

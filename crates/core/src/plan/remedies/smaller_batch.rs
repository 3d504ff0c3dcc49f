//! A smaller batch: half, a quarter, and so on.
//!
//! Training then takes more and noisier steps; at inference nothing changes. Time: per sample, by the kernels of the smaller
//! batch.

use super::{Change, Context, Effect, Remedy};
use crate::plan::setup::Setup;

/// `smaller_batch`.
pub struct SmallerBatch;

impl Remedy for SmallerBatch {
    fn id(&self) -> &'static str {
        "smaller_batch"
    }

    fn keeps_kernels(&self) -> bool {
        true
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if setup.parts() > 1 {
            return Vec::new();
        }
        let effect = if context.training() { Effect::Statistics } else { Effect::Exact };
        let mut changes = Vec::new();
        let mut batch = setup.job.batch / 2;
        while batch > 0 {
            let title = format!("Use batches of {batch} in place of {}", setup.job.batch);
            let call = if context.training() { "fit(x, y" } else { "predict(x" };
            let torch = format!("loader = torch.utils.data.DataLoader(dataset, batch_size={batch})");
            let keras = format!("model.{call}, batch_size={batch})");
            let changed = setup.with_batch(batch);
            changes.push(Change { only_batch: true, ..Change::new(title, changed, effect, keras, Some(&torch)) });
            batch /= 2;
        }
        changes
    }
}

//! A smaller batch: half, a quarter, and so on.
//!
//! Training then takes more and noisier steps; at inference nothing changes. Simulated with the sizes of that batch.

use super::{Change, Context, Effect, Remedy};
use crate::plan::torch::setup::Setup;

/// `smaller_batch`.
pub struct SmallerBatch;

impl Remedy for SmallerBatch {
    fn id(&self) -> &'static str {
        "smaller_batch"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if setup.parts() > 1 || !context.capture.paired {
            return Vec::new();
        }
        let effect = if context.training() { Effect::Statistics } else { Effect::Exact };
        let halves =
            std::iter::successors(Some(setup.batch / 2), |batch| Some(batch / 2)).take_while(|&batch| batch > 0);
        let change = |batch: u64| {
            let title = format!("Use batches of {batch} in place of {}", setup.batch);
            let code = format!("loader = torch.utils.data.DataLoader(dataset, batch_size={batch})");
            let changed = Setup { batch, ..setup.clone() };
            Change { only_batch: true, ..Change::new(title, changed, effect, code) }
        };
        halves.map(change).collect()
    }
}

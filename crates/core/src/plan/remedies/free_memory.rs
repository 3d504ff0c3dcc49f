//! Give the job what other processes hold of the device.
//!
//! Time: none; the job is the same.

use super::{Change, Context, Effect, Remedy};
use crate::bytes::human;
use crate::plan::setup::Setup;

/// `free_memory`.
pub struct FreeMemory;

impl Remedy for FreeMemory {
    fn id(&self) -> &'static str {
        "free_memory"
    }

    fn keeps_kernels(&self) -> bool {
        true
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let held = context.request.held_by_others_bytes;
        let (Some(limit), true) = (setup.limit_bytes, held > 0) else { return Vec::new() };
        let freed = Setup { limit_bytes: Some(limit.saturating_add(held)), ..setup.clone() };
        let title = format!("End the other processes that hold {} of the device", human(held));
        let code = "# nvidia-smi lists the processes; in a notebook, shut down the kernels that you no longer need\n\
                    keras.backend.clear_session(); import gc; gc.collect()";
        let torch = "# nvidia-smi lists the processes; in a notebook, shut down the kernels that you no longer need\n\
                     import gc; gc.collect(); torch.cuda.empty_cache()";
        vec![Change::new(title, freed, Effect::Exact, code.to_owned(), Some(torch))]
    }
}

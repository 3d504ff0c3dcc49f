//! The optimizer's state in 8 bits instead of 32.
//!
//! Simulated: each slot of 4096 numbers or more takes a byte a number, and four bytes for each 256 numbers; the update is one
//! kernel. Source: bitsandbytes, `min_8bit_size=4096` and blocks of 256 in bitsandbytes/optim/optimizer.py.

use super::{Change, Context, Effect, Remedy, is_update_scratch, optimizer_class};
use crate::capture::Dtype;
use crate::plan::torch::edit::Edit;
use crate::plan::torch::setup::Setup;
use crate::trace::Role;

/// `eight_bit_optimizer`.
pub struct EightBitOptimizer;

/// Those that bitsandbytes has, apart from rarer ones.
const KNOWN: [&str; 5] = ["adam", "adamw", "adagrad", "rmsprop", "sgd"];
/// 4096 numbers of 4 bytes.
const SMALLEST_BYTES: u64 = 4096 * 4;

impl Remedy for EightBitOptimizer {
    fn id(&self) -> &'static str {
        "eight_bit_optimizer"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let recording = &setup.steps.recording;
        let name = context.request.optimizer.as_str();
        if !context.training() || !KNOWN.contains(&name) || setup.applied.iter().any(|id| CHOOSE_STATE.contains(id)) {
            return Vec::new();
        }
        let mut edit = Edit::new(recording);
        let mut shrunk = false;
        for (index, buffer) in (0u32..).zip(&recording.buffers) {
            let slot = buffer.role == Role::OptimizerState && buffer.dtype == Dtype::Float32;
            if slot && buffer.size.fixed >= SMALLEST_BYTES {
                // A quarter, and a number of 4 bytes for each 256 of them.
                *edit.buffer(index) = buffer.scaled(65, 256);
                shrunk = true;
            } else if is_update_scratch(buffer) {
                edit.drop(index);
            }
        }
        if !shrunk {
            return Vec::new();
        }
        let class = optimizer_class(name);
        let title = format!("Keep the state of {class} in 8 bits (bitsandbytes)");
        let code = format!(
            "import bitsandbytes as bnb  # pip install bitsandbytes\n\
             optimizer = bnb.optim.{class}8bit(model.parameters(), ...)"
        );
        vec![Change::new(title, setup.with_recording(edit.finish()), Effect::Training, code)]
    }
}

/// Remedies that say what becomes of the optimizer's state: only one of them can.
pub(super) const CHOOSE_STATE: [&str; 3] = ["eight_bit_optimizer", "lighter_optimizer", "cpu_offload"];

//! Changes to a recorded PyTorch job that need less memory: one file each, one line in [`REGISTRY`], one page in
//! `docs/remedies/`.
//!
//! In: a [`Context`] and the setup to change. Out: changed setups, gentlest first. A remedy rewrites the recording as the
//! framework would have made it, and the search replays it; where a recording does not say enough for that, the rewrite errs
//! on the large side, the page says how, and the [`Change`] is marked as bounded.

pub mod activation_checkpointing;
pub mod cpu_offload;
pub mod data_parallel;
pub mod eight_bit_optimizer;
pub mod expandable_segments;
pub mod free_memory;
pub mod freeze_layers;
pub mod fused_optimizer;
pub mod inference_mode;
pub mod lighter_optimizer;
pub mod micro_batches;
pub mod mixed_precision;
pub mod set_to_none;
pub mod smaller_batch;

use super::blocks::blocks;
use super::request::Request;
use super::setup::Setup;
use super::simulate::Outcome;
use crate::capture::{Buffer, Capture, Recording};
pub use crate::plan::remedies::Effect;
use crate::trace::{Phase, Role};

/// Every remedy. Sets are applied in this order: those that choose a batch last, when the rest is settled.
pub const REGISTRY: [&dyn Remedy; 14] = [
    &free_memory::FreeMemory,
    &expandable_segments::ExpandableSegments,
    &set_to_none::SetToNone,
    &inference_mode::InferenceMode,
    &fused_optimizer::FusedOptimizer,
    &data_parallel::DataParallel,
    &mixed_precision::MixedPrecision,
    &activation_checkpointing::ActivationCheckpointing,
    &cpu_offload::CpuOffload,
    &eight_bit_optimizer::EightBitOptimizer,
    &lighter_optimizer::LighterOptimizer,
    &freeze_layers::FreezeLayers,
    &micro_batches::MicroBatches,
    &smaller_batch::SmallerBatch,
];

/// A change to a recorded job.
pub trait Remedy: Sync {
    /// A stable id; its page is `docs/remedies/<id>.md`.
    fn id(&self) -> &'static str;

    /// What it can make of a setup, gentlest first; empty where it does not apply.
    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change>;
}

/// One form of a remedy.
#[derive(Clone, Debug)]
pub struct Change {
    /// One line.
    pub title: String,
    /// The job after it.
    pub setup: Setup,
    /// What it does to the result.
    pub effect: Effect,
    /// The steps stay as they are, apart from the samples that run at once: a smaller number never needs more.
    pub only_batch: bool,
    /// It needs a device that is not there: shown, but never part of the cheapest set.
    pub needs_hardware: bool,
    /// What it needs is not simulated but bounded from above.
    pub bounded: bool,
    /// Code that applies it.
    pub code: String,
}

impl Change {
    fn new(title: impl Into<String>, setup: Setup, effect: Effect, code: impl Into<String>) -> Change {
        let (title, code) = (title.into(), code.into());
        Change { title, setup, effect, only_batch: false, needs_hardware: false, bounded: false, code }
    }

    fn bounded(self) -> Change {
        Change { bounded: true, ..self }
    }
}

/// What remedies may ask.
pub struct Context<'a> {
    /// What was recorded.
    pub capture: &'a Capture,
    /// What is asked.
    pub request: &'a Request,
    /// The job as it was asked for.
    pub base: Outcome,
    /// The blocks that the model repeats.
    pub blocks: Vec<String>,
}

impl<'a> Context<'a> {
    /// The context of a request whose job was replayed.
    pub fn new(capture: &'a Capture, request: &'a Request, base: Outcome) -> Context<'a> {
        Context { capture, request, base, blocks: blocks(&request.modules) }
    }

    /// Replays a setup.
    pub fn run(&self, setup: Setup) -> Outcome {
        Outcome::new(setup, self.request.widen)
    }

    /// The peak as a report shows it: the upper end, context included.
    pub fn device_bytes(&self, outcome: &Outcome) -> u64 {
        outcome.high_bytes().saturating_add(self.request.context_bytes())
    }

    /// Time per sample, relative to the job as it was asked for, to two digits: it is an estimate.
    pub fn time_cost(&self, outcome: &Outcome) -> f64 {
        let ratio = outcome.sample_ns / self.base.sample_ns;
        if ratio.is_finite() { (ratio * 100.0).round() / 100.0 } else { 1.0 }
    }

    /// Whether the job trains.
    pub fn training(&self) -> bool {
        self.request.training
    }

    /// Whether the GPU is of this generation or newer; false where it is not known.
    pub fn capability(&self, major: u32) -> bool {
        self.request.device.compute_capability.is_some_and(|capability| capability.major >= major)
    }

    /// Whether samples of a batch see each other while training: batch normalization.
    pub fn couples_samples(&self) -> bool {
        self.training() && self.request.modules.iter().any(|module| module.class.contains("BatchNorm"))
    }
}

/// The class behind an optimizer's lower-case name, as PyTorch writes it.
fn optimizer_class(name: &str) -> &str {
    let known = ["SGD", "RMSprop", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Adafactor"];
    known.into_iter().find(|class| class.to_lowercase() == name).unwrap_or(name)
}

/// Whether a buffer is scratch of the update of weights.
fn is_update_scratch(buffer: &Buffer) -> bool {
    buffer.born == Phase::Optimizer && matches!(buffer.role, Role::Temporary | Role::Workspace)
}

/// The bytes of all buffers of a role, each counted at its birth.
fn role_bytes(recording: &Recording, role: Role) -> u64 {
    let of_role = recording.buffers.iter().filter(|buffer| buffer.role == role);
    of_role.fold(0u64, |sum, buffer| sum.saturating_add(buffer.size.fixed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_has_a_page() {
        for remedy in REGISTRY {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/remedies");
            let page = std::fs::read_to_string(format!("{root}/{}.md", remedy.id())).unwrap_or_default();
            for part in ["# ", "## What it does", "## The result", "## The cost", "## PyTorch"] {
                assert!(page.contains(part), "docs/remedies/{}.md lacks '{part}'", remedy.id());
            }
        }
    }

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<_> = REGISTRY.iter().map(|remedy| remedy.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), REGISTRY.len());
    }
}

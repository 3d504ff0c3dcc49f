//! Changes to a job that need less memory: one file each, one line in [`REGISTRY`], one page in `docs/remedies/`.
//!
//! In: a [`Context`] and the setup to change. Out: changed setups, gentlest first. A remedy never says what it saves: the
//! search simulates the changed setup. Left out because they cannot be simulated soundly: recomputing activations (Keras
//! 3.15's `RematScope` fails in compiled TensorFlow steps, keras-team/keras#21207), offloading, model parallelism.

pub mod async_allocator;
pub mod bfloat16;
pub mod data_parallel;
pub mod float32;
pub mod free_memory;
pub mod int8_weights;
pub mod lighter_optimizer;
pub mod micro_batches;
pub mod mixed_precision;
pub mod narrower_layers;
pub mod smaller_batch;
pub mod smaller_embeddings;
pub mod smaller_inputs;

use std::sync::Arc;

use super::Request;
use super::inspect;
use super::setup::Setup;
use super::simulate::{Outcome, Simulator};
use crate::model::{Model, Norm, NormKind, OpKind};
use crate::report::{Apply, LayerShare, SameResult};

/// Every remedy. Sets are applied in this order: those that choose a batch last, when the rest is settled.
pub const REGISTRY: [&dyn Remedy; 13] = [
    &free_memory::FreeMemory,
    &async_allocator::AsyncAllocator,
    &data_parallel::DataParallel,
    &float32::Float32,
    &mixed_precision::MixedPrecision,
    &int8_weights::Int8Weights,
    &bfloat16::BFloat16,
    &lighter_optimizer::LighterOptimizer,
    &smaller_embeddings::SmallerEmbeddings,
    &narrower_layers::NarrowerLayers,
    &smaller_inputs::SmallerInputs,
    &micro_batches::MicroBatches,
    &smaller_batch::SmallerBatch,
];

/// A change to a job.
pub trait Remedy: Sync {
    /// A stable id; its page is `docs/remedies/<id>.md`.
    fn id(&self) -> &'static str;

    /// Whether the kernels stay as they are, so that it is quickly tried.
    fn keeps_kernels(&self) -> bool {
        false
    }

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
    /// The kernels stay as they are, apart from the samples that run at once: a smaller number never needs more.
    pub only_batch: bool,
    /// It needs a device that is not there: shown, but never part of the cheapest set.
    pub needs_hardware: bool,
    /// Code that applies it.
    pub apply: Apply,
}

impl Change {
    fn new(title: String, setup: Setup, effect: Effect, keras: String, torch: Option<&str>) -> Change {
        let apply = Apply { keras: Some(keras), torch: torch.map(str::to_owned) };
        Change { title, setup, effect, only_batch: false, needs_hardware: false, apply }
    }
}

/// What a change does to the result, finer than [`SameResult`] so that the gentler of two changes comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The same gradients.
    Exact,
    /// The same model with other rounding.
    Numerics,
    /// The same model and optimizer; what is averaged over a batch is averaged over fewer samples.
    Statistics,
    /// The same model, trained by another rule or stored with less precision.
    Training,
    /// Another model or other data.
    Model,
}

impl Effect {
    /// As the report says it.
    pub fn same_result(self) -> SameResult {
        match self {
            Effect::Exact => SameResult::Exact,
            Effect::Numerics => SameResult::Numerics,
            Effect::Statistics | Effect::Training | Effect::Model => SameResult::Changed,
        }
    }
}

/// A remedy's form of a job that does not depend on how the job itself does: it can be simulated at the same time. It is the
/// remedy that takes longest.
pub fn ahead(request: &Request<'_>, setup: &Setup) -> Option<Setup> {
    mixed_precision::mixed(request, setup).map(|(_, mixed)| mixed)
}

/// What remedies may ask.
pub struct Context<'a> {
    /// What is asked.
    pub request: &'a Request<'a>,
    /// Imports and runs.
    pub simulator: &'a Simulator<'a>,
    /// The job as it was asked for, in one order.
    pub base: Arc<Outcome>,
    /// All layers with bytes at its peak, most bytes first.
    pub layers: Vec<LayerShare>,
}

impl<'a> Context<'a> {
    /// The context of a request whose job was run.
    pub fn new(request: &'a Request<'a>, simulator: &'a Simulator<'a>, base: Arc<Outcome>) -> Context<'a> {
        let holders = base.runs.holders(&base.prediction, base.setup.at_once());
        let layers = inspect::heaviest_layers(inspect::layer_classes(&base.model), &holders, usize::MAX);
        Context { request, simulator, base, layers }
    }

    /// The peak as a report shows it: the upper end, context included.
    pub fn device_bytes(&self, outcome: &Outcome) -> u64 {
        outcome.high_bytes().saturating_add(self.request.device.context_bytes(self.request.framework))
    }

    /// Time per sample, relative to the job as it was asked for, to two digits: it is an estimate.
    pub fn time_cost(&self, outcome: &Outcome) -> f64 {
        let ratio = outcome.sample_ns / self.base.sample_ns;
        if ratio.is_finite() { (ratio * 100.0).round() / 100.0 } else { 1.0 }
    }

    /// Whether the job runs on a GPU.
    pub fn gpu(&self) -> bool {
        self.request.gpu()
    }

    /// Whether the job trains.
    pub fn training(&self) -> bool {
        self.request.training()
    }

    /// Whether the GPU is of this generation or newer; false on a CPU.
    pub fn capability(&self, major: u32) -> bool {
        self.request.capability(major)
    }

    /// Whether another remedy has already chosen a dtype policy.
    fn policy_chosen(&self, setup: &Setup) -> bool {
        policy_chosen(self.request, setup)
    }
}

fn policy_chosen(request: &Request<'_>, setup: &Setup) -> bool {
    setup.change.policy != request.base.policy
}

/// What part of a batch that is taken alone, called `part`, means where samples see each other while training: by batch normalization that
/// is not frozen, or by products of samples with each other. None where they do not.
fn couples_samples(model: &Model, part: &str) -> Option<String> {
    let couples = |kind: &OpKind| matches!(kind, OpKind::Norm(Norm { kind: NormKind::Batch, trainable: true, .. }));
    if model.samples_meet {
        return Some(format!("samples meet only those of their own {part}"));
    }
    model.ops.iter().any(|op| couples(&op.kind)).then(|| format!("batch normalization sees each {part} alone"))
}

/// A changed model counts only if what it puts out has the shape that labels and users expect.
fn same_outputs(before: &Model, after: &Model) -> bool {
    let shapes = |model: &Model| model.outputs.iter().map(|&id| model.tensor(id).shape.clone()).collect::<Vec<_>>();
    shapes(before) == shapes(after)
}

/// A layer's name in Keras: the last part of its path.
fn layer_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The class behind an optimizer's lower-case name, as Keras and, where it has one, PyTorch write it.
fn optimizer_class(name: &str) -> String {
    let known = [
        ("sgd", "SGD"),
        ("rmsprop", "RMSprop"),
        ("adam", "Adam"),
        ("adamw", "AdamW"),
        ("adagrad", "Adagrad"),
        ("adadelta", "Adadelta"),
        ("adamax", "Adamax"),
        ("nadam", "Nadam"),
        ("ftrl", "Ftrl"),
        ("lion", "Lion"),
        ("adafactor", "Adafactor"),
        ("lamb", "Lamb"),
        ("muon", "Muon"),
    ];
    let found = known.iter().find(|(lower, _)| *lower == name);
    found.map_or_else(|| name.to_owned(), |(_, class)| (*class).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_has_a_page() {
        for remedy in REGISTRY {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/remedies");
            let page = std::fs::read_to_string(format!("{root}/{}.md", remedy.id())).unwrap_or_default();
            for part in ["# ", "## What it does", "## The result", "## The cost", "## Keras", "## PyTorch"] {
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

//! What a prediction says about where the memory goes.
//!
//! In: an outcome and the holders of its peak. Out: the report's breakdown, moment, heaviest layers and notes.

use rustc_hash::FxHashMap;

use super::Request;
use super::simulate::Outcome;
use crate::allocator::Holder;
use crate::model::{Model, Note, OpKind};
use crate::report::{Breakdown, LayerShare, Moment, NoteReport, phase_name};
use crate::step::Processor;
use crate::trace::{Cause, Phase, Role};

/// How many layers a report shows.
pub const SHOWN_LAYERS: usize = 10;

/// The peak by role. The parts add up to what the allocator takes for it and the context.
pub fn breakdown(taken_bytes: u64, holders: &[(Cause, Holder)], context_bytes: u64) -> Breakdown {
    let mut parts = Breakdown { context: context_bytes, ..Breakdown::default() };
    let mut held = 0u64;
    for (_, holder) in holders {
        let part = match holder.role {
            Role::Parameter => &mut parts.parameters,
            Role::Gradient => &mut parts.gradients,
            Role::OptimizerState => &mut parts.optimizer_state,
            Role::SavedActivation => &mut parts.saved_activations,
            Role::Input => &mut parts.inputs,
            Role::Temporary => &mut parts.temporaries,
            Role::Workspace => &mut parts.workspace,
        };
        *part = part.saturating_add(holder.bytes);
        held = held.saturating_add(holder.bytes);
    }
    parts.allocator_slack = taken_bytes.saturating_sub(held);
    parts
}

/// The moment of the peak.
pub fn moment(outcome: &Outcome) -> Option<Moment> {
    let (phase, cause) = outcome.runs.moment(&outcome.prediction, outcome.setup.at_once())?;
    Some(named_moment(phase, &cause))
}

/// A moment as a report says it.
pub fn named_moment(phase: Phase, cause: &Cause) -> Moment {
    Moment {
        phase: phase_name(phase).to_owned(),
        op: cause.op.to_string(),
        layer: cause.layer.to_string(),
        source: cause.source.clone(),
    }
}

/// The layers that hold most at the peak, most bytes first. `class` names the class of a path.
pub fn heaviest_layers(class: impl Fn(&str) -> String, holders: &[(Cause, Holder)], count: usize) -> Vec<LayerShare> {
    let mut shares: Vec<LayerShare> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    for (cause, holder) in holders.iter().filter(|(cause, _)| !cause.layer.is_empty()) {
        let place = *places.entry(&cause.layer).or_insert_with(|| {
            shares.push(LayerShare {
                layer: cause.layer.to_string(),
                class: String::new(),
                bytes: 0,
                weights_bytes: 0,
                saved_bytes: 0,
            });
            shares.len() - 1
        });
        let share = &mut shares[place];
        share.bytes = share.bytes.saturating_add(holder.bytes);
        match holder.role {
            Role::Parameter | Role::Gradient | Role::OptimizerState => {
                share.weights_bytes = share.weights_bytes.saturating_add(holder.bytes);
            }
            Role::SavedActivation => share.saved_bytes = share.saved_bytes.saturating_add(holder.bytes),
            Role::Input | Role::Temporary | Role::Workspace => {}
        }
    }
    shares.retain(|share| share.bytes > 0);
    shares.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.layer.cmp(&b.layer)));
    shares.truncate(count);
    for share in &mut shares {
        share.class = class(&share.layer);
    }
    shares
}

/// The classes of a model's layers by their paths.
pub fn layer_classes(model: &Model) -> impl Fn(&str) -> String {
    // From the last to the first, which counts where two have one path.
    let layers = model.layers.iter().rev();
    let classes: FxHashMap<&str, &str> = layers.map(|layer| (layer.path.as_str(), layer.class.as_str())).collect();
    move |path| classes.get(path).map_or(String::new(), |class| (*class).to_owned())
}

/// What was guessed, bounded or never measured.
pub fn notes(request: &Request<'_>, outcome: &Outcome) -> Vec<NoteReport> {
    let known =
        |note: &Note| NoteReport { code: note.code.to_owned(), layer: note.layer.clone(), text: note.text.clone() };
    let mut notes: Vec<NoteReport> = outcome.model.notes.iter().chain(&outcome.runs.notes).map(known).collect();
    let mut add = |code: &str, text: String| notes.push(NoteReport { code: code.to_owned(), layer: None, text });
    let gpu = outcome.setup.job.processor == Processor::Gpu;
    if gpu && outcome.model.ops.iter().any(|op| matches!(op.kind, OpKind::Conv(_))) {
        let text =
            "cuDNN picks the algorithm of a convolution, and with it the workspace, when it runs: counted is a bound.";
        add("conv_workspace", text.to_owned());
    }
    if !request.device.measured(request.framework) {
        let (device, framework) = (&request.device.name, request.framework.title());
        add(
            "not_measured",
            format!("No run on {device} with {framework} was measured; the figures come from the model alone."),
        );
    }
    if outcome.model.compiled.jit == Some(true) {
        let text = "The file asks for XLA (jit_compile=True), which fuses kernels: the step is predicted without it.";
        add("xla", text.to_owned());
    }
    notes
}

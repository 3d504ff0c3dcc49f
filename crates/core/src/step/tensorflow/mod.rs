//! How TensorFlow 2.21 executes a Keras 3.15 training step in graph mode, `jit_compile=False`.
//!
//! In: a model and a job. Out: a [`Graph`] of TensorFlow's kernels: forward (`layers/`), loss, gradients by TensorFlow's own
//! rules, optimizer, then the graph optimizer's rewrites that move memory. Not counted: tensors of a few bytes (shapes, step
//! counters, metric totals), which together stay below a megabyte.

mod constants;
mod convolution;
mod einsum;
mod gradient;
mod layers;
mod losses;
mod math;
mod metrics;
mod optimizers;
mod rewrite;
mod sums;

use self::constants::KeptConstants;
use super::graph::{Graph, Kernel, ValueId, Variable, VariableId};
use super::{Job, Mode, Processor};
use crate::model::{DType, Model, Note, Shape, TensorId, WeightId};
use crate::trace::{Phase, Role};

pub use losses::is_known as is_known_loss;
pub use optimizers::{NAMES as OPTIMIZERS, is_known as is_known_optimizer, slot_count};

/// What a kernel's attribute index stands for.
#[derive(Clone, Debug)]
enum Attribute {
    Conv(convolution::ConvAttribute),
    Loop(layers::LoopAttribute),
    Einsum(einsum::Equation),
}

struct Lowering<'m> {
    graph: Graph,
    model: &'m Model,
    job: &'m Job,
    attributes: Vec<Attribute>,
    kept_constants: KeptConstants,
    /// The value of each of the model's tensors, once it is made.
    values: Vec<Option<ValueId>>,
    variables: Vec<VariableId>,
    /// Terms that layers add to the loss: activity regularizers.
    extra_losses: Vec<(ValueId, ValueId)>,
    notes: Vec<Note>,
}

/// A model's network, lowered: forward, loss and gradients. No optimizer changes it: jobs that differ in the optimizer alone
/// begin with the same one.
#[derive(Clone, Debug)]
pub struct Network {
    graph: Graph,
    attributes: Vec<Attribute>,
    kept_constants: KeptConstants,
    values: Vec<Option<ValueId>>,
    variables: Vec<VariableId>,
    notes: Vec<Note>,
    /// None at inference.
    gradients: Option<gradient::Gradients>,
}

impl Network {
    /// Lowers what comes before the update.
    pub fn new(model: &Model, job: &Job) -> Network {
        // About ten kernels for each op, forward and backward.
        let kernels = model.ops.len().saturating_mul(10).min(1 << 20);
        let mut lowering = Lowering {
            graph: Graph::with_room(kernels + kernels_of_updates(model), kernels),
            model,
            job,
            attributes: Vec::new(),
            kept_constants: KeptConstants::default(),
            values: vec![None; model.tensors.len()],
            variables: Vec::new(),
            extra_losses: Vec::new(),
            notes: Vec::new(),
        };
        lowering.declare_weights();
        for &input in &model.inputs {
            let tensor = model.tensor(input);
            let value = lowering.graph.feed(tensor.shape.clone(), tensor.dtype);
            lowering.values[input.0 as usize] = Some(value);
        }
        for index in 0..model.ops.len() {
            lowering.graph.layer = Some(model.ops[index].layer.0);
            lowering.layer(&model.ops[index]);
        }
        lowering.graph.layer = None;
        let gradients = (job.mode == Mode::Training).then(|| {
            let seeds = lowering.losses();
            lowering.backward(&seeds)
        });
        let Lowering { mut graph, attributes, kept_constants, values, variables, notes, .. } = lowering;
        graph.forget_calls();
        Network { graph, attributes, kept_constants, values, variables, notes, gradients }
    }

    /// The same network, with room for an update.
    pub fn copied(&self, model: &Model) -> Network {
        Network {
            graph: self.graph.copy_with_room(kernels_of_updates(model)),
            attributes: self.attributes.clone(),
            kept_constants: self.kept_constants.clone(),
            values: self.values.clone(),
            variables: self.variables.clone(),
            notes: self.notes.clone(),
            gradients: self.gradients.clone(),
        }
    }

    /// Adds the job's update and rewrites the whole as the graph optimizer does, with notes on what could only be bounded. Model
    /// and job are those of the network; the optimizer may be another.
    pub fn with_update(self, model: &Model, job: &Job) -> (Graph, Vec<Note>) {
        let Network { graph, attributes, kept_constants, values, variables, notes, gradients } = self;
        let extra_losses = Vec::new();
        let mut lowering =
            Lowering { graph, model, job, attributes, kept_constants, values, variables, extra_losses, notes };
        if let Some(gradients) = gradients {
            lowering.optimize(gradients);
        }
        rewrite::fold_transpositions(&mut lowering.graph);
        rewrite::pass_by_what_undoes(&mut lowering.graph);
        rewrite::push_constants_down(&mut lowering.graph, model);
        rewrite::sort_inputs(&mut lowering.graph, model);
        let outputs = lowering.outputs();
        rewrite::prune(&mut lowering.graph, job.mode, &outputs);
        if matches!(job.processor, Processor::Cpu { .. }) {
            lowering.accumulate_sums();
            lowering.fold_constants();
        }
        lowering.graph.finish();
        (lowering.graph, lowering.notes)
    }
}

/// About twenty for each weight.
fn kernels_of_updates(model: &Model) -> usize {
    model.weights.len().saturating_mul(20).min(1 << 20)
}

impl<'m> Lowering<'m> {
    fn declare_weights(&mut self) {
        for weight in &self.model.weights {
            let variable = self.graph.variable(Variable {
                layer: Some(weight.layer.0),
                role: Role::Parameter,
                shape: Shape::fixed(&weight.dims),
                dtype: weight.dtype,
                // Biases, scales and statistics start as constants; kernels and tables as random numbers.
                random: weight.trainable && weight.dims.len() > 1,
                created: weight.created,
            });
            self.variables.push(variable);
        }
    }

    fn outputs(&self) -> Vec<ValueId> {
        self.model.outputs.iter().filter_map(|output| self.values[output.0 as usize]).collect()
    }

    /// The value of a model tensor. Tensors that no op makes (a malformed model) are taken as further inputs.
    fn tensor(&mut self, id: TensorId) -> ValueId {
        if let Some(value) = self.values[id.0 as usize] {
            return value;
        }
        let tensor = self.model.tensor(id);
        let value = self.graph.feed(tensor.shape.clone(), tensor.dtype);
        self.values[id.0 as usize] = Some(value);
        value
    }

    /// A weight as a layer computes with it: read, and cast if the policy computes in another type.
    fn weight(&mut self, id: WeightId, compute: DType) -> ValueId {
        let weight = self.model.weight(id);
        let trains = weight.trainable && self.job.mode == Mode::Training;
        let value = self.graph.read(self.variables[id.0 as usize], trains);
        if weight.dtype.is_float() && compute.is_float() { self.cast(value, compute) } else { value }
    }

    /// A weight in its own type, for look-ups that cast after they have gathered.
    fn weight_uncast(&mut self, id: WeightId) -> ValueId {
        let dtype = self.model.weight(id).dtype;
        self.weight(id, dtype)
    }

    fn new_attribute(&mut self, attribute: Attribute) -> u32 {
        self.attributes.push(attribute);
        self.attributes.len() as u32
    }

    fn attribute(&self, kernel: Kernel) -> Attribute {
        self.attributes[kernel.attr as usize - 1].clone()
    }

    fn training(&self) -> bool {
        self.job.mode == Mode::Training
    }

    fn note(&mut self, code: &'static str, text: String) {
        let layer = self.graph.layer.map(|layer| self.model.layers[layer as usize].path.clone());
        if !self.notes.iter().any(|note| note.code == code && note.layer == layer) {
            self.notes.push(Note { code, layer, text });
        }
    }

    /// Convolutions have an attribute of their own; other kernels' attributes only tell equal calls apart.
    fn is_convolution(&self, kernel: Kernel) -> bool {
        kernel.name.starts_with("Conv") || kernel.name.starts_with("Depthwise")
    }

    fn optimize(&mut self, gradients: gradient::Gradients) {
        self.graph.phase = Phase::Optimizer;
        optimizers::apply(self, gradients);
    }
}

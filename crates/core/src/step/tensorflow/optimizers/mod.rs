//! Keras 3's optimizers: slots, and the temporaries of an update.
//!
//! In: gradients. Out: nodes that write weights and slots. Each function follows `update_step` of the optimizer of that name
//! (keras/src/optimizers, 3.15); scalars are not counted. A new optimizer is one function and one line in [`registry`].

mod rows;
mod updates;

use super::Lowering;
use super::gradient::{Gradient, Gradients};
use crate::model::{OptimizerConfig, Shape};
use crate::step::graph::{NodeId, ValueId, Variable, VariableId};
use crate::trace::Role;

type Update = fn(&mut Lowering<'_>, Given, VariableId);

/// A gradient as an update sees it.
#[derive(Clone, Copy)]
struct Given {
    /// Of the weight's shape.
    dense: ValueId,
    /// An embedding's rows and indices, as long as nothing has mixed them with the rest of the table.
    rows: Option<(ValueId, ValueId)>,
}

impl Given {
    /// The gradient in its own form.
    fn own(self) -> ValueId {
        self.rows.map_or(self.dense, |(values, _)| values)
    }
}

/// The optimizers by Keras's lower-case name.
fn registry(name: &str) -> Option<Update> {
    Some(match name {
        "sgd" => updates::sgd,
        "rmsprop" => updates::rmsprop,
        "adagrad" => updates::adagrad,
        "adadelta" => updates::adadelta,
        "adam" | "adamw" => updates::adam,
        "adamax" => updates::adamax,
        "nadam" => updates::nadam,
        "ftrl" => updates::ftrl,
        "lion" => updates::lion,
        "adafactor" => updates::adafactor,
        "lamb" => updates::lamb,
        "muon" => updates::muon,
        "schedulefreeadamw" | "schedule_free_adamw" => updates::adam,
        _ => return None,
    })
}

/// The names of the optimizers that are modelled.
pub const NAMES: [&str; 14] = [
    "sgd", "rmsprop", "adagrad", "adadelta", "adam", "adamw", "adamax", "nadam", "ftrl", "lion", "adafactor", "lamb",
    "muon", "schedule_free_adamw",
];

/// Slots of a weight's size that an optimizer keeps for a weight of these dimensions (Muon keeps fewer for matrices).
pub fn slot_count(optimizer: &OptimizerConfig, dims: &[u64], in_embedding: bool) -> u32 {
    match optimizer.name.as_str() {
        "sgd" => u32::from(optimizer.momentum),
        "lion" | "adagrad" | "adafactor" => 1,
        "rmsprop" => 1 + u32::from(optimizer.momentum) + u32::from(optimizer.centered),
        "muon" if orthogonalized(dims, in_embedding) => 1,
        "adam" | "adamw" => 2 + u32::from(optimizer.amsgrad),
        _ => 2,
    }
}

/// Muon treats matrices alone, and no embeddings (muon.py, `_should_use_adamw`).
fn orthogonalized(dims: &[u64], in_embedding: bool) -> bool {
    dims.len() == 2 && !in_embedding
}

/// Whether an optimizer of this name is modelled.
pub fn is_known(name: &str) -> bool {
    registry(&name.to_ascii_lowercase()).is_some()
}

pub(super) fn apply(lowering: &mut Lowering<'_>, gradients: Gradients) {
    let config = lowering.job.optimizer.clone();
    let update = registry(&config.name).unwrap_or_else(|| {
        lowering.note("unknown_optimizer", format!("Optimizer '{}' is not known: counted as Adam.", config.name));
        updates::adam
    });
    let mut dense = Vec::new();
    keep_unused_slots(lowering, &config, &gradients);
    for (variable, gradient) in gradients {
        lowering.graph.layer = lowering.graph.variables[variable.0 as usize].layer;
        dense.push((variable, densify(lowering, variable, gradient)));
    }
    if dense.is_empty() {
        lowering.graph.layer = None;
        return;
    }
    if config.loss_scaling {
        unscale(lowering, &mut dense);
    }
    if config.clip_global {
        clip_by_global_norm(lowering, &mut dense);
    }
    let weights = lowering.model.weights.iter().zip(&lowering.variables);
    let constrained: Vec<VariableId> = weights.filter(|(weight, _)| weight.constrained).map(|(_, &id)| id).collect();
    for (variable, mut gradient) in dense {
        lowering.graph.layer = lowering.graph.variables[variable.0 as usize].layer;
        let dtype = lowering.graph.variables[variable.0 as usize].dtype;
        gradient.dense = lowering.cast(gradient.dense, dtype);
        if config.clip_each {
            let clipped = clip(lowering, gradient.own());
            gradient = with(lowering, variable, gradient, clipped);
        }
        if config.accumulate_steps > 1 {
            gradient = Given { dense: accumulate(lowering, variable, gradient.dense), rows: None };
        }
        if config.decays_weights() {
            weight_decay(lowering, variable);
        }
        update(lowering, gradient, variable);
        if config.ema {
            moving_average(lowering, variable);
        }
        if constrained.contains(&variable) {
            constrain(lowering, variable);
        }
    }
    lowering.graph.layer = None;
}

/// Keras makes slots for every trainable weight before it knows which ones have a gradient (base_optimizer.py, `build`).
fn keep_unused_slots(lowering: &mut Lowering<'_>, config: &OptimizerConfig, gradients: &Gradients) {
    for (index, weight) in lowering.model.weights.iter().enumerate() {
        let variable = lowering.variables[index];
        if weight.trainable && !gradients.contains_key(&variable) {
            for _ in 0..slot_count(config, &weight.dims, in_embedding(lowering, variable)) {
                state(lowering, variable);
            }
        }
    }
}

fn in_embedding(lowering: &Lowering<'_>, variable: VariableId) -> bool {
    let layer = lowering.graph.variables[variable.0 as usize].layer;
    layer.is_some_and(|layer| lowering.model.layers[layer as usize].path.to_ascii_lowercase().contains("embedding"))
}

/// An embedding's gradient is made dense by whatever reads it beside the table: its rows are summed into a table of the
/// weight's size. What nobody reads is pruned later.
fn densify(lowering: &mut Lowering<'_>, variable: VariableId, gradient: Gradient) -> Given {
    match gradient {
        Gradient::Dense(dense) => Given { dense, rows: None },
        Gradient::Rows { values, indices } => {
            let dense = sum_rows(lowering, variable, values, indices);
            Given { dense, rows: Some((values, indices)) }
        }
    }
}

fn sum_rows(lowering: &mut Lowering<'_>, variable: VariableId, values: ValueId, indices: ValueId) -> ValueId {
    let shape = lowering.graph.variables[variable.0 as usize].shape.clone();
    lowering.copy("UnsortedSegmentSum", &[values, indices], shape, 0)
}

fn unscale(lowering: &mut Lowering<'_>, gradients: &mut [(VariableId, Given)]) {
    for (_, gradient) in gradients.iter_mut() {
        *gradient = Given { dense: lowering.scale(gradient.dense, 1.0 / 32768.0), rows: None };
    }
    // The finite check reads every gradient before any update may start.
    let flags: Vec<ValueId> = gradients
        .iter()
        .map(|&(_, gradient)| lowering.reduce("IsFiniteAll", gradient.dense, Shape::fixed(&[])))
        .collect();
    let all = lowering.sum_of(&flags);
    for (_, gradient) in gradients.iter_mut() {
        gradient.dense = lowering.mul_ordered(gradient.dense, all);
    }
}

fn clip_by_global_norm(lowering: &mut Lowering<'_>, gradients: &mut [(VariableId, Given)]) {
    let norms: Vec<ValueId> = gradients
        .iter()
        .map(|&(_, gradient)| {
            let squares = lowering.unary("Square", gradient.own());
            lowering.reduce("Sum", squares, Shape::fixed(&[]))
        })
        .collect();
    let norm = lowering.sum_of(&norms);
    for (variable, gradient) in gradients.iter_mut() {
        let clipped = lowering.mul_ordered(gradient.own(), norm);
        *gradient = with(lowering, *variable, *gradient, clipped);
    }
}

/// A gradient of the same form with other values.
fn with(lowering: &mut Lowering<'_>, variable: VariableId, gradient: Given, values: ValueId) -> Given {
    match gradient.rows {
        Some((_, indices)) => densify(lowering, variable, Gradient::Rows { values, indices }),
        None => Given { dense: values, rows: None },
    }
}

fn clip(lowering: &mut Lowering<'_>, gradient: ValueId) -> ValueId {
    let squares = lowering.unary("Square", gradient);
    let norm = lowering.reduce("Sum", squares, Shape::fixed(&[]));
    lowering.mul_ordered(gradient, norm)
}

/// Each update begins the sums anew with zeros (base_optimizer.py, `_backend_reset_gradient_accumulators`), of which the graph optimizer makes
/// constants whatever their size, one for each shape (constant_folding.cc, `MaterializeConstantValuedNode`). The sum is added and divided in the gradient's
/// own buffer; that the old sums are let go of one after the other in this step, and come back in the next, is not counted: they are there all the time.
fn accumulate(lowering: &mut Lowering<'_>, variable: VariableId, gradient: ValueId) -> ValueId {
    let slot = slot(lowering, variable, Role::Gradient);
    let Variable { shape, dtype, .. } = lowering.graph.variables[slot.0 as usize].clone();
    lowering.full_constant(shape, dtype);
    let old = lowering.graph.read(slot, false);
    let sum = lowering.add(gradient, old);
    lowering.scale(sum, 0.5)
}

/// `w ← w − w · decay · rate` (keras/src/backend/tensorflow/optimizer.py): it needs no gradient, so the old weights live on beside the new
/// until backward has read them. In mixed precision, where backward reads a copy, nobody does, and it is done in place.
fn weight_decay(lowering: &mut Lowering<'_>, variable: VariableId) {
    let weight = lowering.graph.read(variable, true);
    let decay = lowering.scale(weight, 0.004);
    lowering.graph.assign("AssignSubVariableOp", variable, decay, &[]);
}

fn moving_average(lowering: &mut Lowering<'_>, variable: VariableId) {
    let average = slot(lowering, variable, Role::OptimizerState);
    let old = lowering.graph.read(average, false);
    let kept = lowering.scale(old, 0.99);
    let weight = lowering.graph.read_after(variable, last_write(lowering, variable));
    let fresh = lowering.scale(weight, 0.01);
    let sum = lowering.add(kept, fresh);
    lowering.graph.assign("AssignVariableOp", average, sum, &[]);
}

/// A constraint computes the weight's new value from the updated one (base_optimizer.py, `apply`; keras/src/constraints): norms are sums of squares,
/// and what comes of them is one number for each row or column.
fn constrain(lowering: &mut Lowering<'_>, variable: VariableId) {
    let weight = lowering.graph.read_after(variable, last_write(lowering, variable));
    let squares = lowering.unary("Square", weight);
    let norm = lowering.reduce("Sum", squares, Shape::fixed(&[]));
    let held = lowering.mul_ordered(weight, norm);
    lowering.graph.assign("AssignVariableOp", variable, held, &[]);
}

fn last_write(lowering: &Lowering<'_>, variable: VariableId) -> Option<NodeId> {
    let index = lowering.graph.nodes.iter().rposition(|node| node.writes == Some(variable))?;
    Some(NodeId(index as u32))
}

/// A slot of the weight's shape.
fn slot(lowering: &mut Lowering<'_>, variable: VariableId, role: Role) -> VariableId {
    let shape = lowering.graph.variables[variable.0 as usize].shape.clone();
    shaped_slot(lowering, variable, shape, role)
}

fn shaped_slot(lowering: &mut Lowering<'_>, variable: VariableId, shape: Shape, role: Role) -> VariableId {
    let Variable { layer, dtype, .. } = lowering.graph.variables[variable.0 as usize];
    lowering.graph.variable(Variable { layer, role, shape, dtype, random: false, created: Variable::LAST })
}

fn state(lowering: &mut Lowering<'_>, variable: VariableId) -> VariableId {
    slot(lowering, variable, Role::OptimizerState)
}

#[cfg(test)]
mod tests {
    use crate::model::{
        DType, Layer, LayerId, Loss, Model, Op, OpKind, OptimizerConfig, Shape, Tensor, TensorId, Weight, WeightId,
    };
    use crate::step::tensorflow::Network;
    use crate::step::{Job, Mode, Processor};
    use crate::trace::Role;

    /// What is kept from step to step beside weights and slots, of three dense layers of which two are alike.
    fn kept(accumulate_steps: u32) -> Vec<Vec<u64>> {
        let sizes = [4, 4, 4, 2];
        let dense = |at: u32| Op {
            layer: LayerId(0),
            kind: OpKind::Dense,
            inputs: vec![TensorId(at)],
            outputs: vec![TensorId(at + 1)],
            weights: vec![WeightId(at)],
            compute: DType::Float32,
        };
        let kernel = |dims: &[u64]| Weight {
            layer: LayerId(0),
            name: "kernel".to_owned(),
            dims: dims.to_vec(),
            dtype: DType::Float32,
            trainable: true,
            penalty: None,
            constrained: false,
            created: 0,
        };
        let tensor = |&size: &u64| Tensor { shape: Shape::new(true, &[1, size]), dtype: DType::Float32 };
        let model = Model {
            layers: vec![Layer { path: "layer".to_owned(), class: "Dense".to_owned() }],
            weights: sizes.windows(2).map(kernel).collect(),
            tensors: sizes.iter().map(tensor).collect(),
            ops: (0..3).map(dense).collect(),
            inputs: vec![TensorId(0)],
            outputs: vec![TensorId(3)],
            ..Model::default()
        };
        let job = Job {
            batch: 2,
            optimizer: OptimizerConfig { accumulate_steps, ..OptimizerConfig::named("sgd") },
            losses: vec![Loss::named("mean_squared_error")],
            metrics: vec![],
            mode: Mode::Training,
            processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
            micro_batches: 1,
        };
        let (graph, _) = Network::new(&model, &job).with_update(&model, &job);
        let kept = graph.variables.iter().filter(|kept| kept.role == Role::Temporary && !kept.shape.batched);
        kept.map(|kept| kept.shape.dims.to_vec()).collect()
    }

    #[test]
    fn accumulated_gradients_begin_with_zeros_of_which_each_shape_has_one() {
        assert_eq!(kept(1), Vec::<Vec<u64>>::new());
        assert_eq!(kept(2), [vec![4, 4], vec![4, 2]]);
    }
}

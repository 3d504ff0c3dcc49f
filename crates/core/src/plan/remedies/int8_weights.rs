//! 8-bit weights for inference.
//!
//! Keras quantizes the kernels of dense layers and the tables of embeddings; other weights stay. While such a layer runs it
//! holds an 8-bit copy of its input and a 32-bit product beside its output: counted as a bound, for the largest layer. Time:
//! by memory traffic alone.

use super::{Change, Context, Effect, Remedy};
use crate::bytes::Size;
use crate::model::{DType, Model, Op, OpKind};
use crate::plan::setup::Setup;

/// `int8_weights`.
pub struct Int8Weights;

impl Remedy for Int8Weights {
    fn id(&self) -> &'static str {
        "int8_weights"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if context.training() || setup.int8_weights {
            return Vec::new();
        }
        let Ok(model) = context.simulator.model(&setup.change) else { return Vec::new() };
        let at_once = setup.at_once();
        let held = model.ops.iter().filter(|op| quantizes(op)).map(|op| held_while_running(&model, op));
        let Some(held) = held.max_by_key(|size| size.at(at_once)) else { return Vec::new() };
        let extra = Size {
            fixed: setup.extra.fixed.saturating_add(held.fixed),
            per_sample: setup.extra.per_sample.saturating_add(held.per_sample),
        };
        let changed = Setup { int8_weights: true, extra, ..setup.clone() };
        let title = "Store the weights of dense layers and embeddings as 8-bit integers".to_owned();
        let torch = "from torchao.quantization import quantize_, Int8WeightOnlyConfig\nquantize_(model, Int8WeightOnlyConfig())";
        vec![Change::new(title, changed, Effect::Training, "model.quantize(\"int8\")".to_owned(), Some(torch))]
    }
}

fn quantizes(op: &Op) -> bool {
    matches!(op.kind, OpKind::Dense | OpKind::EinsumDense { .. } | OpKind::Embedding) && !op.weights.is_empty()
}

fn held_while_running(model: &Model, op: &Op) -> Size {
    let input = op.inputs.first().map_or(Size::ZERO, |&id| model.tensor(id).shape.size(DType::Int8));
    let output = op.outputs.first().map_or(Size::ZERO, |&id| model.tensor(id).shape.size(DType::Int32));
    Size {
        fixed: input.fixed.saturating_add(output.fixed),
        per_sample: input.per_sample.saturating_add(output.per_sample),
    }
}

/// The model with such weights.
pub(in crate::plan) fn quantized(model: &Model) -> Model {
    let mut quantized = model.clone();
    for op in model.ops.iter().filter(|op| quantizes(op)) {
        let weight = &mut quantized.weights[op.weights[0].0 as usize];
        weight.dtype = DType::Int8;
        weight.trainable = false;
    }
    quantized
}

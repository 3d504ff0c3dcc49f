//! Half the height and width of images, or half the length of sequences.
//!
//! Offered only where the model can be built with such an input and puts out the same shape. Time: by the changed model's
//! kernels.

use super::{Change, Context, Effect, Remedy, same_outputs};
use crate::model::{Model, Op, OpKind, TensorId};
use crate::plan::setup::Setup;

/// `smaller_inputs`.
pub struct SmallerInputs;

impl Remedy for SmallerInputs {
    fn id(&self) -> &'static str {
        "smaller_inputs"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let Ok(model) = context.simulator.model(&setup.change) else { return Vec::new() };
        // With several inputs it is not plain which belong together.
        let [input] = model.inputs[..] else { return Vec::new() };
        let shape = &model.tensor(input).shape;
        if !shape.batched || shape.dims.first() != Some(&1) {
            return Vec::new();
        }
        let dims = &shape.dims[1..];
        let Some(half) = halved(&model, input, dims) else { return Vec::new() };
        let text = |dims: &[u64]| dims.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let change = setup.change.with("input", "shape", text(&half));
        if !context.simulator.model(&change).is_ok_and(|after| same_outputs(&model, &after)) {
            return Vec::new();
        }
        let shown = |dims: &[u64]| dims.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
        let (title, torch) = if dims.len() > 2 {
            let torch = "x = torch.nn.functional.interpolate(x, scale_factor=0.5)";
            (format!("Feed inputs of {} in place of {}", shown(&half), shown(dims)), torch)
        } else {
            // The dimension that was halved is the steps; the other one, if there is one, is the channels.
            let (after, before) = half.iter().zip(dims).find(|(after, before)| after != before).unwrap_or((&0, &0));
            let last = half.len() == 2 && half[1] != dims[1];
            let torch = if last { "x = x[..., : x.shape[-1] // 2]" } else { "x = x[:, : x.shape[1] // 2]" };
            (format!("Cut sequences to {after} in place of {before} steps"), torch)
        };
        let comma = if half.len() == 1 { "," } else { "" };
        let code = format!("keras.Input(shape=({}{comma}))", text(&half).replace(',', ", "));
        let changed = Setup { change, ..setup.clone() };
        vec![Change::new(title, changed, Effect::Model, code, Some(torch))]
    }
}

/// The dimensions of one sample with half the positions; none if there are no positions, only features.
fn halved(model: &Model, input: TensorId, dims: &[u64]) -> Option<Vec<u64>> {
    let readers = || model.ops.iter().filter(|op| op.inputs.contains(&input));
    let positions = match dims.len() {
        0 => return None,
        // A flat vector is a sequence only if its entries are looked up.
        1 => readers().any(|op| op.kind == OpKind::Embedding).then_some(0..1)?,
        rank if readers().any(channels_first) => 1..rank,
        rank => 0..rank - 1,
    };
    let mut half = dims.to_vec();
    for dim in &mut half[positions] {
        *dim /= 2;
    }
    (!half.contains(&0) && half != dims).then_some(half)
}

fn channels_first(op: &Op) -> bool {
    match &op.kind {
        OpKind::Conv(conv) => conv.channels_first,
        OpKind::Pool(pool) => pool.channels_first,
        OpKind::GlobalPool { channels_first, .. } => *channels_first,
        _ => false,
    }
}

//! Half the width of the layer that holds most at the peak.
//!
//! Layers that make the model's output, or whose width others rely on, are passed over: the model must still be built, with
//! outputs of the same shape. Time: by the changed model's kernels.

use super::{Change, Context, Effect, Remedy, layer_name, same_outputs};
use crate::model::{Model, Op, OpKind};
use crate::plan::setup::Setup;

/// `narrower_layers`.
pub struct NarrowerLayers;

/// How many layers are tried, heaviest first.
const TRIED_LAYERS: usize = 6;

impl Remedy for NarrowerLayers {
    fn id(&self) -> &'static str {
        "narrower_layers"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let Ok(model) = context.simulator.model(&setup.change) else { return Vec::new() };
        let widths = context.layers.iter().filter_map(|share| {
            let op =
                model.ops.iter().find(|op| model.layer(op.layer).path == share.layer && width(&model, op).is_some())?;
            let (attr, width) = width(&model, op)?;
            (width > 1).then_some((share, attr, width))
        });
        for (share, attr, width) in widths.take(TRIED_LAYERS) {
            let half = width / 2;
            let change = setup.change.with(&share.layer, attr, half.to_string());
            if !context.simulator.model(&change).is_ok_and(|after| same_outputs(&model, &after)) {
                continue;
            }
            let name = layer_name(&share.layer);
            let title = format!("Halve layer '{name}': {half} {attr} in place of {width}");
            let code = format!("keras.layers.{}({half}, ..., name=\"{name}\")", share.class);
            let torch =
                "# give the layer half its out_channels, out_features or hidden_size, and the next one the same input";
            let changed = Setup { change, ..setup.clone() };
            return vec![Change::new(title, changed, Effect::Model, code, Some(torch))];
        }
        Vec::new()
    }
}

/// The setting that is the layer's width in Keras, and its value.
fn width(model: &Model, op: &Op) -> Option<(&'static str, u64)> {
    let output = &model.tensor(*op.outputs.first()?).shape;
    match &op.kind {
        OpKind::Dense => Some(("units", output.last())),
        OpKind::Rnn(rnn) => Some(("units", rnn.units)),
        OpKind::Conv(conv) if conv.depthwise || op.weights.is_empty() => None,
        OpKind::Conv(conv) if conv.channels_first => Some(("filters", *output.dims.get(1)?)),
        OpKind::Conv(_) => Some(("filters", output.last())),
        _ => None,
    }
}

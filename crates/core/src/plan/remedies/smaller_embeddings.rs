//! Half the largest embedding: half the size of its vectors, or, where other layers need that size, half its vocabulary.
//!
//! Time: by the changed model's kernels.

use super::{Change, Context, Effect, Remedy, layer_name, same_outputs};
use crate::model::OpKind;
use crate::plan::setup::Setup;

/// `smaller_embeddings`.
pub struct SmallerEmbeddings;

impl Remedy for SmallerEmbeddings {
    fn id(&self) -> &'static str {
        "smaller_embeddings"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let Ok(model) = context.simulator.model(&setup.change) else { return Vec::new() };
        let tables = model.ops.iter().filter(|op| op.kind == OpKind::Embedding).filter_map(|op| {
            let table = model.weight(*op.weights.first()?);
            let [rows, columns] = table.dims[..] else { return None };
            Some((table.bytes(), model.layer(op.layer).path.as_str(), rows, columns))
        });
        let Some((_, path, rows, columns)) = tables.max_by_key(|&(bytes, ..)| bytes) else { return Vec::new() };
        let name = layer_name(path);
        let choices = [
            ("output_dim", columns, format!("Halve the vectors of embedding '{name}': {} numbers each", columns / 2)),
            ("input_dim", rows, format!("Halve the vocabulary of embedding '{name}': {} entries", rows / 2)),
        ];
        for (attr, size, title) in choices {
            let half = size / 2;
            let changed = Setup { change: setup.change.with(path, attr, half.to_string()), ..setup.clone() };
            let accepted = || context.simulator.model(&changed.change).is_ok_and(|after| same_outputs(&model, &after));
            if half == 0 || !accepted() {
                continue;
            }
            let (new_rows, new_columns) = if attr == "input_dim" { (half, columns) } else { (rows, half) };
            let code = format!("keras.layers.Embedding({new_rows}, {new_columns}, name=\"{name}\")");
            let torch = format!("torch.nn.Embedding({new_rows}, {new_columns})");
            return vec![Change::new(title, changed, Effect::Model, code, Some(&torch))];
        }
        Vec::new()
    }
}

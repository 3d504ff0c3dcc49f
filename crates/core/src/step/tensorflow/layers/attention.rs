//! The core of attention: scores, softmax, weighted values.

use super::super::{Attribute, Lowering};
use crate::model::{Attention, DType, Op, Shape};
use crate::step::graph::ValueId;

impl Lowering<'_> {
    pub(super) fn attention(&mut self, op: &Op, attention: &Attention, inputs: &[ValueId]) {
        let [query, value, key] = match inputs {
            [query, value, key, ..] => [*query, *value, *key],
            [query, value] => [*query, *value, *value],
            _ => return,
        };
        let output = self.model.tensor(op.outputs[0]).shape.clone();
        let batched = self.graph.shape(query).batched;
        let scores_shape =
            Shape { batched, dims: vec![1, attention.heads, attention.query_positions, attention.key_positions] };
        let repeats = attention.heads / attention.key_value_heads.max(1);
        let (key, value) = if repeats > 1 {
            (self.repeat_heads(key, repeats), self.repeat_heads(value, repeats))
        } else {
            (key, value)
        };
        let attr = self.new_attribute(Attribute::Einsum(scores_shape.clone()));
        let mut scores = if attention.additive {
            self.additive_scores(op, query, key, attention, &scores_shape)
        } else {
            let product = self.einsum(&[query, key], scores_shape.clone(), attr);
            // The softmax of half-precision scores is taken in float32.
            let wide = self.cast(product, DType::Float32);
            if attention.multi_head { self.scale(wide, 0.125) } else { wide }
        };
        if attention.masked {
            let positions = Shape::fixed(&[1, 1, attention.query_positions, attention.key_positions]);
            let mask = self.full_constant(positions, DType::Bool);
            let floor = self.constant(-1e9, scores);
            scores = self.select(mask, scores, floor);
        }
        let weights = self.unary("Softmax", scores);
        let dtype = self.dtype(value);
        let weights = self.cast(weights, dtype);
        let dropped = self.dropout(weights, attention.dropout, None);
        let context = self.einsum(&[dropped, value], output, attr);
        self.set_output(op, 0, context);
        self.set_output(op, 1, weights);
    }

    fn repeat_heads(&mut self, x: ValueId, repeats: u64) -> ValueId {
        let mut shape = self.shape(x);
        let heads = shape.rank().saturating_sub(2);
        if let Some(dim) = shape.dims.get_mut(heads) {
            *dim = dim.saturating_mul(repeats);
        }
        self.copy("Tile", &[x], shape, 1)
    }

    /// `sum(scale · tanh(q + k))` over a tensor with one element for each pair of positions and each feature.
    fn additive_scores(
        &mut self,
        op: &Op,
        query: ValueId,
        key: ValueId,
        attention: &Attention,
        scores: &Shape,
    ) -> ValueId {
        let batched = self.graph.shape(query).batched;
        let (size, queries, keys) = (attention.key_size, attention.query_positions, attention.key_positions);
        let columns = self.graph.reshape(query, Shape { batched, dims: vec![1, queries, 1, size] });
        let rows = self.graph.reshape(key, Shape { batched, dims: vec![1, 1, keys, size] });
        let sum = self.add(columns, rows);
        let mut squashed = self.unary("Tanh", sum);
        if let Some(&scale) = op.weights.first() {
            let scale = self.weight(scale, op.compute);
            squashed = self.mul_ordered(scale, squashed);
        }
        self.reduce("Sum", squashed, scores.clone())
    }
}

//! The core of attention: scores, softmax, weighted values.

use super::super::einsum::Equation;
use super::super::gradient::FOLDED;
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
        // Rows of one sample: more than one where other dimensions, such as windows, were folded into the batch.
        let (batched, rows) = (self.graph.shape(query).batched, self.graph.shape(query).dims[0]);
        let scores_shape =
            Shape::new(batched, &[rows, attention.heads, attention.query_positions, attention.key_positions]);
        let repeats = attention.heads / attention.key_value_heads.max(1);
        let (key, value) = if repeats > 1 {
            (self.repeat_heads(key, repeats), self.repeat_heads(value, repeats))
        } else {
            (key, value)
        };
        let (context, weights) = if attention.multi_head && (attention.dropout > 0.0 || attention.return_scores) {
            self.attention_by_steps(attention, [query, value, key], &scores_shape, output)
        } else {
            self.attention_at_once(op, attention, [query, value, key], &scores_shape, output)
        };
        self.set_output(op, 0, context);
        self.set_output(op, 1, weights);
    }

    /// `ops.dot_product_attention`: two einsums; the softmax of half-precision scores is taken in float32. `Attention` and
    /// `AdditiveAttention` multiply matrices instead, the transposed keys without a copy (arithmetic_optimizer.cc,
    /// `FoldTransposeIntoMatMul`).
    fn attention_at_once(
        &mut self,
        op: &Op,
        attention: &Attention,
        [query, value, key]: [ValueId; 3],
        scores_shape: &Shape,
        output: Shape,
    ) -> (ValueId, ValueId) {
        let mut scores = if attention.additive {
            self.additive_scores(op, query, key, attention, scores_shape)
        } else if !attention.multi_head {
            self.batch_mat_mul(query, key, scores_shape.clone(), attention.key_size, 0)
        } else {
            let attr = self.equation("BTNH,BSNH->BNTS");
            let product = self.einsum(&[query, key], scores_shape.clone(), attr);
            let wide = self.cast(product, DType::Float32);
            self.scale(wide, 0.125)
        };
        if attention.masked {
            let mask = self.attention_mask(attention);
            let floor = self.constant(-1e9, scores);
            scores = self.select(mask, scores, floor);
        }
        let weights = self.unary("Softmax", scores);
        let dtype = self.dtype(value);
        let weights = self.cast(weights, dtype);
        let dropped = self.dropout(weights, attention.dropout, None);
        let context = if attention.multi_head {
            let attr = self.equation("BNTS,BSNH->BTNH");
            self.einsum(&[dropped, value], output, attr)
        } else {
            let by_head =
                Shape { batched: output.batched, dims: [&output.dims[..1], &[1], &output.dims[1..]].concat().into() };
            let product = self.batch_mat_mul(dropped, value, by_head, attention.key_positions, 0);
            self.graph.reshape(product, output)
        };
        (context, weights)
    }

    fn equation(&mut self, text: &str) -> u32 {
        self.new_attribute(Attribute::Einsum(Equation::parse(text).unwrap_or_default()))
    }

    /// With dropout on the scores, the layer transposes, multiplies and masks step by step.
    fn attention_by_steps(
        &mut self,
        attention: &Attention,
        [query, value, key]: [ValueId; 3],
        scores_shape: &Shape,
        output: Shape,
    ) -> (ValueId, ValueId) {
        let (batched, samples) = (scores_shape.batched, scores_shape.dims[0]);
        let (heads, queries, keys) = (attention.heads, attention.query_positions, attention.key_positions);
        let by_head = |rows: u64, columns: u64| Shape::new(batched, &[samples, heads, rows, columns]);
        let keys_first = self.copy("Transpose", &[key], by_head(keys, attention.key_size), 2);
        let scaled = self.scale(query, 0.125);
        let queries_last = self.copy("Transpose", &[scaled], by_head(attention.key_size, queries), 4);
        let product = self.batch_mat_mul(keys_first, queries_last, by_head(keys, queries), attention.key_size, 0);
        let mut scores = self.copy("Transpose", &[product], scores_shape.clone(), FOLDED);
        let mask = attention.masked.then(|| self.attention_mask(attention));
        if let Some(mask) = mask {
            let floor = self.constant(-1e9, scores);
            scores = self.select(mask, scores, floor);
        }
        let mut weights = self.unary("Softmax", scores);
        if let Some(mask) = mask {
            let zero = self.constant(0.0, weights);
            weights = self.select(mask, weights, zero);
        }
        let dropped = self.dropout(weights, attention.dropout, None);
        let values = self.copy("Transpose", &[value], by_head(keys, attention.value_size), 2);
        let context = self.batch_mat_mul(dropped, values, by_head(queries, attention.value_size), keys, 0);
        (self.copy("Transpose", &[context], output, 2), weights)
    }

    fn attention_mask(&mut self, attention: &Attention) -> ValueId {
        let positions = Shape::fixed(&[1, 1, attention.query_positions, attention.key_positions]);
        self.full_constant(positions, DType::Bool)
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
        let (batched, samples) = (scores.batched, scores.dims[0]);
        let (size, queries, keys) = (attention.key_size, attention.query_positions, attention.key_positions);
        let columns = self.graph.reshape(query, Shape::new(batched, &[samples, queries, 1, size]));
        let rows = self.graph.reshape(key, Shape::new(batched, &[samples, 1, keys, size]));
        let sum = self.add(columns, rows);
        let mut squashed = self.unary("Tanh", sum);
        if let Some(&scale) = op.weights.first() {
            let scale = self.weight(scale, op.compute);
            squashed = self.mul_ordered(scale, squashed);
        }
        self.reduce("Sum", squashed, scores.clone())
    }
}

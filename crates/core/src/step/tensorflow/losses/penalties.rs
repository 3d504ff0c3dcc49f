//! Regularizers of weights.
//!
//! In: the model's weights. Out: a penalty for each that has one, with its factor. Regularizers of activations are their layers'.

use super::super::Lowering;
use crate::bytes::Size;
use crate::model::{Pairs, Penalty, Shape};
use crate::step::graph::ValueId;

impl Lowering<'_> {
    pub(super) fn penalties(&mut self, seeds: &mut Vec<(ValueId, ValueId)>) {
        for (id, weight) in self.model.weights.iter().enumerate() {
            let Some(penalty) = weight.penalty.filter(|_| weight.trainable) else { continue };
            let value = self.graph.read(self.variables[id], true);
            let terms = self.penalty_terms(value, penalty);
            seeds.extend(terms);
            if let (Some(pairs), &[rows, columns]) = (penalty.right_angles, &weight.dims[..]) {
                seeds.push(self.right_angles(value, pairs, [rows, columns]));
            }
        }
    }

    /// The sums of absolute values and of squares, each with a factor of its own, the same for all that is regularized.
    pub(in crate::step::tensorflow) fn penalty_terms(
        &mut self,
        value: ValueId,
        penalty: Penalty,
    ) -> Vec<(ValueId, ValueId)> {
        let wanted = [(penalty.sizes, "Abs", 1e-5), (penalty.squares, "Square", 1e-4)]
            .into_iter()
            .filter(|(wanted, ..)| *wanted);
        wanted
            .map(|(_, name, factor)| {
                let terms = self.unary(name, value);
                let total = self.reduce("Sum", terms, Shape::fixed(&[]));
                self.logged(total);
                let factor = self.constant(factor, total);
                (total, factor)
            })
            .collect()
    }

    /// The products of all pairs without those of a row or column with itself, which a constant takes away
    /// (keras/src/regularizers, `OrthogonalRegularizer`).
    fn right_angles(&mut self, weight: ValueId, pairs: Pairs, [rows, columns]: [u64; 2]) -> (ValueId, ValueId) {
        let (size, inner, transposed) = match pairs {
            Pairs::Rows => (rows, columns, 2),
            Pairs::Columns => (columns, rows, 1),
        };
        let shape = Shape::fixed(&[size, size]);
        let unit = self.unit_norm(weight);
        let products = self.mat_mul(unit, unit, shape.clone(), Size::fixed(inner), transposed);
        let others = self.full_constant(shape, self.dtype(weight));
        let kept = self.mul_ordered(products, others);
        let sizes = self.unary("Abs", kept);
        let total = self.reduce("Sum", sizes, Shape::fixed(&[]));
        self.logged(total);
        let factor = self.constant(1e-3, total);
        (total, factor)
    }
}

//! Normalizations. Keras 3 composes batch and layer normalization from elementwise kernels: no fused kernel is used.

use super::super::Lowering;
use crate::model::{DType, Norm, NormKind, Op, Shape};
use crate::step::graph::ValueId;

impl Lowering<'_> {
    pub(super) fn normalization(&mut self, op: &Op, norm: &Norm, x: ValueId) -> ValueId {
        let input_dtype = self.dtype(x);
        // Statistics of half-precision inputs are computed in float32 (keras/src/layers/normalization).
        let wide = if input_dtype.bytes() < 4 && input_dtype.is_float() { self.cast(x, DType::Float32) } else { x };
        let result = match norm.kind {
            NormKind::Batch => self.batch_norm(op, norm, wide),
            NormKind::Layer => self.layer_norm(op, norm, wide),
            NormKind::Group { groups } => self.group_norm(op, norm, groups, wide),
            NormKind::Rms => self.rms_norm(op, wide, norm),
            NormKind::Unit => self.unit_norm(wide),
            NormKind::Spectral => wide,
        };
        self.cast(result, input_dtype)
    }

    fn moments(&mut self, x: ValueId, shape: &Shape) -> (ValueId, ValueId) {
        let mean = self.reduce("Mean", x, shape.clone());
        let fixed_mean = self.graph.stop_gradient(mean);
        let squares = self.binary("SquaredDifference", x, fixed_mean);
        let variance = self.reduce("Mean", squares, shape.clone());
        (mean, variance)
    }

    /// `x · (γ/√(σ²+ε)) + (β − μ · (γ/√(σ²+ε)))`, and the moving statistics.
    fn batch_norm(&mut self, op: &Op, norm: &Norm, x: ValueId) -> ValueId {
        let dims: Vec<u64> =
            self.graph.shape(x).dims.iter().enumerate().map(|(i, &dim)| if i == norm.axis { dim } else { 1 }).collect();
        let statistics = Shape::fixed(&dims);
        let mut weights = op.weights.iter().copied();
        let gamma = norm.scale.then(|| weights.next()).flatten();
        let beta = norm.center.then(|| weights.next()).flatten();
        let moving: Vec<_> = weights.collect();
        let (mean, variance) = if self.training() && norm.trainable {
            let (mean, variance) = self.moments(x, &statistics);
            for (&weight, statistic) in moving.iter().zip([mean, variance]) {
                self.update_moving(weight, statistic);
            }
            (mean, variance)
        } else {
            let mut read =
                moving.iter().map(|&weight| self.weight(weight, DType::Float32)).collect::<Vec<_>>().into_iter();
            let (Some(mean), Some(variance)) = (read.next(), read.next()) else { return x };
            (self.graph.reshape(mean, statistics.clone()), self.graph.reshape(variance, statistics.clone()))
        };
        let shifted = self.shift(variance, 1e-3);
        let mut factor = self.unary("Rsqrt", shifted);
        if let Some(gamma) = gamma {
            let gamma = self.weight(gamma, DType::Float32);
            let gamma = self.graph.reshape(gamma, statistics.clone());
            factor = self.mul(gamma, factor);
        }
        let scaled = self.mul_ordered(x, factor);
        let moved = self.mul_ordered(mean, factor);
        let offset = match beta {
            Some(beta) => {
                let beta = self.weight(beta, DType::Float32);
                let beta = self.graph.reshape(beta, statistics);
                self.sub(beta, moved)
            }
            None => self.unary("Neg", moved),
        };
        self.add(scaled, offset)
    }

    fn update_moving(&mut self, weight: crate::model::WeightId, statistic: ValueId) {
        let variable = self.variables[weight.0 as usize];
        let old = self.graph.read(variable, false);
        let kept = self.scale(old, 0.99);
        let statistic = self.graph.stop_gradient(statistic);
        let shape = self.shape(old);
        let statistic = self.graph.reshape(statistic, shape);
        let fresh = self.scale(statistic, 0.01);
        let updated = self.add(kept, fresh);
        self.graph.assign("AssignVariableOp", variable, updated, &[]);
    }

    /// γ/√(σ²+ε) has the input's full size, because γ lies along the normalized axis.
    fn layer_norm(&mut self, op: &Op, norm: &Norm, x: ValueId) -> ValueId {
        let mut statistics = self.shape(x);
        for dim in statistics.dims.iter_mut().skip(norm.axis.max(1)) {
            *dim = 1;
        }
        let (mean, variance) = self.moments(x, &statistics);
        let (gamma, beta) = self.affine(op, norm, x, norm.axis);
        let shifted = self.shift(variance, 1e-3);
        let inverse = self.unary("Rsqrt", shifted);
        let factor = match gamma {
            Some(gamma) => self.mul(gamma, inverse),
            None => inverse,
        };
        let negative = self.unary("Neg", mean);
        let moved = self.mul_ordered(negative, factor);
        let scaled = self.mul_ordered(x, factor);
        let sum = self.add(moved, scaled);
        match beta {
            Some(beta) => self.add(sum, beta),
            None => sum,
        }
    }

    fn affine(&mut self, op: &Op, norm: &Norm, x: ValueId, axis: usize) -> (Option<ValueId>, Option<ValueId>) {
        let dims: Vec<u64> = self
            .graph
            .shape(x)
            .dims
            .iter()
            .enumerate()
            .map(|(i, &dim)| if i >= axis.max(1) { dim } else { 1 })
            .collect();
        let mut weights = op.weights.iter().copied();
        let mut next = |this: &mut Self, present: bool| {
            let weight = present.then(|| weights.next()).flatten()?;
            let value = this.weight(weight, DType::Float32);
            let elements: u64 = this.graph.shape(value).elements();
            let fits = elements == crate::model::product(&dims);
            Some(if fits { this.graph.reshape(value, Shape::fixed(&dims)) } else { value })
        };
        let gamma = next(self, norm.scale);
        let beta = next(self, norm.center);
        (gamma, beta)
    }

    /// Channels are split into groups; γ/√(σ²+ε) has one element per sample and channel. The mean runs over axes that are
    /// not neighbours, so its kernel transposes the input first (reduction_ops_common.h).
    fn group_norm(&mut self, op: &Op, norm: &Norm, groups: u64, x: ValueId) -> ValueId {
        let input = self.shape(x);
        let (groups, channels) = (groups.max(1), input.last().max(1));
        let (size, batched) = ((channels / groups).max(1), input.batched);
        let rows = input.dims[0].max(1);
        let positions = input.elements() / channels / rows;
        let grouped = self.graph.reshape(x, Shape::new(batched, &[rows, positions, groups, size]));
        let statistics = Shape::new(batched, &[rows, 1, groups, 1]);
        let mean = self.shuffled_mean(grouped, &statistics);
        let fixed_mean = self.graph.stop_gradient(mean);
        let squares = self.binary("SquaredDifference", grouped, fixed_mean);
        let variance = self.shuffled_mean(squares, &statistics);
        let (gamma, beta) = self.affine(op, norm, x, input.rank() - 1);
        let by_group = |this: &mut Self, weight: Option<ValueId>| {
            weight.map(|weight| this.graph.reshape(weight, Shape::fixed(&[1, 1, groups, size])))
        };
        let (gamma, beta) = (by_group(self, gamma), by_group(self, beta));
        let shifted = self.shift(variance, 1e-3);
        let inverse = self.unary("Rsqrt", shifted);
        let factor = match gamma {
            Some(gamma) => self.mul(gamma, inverse),
            None => inverse,
        };
        let negative = self.unary("Neg", mean);
        let mut offset = self.mul_ordered(negative, factor);
        if let Some(beta) = beta {
            offset = self.add(beta, offset);
        }
        let scaled = self.mul_ordered(grouped, factor);
        let result = self.add(offset, scaled);
        self.graph.reshape(result, input)
    }

    fn shuffled_mean(&mut self, x: ValueId, shape: &Shape) -> ValueId {
        let mean = self.reduce("Mean", x, shape.clone());
        let (size, node) = (self.graph.size(x), self.graph.value(mean).producer);
        self.graph.nodes[node.0 as usize].scratch = vec![size];
        mean
    }

    fn rms_norm(&mut self, op: &Op, x: ValueId, norm: &Norm) -> ValueId {
        let mut statistics = self.shape(x);
        for dim in statistics.dims.iter_mut().skip(norm.axis.max(1)) {
            *dim = 1;
        }
        let squares = self.unary("Square", x);
        let mean = self.reduce("Mean", squares, statistics);
        let shifted = self.shift(mean, 1e-6);
        let inverse = self.unary("Rsqrt", shifted);
        let result = self.mul_ordered(x, inverse);
        match self.affine(op, norm, x, norm.axis).0 {
            Some(gamma) => self.mul_ordered(result, gamma),
            None => result,
        }
    }

    pub(in crate::step::tensorflow) fn unit_norm(&mut self, x: ValueId) -> ValueId {
        let mut statistics = self.shape(x);
        if let Some(last) = statistics.dims.last_mut() {
            *last = 1;
        }
        let squares = self.unary("Square", x);
        let total = self.reduce("Sum", squares, statistics);
        let floor = self.constant(1e-12, total);
        let floored = self.binary("Maximum", floor, total);
        let inverse = self.unary("Rsqrt", floored);
        self.mul_ordered(x, inverse)
    }
}

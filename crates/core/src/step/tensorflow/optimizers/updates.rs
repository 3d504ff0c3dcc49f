//! How each optimizer updates a weight: `update_step` of the optimizer of that name (keras/src/optimizers, 3.15).
//!
//! In: a gradient and its weight. Out: nodes that write the weight and its slots. Factors such as learning rates stand for
//! any number: only that there is a product matters.

use super::{Given, Lowering, in_embedding, orthogonalized, rows, shaped_slot, state, sum_rows};
use crate::bytes::Size;
use crate::model::Shape;
use crate::step::graph::{ValueId, VariableId};
use crate::trace::Role;

/// `slot ← slot + rate · (value − slot)`, then the slot's new value.
fn move_towards(lowering: &mut Lowering<'_>, slot: VariableId, value: ValueId, rate: f64) -> ValueId {
    let old = lowering.graph.read(slot, false);
    let difference = lowering.sub(value, old);
    let change = lowering.scale(difference, rate);
    let write = lowering.graph.assign("AssignAddVariableOp", slot, change, &[]);
    lowering.graph.read_after(slot, Some(write))
}

/// `slot ← keep · slot + (1 − keep) · value`, then the slot's new value.
fn decay_towards(lowering: &mut Lowering<'_>, slot: VariableId, value: ValueId, keep: f64) -> ValueId {
    decay_with(lowering, slot, keep, |lowering| lowering.scale(value, 1.0 - keep))
}

/// `slot ← keep · slot + fresh`, then the slot's new value.
fn decay_with(
    lowering: &mut Lowering<'_>,
    slot: VariableId,
    keep: f64,
    fresh: impl FnOnce(&mut Lowering<'_>) -> ValueId,
) -> ValueId {
    let old = lowering.graph.read(slot, false);
    let kept = lowering.scale(old, keep);
    let fresh = fresh(lowering);
    let sum = lowering.add(kept, fresh);
    let write = lowering.graph.assign("AssignVariableOp", slot, sum, &[]);
    lowering.graph.read_after(slot, Some(write))
}

/// The gradient's squares as a table.
fn squares(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) -> ValueId {
    rows::table(lowering, given, variable, |lowering, x| lowering.unary("Square", x))
}

/// The gradient times a number as a table.
fn scaled(lowering: &mut Lowering<'_>, given: Given, variable: VariableId, number: f64) -> ValueId {
    rows::table(lowering, given, variable, |lowering, x| lowering.scale(x, number))
}

fn subtract(lowering: &mut Lowering<'_>, variable: VariableId, change: ValueId) {
    lowering.graph.assign("AssignSubVariableOp", variable, change, &[]);
}

/// The same for a change of the gradient's own form.
fn subtract_own(lowering: &mut Lowering<'_>, given: Given, variable: VariableId, change: ValueId) {
    match given.rows {
        Some(_) => rows::subtract(lowering, variable, change),
        None => subtract(lowering, variable, change),
    }
}

/// `rate · gradient / table`, in the gradient's own form.
fn divided(lowering: &mut Lowering<'_>, given: Given, table: ValueId, rate: f64) -> ValueId {
    let scaled = lowering.scale(given.own(), rate);
    match given.rows {
        Some((_, indices)) => rows::quotient(lowering, (scaled, indices), table),
        None => lowering.binary("RealDiv", scaled, table),
    }
}

pub(super) fn sgd(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    if let (false, Some((values, _))) = (lowering.job.optimizer.momentum, given.rows) {
        let change = lowering.scale(values, 0.01);
        return rows::subtract(lowering, variable, change);
    }
    let change = scaled(lowering, given, variable, 0.01);
    if !lowering.job.optimizer.momentum {
        return subtract(lowering, variable, change);
    }
    let momentum = state(lowering, variable);
    let old = lowering.graph.read(momentum, false);
    let kept = lowering.scale(old, 0.9);
    let updated = lowering.sub(kept, change);
    let write = lowering.graph.assign("AssignVariableOp", momentum, updated, &[]);
    let mut step = lowering.graph.read_after(momentum, Some(write));
    if lowering.job.optimizer.nesterov {
        let kept = lowering.scale(step, 0.9);
        step = lowering.sub(kept, change);
    }
    lowering.graph.assign("AssignAddVariableOp", variable, step, &[]);
}

pub(super) fn rmsprop(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let squared = squares(lowering, given, variable);
    let velocity = state(lowering, variable);
    let mut denominator = decay_towards(lowering, velocity, squared, 0.9);
    if lowering.job.optimizer.centered {
        let average = state(lowering, variable);
        let mean = decay_towards(lowering, average, gradient, 0.9);
        let square = lowering.unary("Square", mean);
        denominator = lowering.sub(denominator, square);
    }
    let shifted = lowering.shift(denominator, 1e-7);
    let root = lowering.unary("Sqrt", shifted);
    let momentum = lowering.job.optimizer.momentum;
    let mut increment = divided(lowering, given, root, 0.001);
    if let Some((_, indices)) = given.rows {
        if !momentum {
            return rows::subtract(lowering, variable, increment);
        }
        increment = sum_rows(lowering, variable, increment, indices);
    }
    if momentum {
        let momentum = state(lowering, variable);
        let old = lowering.graph.read(momentum, false);
        let kept = lowering.scale(old, 0.9);
        let sum = lowering.add(kept, increment);
        let write = lowering.graph.assign("AssignVariableOp", momentum, sum, &[]);
        let step = lowering.graph.read_after(momentum, Some(write));
        return subtract(lowering, variable, step);
    }
    subtract(lowering, variable, increment);
}

pub(super) fn adagrad(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let accumulator = state(lowering, variable);
    let squared = lowering.unary("Square", given.own());
    let write = match given.rows {
        Some(_) => rows::add(lowering, accumulator, squared),
        None => lowering.graph.assign("AssignAddVariableOp", accumulator, squared, &[]),
    };
    let total = lowering.graph.read_after(accumulator, Some(write));
    let shifted = lowering.shift(total, 1e-7);
    let root = lowering.unary("Sqrt", shifted);
    let change = divided(lowering, given, root, 0.001);
    subtract_own(lowering, given, variable, change);
}

pub(super) fn adadelta(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let (seen, moved) = (state(lowering, variable), state(lowering, variable));
    let squared = squares(lowering, given, variable);
    let accumulated = decay_towards(lowering, seen, squared, 0.95);
    let old = lowering.graph.read(moved, false);
    let shifted = lowering.shift(old, 1e-7);
    let root = lowering.unary("Sqrt", shifted);
    let root = given.rows.map_or(root, |rows| rows::gather(lowering, root, rows, &[]));
    let product = lowering.mul_ordered(root, given.own());
    let shifted = lowering.shift(accumulated, 1e-7);
    let below = lowering.unary("Sqrt", shifted);
    let quotient = match given.rows {
        Some((_, indices)) => rows::quotient(lowering, (product, indices), below),
        None => lowering.binary("RealDiv", product, below),
    };
    let delta = lowering.unary("Neg", quotient);
    let change = Given { dense: delta, rows: given.rows.map(|(_, indices)| (delta, indices)) };
    let squared = squares(lowering, change, variable);
    decay_towards(lowering, moved, squared, 0.95);
    let change = lowering.scale(delta, 0.001);
    match given.rows {
        Some(_) => rows::add(lowering, variable, change),
        None => lowering.graph.assign("AssignAddVariableOp", variable, change, &[]),
    };
}

pub(super) fn adam(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let (momentum, velocity) = (state(lowering, variable), state(lowering, variable));
    let first = move_towards(lowering, momentum, gradient, 0.1);
    let squared = squares(lowering, given, variable);
    let mut second = move_towards(lowering, velocity, squared, 0.001);
    if lowering.job.optimizer.amsgrad {
        let largest = state(lowering, variable);
        let old = lowering.graph.read(largest, false);
        let maximum = lowering.binary("Maximum", old, second);
        let write = lowering.graph.assign("AssignVariableOp", largest, maximum, &[]);
        second = lowering.graph.read_after(largest, Some(write));
    }
    let scaled = lowering.scale(first, 0.001);
    let root = lowering.unary("Sqrt", second);
    let shifted = lowering.shift(root, 1e-7);
    let change = lowering.binary("RealDiv", scaled, shifted);
    subtract(lowering, variable, change);
}

pub(super) fn adamax(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let (momentum, norm) = (state(lowering, variable), state(lowering, variable));
    let first = move_towards(lowering, momentum, gradient, 0.1);
    let old = lowering.graph.read(norm, false);
    let kept = lowering.scale(old, 0.999);
    let size = rows::table(lowering, given, variable, |lowering, x| lowering.unary("Abs", x));
    let maximum = lowering.binary("Maximum", kept, size);
    let write = lowering.graph.assign("AssignVariableOp", norm, maximum, &[]);
    let largest = lowering.graph.read_after(norm, Some(write));
    let scaled = lowering.scale(first, 0.001);
    let shifted = lowering.shift(largest, 1e-7);
    let below = lowering.scale(shifted, 0.1);
    let change = lowering.binary("RealDiv", scaled, below);
    subtract(lowering, variable, change);
}

pub(super) fn nadam(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let (momentum, velocity) = (state(lowering, variable), state(lowering, variable));
    let first = move_towards(lowering, momentum, gradient, 0.1);
    let squared = squares(lowering, given, variable);
    let second = move_towards(lowering, velocity, squared, 0.001);
    let ahead = lowering.scale(first, 0.9);
    let now = scaled(lowering, given, variable, 0.1);
    let corrected = lowering.add(ahead, now);
    let unbiased = lowering.scale(second, 1.001);
    let root = lowering.unary("Sqrt", unbiased);
    let shifted = lowering.shift(root, 1e-7);
    let scaled = lowering.scale(corrected, 0.001);
    let change = lowering.binary("RealDiv", scaled, shifted);
    subtract(lowering, variable, change);
}

pub(super) fn ftrl(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let (accumulator, linear) = (state(lowering, variable), state(lowering, variable));
    let weight = lowering.graph.read(variable, true);
    let old = lowering.graph.read(accumulator, false);
    let shrunk = lowering.scale(weight, 0.0);
    let used = lowering.add(gradient, shrunk);
    let squared = squares(lowering, given, variable);
    let new = lowering.add(old, squared);
    let new_power = lowering.unary("Pow", new);
    let old_power = lowering.unary("Pow", old);
    let difference = lowering.sub(new_power, old_power);
    let quotient = lowering.scale(difference, 1000.0);
    let product = lowering.mul_ordered(quotient, weight);
    let change = lowering.sub(used, product);
    let write = lowering.graph.assign("AssignAddVariableOp", linear, change, &[]);
    let line = lowering.graph.read_after(linear, Some(write));
    let scaled = lowering.scale(new_power, 1000.0);
    let quadratic = lowering.shift(scaled, 0.5);
    let bound = lowering.constant(0.0, line);
    let low = lowering.binary("Minimum", bound, line);
    let clipped = lowering.binary("Maximum", bound, low);
    let above = lowering.sub(clipped, line);
    let updated = lowering.binary("RealDiv", above, quadratic);
    lowering.graph.assign("AssignVariableOp", variable, updated, &[]);
    lowering.graph.assign("AssignVariableOp", accumulator, new, &[]);
}

pub(super) fn lion(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let momentum = state(lowering, variable);
    let old = lowering.graph.read(momentum, false);
    let kept = lowering.scale(old, 0.9);
    let fresh = scaled(lowering, given, variable, 0.1);
    let sum = lowering.add(kept, fresh);
    let sign = lowering.unary("Sign", sum);
    let change = lowering.scale(sign, 0.001);
    subtract(lowering, variable, change);
    decay_with(lowering, momentum, 0.99, |lowering| scaled(lowering, given, variable, 0.01));
}

fn root_mean_square(lowering: &mut Lowering<'_>, x: ValueId) -> ValueId {
    let squares = lowering.unary("Square", x);
    let mean = lowering.reduce("Mean", squares, Shape::fixed(&[]));
    lowering.unary("Sqrt", mean)
}

pub(super) fn adafactor(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let weight = lowering.graph.read(variable, true);
    let size = root_mean_square(lowering, weight);
    let squared = squares(lowering, given, variable);
    let regulated = lowering.shift(squared, 1e-30);
    let dims = lowering.graph.variables[variable.0 as usize].shape.dims.clone();
    let velocity = state(lowering, variable);
    let second = if dims.len() >= 2 {
        let (last, before) = (dims.len() - 1, dims.len() - 2);
        let row_dims = Shape::fixed(&dims[..last]);
        let mut column_dims = dims.clone();
        column_dims.remove(before);
        let rows = shaped_slot(lowering, variable, row_dims.clone(), Role::OptimizerState);
        let columns = shaped_slot(lowering, variable, Shape::fixed(&column_dims), Role::OptimizerState);
        let row_mean = lowering.reduce("Mean", regulated, row_dims);
        let column_mean = lowering.reduce("Mean", regulated, Shape::fixed(&column_dims));
        let row = decay_towards(lowering, rows, row_mean, 0.9);
        let column = decay_towards(lowering, columns, column_mean, 0.9);
        let (mut tall, mut wide) = (dims.clone(), dims.clone());
        (tall[last], wide[before]) = (1, 1);
        let row = lowering.graph.reshape(row, Shape::fixed(&tall));
        let column = lowering.graph.reshape(column, Shape::fixed(&wide));
        let outer = lowering.mul_ordered(row, column);
        let write = lowering.graph.assign("AssignVariableOp", velocity, outer, &[]);
        lowering.graph.read_after(velocity, Some(write))
    } else {
        decay_towards(lowering, velocity, regulated, 0.9)
    };
    let root = lowering.unary("Sqrt", second);
    let update = match given.rows {
        Some(rows) => rows::quotient(lowering, rows, root),
        None => lowering.binary("RealDiv", given.dense, root),
    };
    let spread = root_mean_square(lowering, update);
    let clipped = lowering.binary("RealDiv", update, spread);
    let change = lowering.mul_ordered(size, clipped);
    subtract_own(lowering, given, variable, change);
}

pub(super) fn lamb(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let (momentum, velocity) = (state(lowering, variable), state(lowering, variable));
    let first = move_towards(lowering, momentum, gradient, 0.1);
    let squared = squares(lowering, given, variable);
    let second = move_towards(lowering, velocity, squared, 0.001);
    let corrected = lowering.scale(first, 1.1);
    let unbiased = lowering.scale(second, 1.001);
    let root = lowering.unary("Sqrt", unbiased);
    let below = lowering.shift(root, 1e-7);
    let update = lowering.binary("RealDiv", corrected, below);
    let weight = lowering.graph.read(variable, true);
    let norms = [root_mean_square(lowering, weight), root_mean_square(lowering, update)];
    let ratio = lowering.binary("RealDiv", norms[0], norms[1]);
    let change = lowering.mul_ordered(ratio, update);
    subtract(lowering, variable, change);
}

/// Matrices get five Newton–Schulz steps, each with two products of the smaller side; all else gets Adam.
pub(super) fn muon(lowering: &mut Lowering<'_>, given: Given, variable: VariableId) {
    let gradient = given.dense;
    let dims = lowering.graph.variables[variable.0 as usize].shape.dims.clone();
    if !orthogonalized(&dims, in_embedding(lowering, variable)) {
        return adam(lowering, given, variable);
    }
    let momentum = state(lowering, variable);
    let old = lowering.graph.read(momentum, false);
    let kept = lowering.scale(old, -0.05);
    let sum = lowering.add(gradient, kept);
    let write = lowering.graph.assign("AssignAddVariableOp", momentum, sum, &[]);
    let current = lowering.graph.read_after(momentum, Some(write));
    let ahead = lowering.scale(current, 0.95);
    let direction = lowering.add(gradient, ahead);
    let columns = dims.last().copied().unwrap_or(1).max(1);
    let rows = crate::model::product(&dims) / columns;
    let (short, long) = (rows.min(columns), rows.max(columns));
    let matrix = lowering.graph.reshape(direction, Shape::fixed(&[short, long]));
    let spread = root_mean_square(lowering, matrix);
    let mut x = lowering.binary("RealDiv", matrix, spread);
    for _ in 0..5 {
        let square = Shape::fixed(&[short, short]);
        let a = lowering.mat_mul(x, x, square.clone(), Size::fixed(long), 2);
        // One of the factors is multiplied first: `c·A @ A` is read from the left.
        let (left, right) = (lowering.scale(a, -4.775), lowering.scale(a, 2.0315));
        let aa = lowering.mat_mul(right, a, square, Size::fixed(short), 0);
        // The graph optimizer puts the summands in the order of their names, the product before the multiple.
        let b = lowering.add(aa, left);
        let product = lowering.mat_mul(b, x, Shape::fixed(&[short, long]), Size::fixed(short), 0);
        let scaled = lowering.scale(x, 3.4445);
        x = lowering.add(product, scaled);
    }
    let update = lowering.graph.reshape(x, Shape::fixed(&dims));
    let change = lowering.scale(update, 0.001);
    subtract(lowering, variable, change);
}

//! Layers of several inputs: elementwise, concatenation, dot product.

use brimful_core::model::{Merge, OpKind, Shape};

use super::super::build::Hints;
use super::super::cx::Cx;
use super::super::value::Value;
use crate::error::Result;

/// The shape that two shapes broadcast to, aligned at the right; `None` if they do not.
pub(in super::super) fn broadcast(a: &Shape, b: &Shape) -> Option<Shape> {
    let (long, short) = if a.rank() >= b.rank() { (a, b) } else { (b, a) };
    let mut dims = long.dims.clone();
    let offset = long.rank() - short.rank();
    for (at, &other) in short.dims.iter().enumerate() {
        let mine = dims[offset + at];
        // A batch broadcasts against a fixed 1 and meets another batch.
        dims[offset + at] = match (mine, other) {
            (mine, other) if mine == other => mine,
            (1, other) => other,
            (mine, 1) => mine,
            _ => return None,
        };
    }
    Some(Shape::new(long.batched || (offset == 0 && short.batched), &dims))
}

fn elementwise<'d>(cx: &mut Cx<'_, 'd>, kind: Merge) -> Result<Value<'d>> {
    let mut inputs = cx.inputs();
    cx.broadcast_pairs(&mut inputs)?;
    let Some((first, rest)) = inputs.split_first() else {
        return cx.fail("it is called without a list of tensors");
    };
    let mut shape = cx.shape(*first);
    for input in rest {
        let other = cx.shape(*input);
        // Keras widens the one of lower rank after the batch, not before it.
        let (a, b) = widen(shape, other);
        let Some(both) = broadcast(&a, &b) else {
            return cx.fail(format!("shapes {} and {} cannot be combined", cx.show(&a), cx.show(&b)));
        };
        shape = both;
    }
    let dtype = cx.result_type(*first);
    Ok(Value::Tensor(cx.op_to(OpKind::Merge(kind), &inputs, shape, dtype, &[])?))
}

fn widen(mut a: Shape, mut b: Shape) -> (Shape, Shape) {
    let rank = a.rank().max(b.rank());
    for shape in [&mut a, &mut b] {
        while shape.rank() < rank && shape.rank() > 0 {
            shape.dims.insert(1, 1);
        }
    }
    (a, b)
}

pub(super) fn add<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    elementwise(cx, Merge::Add)
}

pub(super) fn subtract<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    elementwise(cx, Merge::Subtract)
}

pub(super) fn multiply<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    elementwise(cx, Merge::Multiply)
}

pub(super) fn average<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    elementwise(cx, Merge::Average)
}

pub(super) fn maximum<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    elementwise(cx, Merge::Maximum)
}

pub(super) fn minimum<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    elementwise(cx, Merge::Minimum)
}

/// The shape of shapes put one after the other; `None` if they do not fit.
pub(in super::super) fn concatenated(shapes: &[Shape], axis: usize) -> Option<Shape> {
    let (first, rest) = shapes.split_first()?;
    let mut out = first.clone();
    for shape in rest {
        if shape.rank() != out.rank() {
            return None;
        }
        for at in 0..out.rank() {
            if at == axis {
                out.dims[at] = out.dims[at].saturating_add(shape.dims[at]);
            } else if out.dims[at] != shape.dims[at] {
                return None;
            }
        }
        out.batched |= shape.batched;
    }
    Some(out)
}

pub(super) fn concatenate<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.inputs();
    let shapes: Vec<Shape> = inputs.iter().map(|&input| cx.shape(input)).collect();
    let Some(first) = shapes.first() else { return cx.fail("it is called without a list of tensors") };
    let axis = cx.axis(cx.int("axis", -1)?, first.rank())?;
    let Some(shape) = concatenated(&shapes, axis) else {
        let shown: Vec<String> = shapes.iter().map(|shape| cx.show(shape)).collect();
        return cx.fail(format!("shapes {} differ outside axis {axis}", shown.join(", ")));
    };
    let dtype = cx.result_type(inputs[0]);
    Ok(Value::Tensor(cx.op_to(OpKind::Concat { axis }, &inputs, shape, dtype, &[])?))
}

pub(super) fn dot<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.inputs();
    let [a, b] = inputs[..] else { return cx.fail(format!("it takes 2 tensors and is given {}", inputs.len())) };
    let (left, right) = (cx.shape(a), cx.shape(b));
    let axes = cx.ints("axes")?;
    let (first, second) = match axes[..] {
        [axis] => (axis, axis),
        [first, second] => (first, second),
        _ => return cx.fail("'axes' should be one or two whole numbers"),
    };
    let axes = [cx.axis(first, left.rank())?, cx.axis(second, right.rank())?];
    if left.dims[axes[0]] != right.dims[axes[1]] || axes.contains(&0) {
        return cx.fail(format!("shapes {} and {} do not meet at axes {axes:?}", cx.show(&left), cx.show(&right)));
    }
    // The batch, what is left of the first, what is left of the second.
    let mut dims = vec![left.dims[0]];
    dims.extend(left.dims.iter().enumerate().skip(1).filter(|(at, _)| *at != axes[0]).map(|(_, dim)| dim));
    dims.extend(right.dims.iter().enumerate().skip(1).filter(|(at, _)| *at != axes[1]).map(|(_, dim)| dim));
    if dims.len() == 1 {
        dims.push(1);
    }
    let normalize = cx.flag("normalize", false);
    let shape = Shape::new(left.batched || right.batched, &dims);
    Ok(Value::Tensor(cx.op(OpKind::Dot { axes, normalize }, &inputs, shape, &[])?))
}

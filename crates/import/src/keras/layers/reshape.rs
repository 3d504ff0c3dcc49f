//! Layers that move, repeat, cut or pad values.

use brimful_core::model::{Interpolation, OpKind, Shape};

use super::super::build::Hints;
use super::super::cx::Cx;
use super::super::json::Json;
use super::super::value::Value;
use super::conv::rank;
use crate::error::Result;

pub(super) fn flatten<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let mut x = cx.input()?;
    let mut shape = cx.shape(x);
    let dtype = cx.result_type(x);
    if cx.channels_first() && shape.rank() > 2 {
        // The channels go last first.
        let axes: Vec<usize> = [0].into_iter().chain(2..shape.rank()).chain([1]).collect();
        shape.dims = axes.iter().map(|&axis| shape.dims[axis]).collect();
        x = cx.op_to(OpKind::Permute { axes }, &[x], shape.clone(), dtype, &[])?;
    }
    let size = brimful_core::model::product(shape.dims.get(1..).unwrap_or_default());
    let out = Shape::new(shape.batched, &[shape.dims[0], size]);
    Ok(Value::Tensor(cx.op_to(OpKind::Reshape, &[x], out, dtype, &[])?))
}

/// Dimensions of `size` elements, at most one of which (-1 or null) is what is left; `None` if that does not work out.
pub(in super::super) fn resolve_target(target: &[i64], size: u64) -> Option<Vec<u64>> {
    let known = target.iter().filter(|&&dim| dim >= 0);
    let known = known.fold(1u64, |product, &dim| product.saturating_mul(u64::try_from(dim).unwrap_or(0)));
    let free = target.iter().filter(|&&dim| dim < 0).count();
    if free > 1 || known == 0 || (free == 0 && known != size) || !size.is_multiple_of(known) {
        return None;
    }
    Some(target.iter().map(|&dim| u64::try_from(dim).unwrap_or(size / known)).collect())
}

pub(super) fn reshape<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let target = cx.ints("target_shape")?;
    let size = brimful_core::model::product(shape.dims.get(1..).unwrap_or_default());
    let Some(dims) = resolve_target(&target, size) else {
        return cx.fail(format!("{} cannot be reshaped to {target:?}: the sizes differ", cx.show(&shape)));
    };
    let dims: Vec<u64> = [shape.dims[0]].into_iter().chain(dims).collect();
    let out = Shape::new(shape.batched, &dims);
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Reshape, &[x], out, dtype, &[])?))
}

pub(super) fn permute<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let dims = cx.ints("dims")?;
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    if dims.len() + 1 != shape.rank() || sorted.iter().zip(1i64..).any(|(&dim, at)| dim != at) {
        return cx.fail(format!("'dims' {dims:?} is not a permutation of the dimensions of {}", cx.show(&shape)));
    }
    let axes: Vec<usize> = [0].into_iter().chain(dims.iter().map(|&dim| dim as usize)).collect();
    let out = Shape { batched: shape.batched, dims: axes.iter().map(|&axis| shape.dims[axis]).collect() };
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Permute { axes }, &[x], out, dtype, &[])?))
}

pub(super) fn repeat_vector<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut shape = cx.shape_of_rank(x, 2)?;
    shape.dims.insert(1, cx.positive("n")?);
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Repeat, &[x], shape, dtype, &[])?))
}

/// Before and after each spatial dimension: `1`, `[1, 2]`, or `[[1, 2], [3, 4]]`. A flat list of a one-dimensional layer is
/// before and after; of others, it is the same on both sides of each dimension.
fn sides(cx: &Cx<'_, '_>, key: &str, rank: usize) -> Result<Vec<(u64, u64)>> {
    let wrong = || cx.error(format!("'{key}' should be whole numbers, before and after each dimension"));
    let number = |json: &Json| json.as_int().and_then(|number| u64::try_from(number).ok());
    let Some(json) = cx.get(key) else { return Ok(vec![(1, 1); rank]) };
    let pair = |json: &Json| match json {
        Json::Array(both) => match &both[..] {
            [before, after] => Some((number(before)?, number(after)?)),
            _ => None,
        },
        one => number(one).map(|number| (number, number)),
    };
    let sides = match json {
        Json::Array(_) if rank == 1 => match json.as_array() {
            Some([Json::Array(inner)]) => pair(&Json::Array(inner.clone())).map(|side| vec![side]),
            _ => pair(json).map(|side| vec![side]),
        },
        Json::Array(items) => items.iter().map(pair).collect::<Option<Vec<_>>>().filter(|sides| sides.len() == rank),
        one => pair(one).map(|side| vec![side; rank]),
    };
    sides.ok_or_else(wrong)
}

pub(super) fn cropping<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let mut shape = cx.shape_of_rank(x, rank + 2)?;
    let start = if cx.channels_first() { 2 } else { 1 };
    for (at, (before, after)) in sides(cx, "cropping", rank)?.into_iter().enumerate() {
        let size = shape.dims[start + at];
        let left = size.checked_sub(before.saturating_add(after)).filter(|&left| left > 0);
        let Some(left) = left else {
            return cx.fail(format!("its output would be empty: it crops {before} and {after} of {size}"));
        };
        shape.dims[start + at] = left;
    }
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Slice, &[x], shape, dtype, &[])?))
}

pub(super) fn zero_padding<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let mut shape = cx.shape_of_rank(x, rank + 2)?;
    let start = if cx.channels_first() { 2 } else { 1 };
    for (at, (before, after)) in sides(cx, "padding", rank)?.into_iter().enumerate() {
        shape.dims[start + at] = shape.dims[start + at].saturating_add(before).saturating_add(after);
    }
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Pad, &[x], shape, dtype, &[])?))
}

pub(super) fn up_sampling<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let mut shape = cx.shape_of_rank(x, rank + 2)?;
    let start = if cx.channels_first() { 2 } else { 1 };
    for (at, factor) in cx.sizes("size", rank, 2)?.into_iter().enumerate() {
        shape.dims[start + at] = shape.dims[start + at].saturating_mul(factor);
    }
    let interpolation = interpolation(cx.text("interpolation").unwrap_or("nearest"));
    let kind = OpKind::Resize { interpolation, integer_factor: true };
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(kind, &[x], shape, dtype, &[])?))
}

pub(in super::super) fn interpolation(name: &str) -> Interpolation {
    match name {
        "nearest" => Interpolation::Nearest,
        "bilinear" => Interpolation::Bilinear,
        _ => Interpolation::Other,
    }
}

//! Functions that move, cut, join or repeat values.

use brimful_core::model::{DType, OpKind, Shape, product};

use super::super::build::Hints;
use super::super::cx::Cx;
use super::super::json::Json;
use super::super::layers::{concatenated, interpolation, patches, resolve_target};
use super::super::value::Value;
use super::guess;
use super::math::constant_dims;
use crate::error::Result;

/// A one-input function's result, in the input's type.
fn moved<'d>(cx: &mut Cx<'_, 'd>, kind: OpKind, shape: Shape) -> Result<Value<'d>> {
    let x = cx.input()?;
    let dtype = cx.dtype(x);
    Ok(Value::Tensor(cx.op_to(kind, &[x], shape, dtype, &[])?))
}

pub(super) fn reshape<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let Some(Json::Array(items)) = cx.get("newshape") else { return guess(cx, hints) };
    let target: Vec<i64> = items.iter().map(|item| item.as_int().unwrap_or(-1)).collect();
    let elements = shape.elements();
    if !shape.batched {
        return match resolve_target(&target, elements) {
            Some(dims) => moved(cx, OpKind::Reshape, Shape::fixed(&dims)),
            None => guess(cx, hints),
        };
    }
    // null or -1 at the front stands for the batch; a -1 behind it takes what the batch leaves.
    let Some((&first, rest)) = target.split_first() else { return guess(cx, hints) };
    let known: u64 = rest.iter().filter(|&&dim| dim >= 0).fold(1, |all, &dim| all.saturating_mul(dim as u64));
    let free = rest.iter().filter(|&&dim| dim < 0).count();
    if first < 0 && free == 0 && known > 0 && elements.is_multiple_of(known) {
        let mut dims = vec![elements / known];
        dims.extend(rest.iter().map(|&dim| dim as u64));
        return moved(cx, OpKind::Reshape, Shape::new(true, &dims));
    }
    let batch = shape.dims[0];
    if first < 0
        && free == 1
        && let Some(dims) = resolve_target(rest, elements / batch.max(1))
    {
        let dims: Vec<u64> = [batch].into_iter().chain(dims).collect();
        return moved(cx, OpKind::Reshape, Shape::new(true, &dims));
    }
    guess(cx, hints)
}

pub(super) fn ravel<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let shape = cx.shape(cx.input()?);
    let out = Shape::new(shape.batched, &[shape.elements()]);
    moved(cx, OpKind::Reshape, out)
}

fn permuted<'d>(cx: &mut Cx<'_, 'd>, axes: Vec<usize>) -> Result<Value<'d>> {
    let shape = cx.shape(cx.input()?);
    // A batch that moves keeps multiplying the size: the mark stays, whatever stands first.
    let out = Shape { batched: shape.batched, dims: axes.iter().map(|&axis| shape.dims[axis]).collect() };
    let batch = cx.batch_axis(cx.input()?).and_then(|batch| axes.iter().position(|&axis| axis == batch));
    let value = moved(cx, OpKind::Permute { axes }, out)?;
    value.tensors().iter().for_each(|&tensor| cx.set_batch_axis(tensor, batch));
    Ok(value)
}

pub(super) fn transpose<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let rank = cx.shape(cx.input()?).rank();
    let axes = cx.ints("axes")?;
    if axes.is_empty() {
        return permuted(cx, (0..rank).rev().collect());
    }
    let axes = axes.into_iter().map(|axis| cx.axis(axis, rank)).collect::<Result<Vec<_>>>()?;
    if axes.len() != rank { guess(cx, hints) } else { permuted(cx, axes) }
}

pub(super) fn swap_axes<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let rank = cx.shape(cx.input()?).rank();
    let (a, b) = (cx.axis(cx.int("axis1", 0)?, rank)?, cx.axis(cx.int("axis2", 1)?, rank)?);
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(a, b);
    permuted(cx, axes)
}

pub(super) fn move_axis<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let rank = cx.shape(cx.input()?).rank();
    let sources = cx.ints("source")?.into_iter().map(|axis| cx.axis(axis, rank)).collect::<Result<Vec<_>>>()?;
    let targets = cx.ints("destination")?.into_iter().map(|axis| cx.axis(axis, rank)).collect::<Result<Vec<_>>>()?;
    if sources.len() != targets.len() {
        return guess(cx, hints);
    }
    let mut axes: Vec<usize> = (0..rank).filter(|axis| !sources.contains(axis)).collect();
    let mut pairs: Vec<(usize, usize)> = targets.into_iter().zip(sources).collect();
    pairs.sort_unstable();
    for (target, source) in pairs {
        axes.insert(target.min(axes.len()), source);
    }
    permuted(cx, axes)
}

pub(super) fn expand_dims<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let mut shape = cx.shape(cx.input()?);
    let axes = cx.ints("axis")?;
    let rank = shape.rank() + axes.len();
    let mut axes = axes.into_iter().map(|axis| cx.axis(axis, rank)).collect::<Result<Vec<_>>>()?;
    axes.sort_unstable();
    let mut batch = cx.batch_axis(cx.input()?);
    for axis in axes {
        shape.dims.insert(axis.min(shape.rank()), 1);
        batch = batch.map(|batch| batch + usize::from(axis <= batch));
    }
    let value = moved(cx, OpKind::Reshape, shape)?;
    value.tensors().iter().for_each(|&tensor| cx.set_batch_axis(tensor, batch));
    Ok(value)
}

pub(super) fn squeeze<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let shape = cx.shape(cx.input()?);
    let axes = cx.ints("axis")?.into_iter().map(|axis| cx.axis(axis, shape.rank())).collect::<Result<Vec<_>>>()?;
    let drop = |at: usize, dim: u64| {
        let batch = at == 0 && shape.batched;
        if axes.is_empty() { dim == 1 && !batch } else { axes.contains(&at) }
    };
    let kept = shape.dims.iter().enumerate().filter(|&(at, &dim)| !drop(at, dim));
    let dims: Vec<u64> = kept.map(|(_, &dim)| dim).collect();
    moved(cx, OpKind::Reshape, Shape::new(shape.batched, &dims))
}

pub(super) fn concatenate<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.args.tensors();
    let shapes: Vec<Shape> = inputs.iter().map(|&input| cx.shape(input)).collect();
    let Some(first) = shapes.first() else { return cx.fail("it is called without tensors") };
    let axis = cx.axis(cx.int("axis", 0)?, first.rank())?;
    let Some(shape) = concatenated(&shapes, axis) else { return guess(cx, hints) };
    Ok(Value::Tensor(cx.op(OpKind::Concat { axis }, &inputs, shape, &[])?))
}

pub(super) fn stack<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.args.tensors();
    let Some(&first) = inputs.first() else { return cx.fail("it is called without tensors") };
    let mut shape = cx.shape(first);
    let axis = cx.axis(cx.int("axis", 0)?, shape.rank() + 1)?;
    shape.dims.insert(axis, inputs.len() as u64);
    Ok(Value::Tensor(cx.op(OpKind::Concat { axis }, &inputs, shape, &[])?))
}

pub(super) fn unstack<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut shape = cx.shape(x);
    let axis = cx.axis(cx.int("axis", 0)?, shape.rank())?;
    if axis == 0 && shape.batched {
        return guess(cx, hints);
    }
    let count = shape.dims.remove(axis);
    parts(cx, vec![shape; usize::try_from(count.min(100_000)).unwrap_or(1)])
}

/// Several outputs of one split.
fn parts<'d>(cx: &mut Cx<'_, 'd>, shapes: Vec<Shape>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let dtype = cx.dtype(x);
    let results = shapes.into_iter().map(|shape| (shape, dtype)).collect();
    Ok(Value::list(&cx.op_many(OpKind::Split, &[x], results, &[])?))
}

pub(super) fn split<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let shape = cx.shape(cx.input()?);
    let axis = cx.axis(cx.int("axis", 0)?, shape.rank())?;
    let size = shape.dims[axis];
    let mut edges = Vec::new();
    match cx.get("indices_or_sections") {
        Some(Json::Array(items)) => {
            for item in items {
                let Some(edge) = item.as_int().and_then(|edge| u64::try_from(edge).ok()) else {
                    return guess(cx, hints);
                };
                edges.push(edge.min(size));
            }
        }
        Some(count) => {
            let count = count.as_int().and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
            if count == 0 || count > 100_000 || !size.is_multiple_of(count) {
                return cx.fail(format!("{size} cannot be split into {count} equal parts"));
            }
            edges.extend((1..count).map(|part| part * (size / count)));
        }
        None => return guess(cx, hints),
    }
    edges.push(size);
    let mut start = 0;
    let mut shapes = Vec::new();
    for edge in edges {
        let Some(length) = edge.checked_sub(start).filter(|&length| length > 0) else { return guess(cx, hints) };
        let mut part = shape.clone();
        part.dims[axis] = length;
        shapes.push(part);
        start = edge;
    }
    parts(cx, shapes)
}

/// `x[key]`: slices, indices, new axes and an ellipsis.
pub(super) fn get_item<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let shape = cx.shape(cx.input()?);
    let Some(key) = cx.args.get(1, "key").and_then(Value::constant) else { return guess(cx, hints) };
    let keys: Vec<&Json> = match key {
        Json::Array(items) => items.iter().collect(),
        one => vec![one],
    };
    match sliced(&shape, &keys) {
        Some(out) if out.dims.contains(&0) => cx.fail(format!("its output would be empty: {}", cx.show(&out))),
        Some(out) => moved(cx, OpKind::Slice, out),
        None => guess(cx, hints),
    }
}

fn sliced(shape: &Shape, keys: &[&Json]) -> Option<Shape> {
    let class = |key: &Json| key.get("class_name").and_then(Json::as_str).map(str::to_owned);
    let is_ellipsis = |key: &Json| class(key).as_deref() == Some("__ellipsis__");
    let taken = keys.iter().filter(|key| !key.is_null() && !is_ellipsis(key)).count();
    let mut out = Shape::new(shape.batched, &[]);
    let mut at = 0;
    for key in keys {
        if key.is_null() {
            out.dims.push(1);
        } else if is_ellipsis(key) {
            let covered = shape.rank().checked_sub(taken)?;
            out.dims.extend_from_slice(shape.dims.get(at..at + covered)?);
            at += covered;
        } else if key.as_int().is_some() {
            // One sample of a batch does not grow with it.
            out.batched &= at != 0;
            at += 1;
        } else if class(key).as_deref() == Some("__slice__") {
            let size = *shape.dims.get(at)?;
            let length = slice_length(key.get("config")?, size)?;
            let whole = ["start", "stop"]
                .iter()
                .all(|edge| key.get("config").and_then(|c| c.get(edge)).is_none_or(Json::is_null));
            if at == 0 && shape.batched {
                // A part of the batch: at most the number asked for.
                out.batched = whole;
                out.dims.push(if whole { size } else { stop(key.get("config")?)? });
            } else {
                out.dims.push(length);
            }
            at += 1;
        } else {
            return None;
        }
    }
    out.dims.extend_from_slice(shape.dims.get(at..)?);
    Some(out)
}

fn stop(slice: &Json) -> Option<u64> {
    slice.get("stop").and_then(Json::as_int).and_then(|stop| u64::try_from(stop).ok())
}

/// Elements that Python's `start:stop:step` takes of `size`.
fn slice_length(slice: &Json, size: u64) -> Option<u64> {
    let number = |key: &str| match slice.get(key) {
        None | Some(Json::Null) => Some(None),
        Some(json) => json.as_int().map(Some),
    };
    let size = i64::try_from(size).ok()?;
    let step = number("step")?.unwrap_or(1);
    if step == 0 {
        return None;
    }
    let clamp = |edge: i64, low: i64, high: i64| {
        let edge = if edge < 0 { edge.saturating_add(size) } else { edge };
        edge.clamp(low, high)
    };
    let (start, stop) = if step > 0 {
        (clamp(number("start")?.unwrap_or(0), 0, size), number("stop")?.map_or(size, |stop| clamp(stop, 0, size)))
    } else {
        (
            clamp(number("start")?.unwrap_or(size), -1, size - 1),
            number("stop")?.map_or(-1, |stop| clamp(stop, -1, size - 1)),
        )
    };
    let span = if step > 0 { stop - start } else { start - stop };
    u64::try_from(span.max(0)).ok().map(|span| span.div_ceil(step.unsigned_abs()))
}

/// Which parts are taken along an axis other than the first may be known beforehand; elsewhere the gradient is taken for that of a slice.
pub(super) fn take<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let Some(axis) = cx.get("axis").and_then(Json::as_int) else { return guess(cx, hints) };
    let axis = cx.axis(axis, shape.rank())?;
    let known = matches!(cx.args.get(1, "indices"), Some(Value::Const(_)));
    let (middle, batched) = match cx.args.get(1, "indices") {
        Some(Value::Tensor(indices)) => (cx.shape(*indices).dims.into_vec(), cx.shape(*indices).batched && axis == 0),
        Some(Value::Const(json)) => (constant_dims(json), false),
        _ => return guess(cx, hints),
    };
    let mut dims = shape.dims[..axis].to_vec();
    dims.extend(middle);
    dims.extend_from_slice(&shape.dims[axis + 1..]);
    let out = Shape::new(batched || (shape.batched && axis > 0), &dims);
    let inputs = cx.args.tensors();
    let dtype = cx.dtype(x);
    let kind = if known && axis > 0 { OpKind::Take { axis } } else { OpKind::Slice };
    Ok(Value::Tensor(cx.op_to(kind, &inputs, out, dtype, &[])?))
}

pub(super) fn take_along_axis<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let inputs = cx.args.tensors();
    let [_, indices] = inputs[..] else { return guess(cx, hints) };
    let (shape, dtype) = (cx.shape(x), cx.dtype(x));
    let mut out = cx.shape(indices);
    let axis = cx.get("axis").and_then(Json::as_int).map(|axis| cx.axis(axis, shape.rank())).transpose()?;
    let Some(axis) = axis.filter(|&axis| axis > 0 && shape.rank() == out.rank() && shape.batched == out.batched) else {
        return Ok(Value::Tensor(cx.op_to(OpKind::Slice, &inputs, out, dtype, &[])?));
    };
    for (at, dim) in out.dims.iter_mut().enumerate().filter(|&(at, _)| at != axis) {
        *dim = (*dim).max(shape.dims[at]);
    }
    Ok(Value::Tensor(cx.op_to(OpKind::TakeAlong { axis }, &inputs, out, dtype, &[])?))
}

pub(super) fn tile<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let mut shape = cx.shape(cx.input()?);
    let repeats = cx.ints("repeats")?;
    while shape.rank() < repeats.len() {
        shape.dims.insert(0, 1);
    }
    let offset = shape.rank() - repeats.len();
    for (at, repeat) in repeats.into_iter().enumerate() {
        shape.dims[offset + at] = shape.dims[offset + at].saturating_mul(u64::try_from(repeat).unwrap_or(0));
    }
    moved(cx, OpKind::Repeat, shape)
}

pub(super) fn repeat<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let mut shape = cx.shape(cx.input()?);
    let (Some(count), Some(axis)) = (cx.get("repeats").and_then(Json::as_int), cx.get("axis").and_then(Json::as_int))
    else {
        return guess(cx, hints);
    };
    let axis = cx.axis(axis, shape.rank())?;
    shape.dims[axis] = shape.dims[axis].saturating_mul(u64::try_from(count).unwrap_or(0));
    moved(cx, OpKind::Repeat, shape)
}

pub(super) fn broadcast_to<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let shape = cx.shape(cx.input()?);
    let Some(Json::Array(items)) = cx.get("shape") else { return guess(cx, hints) };
    let mut dims = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item {
            // The batch.
            Json::Null if at == 0 => dims.push(shape.dims.first().copied().unwrap_or(1)),
            item => match item.as_int().and_then(|dim| u64::try_from(dim).ok()) {
                Some(dim) => dims.push(dim),
                None => return guess(cx, hints),
            },
        }
    }
    let batched = shape.batched || items.first().is_some_and(Json::is_null);
    moved(cx, OpKind::Repeat, Shape::new(batched, &dims))
}

pub(super) fn pad<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let mut shape = cx.shape(cx.input()?);
    let rank = shape.rank();
    let number = |json: &Json| json.as_int().and_then(|side| u64::try_from(side).ok());
    let pair = |json: &Json| match json {
        Json::Array(both) => match &both[..] {
            [before, after] => Some(number(before)?.saturating_add(number(after)?)),
            [one] => number(one).map(|side| side.saturating_mul(2)),
            _ => None,
        },
        one => number(one).map(|side| side.saturating_mul(2)),
    };
    let sides: Option<Vec<u64>> = match cx.get("pad_width") {
        Some(Json::Array(items)) if items.len() == rank && items.iter().all(|item| item.as_array().is_some()) => {
            items.iter().map(pair).collect()
        }
        Some(Json::Array(items)) if items.len() == 1 => pair(&items[0]).map(|side| vec![side; rank]),
        Some(other) => pair(other).map(|side| vec![side; rank]),
        None => None,
    };
    let Some(sides) = sides else { return guess(cx, hints) };
    for (dim, side) in shape.dims.iter_mut().zip(sides) {
        *dim = dim.saturating_add(side);
    }
    moved(cx, OpKind::Pad, shape)
}

/// One kernel writes its result; it takes numbers of 64 bits.
pub(super) fn one_hot<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let x = cx.cast(x, DType::Int64)?;
    let mut shape = cx.shape(x);
    let classes = cx.positive("num_classes")?;
    let axis = cx.axis(cx.int("axis", -1)?, shape.rank() + 1)?;
    shape.dims.insert(axis, classes);
    let dtype = cx.text("dtype").and_then(DType::parse).unwrap_or(DType::Float32);
    Ok(Value::Tensor(cx.op_to(OpKind::Preprocess { live_copies: 0, training_only: false }, &[x], shape, dtype, &[])?))
}

pub(super) fn resize<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let mut shape = cx.shape(cx.input()?);
    let size = cx.ints("size")?;
    let [height, width] = size[..] else { return guess(cx, hints) };
    let (Ok(height), Ok(width)) = (u64::try_from(height), u64::try_from(width)) else { return guess(cx, hints) };
    if shape.rank() != 4 {
        return guess(cx, hints);
    }
    let start = if cx.channels_first() { 2 } else { 1 };
    let before = product(&shape.dims[start..start + 2]);
    let integer_factor = before > 0 && height % shape.dims[start] == 0 && width % shape.dims[start + 1] == 0;
    shape.dims[start] = height;
    shape.dims[start + 1] = width;
    let interpolation = interpolation(cx.text("interpolation").unwrap_or("bilinear"));
    moved(cx, OpKind::Resize { interpolation, integer_factor }, shape)
}

pub(super) fn extract_patches<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    match patches(cx)? {
        Some(value) => Ok(value),
        None => guess(cx, hints),
    }
}

/// Channels become places, as pictures are made larger by learnt pixels.
pub(super) fn depth_to_space<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    blocks(cx, hints, |size, block| size.checked_mul(block), |channels, places| channels.checked_div(places))
}

/// Places become channels.
pub(super) fn space_to_depth<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    blocks(cx, hints, |size, block| size.checked_div(block), |channels, places| channels.checked_mul(places))
}

fn blocks<'d>(
    cx: &mut Cx<'_, 'd>,
    hints: Hints<'d>,
    side: fn(u64, u64) -> Option<u64>,
    depth: fn(u64, u64) -> Option<u64>,
) -> Result<Value<'d>> {
    let mut shape = cx.shape(cx.input()?);
    let block = cx.positive("block_size")?;
    if shape.rank() != 4 {
        return guess(cx, hints);
    }
    let elements = shape.elements();
    let (first, channel) = if cx.channels_first() { (2, 1) } else { (1, 3) };
    for at in [first, first + 1] {
        let Some(size) = side(shape.dims[at], block) else { return guess(cx, hints) };
        shape.dims[at] = size;
    }
    let Some(channels) = depth(shape.dims[channel], block.saturating_mul(block)) else { return guess(cx, hints) };
    shape.dims[channel] = channels;
    if shape.elements() != elements {
        return cx.fail(format!("blocks of {block} do not divide {}", cx.show(&cx.shape(cx.input()?))));
    }
    // A copy in another order, within each sample.
    moved(cx, OpKind::Permute { axes: vec![0, 2, 1, 3] }, shape)
}

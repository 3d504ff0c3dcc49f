//! Pooling over windows, over all positions, and to a given size.

use brimful_core::model::{OpKind, Padding, Pool, PoolKind, Shape, TensorId};

use super::super::build::Hints;
use super::super::cx::Cx;
use super::super::value::Value;
use super::conv::{out_size, padding, rank};
use crate::error::Result;

fn windows<'d>(cx: &mut Cx<'_, 'd>, kind: PoolKind) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let mut shape = cx.shape_of_rank(x, rank + 2)?;
    let channels_first = cx.channels_first();
    let window = cx.sizes("pool_size", rank, 2)?;
    let strides = if cx.has("strides") { cx.sizes("strides", rank, 1)? } else { window.clone() };
    let padding = padding(cx)?;
    let start = if channels_first { 2 } else { 1 };
    for at in 0..rank {
        let size = shape.dims[start + at];
        let Some(out) = out_size(size, window[at], strides[at], 1, padding) else {
            let shape = cx.show(&shape);
            return cx.fail(format!(
                "its output would be empty: a window of {} does not fit into {size} of {shape}",
                window[at]
            ));
        };
        shape.dims[start + at] = out;
    }
    let pool = Pool { kind, window, strides, padding, channels_first };
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Pool(pool), &[x], shape, dtype, &[])?))
}

pub(super) fn max<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    windows(cx, PoolKind::Max)
}

pub(super) fn average<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    windows(cx, PoolKind::Average)
}

fn global<'d>(cx: &mut Cx<'_, 'd>, kind: PoolKind) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let shape = cx.shape_of_rank(x, rank + 2)?;
    let channels_first = cx.channels_first();
    let channels = if channels_first { shape.dims[1] } else { shape.last() };
    let mut dims = vec![shape.dims[0]];
    match (cx.flag("keepdims", false), channels_first) {
        (false, _) => dims.push(channels),
        (true, true) => {
            dims.push(channels);
            dims.extend(vec![1; rank]);
        }
        (true, false) => {
            dims.extend(vec![1; rank]);
            dims.push(channels);
        }
    }
    let out = Shape::new(shape.batched, &dims);
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::GlobalPool { kind, channels_first }, &[x], out, dtype, &[])?))
}

pub(super) fn global_max<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    global(cx, PoolKind::Max)
}

pub(super) fn global_average<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    global(cx, PoolKind::Average)
}

/// Pooling to a size, one dimension after the other and always in the same way, whether or not the size divides the input: over
/// windows of two lengths, step by step, put one behind the other, of which the wanted ones are picked
/// (keras/src/backend/tensorflow/nn.py, `_adaptive_average_pool2d` and its like). Channels that come first are put last meanwhile.
pub(super) fn adaptive<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let mut shape = cx.shape_of_rank(x, rank + 2)?;
    let sizes = cx.sizes("output_size", rank, 1)?;
    let kind = if cx.def.class.contains("Max") { PoolKind::Max } else { PoolKind::Average };
    let channels_first = cx.channels_first();
    let mut value = x;
    if channels_first {
        let axes: Vec<usize> = std::iter::once(0).chain(2..rank + 2).chain([1]).collect();
        (value, shape) = permuted(cx, value, &shape, axes)?;
    }
    for (at, &size) in sizes.iter().enumerate() {
        (value, shape) = adapted(cx, kind, value, &shape, [at, rank], size)?;
    }
    if channels_first {
        let axes: Vec<usize> = [0, rank + 1].into_iter().chain(1..rank + 1).collect();
        (value, _) = permuted(cx, value, &shape, axes)?;
    }
    Ok(Value::Tensor(value))
}

/// One spatial dimension, the `at`-th of `rank`, pooled to `size`. The longer windows are left out where they are longer than the
/// input, which is where the size is 1: TensorFlow fails there, other frameworks pool once.
fn adapted(
    cx: &mut Cx<'_, '_>,
    kind: PoolKind,
    x: TensorId,
    shape: &Shape,
    [at, rank]: [usize; 2],
    size: u64,
) -> Result<(TensorId, Shape)> {
    let (axis, dtype) = (at + 1, cx.result_type(x));
    let length = shape.dims[axis];
    let short = length.div_ceil(size);
    let mut pooled = Vec::with_capacity(2);
    let mut joined = shape.clone();
    joined.dims[axis] = 0;
    for long in [short, short + 1].into_iter().filter(|&long| long <= length) {
        let mut window = vec![1; rank];
        window[at] = long;
        let pool = Pool { kind, window, strides: vec![1; rank], padding: Padding::Valid, channels_first: false };
        let mut out = shape.clone();
        out.dims[axis] = length - long + 1;
        joined.dims[axis] = joined.dims[axis].saturating_add(out.dims[axis]);
        pooled.push(cx.op_to(OpKind::Pool(pool), &[x], out, dtype, &[])?);
    }
    let mut picked = shape.clone();
    picked.dims[axis] = size;
    let [_, _] = pooled[..] else { return Ok((pooled[0], picked)) };
    let all = cx.op_to(OpKind::Concat { axis }, &pooled, joined, dtype, &[])?;
    Ok((cx.op_to(OpKind::Take { axis }, &[all], picked.clone(), dtype, &[])?, picked))
}

fn permuted(cx: &mut Cx<'_, '_>, x: TensorId, shape: &Shape, axes: Vec<usize>) -> Result<(TensorId, Shape)> {
    let dims: Vec<u64> = axes.iter().map(|&axis| shape.dims[axis]).collect();
    let (out, dtype) = (Shape::new(shape.batched, &dims), cx.result_type(x));
    Ok((cx.op_to(OpKind::Permute { axes }, &[x], out.clone(), dtype, &[])?, out))
}

#[cfg(test)]
mod tests {
    use brimful_core::model::Model;

    use super::*;

    fn pooled(class: &str, data_format: &str, input: &str, size: &str) -> Model {
        let layers = format!(
            r#"{{"class_name": "InputLayer", "config": {{"batch_shape": {input}, "dtype": "float32", "name": "in"}}}},
               {{"class_name": "{class}", "config": {{"name": "p", "output_size": {size}, "data_format": "{data_format}"}}}}"#
        );
        let json = format!(r#"{{"class_name": "Sequential", "config": {{"name": "s", "layers": [{layers}]}}}}"#);
        crate::read(json.as_bytes()).unwrap().model(&crate::Options::default()).unwrap()
    }

    /// The shapes of what the ops make, and the windows of the pools.
    fn made(model: &Model) -> (Vec<&[u64]>, Vec<&[u64]>) {
        let shapes = model.ops.iter().map(|op| &model.tensor(op.outputs[0]).shape.dims[..]).collect();
        let windows = model.ops.iter().filter_map(|op| match &op.kind {
            OpKind::Pool(pool) => Some(&pool.window[..]),
            _ => None,
        });
        (shapes, windows.collect())
    }

    #[test]
    fn a_size_is_reached_through_windows_of_two_lengths_in_each_dimension() {
        for class in ["AdaptiveAveragePooling2D", "AdaptiveMaxPooling2D"] {
            let model = pooled(class, "channels_last", "[null, 9, 12, 3]", "[4, 6]");
            let (shapes, windows) = made(&model);
            assert_eq!(windows, [[3, 1], [4, 1], [1, 2], [1, 3]]);
            let rows = [[1, 7, 12, 3], [1, 6, 12, 3], [1, 13, 12, 3], [1, 4, 12, 3]];
            let columns = [[1, 4, 11, 3], [1, 4, 10, 3], [1, 4, 21, 3], [1, 4, 6, 3]];
            assert_eq!(shapes, [rows, columns].concat());
        }
    }

    #[test]
    fn channels_that_come_first_are_put_last_meanwhile() {
        let model = pooled("AdaptiveMaxPooling1D", "channels_first", "[null, 5, 8]", "4");
        let (shapes, windows) = made(&model);
        assert_eq!(windows, [[2], [3]]);
        assert_eq!(shapes, [[1, 8, 5], [1, 7, 5], [1, 6, 5], [1, 13, 5], [1, 4, 5], [1, 5, 4]]);
    }

    #[test]
    fn a_size_of_one_is_a_single_window() {
        let model = pooled("AdaptiveAveragePooling3D", "channels_last", "[null, 6, 4, 4, 2]", "[1, 1, 1]");
        let (shapes, windows) = made(&model);
        assert_eq!(windows, [[6, 1, 1], [1, 4, 1], [1, 1, 4]]);
        assert_eq!(shapes.last(), Some(&&[1, 1, 1, 1, 2][..]));
    }
}

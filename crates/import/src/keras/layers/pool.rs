//! Pooling over windows, over all positions, and to a given size.

use brimful_core::model::{OpKind, Pool, PoolKind, Shape};

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

/// Pooling to a size: the windows are those that divide the input evenly.
pub(super) fn adaptive<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rank = rank(&cx.def.class);
    let mut shape = cx.shape_of_rank(x, rank + 2)?;
    let channels_first = cx.channels_first();
    let sizes = cx.sizes("output_size", rank, 1)?;
    let start = if channels_first { 2 } else { 1 };
    let kind = if cx.def.class.contains("Max") { PoolKind::Max } else { PoolKind::Average };
    let window: Vec<u64> = (0..rank).map(|at| shape.dims[start + at].div_ceil(sizes[at])).collect();
    shape.dims[start..start + rank].copy_from_slice(&sizes);
    let padding = brimful_core::model::Padding::Valid;
    let pool = Pool { kind, strides: window.clone(), window, padding, channels_first };
    let dtype = cx.result_type(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Pool(pool), &[x], shape, dtype, &[])?))
}

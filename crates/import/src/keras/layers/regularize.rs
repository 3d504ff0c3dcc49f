//! Dropout, noise and penalties on activations: identities at inference.

use brimful_core::model::{OpKind, Penalty, Shape};

use super::super::build::Hints;
use super::super::config;
use super::super::cx::Cx;
use super::super::value::Value;
use crate::error::Result;

pub(super) fn dropout<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rate = cx.share("rate")?;
    if rate > 0.0 {
        cx.seed()?;
    }
    // A noise shape broadcasts the mask over the dimensions where it has 1.
    let mask_elements = match cx.get("noise_shape").and_then(config::shape) {
        Some(noise) => {
            let shape = cx.shape(x);
            let size = |(at, dim): (usize, &u64)| noise.get(at).copied().flatten().unwrap_or(*dim);
            let elements = shape.dims.iter().enumerate().map(size).fold(1u64, u64::saturating_mul);
            Some(elements)
        }
        None => None,
    };
    Ok(Value::Tensor(cx.same(OpKind::Dropout { rate, mask_elements }, x)?))
}

pub(super) fn spatial_dropout<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let rate = cx.share("rate")?;
    if rate > 0.0 {
        cx.seed()?;
    }
    let rank = super::conv::rank(&cx.def.class);
    let shape = cx.shape_of_rank(x, rank + 2)?;
    let channels = if cx.channels_first() { shape.dims[1] } else { shape.last() };
    let mask_elements = Some(shape.dims[0].saturating_mul(channels));
    Ok(Value::Tensor(cx.same(OpKind::Dropout { rate, mask_elements }, x)?))
}

/// A layer of noise, or an identity if its strength is 0.
fn noise<'d>(cx: &mut Cx<'_, 'd>, strength: &str, multiplicative: bool, masked: bool) -> Result<Value<'d>> {
    let x = cx.input()?;
    if cx.share(strength)? == 0.0 {
        return Ok(Value::Tensor(cx.same(OpKind::Identity, x)?));
    }
    cx.seed()?;
    Ok(Value::Tensor(cx.same(OpKind::Noise { multiplicative, masked }, x)?))
}

pub(super) fn alpha_dropout<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    noise(cx, "rate", true, true)
}

pub(super) fn gaussian_dropout<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    noise(cx, "rate", true, false)
}

pub(super) fn gaussian_noise<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    noise(cx, "stddev", false, false)
}

pub(super) fn activity<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let y = cx.same(OpKind::Identity, x)?;
    let penalty =
        Penalty { sizes: cx.float("l1", 0.0)? != 0.0, squares: cx.float("l2", 0.0)? != 0.0, right_angles: None };
    cx.op(OpKind::ActivityRegularization(penalty), &[y], Shape::fixed(&[]), &[])?;
    Ok(Value::Tensor(y))
}

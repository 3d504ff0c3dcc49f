//! Layers that `keras.applications` defines for itself: they are in saved models, but not in `keras.layers`.

use brimful_core::model::{Merge, OpKind};

use super::super::build::Hints;
use super::super::cx::{Cx, WeightKind};
use super::super::value::Value;
use crate::error::Result;

/// ConvNeXt: the input times a weight for each channel.
pub(super) fn layer_scale<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let gamma = cx.weight("gamma", &[cx.positive("projection_dim")?], WeightKind::Trainable(None))?;
    // The weight's gradient reads the input.
    Ok(Value::Tensor(cx.op(OpKind::Elementwise { steps: 1, saved: 1 }, &[x], shape, &[gamma])?))
}

/// ConvNeXt: whole samples dropped; one random number each.
pub(super) fn stochastic_depth<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    // divide, multiply; the numbers have no gradient, so nothing of the image's size is read again
    Ok(Value::Tensor(cx.same(OpKind::Elementwise { steps: 2, saved: 0 }, x)?))
}

/// Inception-ResNet: a branch scaled by a constant and added.
pub(super) fn custom_scale<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.inputs();
    let [trunk, branch] = inputs[..] else {
        return cx.fail(format!("it takes 2 tensors and is given {}", inputs.len()));
    };
    let scaled = cx.same(OpKind::Elementwise { steps: 1, saved: 0 }, branch)?;
    let shape = cx.shape(trunk);
    Ok(Value::Tensor(cx.op(OpKind::Merge(Merge::Add), &[trunk, scaled], shape, &[])?))
}

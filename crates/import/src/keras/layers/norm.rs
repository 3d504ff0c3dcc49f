//! Normalizations.
//!
//! Not counted: batch renormalization's extra arithmetic (its weights are).

use brimful_core::model::{Norm, NormKind, OpKind};

use super::super::build::Hints;
use super::super::config::Kind;
use super::super::cx::{Cx, WeightKind};
use super::super::value::Value;
use crate::error::Result;

pub(super) fn batch<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    // Keras 2 wrote the axis as a list of one.
    let axis = cx.ints("axis")?.first().copied().unwrap_or(-1);
    let axis = cx.axis(axis, shape.rank())?;
    let size = [shape.dims[axis]];
    let (scale, center) = (cx.flag("scale", true), cx.flag("center", true));
    let mut weights = Vec::new();
    if scale {
        weights.push(cx.weight("gamma", &size, WeightKind::Trainable(Some("gamma_regularizer")))?);
    }
    if center {
        weights.push(cx.weight("beta", &size, WeightKind::Trainable(Some("beta_regularizer")))?);
    }
    weights.push(cx.weight("moving_mean", &size, WeightKind::State)?);
    weights.push(cx.weight("moving_variance", &size, WeightKind::State)?);
    if cx.flag("renorm", false) {
        for name in ["moving_stddev", "renorm_mean", "renorm_stddev"] {
            cx.weight(name, &size, WeightKind::State)?;
        }
    }
    let norm = Norm { kind: NormKind::Batch, scale, center, axis, trainable: cx.trainable };
    Ok(Value::Tensor(cx.op(OpKind::Norm(norm), &[x], shape, &weights)?))
}

/// The normalized axes, sorted, and their sizes.
fn axes(cx: &Cx<'_, '_>, dims: &[u64]) -> Result<(usize, Vec<u64>)> {
    let mut axes = cx.ints("axis")?;
    if axes.is_empty() {
        axes.push(-1);
    }
    let mut axes = axes.into_iter().map(|axis| cx.axis(axis, dims.len())).collect::<Result<Vec<_>>>()?;
    axes.sort_unstable();
    Ok((axes[0], axes.iter().map(|&axis| dims[axis]).collect()))
}

pub(super) fn layer<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let (axis, size) = axes(cx, &shape.dims)?;
    let rms = cx.flag("rms_scaling", false);
    let (scale, center) = (cx.flag("scale", true) || rms, cx.flag("center", true) && !rms);
    let mut weights = Vec::new();
    if scale {
        weights.push(cx.weight("gamma", &size, WeightKind::Trainable(Some("gamma_regularizer")))?);
    }
    if center {
        weights.push(cx.weight("beta", &size, WeightKind::Trainable(Some("beta_regularizer")))?);
    }
    let kind = if rms { NormKind::Rms } else { NormKind::Layer };
    let norm = Norm { kind, scale, center, axis, trainable: cx.trainable };
    Ok(Value::Tensor(cx.op(OpKind::Norm(norm), &[x], shape, &weights)?))
}

pub(super) fn group<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let axis = cx.axis(cx.int("axis", -1)?, shape.rank())?;
    let channels = shape.dims[axis];
    let groups = match cx.int("groups", 32)? {
        // Each channel is a group: instance normalization.
        -1 => channels,
        groups => match u64::try_from(groups) {
            Ok(groups) if groups > 0 && channels.is_multiple_of(groups) => groups,
            _ => return cx.fail(format!("{channels} channels cannot be divided into {groups} groups")),
        },
    };
    let (scale, center) = (cx.flag("scale", true), cx.flag("center", true));
    let mut weights = Vec::new();
    if scale {
        weights.push(cx.weight("gamma", &[channels], WeightKind::Trainable(Some("gamma_regularizer")))?);
    }
    if center {
        weights.push(cx.weight("beta", &[channels], WeightKind::Trainable(Some("beta_regularizer")))?);
    }
    let norm = Norm { kind: NormKind::Group { groups }, scale, center, axis, trainable: cx.trainable };
    // The layer does not cast its input, and gives back what it was given.
    let dtype = cx.dtype(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Norm(norm), &[x], shape, dtype, &weights)?))
}

pub(super) fn rms<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let (axis, size) = axes(cx, &shape.dims)?;
    let gamma = cx.weight("scale", &size, WeightKind::Trainable(None))?;
    let norm = Norm { kind: NormKind::Rms, scale: true, center: false, axis, trainable: cx.trainable };
    Ok(Value::Tensor(cx.op(OpKind::Norm(norm), &[x], shape, &[gamma])?))
}

pub(super) fn unit<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let (axis, _) = axes(cx, &shape.dims)?;
    let norm = Norm { kind: NormKind::Unit, scale: false, center: false, axis, trainable: cx.trainable };
    Ok(Value::Tensor(cx.op(OpKind::Norm(norm), &[x], shape, &[])?))
}

/// Divides the wrapped layer's kernel by its largest singular value before the layer runs, and stores the result: memory
/// of the kernel's size, none of the batch's.
pub(super) fn spectral<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let def = cx.inner("layer")?;
    let args = std::mem::take(&mut cx.args);
    let Kind::Layer(entry) = &def.kind else { return cx.fail("it wraps a layer that is not Keras's own") };
    let mut inner = cx.sub(def, &def.name, args);
    let before = inner.builder.model.ops.len();
    let value = inner.call_layer(entry, true, Hints { net: None, call: None, recorded: hints.recorded })?;
    let layer = inner.layer;
    let kernel = cx.builder.model.weights.iter().position(|weight| {
        weight.layer == layer && ["kernel", "embeddings", "depthwise_kernel"].contains(&weight.name.as_str())
    });
    let Some(kernel) = kernel else { return cx.fail("the wrapped layer has no kernel") };
    let last = cx.builder.model.weights[kernel].dims.last().copied().unwrap_or(1);
    let vector = cx.weight("vector_u", &[1, last], WeightKind::State)?;
    let norm = Norm { kind: NormKind::Spectral, scale: false, center: false, axis: 0, trainable: cx.trainable };
    let dims = cx.builder.model.weights[kernel].dims.clone();
    let dtype = cx.policy.variable;
    let shape = brimful_core::model::Shape::fixed(&dims);
    let kernel = brimful_core::model::WeightId(kernel as u32);
    cx.op_to(OpKind::Norm(norm), &[], shape, dtype, &[kernel, vector])?;
    // Keras normalizes before it calls the layer: the op goes before the layer's.
    cx.builder.model.ops[before..].rotate_right(1);
    Ok(value)
}

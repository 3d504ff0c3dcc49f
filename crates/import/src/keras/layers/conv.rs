//! Convolutions of one to three dimensions: plain, transposed, depthwise, separable.

use brimful_core::model::{Conv, OpKind, Padding, Shape, TensorId, WeightId};

use super::super::build::Hints;
use super::super::cx::{Cx, WeightKind};
use super::super::value::Value;
use super::core::{adapted, factors};
use crate::error::Result;

/// What all convolutions have.
pub(super) struct Geometry {
    pub(super) input: Shape,
    pub(super) channels: u64,
    pub(super) conv: Conv,
}

/// Spatial dimensions, from the digit in the class's name.
pub(super) fn rank(class: &str) -> usize {
    class.chars().find(char::is_ascii_digit).and_then(|digit| digit.to_digit(10)).unwrap_or(2) as usize
}

/// Reads the geometry for an input.
pub(super) fn geometry(cx: &Cx<'_, '_>, input: Shape) -> Result<Geometry> {
    let rank = rank(&cx.def.class);
    if input.rank() != rank + 2 {
        return cx.fail(format!("it takes {} dimensions and is given {}", rank + 2, cx.show(&input)));
    }
    let channels_first = cx.channels_first();
    let channels = if channels_first { input.dims[1] } else { input.last() };
    let conv = Conv {
        kernel: cx.sizes("kernel_size", rank, 1)?,
        strides: cx.sizes("strides", rank, 1)?,
        dilation: cx.sizes("dilation_rate", rank, 1)?,
        padding: padding(cx)?,
        groups: 1,
        depthwise: false,
        transposed: false,
        channels_first,
    };
    if conv.strides.iter().any(|&stride| stride > 1) && conv.dilation.iter().any(|&dilation| dilation > 1) {
        return cx.fail("strides and dilation_rate cannot both be larger than 1");
    }
    Ok(Geometry { input, channels, conv })
}

/// Patches of pictures, which Keras cuts out by a convolution with ones and zeros (keras/src/ops/image.py, `_extract_patches_2d`): that filter is a
/// constant. `None` for anything but pictures.
pub(in crate::keras) fn patches<'d>(cx: &mut Cx<'_, 'd>) -> Result<Option<Value<'d>>> {
    let x = cx.input()?;
    let input = cx.shape(x);
    if input.rank() != 4 || !input.batched || cx.ints("size")?.len() > 2 {
        return Ok(None);
    }
    let kernel = cx.sizes("size", 2, 1)?;
    let strides = if cx.has("strides") { cx.sizes("strides", 2, 1)? } else { kernel.clone() };
    let channels_first = cx.channels_first();
    let channels = if channels_first { input.dims[1] } else { input.last() };
    let filters = kernel.iter().fold(channels, |filters, &size| filters.saturating_mul(size));
    let dilation = cx.sizes("dilation_rate", 2, 1)?;
    let (padding, dtype) = (padding(cx)?, cx.dtype(x));
    let conv =
        Conv { kernel, strides, dilation, padding, groups: 1, depthwise: false, transposed: false, channels_first };
    let geometry = Geometry { input, channels, conv };
    let out = geometry.output(cx, filters)?;
    Ok(Some(Value::Tensor(cx.op_to(OpKind::Conv(geometry.conv), &[x], out, dtype, &[])?)))
}

pub(super) fn padding(cx: &Cx<'_, '_>) -> Result<Padding> {
    Ok(match cx.text("padding") {
        None | Some("valid") => Padding::Valid,
        Some("same") => Padding::Same,
        Some("causal") => Padding::Causal,
        Some(other) => return cx.fail(format!("'{other}' is not a padding; use valid, same or causal")),
    })
}

impl Geometry {
    /// The shape with these spatial sizes and channels.
    fn shaped(&self, spatial: &[u64], channels: u64) -> Shape {
        let mut dims = vec![self.input.dims[0]];
        if self.conv.channels_first {
            dims.push(channels);
            dims.extend_from_slice(spatial);
        } else {
            dims.extend_from_slice(spatial);
            dims.push(channels);
        }
        Shape::new(self.input.batched, &dims)
    }

    pub(super) fn spatial(&self) -> &[u64] {
        let rank = self.conv.kernel.len();
        let start = if self.conv.channels_first { 2 } else { 1 };
        &self.input.dims[start..start + rank]
    }

    /// The output of a convolution with this many channels.
    pub(super) fn output(&self, cx: &Cx<'_, '_>, channels: u64) -> Result<Shape> {
        let mut sizes = Vec::new();
        for (at, &size) in self.spatial().iter().enumerate() {
            let Some(out) =
                out_size(size, self.conv.kernel[at], self.conv.strides[at], self.conv.dilation[at], self.conv.padding)
            else {
                let kernel = (self.conv.kernel[at] - 1).saturating_mul(self.conv.dilation[at]).saturating_add(1);
                return cx.fail(format!(
                    "its output would be empty: a window of {kernel} does not fit into {size} of {}",
                    cx.show(&self.input)
                ));
            };
            sizes.push(out);
        }
        Ok(self.shaped(&sizes, channels))
    }
}

/// The size after a window slides over `size`; `None` if it does not fit.
pub(super) fn out_size(size: u64, window: u64, stride: u64, dilation: u64, padding: Padding) -> Option<u64> {
    match padding {
        Padding::Valid => {
            let window = (window - 1).saturating_mul(dilation).saturating_add(1);
            Some(size.checked_sub(window)? / stride + 1)
        }
        Padding::Same | Padding::Causal => Some(size.checked_sub(1)? / stride + 1),
    }
}

/// Kernel and bias, and the op. Kernel dimensions follow the window's.
fn finish(
    cx: &mut Cx<'_, '_>,
    x: TensorId,
    conv: Conv,
    tail: [u64; 2],
    regularizer: &str,
    out: Shape,
    filters: u64,
) -> Result<TensorId> {
    let mut kernel = conv.kernel.clone();
    kernel.extend_from_slice(&tail);
    let mut weights = vec![adapted(cx, "kernel", &kernel, regularizer)?];
    weights.extend(bias(cx, filters)?);
    factors(cx, "kernel", &kernel)?;
    let y = cx.op(OpKind::Conv(conv), &[x], out, &weights)?;
    cx.activate("activation", y)
}

fn bias(cx: &mut Cx<'_, '_>, filters: u64) -> Result<Option<WeightId>> {
    if !cx.flag("use_bias", true) {
        return Ok(None);
    }
    cx.weight("bias", &[filters], WeightKind::Trainable(Some("bias_regularizer"))).map(Some)
}

pub(super) fn conv<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut geometry = geometry(cx, cx.shape(x))?;
    let filters = cx.positive("filters")?;
    let groups = cx.optional_positive("groups")?.unwrap_or(1);
    if filters % groups != 0 || geometry.channels % groups != 0 {
        let channels = geometry.channels;
        return cx
            .fail(format!("{channels} input channels and {filters} filters cannot be divided into {groups} groups"));
    }
    geometry.conv.groups = groups;
    let out = geometry.output(cx, filters)?;
    let tail = [geometry.channels / groups, filters];
    Ok(Value::Tensor(finish(cx, x, geometry.conv, tail, "kernel_regularizer", out, filters)?))
}

pub(super) fn transposed<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut geometry = geometry(cx, cx.shape(x))?;
    let filters = cx.positive("filters")?;
    geometry.conv.transposed = true;
    let extra = cx.ints("output_padding")?;
    let mut sizes = Vec::new();
    for (at, &size) in geometry.spatial().iter().enumerate() {
        let (stride, kernel) = (geometry.conv.strides[at], geometry.conv.kernel[at]);
        let window = (kernel - 1).saturating_mul(geometry.conv.dilation[at]).saturating_add(1);
        let extra = extra.get(at).or(extra.first()).map(|&extra| u64::try_from(extra).unwrap_or(0));
        let spread = (size - 1).saturating_mul(stride);
        sizes.push(match (geometry.conv.padding, extra) {
            (Padding::Valid, None) => spread.saturating_add(window.max(stride)),
            (Padding::Valid, Some(extra)) => spread.saturating_add(window).saturating_add(extra),
            (_, None) => size.saturating_mul(stride),
            (_, Some(extra)) => spread.saturating_add(window % 2).saturating_add(extra),
        });
    }
    let out = geometry.shaped(&sizes, filters);
    let tail = [filters, geometry.channels];
    Ok(Value::Tensor(finish(cx, x, geometry.conv, tail, "kernel_regularizer", out, filters)?))
}

pub(super) fn depthwise<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut geometry = geometry(cx, cx.shape(x))?;
    let multiplier = cx.optional_positive("depth_multiplier")?.unwrap_or(1);
    let filters = geometry.channels.saturating_mul(multiplier);
    geometry.conv.depthwise = true;
    geometry.conv.groups = geometry.channels;
    let out = geometry.output(cx, filters)?;
    let tail = [geometry.channels, multiplier];
    Ok(Value::Tensor(finish(cx, x, geometry.conv, tail, "depthwise_regularizer", out, filters)?))
}

/// Two ops: a depthwise convolution, then a pointwise one that carries the bias.
pub(super) fn separable<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut geometry = geometry(cx, cx.shape(x))?;
    let filters = cx.positive("filters")?;
    let multiplier = cx.optional_positive("depth_multiplier")?.unwrap_or(1);
    let middle = geometry.channels.saturating_mul(multiplier);
    geometry.conv.depthwise = true;
    geometry.conv.groups = geometry.channels;
    let between = geometry.output(cx, middle)?;
    let rank = geometry.conv.kernel.len();
    let mut kernel = geometry.conv.kernel.clone();
    kernel.extend_from_slice(&[geometry.channels, multiplier]);
    let depth = cx.weight("depthwise_kernel", &kernel, WeightKind::Trainable(Some("depthwise_regularizer")))?;
    let mut point = vec![1; rank];
    point.extend_from_slice(&[middle, filters]);
    let mut weights =
        vec![cx.weight("pointwise_kernel", &point, WeightKind::Trainable(Some("pointwise_regularizer")))?];
    weights.extend(bias(cx, filters)?);
    let pointwise = Conv {
        kernel: vec![1; rank],
        strides: vec![1; rank],
        dilation: vec![1; rank],
        padding: Padding::Valid,
        groups: 1,
        depthwise: false,
        transposed: false,
        channels_first: geometry.conv.channels_first,
    };
    let mut out = between.clone();
    let channel_axis = if geometry.conv.channels_first { 1 } else { out.dims.len() - 1 };
    out.dims[channel_axis] = filters;
    let y = cx.op(OpKind::Conv(geometry.conv), &[x], between, &[depth])?;
    let y = cx.op(OpKind::Conv(pointwise), &[y], out, &weights)?;
    Ok(Value::Tensor(cx.activate("activation", y)?))
}

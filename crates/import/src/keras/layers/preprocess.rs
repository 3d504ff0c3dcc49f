//! Preprocessing inside the model: scaling, encodings, look-ups, spectrograms, image augmentation.
//!
//! None of it is trained, and no gradient flows to what stands before it. Not counted: vocabularies, which live in host
//! tables. The copies of each augmentation are counted by reading its code.

use brimful_core::model::{DType, OpKind, Shape, product};

use super::super::build::{Hints, Scope};
use super::super::cx::{Cx, WeightKind};
use super::super::json::Json;
use super::super::value::{Args, Value};
use super::conv::{out_size, padding};
use super::reshape::interpolation;
use crate::error::Result;

pub(super) fn rescaling<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let x = cx.cast(x, cx.policy.compute)?;
    // multiply, add
    Ok(Value::Tensor(cx.same(OpKind::Elementwise { steps: 2, saved: 0 }, x)?))
}

pub(super) fn normalization<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let x = cx.cast(x, cx.policy.compute)?;
    let shape = cx.shape(x);
    if !cx.has("mean") {
        let mut axes =
            cx.ints("axis")?.into_iter().map(|axis| cx.axis(axis, shape.rank())).collect::<Result<Vec<_>>>()?;
        axes.sort_unstable();
        let kept: Vec<u64> = axes.iter().map(|&axis| shape.dims[axis]).collect();
        cx.weight("mean", &kept, WeightKind::State)?;
        cx.weight("variance", &kept, WeightKind::State)?;
        // TensorFlow's plain integers are 64 bits wide.
        cx.weight("count", &[], WeightKind::Typed(DType::Int64))?;
    }
    // subtract, divide
    Ok(Value::Tensor(cx.same(OpKind::Elementwise { steps: 2, saved: 0 }, x)?))
}

/// The shape with the image's sides replaced.
fn resized(cx: &Cx<'_, '_>, mut shape: Shape) -> Result<Shape> {
    if shape.rank() != 4 {
        return cx.fail(format!("it takes images and is given {}", cx.show(&shape)));
    }
    let start = if cx.channels_first() { 2 } else { 1 };
    shape.dims[start] = cx.positive("height")?;
    shape.dims[start + 1] = cx.positive("width")?;
    Ok(shape)
}

pub(super) fn resizing<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = resized(cx, cx.shape(x))?;
    let interpolation = interpolation(cx.text("interpolation").unwrap_or("bilinear"));
    let kind = OpKind::Resize { interpolation, integer_factor: false };
    let dtype = cx.dtype(x);
    Ok(Value::Tensor(cx.op_to(kind, &[x], shape, dtype, &[])?))
}

/// `CenterCrop` and `RandomCrop`: a cut where the image is large enough, else a resize.
pub(super) fn center_crop<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let x = cx.cast(x, cx.policy.compute)?;
    let before = cx.shape(x);
    let shape = resized(cx, before.clone())?;
    if cx.def.class == "RandomCrop" {
        cx.seed()?;
    }
    let fits = before.dims.iter().zip(&shape.dims).all(|(before, after)| before >= after);
    let resize = OpKind::Resize { interpolation: interpolation("bilinear"), integer_factor: false };
    let kind = if fits { OpKind::Slice } else { resize };
    Ok(Value::Tensor(cx.op(kind, &[x], shape, &[])?))
}

/// The shape of an encoding of `depth` columns; `fold` drops the last dimension, as counting over it does.
fn encoded(shape: &Shape, depth: u64, fold: bool) -> Shape {
    let mut out = shape.clone();
    if out.rank() > 1 && (fold || out.last() == 1) {
        out.dims.pop();
    }
    out.dims.push(depth);
    out
}

pub(super) fn category_encoding<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let depth = cx.positive("num_tokens")?;
    let one_hot = cx.text("output_mode") == Some("one_hot");
    let shape = encoded(&cx.shape(x), depth, !one_hot);
    let dtype = cx.policy.compute;
    // Tokens are counted by one kernel, `DenseBincount`, or laid out by another, `OneHot`, straight into its result.
    let kind = OpKind::Preprocess { live_copies: 0, training_only: false };
    Ok(Value::Tensor(cx.op_to(kind, &[x], shape, dtype, &[])?))
}

pub(super) fn discretization<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let mode = cx.text("output_mode").unwrap_or("int");
    if mode == "int" {
        return Ok(Value::Tensor(cx.op_to(
            OpKind::Preprocess { live_copies: 1, training_only: false },
            &[x],
            shape,
            DType::Int32,
            &[],
        )?));
    }
    let bins = cx.get("bin_boundaries").and_then(Json::as_array).map(|edges| edges.len() as u64 + 1);
    let depth = match bins {
        Some(bins) => bins,
        None => cx.positive("num_bins")?,
    };
    let shape = encoded(&shape, depth, mode != "one_hot");
    Ok(Value::Tensor(cx.op(OpKind::Preprocess { live_copies: 2, training_only: false }, &[x], shape, &[])?))
}

/// Indices of words or numbers: `Hashing`, `StringLookup`, `IntegerLookup`.
pub(super) fn lookup<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let mode = cx.text("output_mode").unwrap_or("int");
    if mode == "int" {
        let inverted = cx.flag("invert", false) && cx.def.class == "StringLookup";
        let dtype = if inverted { DType::String } else { DType::Int64 };
        return Ok(Value::Tensor(cx.op_to(
            OpKind::Preprocess { live_copies: 1, training_only: false },
            &[x],
            shape,
            dtype,
            &[],
        )?));
    }
    let depth = vocabulary(cx)?;
    let shape = encoded(&shape, depth, mode != "one_hot");
    Ok(Value::Tensor(cx.op_to(
        OpKind::Preprocess { live_copies: 2, training_only: false },
        &[x],
        shape,
        DType::Float32,
        &[],
    )?))
}

/// Columns of an encoding over a vocabulary.
fn vocabulary(cx: &mut Cx<'_, '_>) -> Result<u64> {
    if let Some(bins) = cx.optional_positive("num_bins")? {
        return Ok(bins);
    }
    if let Some(words) = cx.get("vocabulary").and_then(Json::as_array) {
        let special = cx.optional_positive("num_oov_indices")?.unwrap_or(1) + u64::from(cx.has("mask_token"));
        return Ok(words.len() as u64 + special);
    }
    if let Some(size) = cx.optional_positive("vocabulary_size")? {
        return Ok(size);
    }
    if let Some(most) = cx.optional_positive("max_tokens")? {
        return Ok(most);
    }
    let assumed = cx.builder.options.unknown_dim;
    cx.note("unknown_vocabulary", format!("Its vocabulary is not in the file; {assumed} entries are assumed."));
    Ok(assumed)
}

pub(super) fn hashed_crossing<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.inputs();
    let Some(&first) = inputs.first() else { return cx.fail("it is called without a list of tensors") };
    let mut shape = cx.shape(first);
    let (mut dtype, mut live_copies) = (DType::Int64, 1);
    if cx.text("output_mode") == Some("one_hot") {
        shape = encoded(&shape, cx.positive("num_bins")?, false);
        (dtype, live_copies) = (DType::Float32, 0);
    }
    Ok(Value::Tensor(cx.op_to(OpKind::Preprocess { live_copies, training_only: false }, &inputs, shape, dtype, &[])?))
}

pub(super) fn text_vectorization<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let (columns, dtype) = match cx.text("output_mode").unwrap_or("int") {
        "int" => match cx.optional_positive("output_sequence_length")? {
            Some(length) => (length, DType::Int64),
            None => {
                let assumed = cx.builder.options.unknown_dim;
                cx.note("unknown_dimension", format!("The length of its sequences varies; {assumed} is assumed."));
                (assumed, DType::Int64)
            }
        },
        _ => (vocabulary(cx)?, DType::Float32),
    };
    let out = Shape::new(shape.batched, &[shape.dims[0], columns]);
    Ok(Value::Tensor(cx.op_to(OpKind::Preprocess { live_copies: 2, training_only: false }, &[x], out, dtype, &[])?))
}

pub(super) fn stft<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape_of_rank(x, 3)?;
    let frame = cx.optional_positive("frame_length")?.unwrap_or(256);
    let step = cx.optional_positive("frame_step")?.unwrap_or((frame / 2).max(1));
    let points = cx.optional_positive("fft_length")?.unwrap_or(frame.checked_next_power_of_two().unwrap_or(frame));
    let mode = cx.text("mode").unwrap_or("log");
    let kernel = [frame, 1, points / 2 + 1];
    if mode != "imag" {
        cx.weight("real_kernel", &kernel, WeightKind::Trainable(None))?;
    }
    if mode != "real" {
        cx.weight("imag_kernel", &kernel, WeightKind::Trainable(None))?;
    }
    let first = cx.channels_first();
    let (time, channels) = if first { (shape.dims[2], shape.dims[1]) } else { (shape.dims[1], shape.dims[2]) };
    let Some(frames) = out_size(time, frame, step, 1, padding(cx)?) else {
        return cx.fail(format!("its output would be empty: a frame of {frame} does not fit into {time}"));
    };
    let bands = (points / 2 + 1).saturating_mul(if mode == "stft" { 2 } else { 1 });
    let batch = shape.dims[0];
    let dims = match (cx.flag("expand_dims", false), first) {
        (true, false) => vec![batch, frames, bands, channels],
        (true, true) => vec![batch, channels, frames, bands],
        (false, false) => vec![batch, frames, bands.saturating_mul(channels)],
        (false, true) => vec![batch, bands.saturating_mul(channels), frames],
    };
    // Two convolutions, their squares, the sum, the logarithm.
    let out = Shape::new(shape.batched, &dims);
    Ok(Value::Tensor(cx.op(OpKind::Preprocess { live_copies: 3, training_only: false }, &[x], out, &[])?))
}

pub(super) fn mel<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape_of_rank(x, 2)?;
    let stride = cx.optional_positive("sequence_stride")?.unwrap_or(512);
    let bins = cx.optional_positive("num_mel_bins")?.unwrap_or(128);
    let points = cx.optional_positive("fft_length")?.unwrap_or(2048);
    let frames = (shape.dims[1].saturating_add(stride).saturating_add(1)) / stride;
    let out = Shape::new(shape.batched, &[shape.dims[0], bins, frames]);
    // The spectrum, before it is gathered into bins: complex, then its magnitude.
    let copies = product(&[points / 2 + 1, 3]).div_ceil(bins);
    let live_copies = u32::try_from(copies).unwrap_or(u32::MAX).clamp(2, 1000);
    Ok(Value::Tensor(cx.op(OpKind::Preprocess { live_copies, training_only: false }, &[x], out, &[])?))
}

/// Layers one after the other.
pub(super) fn pipeline<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let mut value = Value::Tensor(cx.input()?);
    let def = cx.def;
    for (_, inner) in &def.inner {
        let path = cx.path.clone();
        let args = Args { positional: vec![value], named: Vec::new() };
        value = cx.builder.call(inner, Scope { path: &path, trainable: cx.trainable }, args, Hints::default())?;
    }
    Ok(value)
}

pub(super) fn pass_through<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    Ok(Value::List(cx.inputs().into_iter().map(Value::Tensor).collect()))
}

/// Further results of the image's size that are alive at once in an augmentation, by its code; those of the classes without any, of two flips and
/// of colours that are turned were seen in TensorFlow's log.
fn live_copies(cx: &Cx<'_, '_>) -> u32 {
    match cx.def.class.as_str() {
        // One after the other.
        "RandomFlip" => u32::from(cx.text("mode").unwrap_or("horizontal_and_vertical") == "horizontal_and_vertical"),
        // Sampled at shifted places by one kernel.
        "RandomRotation" | "RandomTranslation" | "RandomZoom" | "RandomShear" | "RandomPerspective" => 0,
        // The noise that replaces a part, and the picture in grey, become the result.
        "RandomErasing" | "RandomGrayscale" => 0,
        // One pass over the image.
        "RandomInvert" | "RandomBrightness" | "RandomContrast" | "Solarization" => 1,
        // Through another colour space.
        "RandomHue" | "RandomSaturation" => 2,
        "RandomPosterization" | "AutoContrast" | "MixUp" | "CutMix" => 3,
        "RandomColorDegeneration" | "RandomSharpness" | "Equalization" => 4,
        "RandomGaussianBlur" | "RandomElasticTransform" => 4,
        // Several augmentations, one after the other or side by side.
        _ => 6,
    }
}

/// Random augmentations keep the image's shape.
pub(super) fn augment<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let x = cx.cast(x, cx.policy.compute)?;
    let copies = live_copies(cx);
    match cx.def.class.as_str() {
        "AutoContrast" | "Equalization" | "ContrastLimitedAdaptiveHistogramEqualization" => {}
        // These hold ten layers with random numbers of their own.
        "AugMix" | "RandAugment" => {
            cx.weight("seed_generator_state", &[10, 2], WeightKind::Seed)?;
        }
        _ => cx.seed()?,
    }
    Ok(Value::Tensor(cx.same(OpKind::Preprocess { live_copies: copies, training_only: true }, x)?))
}

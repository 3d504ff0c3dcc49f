//! Dense layers, look-ups, activations as layers, and layers that do nothing.
//!
//! Not counted: what a `Lambda` computes, beyond a bound.

use brimful_core::model::{Activation, DType, Merge, OpKind, Shape, TensorId, WeightId};

use super::super::activation;
use super::super::build::Hints;
use super::super::custom;
use super::super::cx::{Cx, WeightKind};
use super::super::einsum::Equation;
use super::super::json::Json;
use super::super::value::Value;
use crate::error::Result;

pub(super) fn input<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    // Inputs are bound before the graph runs; one in the middle of a Sequential passes its input on.
    Ok(Value::Tensor(cx.input()?))
}

pub(super) fn dense<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut shape = cx.shape(x);
    if shape.rank() < 2 {
        return cx.fail(format!("it takes at least 2 dimensions and is given {}", cx.show(&shape)));
    }
    let (wide, units) = (shape.last(), cx.positive("units")?);
    let mut weights = vec![adapted(cx, "kernel", &[wide, units], "kernel_regularizer")?];
    if cx.flag("use_bias", true) {
        weights.push(cx.weight("bias", &[units], WeightKind::Trainable(Some("bias_regularizer")))?);
    }
    factors(cx, "kernel", &[wide, units])?;
    let last = shape.dims.len() - 1;
    shape.dims[last] = units;
    let y = cx.op(OpKind::Dense, &[x], shape, &weights)?;
    Ok(Value::Tensor(cx.activate("activation", y)?))
}

/// A kernel that may have a low-rank adaptation: Keras then freezes it and trains two [factors] in its place.
pub(super) fn adapted(cx: &mut Cx<'_, '_>, name: &str, dims: &[u64], regularizer: &str) -> Result<WeightId> {
    let kind = match cx.optional_positive("lora_rank")? {
        Some(_) => WeightKind::State,
        None => WeightKind::Trainable(Some(regularizer)),
    };
    cx.weight(name, dims, kind)
}

/// The two factors of a kernel's adaptation, if it has one: made after all other weights of the layer.
pub(super) fn factors(cx: &mut Cx<'_, '_>, name: &str, dims: &[u64]) -> Result<()> {
    let Some(rank) = cx.optional_positive("lora_rank")? else { return Ok(()) };
    let (rows, columns) = dims.split_at(dims.len() - 1);
    let a: Vec<u64> = rows.iter().copied().chain([rank]).collect();
    cx.weight(&format!("lora_{name}_a"), &a, WeightKind::Trainable(None))?;
    cx.weight(&format!("lora_{name}_b"), &[rank, columns[0]], WeightKind::Trainable(None))?;
    let text = "It has a low-rank adaptation: its factors are counted, the sum of them and the kernel is not.";
    cx.note("lora", text.to_owned());
    Ok(())
}

pub(super) fn einsum_dense_layer<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let Some(equation) = cx.text("equation") else { return cx.fail("it has no setting 'equation'") };
    let outputs = match cx.get("output_shape") {
        Some(Json::Array(items)) => {
            items.iter().map(|item| item.as_int().and_then(|size| u64::try_from(size).ok())).collect()
        }
        Some(one) => vec![one.as_int().and_then(|size| u64::try_from(size).ok())],
        None => return cx.fail("it has no setting 'output_shape'"),
    };
    let bias = cx.text("bias_axes");
    let y = einsum_dense(cx, x, equation, &outputs, bias)?;
    Ok(Value::Tensor(cx.activate("activation", y)?))
}

/// `EinsumDense`: the kernel's sizes come from the output's where it has the letter, else from the input's. `outputs` are
/// the output's dimensions without the batch, `None` where they are the input's.
pub(in super::super) fn einsum_dense(
    cx: &mut Cx<'_, '_>,
    x: TensorId,
    text: &str,
    outputs: &[Option<u64>],
    bias_axes: Option<&str>,
) -> Result<TensorId> {
    let shape = cx.shape(x);
    let kernel_rank = text.split_once("->").and_then(|(left, _)| left.split_once(','));
    let kernel_rank = kernel_rank.map_or(0, |(_, kernel)| kernel.trim().chars().count());
    let Some(equation) = Equation::resolve(text, &[shape.rank(), kernel_rank]) else {
        return cx.fail(format!("the equation '{text}' does not fit an input of shape {}", cx.show(&shape)));
    };
    // Left or right of the given dimensions stand those that the ellipsis covers.
    let letters: Vec<char> = equation.result.chars().collect();
    let given = outputs.len() + 1;
    let hidden = letters.len().saturating_sub(given);
    let right = text.split("->").next().is_some_and(|left| left.split(',').next().is_some_and(|x| x.ends_with("...")));
    let size_of = |letter: char| -> Option<u64> {
        let at = letters.iter().position(|&own| own == letter)?;
        if at == 0 {
            return None;
        }
        let index = if right { at - 1 } else { (at - 1).checked_sub(hidden)? };
        outputs.get(index).copied().flatten()
    };
    let from_input = |letter: char| equation.operands[0].find(letter).map(|at| shape.dims[at]);
    let mut kernel = Vec::new();
    for letter in equation.operands[1].chars() {
        match size_of(letter).or_else(|| from_input(letter)) {
            Some(size) => kernel.push(size),
            None => return cx.fail(format!("the size of '{letter}' in '{text}' is not known")),
        }
    }
    let Some(dims) = equation.result_dims(&[&shape.dims, &kernel]) else {
        return cx.fail(format!("the equation '{text}' has a result that its operands do not"));
    };
    if kernel.is_empty() {
        return cx.fail(format!("the equation '{text}' has no kernel"));
    }
    let mut weights = vec![adapted(cx, "kernel", &kernel, "kernel_regularizer")?];
    if let Some(axes) = bias_axes {
        // From the first bias axis on: the size, or 1 where the bias is broadcast.
        let first = letters.iter().position(|&letter| axes.contains(letter));
        let Some(first) = first else { return cx.fail(format!("the bias axes '{axes}' are not in '{text}'")) };
        let bias: Vec<u64> =
            (first..letters.len()).map(|at| if axes.contains(letters[at]) { dims[at] } else { 1 }).collect();
        weights.push(cx.weight("bias", &bias, WeightKind::Trainable(Some("bias_regularizer")))?);
    }
    factors(cx, "kernel", &kernel)?;
    let out = Shape::new(shape.batched, &dims);
    cx.op(OpKind::EinsumDense { equation: equation.text() }, &[x], out, &weights)
}

pub(super) fn embedding<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let mut x = cx.input()?;
    let (rows, columns) = (cx.positive("input_dim")?, cx.positive("output_dim")?);
    let table = adapted(cx, "embeddings", &[rows, columns], "embeddings_regularizer")?;
    factors(cx, "embeddings", &[rows, columns])?;
    let indices = cx.input()?;
    // Indices often arrive as floats, because that is an Input's default type.
    if !matches!(cx.dtype(x), DType::Int32 | DType::Int64) {
        x = cx.cast(x, DType::Int32)?;
    }
    let mut shape = cx.shape(x);
    shape.dims.push(columns);
    let y = cx.op(OpKind::Embedding, &[x], shape, &[table])?;
    if cx.flag("mask_zero", false) {
        let shape = cx.shape(indices);
        cx.op_to(OpKind::Merge(Merge::Compare), &[indices], shape, DType::Bool, &[])?;
        cx.builder.set_masked(y, true);
    }
    Ok(Value::Tensor(y))
}

pub(super) fn reversible_embedding<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let (rows, columns) = (cx.positive("input_dim")?, cx.positive("output_dim")?);
    let tied = cx.flag("tie_weights", true);
    let reverse = cx.args.get(1, "reverse").and_then(Value::constant).and_then(Json::as_bool).unwrap_or(false);
    let untied = |cx: &mut Cx<'_, 'd>| cx.weight("reverse_embeddings", &[columns, rows], WeightKind::Trainable(None));
    if !reverse {
        let y = embedding(cx, hints)?;
        if !tied {
            untied(cx)?;
        }
        return Ok(y);
    }
    let table = adapted(cx, "embeddings", &[rows, columns], "embeddings_regularizer")?;
    factors(cx, "embeddings", &[rows, columns])?;
    let kernel = if tied { table } else { untied(cx)? };
    let mut x = cx.input()?;
    let mut dtype = cx.policy.compute;
    if let Some(wanted) = cx.text("reverse_dtype").and_then(DType::parse) {
        x = cx.cast(x, wanted)?;
        dtype = wanted;
    }
    let mut shape = cx.shape(x);
    let Some(last) = shape.dims.last_mut() else { return cx.fail("it takes at least 1 dimension") };
    *last = rows;
    let y = cx.op_to(OpKind::Dense, &[x], shape.clone(), dtype, &[kernel])?;
    let y = match cx.has("logit_soft_cap") {
        // divide, tanh, multiply
        true => cx.op_to(OpKind::Elementwise { steps: 3, saved: 1 }, &[y], shape, dtype, &[])?,
        false => y,
    };
    Ok(Value::Tensor(y))
}

pub(super) fn identity<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    Ok(Value::Tensor(cx.same(OpKind::Identity, x)?))
}

pub(super) fn lambda<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let value = custom::opaque(cx, hints)?;
    let shape = value.tensors().first().map(|&out| cx.show(&cx.shape(out))).unwrap_or_default();
    let text =
        format!("The function of this Lambda is not read: its output is taken to be {shape}, its memory is a guess.");
    cx.note("lambda", text);
    Ok(value)
}

pub(super) fn masking<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    // not_equal, any, where
    let y = cx.same(OpKind::Elementwise { steps: 2, saved: 1 }, x)?;
    cx.builder.set_masked(y, true);
    Ok(Value::Tensor(y))
}

pub(super) fn activation<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let kind = cx.activation_of("activation");
    // As a layer, a linear activation still has a call of its own.
    let kind = if kind == Activation::Linear { OpKind::Identity } else { OpKind::Activation(kind) };
    Ok(Value::Tensor(cx.same(kind, x)?))
}

pub(super) fn relu<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let max = cx.has("max_value").then(|| cx.float("max_value", 0.0)).transpose()?;
    let kind = activation::relu(max, cx.float("negative_slope", 0.0)?, cx.float("threshold", 0.0)?);
    Ok(Value::Tensor(cx.same(OpKind::Activation(kind), x)?))
}

pub(super) fn leaky_relu<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    Ok(Value::Tensor(cx.same(OpKind::Activation(Activation::LeakyRelu), x)?))
}

pub(super) fn elu<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    Ok(Value::Tensor(cx.same(OpKind::Activation(Activation::Elu), x)?))
}

pub(super) fn softmax<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    Ok(Value::Tensor(cx.same(OpKind::Activation(Activation::Softmax), x)?))
}

pub(super) fn prelu<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let mut alpha = shape.dims.get(1..).unwrap_or_default().to_vec();
    for axis in cx.ints("shared_axes")? {
        let axis = cx.axis(axis, shape.rank())?;
        if axis > 0 {
            alpha[axis - 1] = 1;
        }
    }
    let alpha = cx.weight("alpha", &alpha, WeightKind::Trainable(Some("alpha_regularizer")))?;
    Ok(Value::Tensor(cx.op(OpKind::Activation(Activation::PRelu), &[x], shape, &[alpha])?))
}

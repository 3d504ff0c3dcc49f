//! Arithmetic, reductions, products.

use brimful_core::model::{Activation, Attention, DType, Merge, Norm, NormKind, OpKind, Reduction, Shape};

use super::super::build::Hints;
use super::super::cx::Cx;
use super::super::einsum::Equation;
use super::super::json::Json;
use super::super::layers::broadcast;
use super::super::value::Value;
use super::guess;
use crate::error::Result;

/// The shape of a constant operand: a number, nested lists, or an array that Keras wrote out.
fn constant_shape(json: &Json) -> Shape {
    if let Some(value) = json.get("config").and_then(|config| config.get("value")) {
        return constant_shape(value);
    }
    let mut dims = Vec::new();
    let mut at = json;
    while let Json::Array(items) = at {
        dims.push(items.len() as u64);
        match items.first() {
            Some(first) => at = first,
            None => break,
        }
    }
    Shape::fixed(&dims)
}

/// The operands' shapes, tensors and constants alike.
fn operands(cx: &Cx<'_, '_>, names: &[&str]) -> Vec<Shape> {
    let read = names.iter().enumerate().filter_map(|(at, name)| cx.args.get(at, name));
    read.filter_map(|value| match value {
        Value::Tensor(tensor) => Some(cx.shape(*tensor)),
        Value::Const(json) => Some(constant_shape(json)),
        _ => None,
    })
    .collect()
}

pub(super) fn binary<'d>(cx: &mut Cx<'_, 'd>, kind: Merge, hints: Hints<'d>) -> Result<Value<'d>> {
    let mut shapes = operands(cx, &["x1", "x2"]);
    let mut inputs = cx.args.tensors();
    if shapes.len() == inputs.len() {
        cx.broadcast_pairs(&mut inputs)?;
        shapes = inputs.iter().map(|&input| cx.shape(input)).collect();
    }
    let shape = match &shapes[..] {
        [a, b] => broadcast(a, b),
        [one] => Some(one.clone()),
        _ => None,
    };
    let Some(shape) = shape else { return guess(cx, hints) };
    let dtype = match kind {
        Merge::Compare => DType::Bool,
        Merge::Divide if !cx.policy.compute.is_float() && cx.def.class != "FloorDivide" => DType::Float32,
        _ => cx.policy.compute,
    };
    if inputs.len() == 1 && kind != Merge::Compare {
        // With a constant there is one gradient, and only curved functions read a value for it.
        let saved = u32::from(matches!(kind, Merge::Maximum | Merge::Minimum) || cx.def.class == "Power");
        return Ok(Value::Tensor(cx.op_to(OpKind::Elementwise { steps: 1, saved }, &inputs, shape, dtype, &[])?));
    }
    Ok(Value::Tensor(cx.op_to(OpKind::Merge(kind), &inputs, shape, dtype, &[])?))
}

pub(super) fn where_<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let shapes = operands(cx, &["condition", "x1", "x2"]);
    let mut all = shapes.into_iter();
    let first = all.next();
    let shape = all.fold(first, |shape, next| shape.and_then(|shape| broadcast(&shape, &next)));
    let Some(shape) = shape else { return guess(cx, hints) };
    // The condition does not decide the type.
    let rest: Vec<_> = [(1, "x1"), (2, "x2")]
        .iter()
        .filter_map(|(at, name)| cx.args.get(*at, name))
        .flat_map(Value::tensors)
        .collect();
    let dtype = if rest.is_empty() { DType::Float32 } else { super::promote(cx, &rest) };
    // The condition comes first, then those branches that are no constants.
    let condition = cx.args.get(0, "condition").map(Value::tensors).unwrap_or_default();
    let (kind, inputs) = match condition.first() {
        Some(&condition) => (Merge::Select, [vec![condition], rest].concat()),
        None => (Merge::Add, rest),
    };
    Ok(Value::Tensor(cx.op_to(OpKind::Merge(kind), &inputs, shape, dtype, &[])?))
}

/// The shape after a reduction over the op's `axis`.
fn reduced(cx: &Cx<'_, '_>, shape: &Shape, axis: Option<&Json>, keep: bool) -> Result<Shape> {
    let axes: Vec<usize> = match axis {
        None => (0..shape.rank()).collect(),
        Some(Json::Array(items)) => {
            let axis = |item: &Json| cx.axis(item.as_int().unwrap_or(i64::MAX), shape.rank());
            items.iter().map(axis).collect::<Result<_>>()?
        }
        Some(one) => vec![cx.axis(one.as_int().unwrap_or(i64::MAX), shape.rank())?],
    };
    let mut out = Shape::new(shape.batched && !axes.contains(&0), &[]);
    for (at, &dim) in shape.dims.iter().enumerate() {
        if !axes.contains(&at) {
            out.dims.push(dim);
        } else if keep {
            out.dims.push(1);
        }
    }
    Ok(out)
}

pub(super) fn reduce<'d>(cx: &mut Cx<'_, 'd>, kind: Reduction) -> Result<Value<'d>> {
    let x = cx.input()?;
    let out = reduced(cx, &cx.shape(x), cx.get("axis"), cx.flag("keepdims", false))?;
    let dtype = match (kind, cx.def.class.as_str()) {
        (_, "All" | "Any") => DType::Bool,
        (Reduction::Index, _) => DType::Int32,
        (Reduction::Mean | Reduction::Variance, _) if !cx.policy.compute.is_float() => DType::Float32,
        _ => cx.policy.compute,
    };
    Ok(Value::Tensor(cx.op_to(OpKind::Reduce { kind }, &[x], out, dtype, &[])?))
}

pub(super) fn moments<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let out = reduced(cx, &cx.shape(x), cx.get("axes"), cx.flag("keepdims", false))?;
    let mean = cx.op(OpKind::Reduce { kind: Reduction::Mean }, &[x], out.clone(), &[])?;
    let variance = cx.op(OpKind::Reduce { kind: Reduction::Variance }, &[x], out, &[])?;
    Ok(Value::list(&[mean, variance]))
}

pub(super) fn top_k<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut shape = cx.shape(x);
    let k = cx.positive("k")?;
    let Some(last) = shape.dims.last_mut() else { return cx.fail("it takes at least 1 dimension") };
    *last = k;
    let dtype = cx.dtype(x);
    let results = vec![(shape.clone(), dtype), (shape, DType::Int32)];
    let outputs = cx.op_many(OpKind::Reduce { kind: Reduction::Max }, &[x], results, &[])?;
    Ok(Value::list(&outputs))
}

pub(super) fn gelu<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    // The function's default is the approximation; `keras.activations.gelu` asks for the exact form.
    let kind = if cx.flag("approximate", true) { Activation::GeluTanh } else { Activation::Gelu };
    Ok(Value::Tensor(cx.same(OpKind::Activation(kind), x)?))
}

pub(super) fn glu<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let mut shape = cx.shape(x);
    let axis = cx.axis(cx.int("axis", -1)?, shape.rank())?;
    shape.dims[axis] /= 2;
    let dtype = cx.dtype(x);
    let halves = cx.op_many(OpKind::Split, &[x], vec![(shape.clone(), dtype); 2], &[])?;
    let gate = cx.same(OpKind::Activation(Activation::Sigmoid), halves[1])?;
    Ok(Value::Tensor(cx.op(OpKind::Merge(Merge::Multiply), &[halves[0], gate], shape, &[])?))
}

pub(super) fn cumulative<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let mut x = cx.input()?;
    if !cx.has("axis") {
        // Over all values: flattened first.
        let shape = cx.shape(x);
        let flat = Shape::new(shape.batched, &[shape.elements()]);
        x = cx.op(OpKind::Reshape, &[x], flat, &[])?;
    }
    let saved = u32::from(cx.def.class == "Cumprod");
    Ok(Value::Tensor(cx.same(OpKind::Elementwise { steps: 1, saved }, x)?))
}

pub(super) fn stop_gradient<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    Ok(Value::Tensor(cx.same(OpKind::StopGradient, x)?))
}

/// `zeros_like` and its kind.
pub(super) fn filled<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let dtype = cx.text("dtype").and_then(DType::parse).unwrap_or(cx.dtype(x));
    let shape = cx.shape(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Filled, &[x], shape, dtype, &[])?))
}

pub(super) fn fourier<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.args.tensors();
    let [real, imaginary] = inputs[..] else { return guess(cx, hints) };
    let shape = cx.shape(real);
    if cx.shape(imaginary) != shape {
        return guess(cx, hints);
    }
    let results = vec![(shape, cx.policy.compute); 2];
    Ok(Value::list(&cx.op_many(OpKind::Fourier, &inputs, results, &[])?))
}

/// A transform longer than its input is that of the input and zeros. A shorter one reads a part of it, and has no gradient that TensorFlow could take.
pub(super) fn fourier_of_real<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let mut x = cx.input()?;
    let mut shape = cx.shape(x);
    let (length, dtype) = (shape.last(), cx.dtype(x));
    let points = cx.optional_positive("fft_length")?.unwrap_or(length);
    if points < length || shape.rank() < 2 {
        return guess(cx, hints);
    }
    let last = shape.rank() - 1;
    if points > length {
        shape.dims[last] = points;
        x = cx.op_to(OpKind::Pad, &[x], shape.clone(), dtype, &[])?;
    }
    shape.dims[last] = points / 2 + 1;
    let results = vec![(shape, dtype); 2];
    Ok(Value::list(&cx.op_many(OpKind::RealFourier { inverse: false }, &[x], results, &[])?))
}

/// Of another length than the parts have, they would be cut or filled up first.
pub(super) fn fourier_to_real<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.args.tensors();
    let [real, imaginary] = inputs[..] else { return guess(cx, hints) };
    let (mut shape, dtype) = (cx.shape(real), cx.dtype(real));
    let points = cx.optional_positive("fft_length")?.unwrap_or(shape.last().saturating_sub(1).saturating_mul(2));
    if cx.shape(imaginary) != shape || points / 2 + 1 != shape.last() || shape.rank() < 2 {
        return guess(cx, hints);
    }
    let last = shape.rank() - 1;
    shape.dims[last] = points;
    Ok(Value::Tensor(cx.op_to(OpKind::RealFourier { inverse: true }, &inputs, shape, dtype, &[])?))
}

pub(super) fn cast<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let wanted = cx.text("dtype").and_then(DType::parse).unwrap_or(cx.dtype(x));
    Ok(Value::Tensor(cx.cast(x, wanted)?))
}

pub(super) fn index_like<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    Ok(Value::Tensor(cx.op_to(OpKind::Reduce { kind: Reduction::Index }, &[x], shape, DType::Int32, &[])?))
}

pub(super) fn normalize<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let shape = cx.shape(x);
    let axis = cx.ints("axis")?.first().copied().unwrap_or(-1);
    let axis = cx.axis(axis, shape.rank())?;
    let kind = match cx.def.class.as_str() {
        "RMSNorm" => NormKind::Rms,
        "LayerNorm" => NormKind::Layer,
        _ => NormKind::Unit,
    };
    let norm = Norm { kind, scale: false, center: false, axis, trainable: true };
    Ok(Value::Tensor(cx.op(OpKind::Norm(norm), &[x], shape, &[])?))
}

pub(super) fn matmul<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let mut inputs = cx.args.tensors();
    let mut shapes = operands(cx, &["x1", "x2"]);
    if shapes.len() == inputs.len() {
        cx.weigh_samples(&mut inputs)?;
        shapes = inputs.iter().map(|&input| cx.shape(input)).collect();
    }
    let [a, b] = &shapes[..] else { return guess(cx, hints) };
    if a.rank() < 2 || b.rank() < 2 {
        return guess(cx, hints);
    }
    let split = |shape: &Shape| {
        let (lead, tail) = shape.dims.split_at(shape.rank() - 2);
        (Shape::new(shape.batched && !lead.is_empty(), lead), tail[0], tail[1])
    };
    let ((lead_a, rows, inner), (lead_b, other, columns)) = (split(a), split(b));
    if inner != other {
        return cx.fail(format!("{} and {} cannot be multiplied", cx.show(a), cx.show(b)));
    }
    let Some(mut out) = broadcast(&lead_a, &lead_b) else { return guess(cx, hints) };
    // Whether a plain matrix of samples has its batch in the rows or the columns: one that was turned has it in the columns.
    let turned = |at: usize, shape: &Shape| {
        let known = inputs.get(at).and_then(|&tensor| cx.batch_axis(tensor));
        (shape.batched && shape.rank() == 2).then(|| known == Some(1) || (at == 1 && shape.dims[0] > 1))
    };
    let (left, right) = (turned(0, a), turned(1, b));
    let in_rows = left == Some(false);
    let in_columns = right == Some(true);
    out.dims.extend_from_slice(&[rows, columns]);
    let last = out.rank() - 1;
    if in_columns && (in_rows || out.batched) {
        out.batched = true;
        out = cx.meets_itself(out, last);
    } else if in_rows && out.batched {
        out = cx.meets_itself(out, last - 1);
    }
    // A batch that is summed over is gone.
    out.batched |= in_rows || in_columns;
    cx.builder.model.samples_meet |= left == Some(true) || right == Some(false);
    let result = cx.op(OpKind::MatMul, &inputs, out, &[])?;
    cx.set_batch_axis(result, (in_columns && !in_rows && last == 1).then_some(last));
    Ok(Value::Tensor(result))
}

pub(super) fn einsum<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.args.tensors();
    let shapes: Vec<Shape> = inputs.iter().map(|&input| cx.shape(input)).collect();
    let ranks: Vec<usize> = shapes.iter().map(Shape::rank).collect();
    let Some(equation) = cx.text("subscripts").and_then(|text| Equation::resolve(text, &ranks)) else {
        return guess(cx, hints);
    };
    let dims: Vec<&[u64]> = shapes.iter().map(|shape| shape.dims.as_slice()).collect();
    let Some(dims) = equation.result_dims(&dims) else { return guess(cx, hints) };
    // The result counts batches by each letter that stands for some operand's batch.
    let mut places: Vec<usize> = Vec::new();
    for (operand, &input) in equation.operands.iter().zip(&inputs) {
        let letter = cx.batch_axis(input).and_then(|axis| operand.chars().nth(axis));
        places.extend(letter.and_then(|letter| equation.result.find(letter)));
    }
    cx.builder.model.samples_meet |= places.len() < shapes.iter().filter(|shape| shape.batched).count();
    places.sort_unstable();
    places.dedup();
    let mut shape = Shape::new(!places.is_empty(), &dims);
    for &place in places.iter().skip(1) {
        shape = cx.meets_itself(shape, place);
    }
    let result = cx.op(OpKind::Einsum { equation: equation.text() }, &inputs, shape, &[])?;
    cx.set_batch_axis(result, places.first().copied());
    Ok(Value::Tensor(result))
}

pub(super) fn attention<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let tensor = |at, name| cx.args.get(at, name).and_then(|value| value.tensors().first().copied());
    let (Some(query), Some(key), Some(value)) = (tensor(0, "query"), tensor(1, "key"), tensor(2, "value")) else {
        return guess(cx, hints);
    };
    let (q, k, v) = (cx.shape(query), cx.shape(key), cx.shape(value));
    if q.rank() != 4 || k.rank() != 4 || v.rank() != 4 {
        return guess(cx, hints);
    }
    let mask = tensor(4, "mask").or(tensor(3, "bias"));
    let core = Attention {
        heads: q.dims[2],
        key_value_heads: k.dims[2],
        query_positions: q.dims[1],
        key_positions: k.dims[1],
        key_size: k.dims[3],
        value_size: v.dims[3],
        dropout: 0.0,
        masked: mask.is_some() || cx.flag("is_causal", false),
        additive: false,
        return_scores: false,
        multi_head: true,
        flash: cx.flag("flash_attention", false),
    };
    let mut out = q;
    out.dims[3] = v.dims[3];
    let mut inputs = vec![query, value, key];
    inputs.extend(mask);
    Ok(Value::Tensor(cx.op(OpKind::Attention(core), &inputs, out, &[])?))
}

/// The size of an array that Keras wrote out, for indices.
pub(super) fn constant_dims(json: &Json) -> Vec<u64> {
    constant_shape(json).dims.into_vec()
}

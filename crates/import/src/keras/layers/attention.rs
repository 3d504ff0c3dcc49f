//! Attention: multi-head, grouped-query, dot-product and additive.
//!
//! The projections of a multi-head layer are layers of their own in Keras (`query`, `key`, `value`, `attention_output`), and
//! are here: their weights and ops carry paths such as `mha/query`.

use brimful_core::model::{Activation, Attention, Merge, OpKind, Shape, TensorId};

use super::super::build::Hints;
use super::super::cx::{Cx, WeightKind};
use super::super::json::Json;
use super::super::value::Value;
use super::einsum_dense;
use crate::error::Result;

/// A Boolean argument of the call.
fn asked(cx: &Cx<'_, '_>, name: &str) -> bool {
    cx.args.by_name(name).and_then(Value::constant).and_then(Json::as_bool).unwrap_or(false)
}

/// The tensors of a multi-head call.
struct Call {
    query: TensorId,
    value: TensorId,
    key: TensorId,
    mask: Option<TensorId>,
    masked: bool,
}

fn arguments(cx: &Cx<'_, '_>) -> Result<Call> {
    let tensor = |position, name| cx.args.get(position, name).and_then(|value| value.tensors().first().copied());
    let Some(query) = tensor(0, "query") else { return cx.fail("it is called without a query") };
    let Some(value) = tensor(1, "value") else { return cx.fail("it is called without a value") };
    let key = tensor(2, "key").unwrap_or(value);
    let mask = tensor(6, "attention_mask");
    let given = ["query_mask", "value_mask", "key_mask"]
        .iter()
        .any(|name| cx.args.by_name(name).is_some_and(|value| !value.tensors().is_empty()));
    let carried = [query, value, key].iter().any(|&tensor| cx.builder.masked(tensor));
    let masked = mask.is_some() || given || carried || asked(cx, "use_causal_mask") || cx.has("sliding_window");
    Ok(Call { query, value, key, mask, masked })
}

/// `abc,cde->abde`: letters for what stays, what is contracted, what is new.
fn projection(free: usize, bound: usize, new: usize) -> Option<(String, String)> {
    let letters: String = ('a'..='z').collect();
    let stays = letters.get(..free)?;
    let contracted = letters.get(free..free + bound)?;
    let made = letters.get(free + bound..free + bound + new)?;
    Some((format!("{stays}{contracted},{contracted}{made}->{stays}{made}"), made.to_owned()))
}

/// One projection, as a layer of its own. `sizes` are the new dimensions.
fn project(cx: &mut Cx<'_, '_>, name: &str, x: TensorId, bound: usize, sizes: &[u64]) -> Result<TensorId> {
    let rank = cx.shape(x).rank();
    let free = rank.saturating_sub(bound);
    let Some((equation, made)) = projection(free, bound, sizes.len()).filter(|_| free > 0) else {
        return cx.fail(format!("it cannot project {}", cx.show(&cx.shape(x))));
    };
    let bias = cx.flag("use_bias", true).then_some(made);
    let penalty = cx.activity_penalty().filter(|_| name != "attention_output");
    let mut part = cx.part(name, "EinsumDense");
    let outputs: Vec<Option<u64>> =
        std::iter::repeat_n(None, free - 1).chain(sizes.iter().map(|&size| Some(size))).collect();
    let y = einsum_dense(&mut part, x, &equation, &outputs, bias.as_deref())?;
    if let Some(penalty) = penalty {
        part.op(OpKind::ActivityRegularization(penalty), &[y], Shape::fixed(&[]), &[])?;
    }
    Ok(y)
}

pub(super) fn multi_head<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let heads = cx.positive("num_heads")?;
    let key_size = cx.positive("key_dim")?;
    let value_size = cx.optional_positive("value_dim")?.unwrap_or(key_size);
    heads_layer(cx, heads, heads, key_size, value_size)
}

pub(super) fn group_query<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let heads = cx.positive("num_query_heads")?;
    let groups = cx.positive("num_key_value_heads")?;
    let size = cx.positive("head_dim")?;
    if heads % groups != 0 {
        return cx.fail(format!("{heads} query heads cannot share {groups} key and value heads evenly"));
    }
    heads_layer(cx, heads, groups, size, size)
}

fn heads_layer<'d>(cx: &mut Cx<'_, 'd>, heads: u64, groups: u64, key_size: u64, value_size: u64) -> Result<Value<'d>> {
    let call = arguments(cx)?;
    let shape = cx.shape(call.query);
    let grouped = cx.def.class.starts_with("Group");
    if shape.rank() < 2 || cx.shape(call.key).rank() != shape.rank() || cx.shape(call.value).rank() != shape.rank() {
        return cx.fail("query, key and value should have the same number of dimensions, at least 2");
    }
    let gated = cx.flag("use_gate", false);
    let gate = match gated {
        true => {
            let gate = project(cx, "gate", call.query, 1, &[heads, value_size])?;
            let mut part = cx.part("gate", "EinsumDense");
            Some(part.apply(Activation::Sigmoid, gate)?)
        }
        false => None,
    };
    let query = project(cx, "query", call.query, 1, &[heads, key_size])?;
    let mut key = project(cx, "key", call.key, 1, &[groups, key_size])?;
    let mut value = project(cx, "value", call.value, 1, &[groups, value_size])?;
    if grouped {
        // Keras copies keys and values to every query head.
        for tensor in [&mut key, &mut value] {
            let mut shape = cx.shape(*tensor);
            shape.dims[2] = heads;
            *tensor = cx.op(OpKind::Repeat, &[*tensor], shape, &[])?;
        }
    }
    let dropout = cx.share("dropout")?;
    if dropout > 0.0 {
        cx.seed()?;
    }
    // Dimensions that are not attended over count as heads: they multiply the scores in the same way.
    let rank = shape.rank();
    let mut axes = Vec::new();
    for axis in cx.ints("attention_axes")? {
        // Keras counts them in the projected query, without its last dimension.
        axes.push(cx.axis(axis, rank)?);
    }
    if axes.is_empty() {
        axes = (1..rank - 1).collect();
    }
    let positions = |dims: &[u64]| axes.iter().map(|&axis| dims[axis]).fold(1u64, u64::saturating_mul);
    let others = (1..rank - 1).filter(|axis| !axes.contains(axis)).map(|axis| shape.dims[axis]);
    let others = others.fold(1u64, u64::saturating_mul);
    let key_shape = cx.shape(call.key);
    let core = Attention {
        heads: heads.saturating_mul(others),
        key_value_heads: heads.saturating_mul(others),
        query_positions: positions(&shape.dims),
        key_positions: positions(&key_shape.dims),
        key_size,
        value_size,
        dropout,
        masked: call.masked,
        additive: false,
        return_scores: asked(cx, "return_attention_scores"),
        multi_head: true,
        flash: cx.flag("flash_attention", false),
    };
    let mut out = cx.shape(query);
    let last = out.rank() - 1;
    out.dims[last] = value_size;
    let mut inputs = vec![query, value, key];
    inputs.extend(call.mask);
    let mut results = vec![(out.clone(), cx.policy.compute)];
    if core.return_scores {
        let dims = vec![shape.dims[0], core.heads, core.query_positions, core.key_positions];
        results.push((Shape::new(shape.batched, &dims), cx.policy.compute));
    }
    let results = cx.op_many(OpKind::Attention(core), &inputs, results, &[])?;
    let mut attended = results[0];
    if let Some(gate) = gate {
        attended = cx.op(OpKind::Merge(Merge::Multiply), &[attended, gate], out, &[])?;
    }
    let wanted = match cx.ints("output_shape")? {
        sizes if sizes.is_empty() || grouped => vec![shape.last()],
        sizes => {
            let sizes: Option<Vec<u64>> = sizes.iter().map(|&size| u64::try_from(size).ok()).collect();
            sizes.ok_or_else(|| cx.error("'output_shape' should be positive whole numbers"))?
        }
    };
    let y = project(cx, "attention_output", attended, 2, &wanted)?;
    Ok(match results.get(1) {
        Some(&scores) => Value::list(&[y, scores]),
        None => Value::Tensor(y),
    })
}

/// Attention without heads or projections.
fn plain<'d>(cx: &mut Cx<'_, 'd>, additive: bool) -> Result<Value<'d>> {
    let inputs = cx.inputs();
    let (query, value, key) = match inputs[..] {
        [query, value] => (query, value, value),
        [query, value, key] => (query, value, key),
        _ => return cx.fail(format!("it takes a query, a value and perhaps a key, and is given {}", inputs.len())),
    };
    let (shape, value_shape, key_shape) = (cx.shape(query), cx.shape(value), cx.shape(key));
    if shape.rank() < 2 || value_shape.rank() != shape.rank() || key_shape.rank() != shape.rank() {
        return cx.fail("query, key and value should have the same number of dimensions, at least 2");
    }
    let concat = !additive && cx.text("score_mode") == Some("concat");
    let mut weights = Vec::new();
    if cx.flag("use_scale", additive) {
        let dims: &[u64] = if additive { &[shape.last()] } else { &[] };
        weights.push(cx.weight("scale", dims, WeightKind::Trainable(None))?);
    }
    if concat {
        weights.push(cx.weight("concat_score_weight", &[], WeightKind::Trainable(None))?);
    }
    let dropout = cx.share("dropout")?;
    if dropout > 0.0 {
        cx.seed()?;
    }
    let rank = shape.rank();
    let others = shape.dims[1..rank - 1].iter().rev().skip(1).fold(1u64, |product, &dim| product.saturating_mul(dim));
    let mask = cx.args.get(1, "mask").map(Value::tensors).unwrap_or_default();
    let core = Attention {
        heads: others,
        key_value_heads: others,
        query_positions: shape.dims[rank - 2],
        key_positions: key_shape.dims[rank - 2],
        key_size: key_shape.last(),
        value_size: value_shape.last(),
        dropout,
        masked: !mask.is_empty() || cx.first_masked() || asked(cx, "use_causal_mask"),
        additive: additive || concat,
        return_scores: asked(cx, "return_attention_scores"),
        multi_head: false,
        flash: false,
    };
    let mut out = shape.clone();
    out.dims[rank - 1] = value_shape.last();
    let mut results = vec![(out, cx.policy.compute)];
    if core.return_scores {
        let mut scores = shape;
        scores.dims[rank - 1] = core.key_positions;
        results.push((scores, cx.policy.compute));
    }
    let mut inputs = vec![query, value, key];
    inputs.extend(mask);
    let outputs = cx.op_many(OpKind::Attention(core), &inputs, results, &weights)?;
    Ok(if outputs.len() == 1 { Value::Tensor(outputs[0]) } else { Value::list(&outputs) })
}

pub(super) fn dot_product<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    plain(cx, false)
}

pub(super) fn additive<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    plain(cx, true)
}

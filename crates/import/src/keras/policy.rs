//! Dtype policies: what a layer computes in and what its variables are stored in.
//!
//! In: a layer's `dtype` setting. Out: [`Policy`]. A quantized policy is read as the policy it was made from.

use std::borrow::Cow;

use brimful_core::model::DType;

use super::config::{Kind, LayerDef, Net};
use super::json::Json;

/// A dtype policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// What the layer computes in; its float inputs are cast to it.
    pub(super) compute: DType,
    /// What its variables are stored in.
    pub(super) variable: DType,
    /// The file asks for quantized weights, which is not modelled.
    pub(super) quantized: bool,
}

impl Policy {
    pub(super) const FLOAT32: Policy = Policy { compute: DType::Float32, variable: DType::Float32, quantized: false };

    /// A policy by its name, such as `mixed_bfloat16` or `int8_from_float32`.
    pub(super) fn named(name: &str) -> Option<Policy> {
        if let Some((_, source)) = name.split_once("_from_") {
            return Policy::named(source).map(|policy| Policy { quantized: true, ..policy });
        }
        let (compute, variable) = match name {
            "mixed_float16" => (DType::Float16, DType::Float32),
            "mixed_bfloat16" => (DType::BFloat16, DType::Float32),
            other => {
                let dtype = DType::parse(other)?;
                (dtype, dtype)
            }
        };
        Some(Policy { compute, variable, quantized: false })
    }
}

/// The name of the policy that a layer's `dtype` setting asks for.
pub(super) fn name(dtype: &Json) -> Option<Cow<'_, str>> {
    match dtype {
        Json::Str(name) => Some(Cow::Borrowed(name)),
        Json::Object(_) => {
            let config = dtype.get("config")?;
            let text = |key: &str| config.get(key).and_then(Json::as_str);
            if let Some(name) = text("name") {
                return Some(Cow::Borrowed(name));
            }
            if let Some(source) = text("source_name") {
                return Some(Cow::Owned(format!("{}_from_{source}", text("mode").unwrap_or("int8"))));
            }
            // A map of policies by sub-layer: its default is what nearly all of them use.
            config.get("default_policy").and_then(name)
        }
        _ => None,
    }
}

/// The policy that most of a model's layers have: what was global when it was built.
pub(super) fn model_wide(net: &Net) -> String {
    let mut counts: Vec<(Cow<'_, str>, usize)> = Vec::new();
    count(net, &mut counts);
    // The first of those with the largest count.
    let mut best: Option<(&str, usize)> = None;
    for (name, times) in &counts {
        if best.is_none_or(|(_, most)| *times > most) {
            best = Some((name, *times));
        }
    }
    best.map_or("float32", |(name, _)| name).to_owned()
}

fn count<'n>(net: &'n Net, counts: &mut Vec<(Cow<'n, str>, usize)>) {
    net.layers.iter().for_each(|layer| count_layer(layer, counts));
}

fn count_layer<'n>(layer: &'n LayerDef, counts: &mut Vec<(Cow<'n, str>, usize)>) {
    if let Kind::Net(net) = &layer.kind {
        count(net, counts);
    } else if layer.class != "InputLayer"
        && let Some(name) = layer.config.get("dtype").and_then(name)
    {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => *times += 1,
            None => counts.push((name, 1)),
        }
    }
    layer.inner.iter().for_each(|(_, inner)| count_layer(inner, counts));
}

//! The calls of a functional model: read from the file, put into running order.
//!
//! In: each layer's `inbound_nodes`, in Keras 3's form or Keras 2's. Out: [`Call`]s with references resolved to layers. A
//! reference to nothing, or a cycle, is an error.

use std::collections::HashMap;

use brimful_core::model::DType;
use compact_str::CompactString;

use super::config::{Arg, Call, Kind, LayerDef, Recorded, Ref, Tree, shape};
use super::json::Json;
use super::order::{self, Node};
use crate::error::{ImportError, Result};

/// Outputs of one call beyond this are refused.
const MAX_ARITY: usize = 100_000;

/// Sorts calls into running order and drops those that no output needs; also the place of each layer's first call in the order of creation.
pub(super) fn ordered(
    calls: Vec<Vec<Call>>,
    inputs: &Tree,
    outputs: &Tree,
    layers: &[LayerDef],
    model: &str,
) -> Result<(Vec<Call>, Vec<u32>)> {
    // Node numbers: a layer's calls follow each other; a layer without calls (an input) has one node.
    let mut first = Vec::with_capacity(calls.len());
    let mut count = 0;
    for own in &calls {
        first.push(count);
        count += own.len().max(1);
    }
    let node_of = |tensor: Ref, reader: &str| -> Result<usize> {
        let known = calls[tensor.layer].len().max(1);
        if tensor.node < known {
            Ok(first[tensor.layer] + tensor.node)
        } else {
            let what = format!("call {} of layer '{}'", tensor.node, layers[tensor.layer].name);
            Err(ImportError::Dangling { layer: reader.to_owned(), what })
        }
    };
    let mut nodes = Vec::with_capacity(count);
    for (layer, own) in calls.iter().enumerate() {
        if own.is_empty() {
            nodes.push(Node { layer, parents: Vec::new() });
        }
        for call in own {
            let mut tensors = Vec::new();
            call.args.iter().for_each(|arg| arg.collect(&mut tensors));
            // Keras flattens a call's keyword arguments by name.
            let mut kwargs: Vec<&(CompactString, Arg)> = call.kwargs.iter().collect();
            kwargs.sort_by(|a, b| a.0.cmp(&b.0));
            kwargs.iter().for_each(|(_, arg)| arg.collect(&mut tensors));
            let parents = tensors.iter().map(|&tensor| node_of(tensor, &layers[layer].name)).collect::<Result<_>>()?;
            nodes.push(Node { layer, parents });
        }
    }
    // A model cut out of another may start at a tensor that some layer computes: the walk stops there.
    for input in inputs.flatten() {
        let node = node_of(input, model)?;
        nodes[node].parents.clear();
    }
    let ends = outputs.flatten().into_iter().map(|output| node_of(output, model)).collect::<Result<Vec<_>>>()?;
    let found = order::topological(&nodes, &ends).map_err(|node| ImportError::Cycle {
        model: model.to_owned(),
        layer: layers[nodes[node].layer].name.clone(),
    })?;
    let mut created = vec![0; layers.len()];
    for (place, &node) in found.iter().enumerate().rev() {
        created[nodes[node].layer] = place as u32;
    }
    let order = order::order(&nodes, &found, layers.len());
    let mut flat: Vec<Option<Call>> = Vec::with_capacity(count);
    for own in calls {
        if own.is_empty() {
            flat.push(None);
        }
        flat.extend(own.into_iter().map(Some));
    }
    Ok((order.into_iter().filter_map(|node| flat[node].take()).collect(), created))
}

/// Positional and keyword arguments.
pub(super) type Arguments = (Vec<Arg>, Vec<(CompactString, Arg)>);

pub(super) struct GraphReader {
    pub(super) index_of: HashMap<String, usize>,
    pub(super) recorded: HashMap<Ref, Recorded>,
    pub(super) arity: HashMap<(usize, usize), usize>,
}

impl GraphReader {
    fn tensor(&self, parts: &[Json]) -> Option<Ref> {
        let [Json::Str(name), node, tensor, ..] = parts else { return None };
        let layer = *self.index_of.get(name.as_str())?;
        let node = usize::try_from(node.as_int()?).ok()?;
        let tensor = usize::try_from(tensor.as_int()?).ok().filter(|&tensor| tensor < MAX_ARITY)?;
        Some(Ref { layer, node, tensor })
    }

    /// The arguments of one call.
    pub(super) fn node(&mut self, mut data: Json, reader: &str) -> Result<Arguments> {
        if let Json::Array(items) = data {
            return self.old_node(items, reader);
        }
        let args = match data.take("args") {
            Some(Json::Array(items)) => items.into_iter().map(|item| self.arg(item, reader)).collect::<Result<_>>()?,
            _ => Vec::new(),
        };
        let kwargs = match data.take("kwargs") {
            Some(Json::Object(entries)) => {
                let read = |(key, value)| Ok((key, self.arg(value, reader)?));
                entries.into_iter().map(read).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        Ok((args, kwargs))
    }

    /// Keras 2's form: a list of `[layer, node, tensor, kwargs]`.
    fn old_node(&mut self, items: Vec<Json>, reader: &str) -> Result<Arguments> {
        // A single tensor is also written without the outer list.
        let items = if matches!(items.first(), Some(Json::Str(_))) { vec![Json::Array(items)] } else { items };
        let mut tensors = Vec::with_capacity(items.len());
        let mut kwargs = Vec::new();
        for item in items {
            let Json::Array(mut parts) = item else {
                tensors.push(Arg::Json(item));
                continue;
            };
            if let Some(Json::Object(_)) = parts.get(3) {
                let Some(Json::Object(entries)) = parts.pop() else { continue };
                for (key, value) in entries {
                    let value = self.old_kwarg(value);
                    kwargs.push((key, value));
                }
            }
            match self.tensor(&parts) {
                Some(tensor) => tensors.push(Arg::Tensor(tensor)),
                None if matches!(parts.first(), Some(Json::Str(name)) if name == "_CONSTANT_VALUE") => {
                    tensors.push(Arg::Json(parts.swap_remove(2)));
                }
                None => {
                    let what = parts.first().and_then(Json::as_str).unwrap_or("an unnamed layer");
                    let what = format!("layer '{what}'");
                    return Err(ImportError::Dangling { layer: reader.to_owned(), what });
                }
            }
        }
        let args = if tensors.len() == 1 { tensors } else { vec![Arg::List(tensors)] };
        Ok((args, kwargs))
    }

    fn old_kwarg(&self, value: Json) -> Arg {
        match &value {
            Json::Array(parts) => match self.tensor(parts) {
                Some(tensor) => Arg::Tensor(tensor),
                None => Arg::Json(value),
            },
            _ => Arg::Json(value),
        }
    }

    /// Keras 3's form: tensors anywhere in lists and dictionaries.
    fn arg(&mut self, value: Json, reader: &str) -> Result<Arg> {
        if !has_tensor(&value) {
            return Ok(Arg::Json(value));
        }
        match value {
            Json::Array(items) => {
                Ok(Arg::List(items.into_iter().map(|item| self.arg(item, reader)).collect::<Result<_>>()?))
            }
            Json::Object(ref entries) => {
                if is_tensor(&value) {
                    return self.keras_tensor(&value, reader);
                }
                let mut read = Vec::with_capacity(entries.len());
                let Json::Object(entries) = value else { unreachable!("matched above") };
                for (key, item) in entries {
                    read.push((key, self.arg(item, reader)?));
                }
                read.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(Arg::Dict(read))
            }
            other => Ok(Arg::Json(other)),
        }
    }

    fn keras_tensor(&mut self, value: &Json, reader: &str) -> Result<Arg> {
        let config = value.get("config");
        let history = config.and_then(|config| config.get("keras_history")).and_then(Json::as_array);
        let Some(tensor) = history.and_then(|parts| self.tensor(parts)) else {
            let what = history.and_then(|parts| parts.first()).and_then(Json::as_str);
            let what = what.map_or("a tensor without a source".to_owned(), |name| format!("layer '{name}'"));
            return Err(ImportError::Dangling { layer: reader.to_owned(), what });
        };
        if let Some(shape) = config.and_then(|config| config.get("shape")).and_then(shape) {
            let dtype = config.and_then(|config| config.get("dtype")).and_then(Json::as_str).and_then(DType::parse);
            self.recorded.entry(tensor).or_insert(Recorded { shape, dtype });
        }
        let arity = self.arity.entry((tensor.layer, tensor.node)).or_default();
        *arity = (*arity).max(tensor.tensor + 1);
        Ok(Arg::Tensor(tensor))
    }

    /// `input_layers` or `output_layers`: one reference, a list or a dictionary of them.
    pub(super) fn tree(&self, json: Option<Json>, layers: &[LayerDef], place: &str) -> Result<Tree> {
        let wrong = |reason: String| ImportError::Layout { place: place.to_owned(), reason };
        match json {
            Some(Json::Array(parts)) if matches!(parts.first(), Some(Json::Str(_))) => {
                let mut tensor = self.tensor(&parts).ok_or_else(|| {
                    let name = parts.first().and_then(Json::as_str).unwrap_or_default();
                    wrong(format!("it names '{name}', which is not a layer of the model"))
                })?;
                // Here, and only here, Keras counts a nested functional model's own definition as its first call.
                if let Kind::Net(net) = &layers[tensor.layer].kind
                    && !net.sequential
                {
                    tensor.node = tensor.node.saturating_sub(1);
                }
                Ok(Tree::Leaf(tensor))
            }
            Some(Json::Array(items)) => {
                let items = items.into_iter().enumerate();
                let read = items.map(|(at, item)| self.tree(Some(item), layers, &format!("{place}[{at}]")));
                Ok(Tree::List(read.collect::<Result<_>>()?))
            }
            Some(Json::Object(entries)) => {
                let read = |(key, item)| {
                    let tree = self.tree(Some(item), layers, &format!("{place}.{key}"))?;
                    Ok((key, tree))
                };
                let mut entries = entries.into_iter().map(read).collect::<Result<Vec<_>>>()?;
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(Tree::Dict(entries))
            }
            other => {
                Err(wrong(format!("it should list tensors, not be {}", other.as_ref().map_or("missing", Json::kind))))
            }
        }
    }
}

fn is_tensor(value: &Json) -> bool {
    value.get("class_name").and_then(Json::as_str) == Some("__keras_tensor__")
}

fn has_tensor(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().any(has_tensor),
        Json::Object(entries) => is_tensor(value) || entries.iter().any(|(_, item)| has_tensor(item)),
        _ => false,
    }
}

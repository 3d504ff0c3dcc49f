//! A model's JSON as layers and calls: the first half of the import, done once per file.
//!
//! In: [`Json`]. Out: [`Net`]: layers with their settings, and their calls in running order. Nested models, wrapped layers
//! and recurrent cells are layers within layers. No shape is computed here, but the shapes that Keras recorded are kept for
//! layers whose code is not known.

use std::collections::HashMap;

use brimful_core::model::DType;

use super::json::Json;
use super::layers::{self, Entry};
use super::ops::{self, OpEntry};
use super::order::{self, Node};
use crate::error::{ImportError, Result};

/// A graph of layer calls: a Sequential or functional model.
pub(super) struct Net {
    pub(super) name: String,
    pub(super) class: String,
    /// Sequential models cast their inputs as layers do; functional ones do not.
    pub(super) sequential: bool,
    pub(super) layers: Vec<LayerDef>,
    /// In running order.
    pub(super) calls: Vec<Call>,
    pub(super) inputs: Tree,
    pub(super) outputs: Tree,
    /// Shapes and types that Keras wrote beside references, by tensor.
    pub(super) recorded: HashMap<Ref, Recorded>,
    /// How many outputs of a call are read, by layer and call: at least that many there are.
    pub(super) arity: HashMap<(usize, usize), usize>,
}

/// A layer as the file describes it.
pub(super) struct LayerDef {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) config: Json,
    pub(super) kind: Kind,
    /// Wrapped layers and cells, by the setting that holds them.
    pub(super) inner: Vec<(&'static str, LayerDef)>,
}

/// What a layer is.
pub(super) enum Kind {
    /// A layer of Keras.
    Layer(&'static Entry),
    /// A function of `keras.ops`.
    Op(&'static OpEntry),
    /// A nested model.
    Net(Box<Net>),
    /// A layer or function that is not known, with the module it comes from.
    Custom { module: String },
}

/// A call of a layer.
pub(super) struct Call {
    pub(super) layer: usize,
    pub(super) node: usize,
    pub(super) args: Vec<Arg>,
    pub(super) kwargs: Vec<(String, Arg)>,
}

/// An argument of a call.
pub(super) enum Arg {
    Tensor(Ref),
    List(Vec<Arg>),
    Dict(Vec<(String, Arg)>),
    /// No tensors in it.
    Json(Json),
}

/// A tensor: an output of a node of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ref {
    pub(super) layer: usize,
    pub(super) node: usize,
    pub(super) tensor: usize,
}

/// Tensors as a model takes or returns them.
pub(super) enum Tree {
    Leaf(Ref),
    List(Vec<Tree>),
    /// By key, sorted: so Keras flattens dictionaries.
    Dict(Vec<(String, Tree)>),
}

impl Tree {
    pub(super) fn flatten(&self) -> Vec<Ref> {
        match self {
            Tree::Leaf(leaf) => vec![*leaf],
            Tree::List(items) => items.iter().flat_map(Tree::flatten).collect(),
            Tree::Dict(entries) => entries.iter().flat_map(|(_, item)| item.flatten()).collect(),
        }
    }
}

/// What Keras wrote about a tensor.
pub(super) struct Recorded {
    /// Dimensions, the batch's included; `None` where they vary.
    pub(super) shape: Vec<Option<u64>>,
    pub(super) dtype: Option<DType>,
}

/// Names longer than this are refused: paths are made of them, once for every call.
const MAX_NAME: usize = 1_000;
/// Outputs of one call beyond this are refused.
const MAX_ARITY: usize = 100_000;

/// Settings that hold other layers.
const INNER_ONE: [&str; 4] = ["layer", "backward_layer", "cell", "forward_layer"];
const INNER_MANY: [&str; 2] = ["cells", "layers"];

/// Reads the object of the whole model.
pub(super) fn root(mut json: Json, entry: &str) -> Result<(Net, Json)> {
    let compile = json.take("compile_config").unwrap_or(Json::Null);
    let def = layer(json, entry)?;
    match def.kind {
        Kind::Net(net) => Ok((*net, compile)),
        // A file with one layer in it is a layer's configuration, not a model's.
        Kind::Layer(_) | Kind::Op(_) => Err(ImportError::Layout {
            place: entry.to_owned(),
            reason: format!("it describes a single layer of class {}", def.class),
        }),
        Kind::Custom { .. } => Err(ImportError::Subclassed { name: def.name, class: def.class }),
    }
}

/// Reads one layer, whatever it is.
fn layer(mut json: Json, place: &str) -> Result<LayerDef> {
    let wrong = |reason: String| ImportError::Layout { place: place.to_owned(), reason };
    if json.as_object().is_none() {
        return Err(wrong(format!("a layer should be an object, not {}", json.kind())));
    }
    let class = match json.take("class_name") {
        Some(Json::Str(class)) => class,
        _ => return Err(wrong("it has no class_name".to_owned())),
    };
    let registered = json.take("registered_name");
    let module = match json.take("module") {
        Some(Json::Str(module)) => module,
        // A class made in a notebook may have no module, but then it has a registered name.
        _ if matches!(registered, Some(Json::Str(_))) => "unknown".to_owned(),
        // Keras 2 wrote no module.
        _ => "keras.layers".to_owned(),
    };
    let outer_name = json.take("name");
    let mut config = match json.take("config") {
        Some(config @ Json::Object(_)) => config,
        // Some Keras 2 Sequential files hold the list of layers directly.
        Some(layers @ Json::Array(_)) => Json::Object(vec![("layers".to_owned(), layers)]),
        Some(other) => return Err(wrong(format!("its config is {}", other.kind()))),
        None => Json::Object(Vec::new()),
    };
    let name = match (config.get("name"), &outer_name) {
        (Some(Json::Str(name)), _) | (_, Some(Json::Str(name))) => name.clone(),
        _ => class.to_ascii_lowercase(),
    };
    if name.len() > MAX_NAME || class.len() > MAX_NAME {
        return Err(wrong(format!("its name or class is longer than {MAX_NAME} bytes")));
    }
    let functional = config.get("input_layers").is_some();
    let sequential = !functional && class == "Sequential";
    if config.get("layers").is_some() && (functional || sequential) {
        let net = if sequential {
            sequential_net(&mut config, &name, &class, place)?
        } else {
            functional_net(&mut config, &name, &class, place)?
        };
        return Ok(LayerDef { name, class, config, kind: Kind::Net(Box::new(net)), inner: Vec::new() });
    }
    if functional || sequential {
        return Err(wrong("a model should have a list of layers".to_owned()));
    }
    // `registered_name` of Keras's own classes is null or the class; `package>name` marks a custom one.
    let custom = matches!(&registered, Some(Json::Str(registered)) if registered.contains('>')) || !is_keras(&module);
    let kind = if is_ops(&module) {
        ops::find(&class).map(Kind::Op)
    } else if custom {
        None
    } else {
        layers::find(&class).map(Kind::Layer)
    };
    let kind = kind.unwrap_or(Kind::Custom { module });
    let mut inner = Vec::new();
    for key in INNER_ONE {
        if config.get(key).is_some_and(|value| value.get("class_name").is_some()) {
            let value = config.take(key).unwrap_or(Json::Null);
            inner.push((key, layer(value, &format!("{place}.config.{key}"))?));
        }
    }
    for key in INNER_MANY {
        let is_list_of_layers = |items: &[Json]| items.iter().all(|item| item.get("class_name").is_some());
        if config.get(key).and_then(Json::as_array).is_some_and(is_list_of_layers) {
            let Some(Json::Array(items)) = config.take(key) else { continue };
            for (index, item) in items.into_iter().enumerate() {
                inner.push((key, layer(item, &format!("{place}.config.{key}[{index}]"))?));
            }
        }
    }
    Ok(LayerDef { name, class, config, kind, inner })
}

fn is_keras(module: &str) -> bool {
    ["keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras"]
        .iter()
        .any(|package| module.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

fn is_ops(module: &str) -> bool {
    module.starts_with("keras.src.ops") || module.starts_with("keras.ops")
}

/// A Sequential model: each layer reads the one before.
fn sequential_net(config: &mut Json, name: &str, class: &str, place: &str) -> Result<Net> {
    let items = layer_list(config, place)?;
    let build_shape = config.take("build_input_shape");
    let mut layers = Vec::with_capacity(items.len() + 1);
    let mut built = Vec::with_capacity(items.len() + 1);
    for (index, item) in items.into_iter().enumerate() {
        built.push(item.get("build_config").and_then(|build| build.get("input_shape")).and_then(shape));
        layers.push(layer(item, &format!("{place}.config.layers[{index}]"))?);
    }
    if layers.first().is_none_or(|first| first.class != "InputLayer") {
        // Keras makes the missing input from the shape it was built with, in the first layer's type.
        let first = layers.first().map(|first| &first.config);
        let old =
            || first.and_then(|first| first.get("batch_input_shape").or_else(|| first.get("batch_shape"))).cloned();
        let shape = build_shape.filter(|shape| !shape.is_null()).or_else(old);
        let entries = vec![
            ("name".to_owned(), Json::Str("input".to_owned())),
            ("batch_shape".to_owned(), shape.unwrap_or(Json::Null)),
            ("dtype".to_owned(), Json::Null),
        ];
        let Some(entry) = layers::find("InputLayer") else { unreachable!("the registry has InputLayer") };
        let input = LayerDef {
            name: "input".to_owned(),
            class: "InputLayer".to_owned(),
            config: Json::Object(entries),
            kind: Kind::Layer(entry),
            inner: Vec::new(),
        };
        layers.insert(0, input);
        built.insert(0, None);
    }
    let leaf = |layer: usize| Ref { layer, node: 0, tensor: 0 };
    let calls = (1..layers.len())
        .map(|layer| Call { layer, node: 0, args: vec![Arg::Tensor(leaf(layer - 1))], kwargs: Vec::new() })
        .collect();
    let mut recorded = HashMap::new();
    for (layer, shape) in built.into_iter().enumerate().skip(1) {
        if let Some(shape) = shape {
            recorded.insert(leaf(layer - 1), Recorded { shape, dtype: None });
        }
    }
    Ok(Net {
        name: name.to_owned(),
        class: class.to_owned(),
        sequential: true,
        inputs: Tree::Leaf(leaf(0)),
        outputs: Tree::Leaf(leaf(layers.len() - 1)),
        layers,
        calls,
        recorded,
        arity: HashMap::new(),
    })
}

fn layer_list(config: &mut Json, place: &str) -> Result<Vec<Json>> {
    match config.take("layers") {
        Some(Json::Array(items)) => Ok(items),
        other => Err(ImportError::Layout {
            place: format!("{place}.config.layers"),
            reason: format!("it should be a list, not {}", other.as_ref().map_or("nothing", Json::kind)),
        }),
    }
}

/// A functional model: each layer lists its calls.
fn functional_net(config: &mut Json, name: &str, class: &str, place: &str) -> Result<Net> {
    let mut items = layer_list(config, place)?;
    let at = |index: usize| format!("{place}.config.layers[{index}]");
    let inbound: Vec<Json> = items.iter_mut().map(|item| item.take("inbound_nodes").unwrap_or(Json::Null)).collect();
    let mut layers = Vec::with_capacity(items.len());
    let mut index_of = HashMap::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        // Graphs refer to the outer name; it differs from the config's when a layer was renamed by hand.
        let outer = item.get("name").and_then(Json::as_str).map(str::to_owned);
        let def = layer(item, &at(index))?;
        let key = outer.unwrap_or_else(|| def.name.clone());
        if index_of.insert(key.clone(), index).is_some() {
            return Err(ImportError::Layout { place: at(index), reason: format!("two layers are called '{key}'") });
        }
        layers.push(def);
    }
    let mut reader = GraphReader { index_of, recorded: HashMap::new(), arity: HashMap::new() };
    let mut calls: Vec<Vec<Call>> = Vec::with_capacity(layers.len());
    for (layer, nodes) in inbound.into_iter().enumerate() {
        let nodes = match nodes {
            Json::Array(nodes) => nodes,
            Json::Null => Vec::new(),
            other => {
                let reason = format!("it should be a list, not {}", other.kind());
                return Err(ImportError::Layout { place: format!("{}.inbound_nodes", at(layer)), reason });
            }
        };
        let mut own = Vec::with_capacity(nodes.len());
        for (node, data) in nodes.into_iter().enumerate() {
            let (args, kwargs) = reader.node(data, &layers[layer].name)?;
            own.push(Call { layer, node, args, kwargs });
        }
        calls.push(own);
    }
    let inputs = reader.tree(config.take("input_layers"), &layers, &format!("{place}.config.input_layers"))?;
    let outputs = reader.tree(config.take("output_layers"), &layers, &format!("{place}.config.output_layers"))?;
    let calls = ordered(calls, &inputs, &outputs, &layers, name)?;
    Ok(Net {
        name: name.to_owned(),
        class: class.to_owned(),
        sequential: false,
        layers,
        calls,
        inputs,
        outputs,
        recorded: reader.recorded,
        arity: reader.arity,
    })
}

/// Sorts calls into running order and drops those that no output needs.
fn ordered(
    calls: Vec<Vec<Call>>,
    inputs: &Tree,
    outputs: &Tree,
    layers: &[LayerDef],
    model: &str,
) -> Result<Vec<Call>> {
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
            let mut kwargs: Vec<&(String, Arg)> = call.kwargs.iter().collect();
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
    let order = order::order(&nodes, &ends, layers.len()).map_err(|node| ImportError::Cycle {
        model: model.to_owned(),
        layer: layers[nodes[node].layer].name.clone(),
    })?;
    let mut flat: Vec<Option<Call>> = Vec::with_capacity(count);
    for own in calls {
        if own.is_empty() {
            flat.push(None);
        }
        flat.extend(own.into_iter().map(Some));
    }
    Ok(order.into_iter().filter_map(|node| flat[node].take()).collect())
}

impl Arg {
    /// The tensors within, in order.
    pub(super) fn collect(&self, tensors: &mut Vec<Ref>) {
        match self {
            Arg::Tensor(tensor) => tensors.push(*tensor),
            Arg::List(items) => items.iter().for_each(|item| item.collect(tensors)),
            Arg::Dict(entries) => {
                // Sorted by key when read.
                entries.iter().for_each(|(_, item)| item.collect(tensors));
            }
            Arg::Json(_) => {}
        }
    }
}

/// Positional and keyword arguments.
type Arguments = (Vec<Arg>, Vec<(String, Arg)>);

struct GraphReader {
    index_of: HashMap<String, usize>,
    recorded: HashMap<Ref, Recorded>,
    arity: HashMap<(usize, usize), usize>,
}

impl GraphReader {
    fn tensor(&self, parts: &[Json]) -> Option<Ref> {
        let [Json::Str(name), node, tensor, ..] = parts else { return None };
        let layer = *self.index_of.get(name)?;
        let node = usize::try_from(node.as_int()?).ok()?;
        let tensor = usize::try_from(tensor.as_int()?).ok().filter(|&tensor| tensor < MAX_ARITY)?;
        Some(Ref { layer, node, tensor })
    }

    /// The arguments of one call.
    fn node(&mut self, mut data: Json, reader: &str) -> Result<Arguments> {
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
    fn tree(&self, json: Option<Json>, layers: &[LayerDef], place: &str) -> Result<Tree> {
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

/// A list of dimensions, `None` where Keras wrote null.
pub(super) fn shape(json: &Json) -> Option<Vec<Option<u64>>> {
    let dim = |item: &Json| match item {
        Json::Null => Some(None),
        item => u64::try_from(item.as_int()?).ok().map(Some),
    };
    json.as_array()?.iter().map(dim).collect()
}

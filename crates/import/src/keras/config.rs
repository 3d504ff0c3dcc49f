//! A model's JSON as layers and calls: the first half of the import, done once per file.
//!
//! In: [`Json`]. Out: [`Net`]: layers with their settings, and their calls in running order. Nested models, wrapped layers
//! and recurrent cells are layers within layers. No shape is computed here, but the shapes that Keras recorded are kept for
//! layers whose code is not known.

use std::collections::HashMap;

use brimful_core::model::DType;
use compact_str::CompactString;

use super::graph::{GraphReader, ordered};
use super::json::Json;
use super::layers::{self, Entry};
use super::ops::{self, OpEntry};
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
    /// By layer: its place in the order of the first calls, as a walk back from the outputs tells it. What the user's program did before is not in
    /// the file.
    pub(super) created: Vec<u32>,
    pub(super) inputs: Tree,
    pub(super) outputs: Tree,
    /// Shapes and types that Keras wrote beside references, by tensor.
    pub(super) recorded: HashMap<Ref, Recorded>,
    /// How many outputs of a call are read, by layer and call: at least that many there are.
    pub(super) arity: HashMap<(usize, usize), usize>,
}

impl Net {
    /// The outputs' names, in their order: their keys, or else the layers that make them.
    pub(super) fn output_names(&self) -> Vec<&str> {
        match &self.outputs {
            Tree::Dict(entries) => entries.iter().map(|(key, _)| key.as_str()).collect(),
            tree => tree.flatten().iter().map(|output| self.layers[output.layer].name.as_str()).collect(),
        }
    }
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
    pub(super) kwargs: Vec<(CompactString, Arg)>,
}

/// An argument of a call.
pub(super) enum Arg {
    Tensor(Ref),
    List(Vec<Arg>),
    Dict(Vec<(CompactString, Arg)>),
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
    Dict(Vec<(CompactString, Tree)>),
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
        Some(Json::Str(class)) => class.into_string(),
        _ => return Err(wrong("it has no class_name".to_owned())),
    };
    let registered = json.take("registered_name");
    let module = match json.take("module") {
        Some(Json::Str(module)) => module.into_string(),
        // A class made in a notebook may have no module, but then it has a registered name.
        _ if matches!(registered, Some(Json::Str(_))) => "unknown".to_owned(),
        // Keras 2 wrote no module.
        _ => "keras.layers".to_owned(),
    };
    let outer_name = json.take("name");
    let mut config = match json.take("config") {
        Some(config @ Json::Object(_)) => config,
        // Some Keras 2 Sequential files hold the list of layers directly.
        Some(layers @ Json::Array(_)) => Json::Object(vec![("layers".into(), layers)]),
        Some(other) => return Err(wrong(format!("its config is {}", other.kind()))),
        None => Json::Object(Vec::new()),
    };
    let name = match (config.get("name"), &outer_name) {
        (Some(Json::Str(name)), _) | (_, Some(Json::Str(name))) => name.to_string(),
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
            ("name".into(), Json::Str("input".into())),
            ("batch_shape".into(), shape.unwrap_or(Json::Null)),
            ("dtype".into(), Json::Null),
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
        created: (0..layers.len() as u32).collect(),
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
    let (calls, created) = ordered(calls, &inputs, &outputs, &layers, name)?;
    Ok(Net {
        name: name.to_owned(),
        class: class.to_owned(),
        sequential: false,
        layers,
        calls,
        created,
        inputs,
        outputs,
        recorded: reader.recorded,
        arity: reader.arity,
    })
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

/// A list of dimensions, `None` where Keras wrote null.
pub(super) fn shape(json: &Json) -> Option<Vec<Option<u64>>> {
    let dim = |item: &Json| match item {
        Json::Null => Some(None),
        item => u64::try_from(item.as_int()?).ok().map(Some),
    };
    json.as_array()?.iter().map(dim).collect()
}

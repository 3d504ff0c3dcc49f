//! Layers and calls to ops, tensors and weights: the second half of the import, done once per set of options.
//!
//! In: a [`Net`] and options. Out: a [`Model`]. [`Builder`] runs nets and calls layers; a layer's function in `layers/` makes
//! its ops through a [`Cx`]. Shapes are always computed anew, because an override may have changed any of them.

use std::collections::{HashMap, HashSet};

use brimful_core::model::{DType, Layer, LayerId, Model, Note, Op, OpKind, Shape, Tensor, TensorId, WeightId};
use compact_str::CompactString;

use super::config::{Arg, Call, Kind, LayerDef, Net, Recorded, Ref, Tree};
use super::cx::Cx;
use super::json::Json;
use super::listing::{self, Place};
use super::overrides::Overrides;
use super::policy::{self, Policy};
use super::value::{Args, Value};
use super::{Options, custom, ops};
use crate::error::{ImportError, Result};

/// Ops, tensors and calls beyond this are refused: a file of a few lines can ask for billions.
pub(super) const MAX_OPS: usize = 500_000;
/// TensorFlow's own limit is 254, and its kernels stop far below.
const MAX_RANK: usize = 64;
/// Notes beyond this say nothing new.
const MAX_NOTES: usize = 1_000;

/// What is known about a tensor beside its shape.
#[derive(Clone, Copy, Default)]
struct Facts {
    /// A Keras mask accompanies it.
    masked: bool,
    /// Its second dimension was null in the file: Keras does not unroll over it.
    dynamic: bool,
}

/// Where a call happens.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The path of the model or wrapper around, empty at the top.
    pub(super) path: &'a str,
    /// Whether everything around is trainable.
    pub(super) trainable: bool,
}

/// Builds a model.
pub(super) struct Builder<'d> {
    pub(super) model: Model,
    pub(super) options: &'d Options,
    pub(super) overrides: &'d Overrides,
    /// The policy to put in place of the model-wide one, and that one's name.
    forced: Option<(Policy, &'d str)>,
    facts: Vec<Facts>,
    layer_ids: HashMap<String, LayerId>,
    /// Each layer's weights, by layer; few enough to search.
    pub(super) weights_of: Vec<Vec<WeightId>>,
    /// The axis of the batch, where it is not the first.
    pub(super) moved_batches: HashMap<TensorId, usize>,
    calls: usize,
    /// What was made by functions of whole numbers, by all that decides it.
    pub(super) of_whole_numbers: HashMap<String, Value<'d>>,
    /// Codes and layers of the notes so far.
    noted: HashSet<(&'static str, Option<String>)>,
    /// The layers that are being called, the outermost first.
    place: Vec<Place>,
    /// By layer: the same when it was called first.
    places: Vec<Vec<Place>>,
}

impl<'d> Builder<'d> {
    pub(super) fn new(
        options: &'d Options,
        overrides: &'d Overrides,
        forced: Option<(Policy, &'d str)>,
    ) -> Builder<'d> {
        Builder {
            model: Model::default(),
            options,
            overrides,
            forced,
            facts: Vec::new(),
            layer_ids: HashMap::new(),
            weights_of: Vec::new(),
            moved_batches: HashMap::new(),
            calls: 0,
            of_whole_numbers: HashMap::new(),
            noted: HashSet::new(),
            place: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Runs the outermost net.
    pub(super) fn run_root(&mut self, net: &'d Net) -> Result<()> {
        self.model.name = net.name.clone();
        let mut inputs = Vec::new();
        for input in net.inputs.flatten() {
            inputs.push(self.input(net, input)?);
        }
        self.model.inputs = inputs.clone();
        let outputs = self.run(net, Scope { path: "", trainable: true }, inputs)?;
        self.model.outputs = outputs.tensors();
        listing::list(&mut self.model, &self.places);
        Ok(())
    }

    /// The tensor of a model input.
    fn input(&mut self, net: &'d Net, input: Ref) -> Result<TensorId> {
        let def = &net.layers[input.layer];
        let overrides = self.overrides;
        let get =
            |key: &str| overrides.get(&def.name, key).or_else(|| def.config.get(key)).filter(|json| !json.is_null());
        let fail = |reason: String| ImportError::Layer { layer: def.name.clone(), class: def.class.clone(), reason };
        // `shape` is without the batch; as an override it goes before what the file says.
        let mut dims: Vec<Json> = Vec::new();
        let whole = get("batch_shape").or_else(|| get("batch_input_shape"));
        if let Some(shape) = get("shape") {
            dims.push(Json::Null);
            match shape {
                Json::Array(items) => dims.extend_from_slice(items),
                other => dims.push(other.clone()),
            }
        } else if let Some(Json::Array(items)) = whole {
            dims.clone_from(items);
        } else if let Some(Recorded { shape, .. }) = net.recorded.get(&input).filter(|_| def.class != "InputLayer") {
            let dim =
                |dim: &Option<u64>| dim.map_or(Json::Null, |dim| Json::Int(i64::try_from(dim).unwrap_or(i64::MAX)));
            dims.extend(shape.iter().map(dim));
        } else {
            return Err(ImportError::NoInputShape { model: net.name.clone() });
        }
        if dims.is_empty() {
            return Err(fail("an input without a batch dimension cannot be planned; give it one".to_owned()));
        }
        if let Some(batch) = dims[0].as_int() {
            let text =
                format!("The file fixes the batch of this input at {batch}; the batch that was asked for is used.");
            self.note("fixed_batch", Some(&def.name), text);
        }
        let mut sample = Vec::with_capacity(dims.len());
        let mut unknown = Vec::new();
        for (at, dim) in dims.iter().enumerate().skip(1) {
            let size = match dim {
                Json::Null => {
                    unknown.push(at);
                    self.options.unknown_dim.max(1)
                }
                dim => dim
                    .as_int()
                    .and_then(|size| u64::try_from(size).ok())
                    .filter(|&size| size > 0)
                    .ok_or_else(|| fail(format!("dimension {at} of its shape is not a positive number")))?,
            };
            sample.push(size);
        }
        if !unknown.is_empty() {
            let size = self.options.unknown_dim.max(1);
            let axes: Vec<String> = unknown.iter().map(ToString::to_string).collect();
            let text = format!(
                "The size of dimension {} varies; {size} is assumed. Set it with --set {}.shape=….",
                axes.join(", "),
                def.name
            );
            self.note("unknown_dimension", Some(&def.name), text);
        }
        let dtype = match get("dtype") {
            Some(json) => policy::name(json).and_then(|name| Policy::named(&name)).map(|policy| policy.compute),
            // A Sequential model without an input layer: Keras makes one in the first layer's compute type.
            None => net.layers.get(1).map(|layer| self.policy(layer, &layer.name).compute),
        };
        let id = self.tensor(Shape::batched(&sample), dtype.unwrap_or(DType::Float32), &def.name)?;
        self.facts[id.0 as usize].dynamic = unknown.contains(&1);
        Ok(id)
    }

    /// Runs a net on tensors for its inputs, in flattened order.
    fn run(&mut self, net: &'d Net, scope: Scope<'_>, inputs: Vec<TensorId>) -> Result<Value<'d>> {
        // By layer, then by call: the flattened outputs.
        let mut done: Vec<Vec<Option<Vec<TensorId>>>> = vec![Vec::new(); net.layers.len()];
        let put = |done: &mut Vec<Vec<Option<Vec<TensorId>>>>, layer: usize, node: usize, tensors: Vec<TensorId>| {
            let calls = &mut done[layer];
            if calls.len() <= node {
                calls.resize(node + 1, None);
            }
            calls[node] = Some(tensors);
        };
        for (input, tensor) in net.inputs.flatten().into_iter().zip(inputs) {
            // Several outputs of one call can be inputs of a model that was cut out of another.
            let mut tensors = done[input.layer].get(input.node).cloned().flatten().unwrap_or_default();
            if tensors.len() <= input.tensor {
                tensors.resize(input.tensor + 1, tensor);
            }
            tensors[input.tensor] = tensor;
            put(&mut done, input.layer, input.node, tensors);
        }
        for call in &net.calls {
            if done[call.layer].get(call.node).is_some_and(Option::is_some) {
                continue;
            }
            let def = &net.layers[call.layer];
            let args = resolve(call, &done, net)?;
            let recorded = net.recorded.get(&Ref { layer: call.layer, node: call.node, tensor: 0 });
            self.place.push(Place { listed: call.layer as u32, created: net.created[call.layer] });
            let value = self.call(def, scope, args, Hints { net: Some(net), call: Some(call), recorded })?;
            self.place.pop();
            put(&mut done, call.layer, call.node, value.tensors());
        }
        let outputs = outputs(&net.outputs, &done, net)?;
        Ok(match outputs {
            Value::List(mut items) if items.len() == 1 => items.remove(0),
            other => other,
        })
    }

    /// Calls a layer, nested model or function as `Layer.__call__` does: casts, runs, passes masks on.
    pub(super) fn call(
        &mut self,
        def: &'d LayerDef,
        scope: Scope<'_>,
        args: Args<'d>,
        hints: Hints<'d>,
    ) -> Result<Value<'d>> {
        self.calls += 1;
        let path = join(scope.path, &def.name);
        if self.calls > MAX_OPS {
            return Err(ImportError::TooMany { what: "layer calls", limit: MAX_OPS, layer: path });
        }
        if let Kind::Net(net) = &def.kind {
            return self.call_net(def, net, scope, path, args);
        }
        let mut cx = self.enter(def, scope, path, args);
        match &def.kind {
            Kind::Layer(entry) => cx.call_layer(entry, true, hints),
            Kind::Op(entry) => ops::call(&mut cx, entry, hints),
            Kind::Custom { module } => custom::call(&mut cx, module, hints),
            Kind::Net(_) => unreachable!("handled above"),
        }
    }

    fn call_net(
        &mut self,
        def: &'d LayerDef,
        net: &'d Net,
        scope: Scope<'_>,
        path: String,
        args: Args<'d>,
    ) -> Result<Value<'d>> {
        let trainable = scope.trainable && self.own_trainable(def, &path);
        let refs = net.inputs.flatten();
        let first = args.positional.into_iter().next().unwrap_or(Value::None);
        // A dictionary also goes to a model with a list of inputs: by the inputs' names.
        let mut tensors = match (&first, &net.inputs) {
            (Value::Dict(entries), Tree::List(_) | Tree::Leaf(_)) => {
                let by_name = |input: &Ref| {
                    let name = net.layers[input.layer].name.as_str();
                    entries.iter().find(|(key, _)| *key == name).and_then(|(_, value)| value.tensors().first().copied())
                };
                refs.iter().filter_map(by_name).collect()
            }
            _ => first.tensors(),
        };
        if tensors.len() != refs.len() {
            let reason = format!("it takes {} inputs and is called with {}", refs.len(), tensors.len());
            return Err(ImportError::Layer { layer: path, class: def.class.clone(), reason });
        }
        let layer = self.layer(&path, &def.class);
        let policy = self.policy(def, &path);
        for (tensor, input) in tensors.iter_mut().zip(&refs) {
            let input_def = &net.layers[input.layer];
            if net.sequential {
                *tensor = self.autocast(*tensor, policy.compute, layer, &path)?;
            }
            // A model converts what it is given to its inputs' types.
            let wanted = input_def.config.get("dtype").and_then(policy::name).and_then(|name| Policy::named(&name));
            if let Some(wanted) = wanted
                && self.dtype(*tensor) != wanted.compute
            {
                *tensor = self.cast(*tensor, wanted.compute, layer, &path)?;
            }
            let rank = input_def.config.get("batch_shape").and_then(Json::as_array).map(<[Json]>::len);
            if let Some(rank) = rank {
                *tensor = self.fit_rank(*tensor, rank, layer, policy, &path)?;
            }
        }
        self.run(net, Scope { path: &path, trainable }, tensors)
    }

    /// A model adds or drops a last dimension of 1 to meet its input's rank.
    fn fit_rank(
        &mut self,
        tensor: TensorId,
        rank: usize,
        layer: LayerId,
        policy: Policy,
        path: &str,
    ) -> Result<TensorId> {
        let mut shape = self.shape(tensor).clone();
        if shape.rank() == rank + 1 && shape.last() == 1 {
            shape.dims.pop();
        } else if shape.rank() + 1 == rank {
            shape.dims.push(1);
        } else {
            return Ok(tensor);
        }
        let dtype = self.dtype(tensor);
        let out = self.tensor(shape, dtype, path)?;
        let op = Op {
            layer,
            kind: OpKind::Reshape,
            inputs: vec![tensor],
            outputs: vec![out],
            weights: Vec::new(),
            compute: policy.compute,
        };
        self.push(op, path)?;
        Ok(out)
    }

    /// What a layer's function sees.
    pub(super) fn enter<'b>(
        &'b mut self,
        def: &'d LayerDef,
        scope: Scope<'_>,
        path: String,
        args: Args<'d>,
    ) -> Cx<'b, 'd> {
        let layer = self.layer(&path, &def.class);
        let policy = self.policy(def, &path);
        let trainable = scope.trainable && self.own_trainable(def, &path);
        Cx { builder: self, def, path, layer, trainable, policy, args }
    }

    /// What a layer says about itself; what is around it has its say in the scope.
    fn own_trainable(&self, def: &LayerDef, path: &str) -> bool {
        let asked = self.overrides.get(path, "trainable").or_else(|| def.config.get("trainable"));
        asked.and_then(Json::as_bool).unwrap_or(true)
    }

    fn policy(&self, def: &LayerDef, path: &str) -> Policy {
        let asked = self.overrides.get(path, "dtype").and_then(policy::name);
        if let Some(asked) = asked.and_then(|name| Policy::named(&name)) {
            return asked;
        }
        let name = def.config.get("dtype").and_then(policy::name);
        match (self.forced, name) {
            // The layer has the model-wide policy, or says nothing: the forced one goes in its place.
            (Some((forced, default)), name) if name.as_deref().is_none_or(|name| name == default) => forced,
            (_, Some(name)) => Policy::named(&name).unwrap_or(Policy::FLOAT32),
            _ => Policy::FLOAT32,
        }
    }

    /// The layer of a path; a new one on the first call.
    pub(super) fn layer(&mut self, path: &str, class: &str) -> LayerId {
        if let Some(&id) = self.layer_ids.get(path) {
            return id;
        }
        let id = LayerId(self.model.layers.len() as u32);
        self.model.layers.push(Layer { path: path.to_owned(), class: class.to_owned() });
        self.weights_of.push(Vec::new());
        self.places.push(self.place.clone());
        self.layer_ids.insert(path.to_owned(), id);
        id
    }

    pub(super) fn shape(&self, id: TensorId) -> &Shape {
        &self.model.tensors[id.0 as usize].shape
    }

    pub(super) fn dtype(&self, id: TensorId) -> DType {
        self.model.tensors[id.0 as usize].dtype
    }

    pub(super) fn masked(&self, id: TensorId) -> bool {
        self.facts[id.0 as usize].masked
    }

    pub(super) fn set_masked(&mut self, id: TensorId, masked: bool) {
        self.facts[id.0 as usize].masked = masked;
    }

    /// Whether the tensor's second dimension varies, so that Keras does not unroll over it.
    pub(super) fn dynamic(&self, id: TensorId) -> bool {
        self.facts[id.0 as usize].dynamic
    }

    pub(super) fn tensor(&mut self, mut shape: Shape, dtype: DType, path: &str) -> Result<TensorId> {
        if shape.rank() > MAX_RANK {
            return Err(ImportError::TooMany { what: "dimensions", limit: MAX_RANK, layer: path.to_owned() });
        }
        // A scalar has no batch to count.
        shape.batched &= shape.rank() > 0;
        if self.model.tensors.len() >= MAX_OPS {
            return Err(ImportError::TooMany { what: "tensors", limit: MAX_OPS, layer: path.to_owned() });
        }
        let id = TensorId(self.model.tensors.len() as u32);
        self.model.tensors.push(Tensor { shape, dtype });
        self.facts.push(Facts::default());
        Ok(id)
    }

    pub(super) fn push(&mut self, op: Op, path: &str) -> Result<()> {
        if self.model.ops.len() >= MAX_OPS {
            return Err(ImportError::TooMany { what: "ops", limit: MAX_OPS, layer: path.to_owned() });
        }
        // The time axis stays of unknown length through whatever keeps it.
        let dynamic = op.inputs.iter().find(|&&input| self.dynamic(input)).map(|&input| self.shape(input).dims[1]);
        if let Some(steps) = dynamic {
            for &output in &op.outputs {
                let dims = &self.shape(output).dims;
                if dims.len() >= 2 && dims[1] == steps {
                    self.facts[output.0 as usize].dynamic = true;
                }
            }
        }
        self.model.ops.push(op);
        Ok(())
    }

    /// Casts a float tensor to the type a layer computes in.
    pub(super) fn autocast(
        &mut self,
        tensor: TensorId,
        compute: DType,
        layer: LayerId,
        path: &str,
    ) -> Result<TensorId> {
        let dtype = self.dtype(tensor);
        if !dtype.is_float() || !compute.is_float() || dtype == compute {
            return Ok(tensor);
        }
        self.cast(tensor, compute, layer, path)
    }

    pub(super) fn cast(&mut self, tensor: TensorId, to: DType, layer: LayerId, path: &str) -> Result<TensorId> {
        let out = self.tensor(self.shape(tensor).clone(), to, path)?;
        self.facts[out.0 as usize] = self.facts[tensor.0 as usize];
        let op = Op {
            layer,
            kind: OpKind::Cast,
            inputs: vec![tensor],
            outputs: vec![out],
            weights: Vec::new(),
            compute: to,
        };
        self.push(op, path)?;
        Ok(out)
    }

    pub(super) fn note(&mut self, code: &'static str, layer: Option<&str>, text: String) {
        // A shared or unrolled layer says a thing once.
        if self.noted.len() < MAX_NOTES && self.noted.insert((code, layer.map(str::to_owned))) {
            self.model.notes.push(Note { code, layer: layer.map(str::to_owned), text });
        }
    }
}

/// What the file says about a call beside its arguments: for layers whose code is not known.
#[derive(Clone, Copy, Default)]
pub(super) struct Hints<'d> {
    pub(super) net: Option<&'d Net>,
    pub(super) call: Option<&'d Call>,
    /// What Keras recorded about the first output.
    pub(super) recorded: Option<&'d Recorded>,
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

type Done = [Vec<Option<Vec<TensorId>>>];

fn lookup(done: &Done, tensor: Ref) -> Option<TensorId> {
    done[tensor.layer].get(tensor.node)?.as_ref()?.get(tensor.tensor).copied()
}

fn resolve<'d>(call: &'d Call, done: &Done, net: &'d Net) -> Result<Args<'d>> {
    let value =
        |arg: &'d Arg| resolve_arg(arg, done).map_err(|tensor| dangling(tensor, net, &net.layers[call.layer].name));
    let positional = call.args.iter().map(value).collect::<Result<_>>()?;
    let named = call.kwargs.iter().map(|(key, arg)| Ok((key.as_str(), value(arg)?))).collect::<Result<_>>()?;
    Ok(Args { positional, named })
}

fn resolve_arg<'d>(arg: &'d Arg, done: &Done) -> std::result::Result<Value<'d>, Ref> {
    Ok(match arg {
        Arg::Tensor(tensor) => Value::Tensor(lookup(done, *tensor).ok_or(*tensor)?),
        Arg::List(items) => {
            Value::List(items.iter().map(|item| resolve_arg(item, done)).collect::<std::result::Result<_, _>>()?)
        }
        Arg::Dict(entries) => {
            let entry = |(key, item): &'d (CompactString, Arg)| Ok((key.as_str(), resolve_arg(item, done)?));
            Value::Dict(entries.iter().map(entry).collect::<std::result::Result<_, _>>()?)
        }
        Arg::Json(json) => Value::Const(json),
    })
}

fn outputs<'d>(tree: &'d Tree, done: &Done, net: &Net) -> Result<Value<'d>> {
    Ok(match tree {
        Tree::Leaf(tensor) => Value::Tensor(lookup(done, *tensor).ok_or_else(|| dangling(*tensor, net, &net.name))?),
        Tree::List(items) => Value::List(items.iter().map(|item| outputs(item, done, net)).collect::<Result<_>>()?),
        Tree::Dict(entries) => {
            let entry = |(key, item): &'d (CompactString, Tree)| Ok((key.as_str(), outputs(item, done, net)?));
            Value::Dict(entries.iter().map(entry).collect::<Result<_>>()?)
        }
    })
}

fn dangling(tensor: Ref, net: &Net, reader: &str) -> ImportError {
    let what = format!("output {} of call {} of layer '{}'", tensor.tensor, tensor.node, net.layers[tensor.layer].name);
    ImportError::Dangling { layer: reader.to_owned(), what }
}

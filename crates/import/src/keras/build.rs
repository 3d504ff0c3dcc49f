//! Layers and calls to ops, tensors and weights: the second half of the import, done once per set of options.
//!
//! In: a [`Net`] and options. Out: a [`Model`]. [`Builder`] runs nets and calls layers; [`Cx`] is what a layer's function in
//! `layers/` sees: its settings, its arguments, and ways to make weights and ops. Shapes are always computed anew, because an
//! override may have changed any of them.

use std::collections::{HashMap, HashSet};

use brimful_core::model::{DType, Layer, LayerId, Model, Note, Op, OpKind, Shape, Tensor, TensorId, Weight, WeightId};

use super::config::{Arg, Call, Kind, LayerDef, Net, Recorded, Ref, Tree};
use super::json::Json;
use super::overrides::Overrides;
use super::policy::{self, Policy};
use super::{Options, custom, layers::Entry, ops};
use crate::error::{ImportError, Result};

/// Ops, tensors and calls beyond this are refused: a file of a few lines can ask for billions.
const MAX_OPS: usize = 500_000;
/// TensorFlow's own limit is 254, and its kernels stop far below.
const MAX_RANK: usize = 64;
/// Notes beyond this say nothing new.
const MAX_NOTES: usize = 1_000;

/// A value during the run of a net: what layers take and return.
#[derive(Clone, Debug)]
pub(super) enum Value<'d> {
    None,
    Tensor(TensorId),
    List(Vec<Value<'d>>),
    Dict(Vec<(&'d str, Value<'d>)>),
    /// A number, text or list in the file.
    Const(&'d Json),
}

impl<'d> Value<'d> {
    pub(super) fn tensors(&self) -> Vec<TensorId> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect(&self, found: &mut Vec<TensorId>) {
        match self {
            Value::Tensor(id) => found.push(*id),
            Value::List(items) => items.iter().for_each(|item| item.collect(found)),
            Value::Dict(entries) => entries.iter().for_each(|(_, item)| item.collect(found)),
            Value::None | Value::Const(_) => {}
        }
    }

    fn map(&mut self, change: &mut impl FnMut(TensorId) -> Result<TensorId>) -> Result<()> {
        match self {
            Value::Tensor(id) => *id = change(*id)?,
            Value::List(items) => items.iter_mut().try_for_each(|item| item.map(change))?,
            Value::Dict(entries) => entries.iter_mut().try_for_each(|(_, item)| item.map(change))?,
            Value::None | Value::Const(_) => {}
        }
        Ok(())
    }

    /// A constant of the file, if it is one and not null.
    pub(super) fn constant(&self) -> Option<&'d Json> {
        match self {
            Value::Const(json) if !json.is_null() => Some(json),
            _ => None,
        }
    }

    pub(super) fn list(tensors: &[TensorId]) -> Value<'d> {
        Value::List(tensors.iter().map(|&id| Value::Tensor(id)).collect())
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Args<'d> {
    pub(super) positional: Vec<Value<'d>>,
    pub(super) named: Vec<(&'d str, Value<'d>)>,
}

impl<'d> Args<'d> {
    pub(super) fn one(tensor: TensorId) -> Args<'d> {
        Args { positional: vec![Value::Tensor(tensor)], named: Vec::new() }
    }

    /// An argument by position or name; `None` if it is absent or null.
    pub(super) fn get(&self, position: usize, name: &str) -> Option<&Value<'d>> {
        let found = self.positional.get(position).or_else(|| self.by_name(name))?;
        match found {
            Value::None => None,
            Value::Const(json) if json.is_null() => None,
            found => Some(found),
        }
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Value<'d>> {
        self.named.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    pub(super) fn tensors(&self) -> Vec<TensorId> {
        let mut found = Vec::new();
        self.positional.iter().for_each(|value| value.collect(&mut found));
        self.named.iter().for_each(|(_, value)| value.collect(&mut found));
        found
    }

    fn map(&mut self, change: &mut impl FnMut(TensorId) -> Result<TensorId>) -> Result<()> {
        self.positional.iter_mut().try_for_each(|value| value.map(change))?;
        self.named.iter_mut().try_for_each(|(_, value)| value.map(change))
    }
}

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
    overrides: &'d Overrides,
    /// The policy to put in place of the model-wide one, and that one's name.
    forced: Option<(Policy, &'d str)>,
    facts: Vec<Facts>,
    layer_ids: HashMap<String, LayerId>,
    /// Each layer's weights, by layer; few enough to search.
    weights_of: Vec<Vec<WeightId>>,
    calls: usize,
    /// Codes and layers of the notes so far.
    noted: HashSet<(&'static str, Option<String>)>,
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
            calls: 0,
            noted: HashSet::new(),
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
            None => net.layers.get(1).map(|layer| self.policy(layer).compute),
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
            let value = self.call(def, scope, args, Hints { net: Some(net), call: Some(call), recorded })?;
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
        let trainable = scope.trainable && flag(&def.config, "trainable").unwrap_or(true);
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
        let policy = self.policy(def);
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
        let policy = self.policy(def);
        let trainable = scope.trainable && flag(&def.config, "trainable").unwrap_or(true);
        let overridden = !self.overrides.is_empty();
        let trainable = match self.overrides.get(&path, "trainable") {
            Some(json) if overridden => json.as_bool().unwrap_or(trainable),
            _ => trainable,
        };
        Cx { builder: self, def, path, layer, trainable, policy, args }
    }

    fn policy(&self, def: &LayerDef) -> Policy {
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
    fn autocast(&mut self, tensor: TensorId, compute: DType, layer: LayerId, path: &str) -> Result<TensorId> {
        let dtype = self.dtype(tensor);
        if !dtype.is_float() || !compute.is_float() || dtype == compute {
            return Ok(tensor);
        }
        self.cast(tensor, compute, layer, path)
    }

    fn cast(&mut self, tensor: TensorId, to: DType, layer: LayerId, path: &str) -> Result<TensorId> {
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

fn flag(config: &Json, key: &str) -> Option<bool> {
    config.get(key).and_then(Json::as_bool)
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
            let entry = |(key, item): &'d (String, Arg)| Ok((key.as_str(), resolve_arg(item, done)?));
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
            let entry = |(key, item): &'d (String, Tree)| Ok((key.as_str(), outputs(item, done, net)?));
            Value::Dict(entries.iter().map(entry).collect::<Result<_>>()?)
        }
    })
}

fn dangling(tensor: Ref, net: &Net, reader: &str) -> ImportError {
    let what = format!("output {} of call {} of layer '{}'", tensor.tensor, tensor.node, net.layers[tensor.layer].name);
    ImportError::Dangling { layer: reader.to_owned(), what }
}

/// What a layer's function sees: its settings, its arguments, and ways to make weights and ops.
pub(super) struct Cx<'b, 'd> {
    pub(super) builder: &'b mut Builder<'d>,
    pub(super) def: &'d LayerDef,
    pub(super) path: String,
    pub(super) layer: LayerId,
    pub(super) trainable: bool,
    pub(super) policy: Policy,
    pub(super) args: Args<'d>,
}

impl<'d> Cx<'_, 'd> {
    /// Runs a known layer. `full` also does what `Layer.__call__` does around `call`: `TimeDistributed` skips that.
    pub(super) fn call_layer(&mut self, entry: &'static Entry, full: bool, hints: Hints<'d>) -> Result<Value<'d>> {
        let (layer, compute) = (self.layer, self.policy.compute);
        if self.args.tensors().iter().any(|&tensor| self.builder.shape(tensor).rank() == 0) {
            return self.fail("it is given a single number, without a batch; keep the batch when reducing");
        }
        if full && entry.autocast {
            let mut args = std::mem::take(&mut self.args);
            args.map(&mut |tensor| self.builder.autocast(tensor, compute, layer, &self.path))?;
            self.args = args;
        }
        if self.policy.quantized {
            let text = "Its weights are quantized; they are counted at the size of the policy it was quantized from.";
            self.note("quantized", text.to_owned());
        }
        let masked = self.first_masked();
        let value = (entry.translate)(self, hints)?;
        let outputs = value.tensors();
        if full && self.has("activity_regularizer") {
            for &output in &outputs {
                self.op_to(OpKind::ActivityRegularization, &[output], Shape::fixed(&[]), compute, &[])?;
            }
        }
        if masked && entry.masks {
            for &output in &outputs {
                self.builder.set_masked(output, true);
            }
        }
        Ok(value)
    }

    /// Whether the first argument carries a mask.
    pub(super) fn first_masked(&self) -> bool {
        let first = self.args.positional.first();
        first.is_some_and(|value| value.tensors().iter().any(|&tensor| self.builder.masked(tensor)))
    }

    /// A setting, with overrides; `None` if it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<&'d Json> {
        let overridden =
            if self.builder.overrides.is_empty() { None } else { self.builder.overrides.get(&self.path, key) };
        overridden.or_else(|| self.def.config.get(key)).filter(|json| !json.is_null())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn fail<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(self.error(reason))
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Layer { layer: self.path.clone(), class: self.def.class.clone(), reason: reason.into() }
    }

    pub(super) fn note(&mut self, code: &'static str, text: String) {
        let path = self.path.clone();
        self.builder.note(code, Some(&path), text);
    }

    /// A setting that must be a positive integer.
    pub(super) fn positive(&self, key: &str) -> Result<u64> {
        match self.optional_positive(key)? {
            Some(number) => Ok(number),
            None => self.fail(format!("it has no setting '{key}'")),
        }
    }

    pub(super) fn optional_positive(&self, key: &str) -> Result<Option<u64>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        match json.as_int().and_then(|number| u64::try_from(number).ok()).filter(|&number| number > 0) {
            Some(number) => Ok(Some(number)),
            None => self.fail(format!("'{key}' should be a positive whole number")),
        }
    }

    /// An integer of any sign.
    pub(super) fn int(&self, key: &str, default: i64) -> Result<i64> {
        match self.get(key) {
            None => Ok(default),
            Some(json) => json.as_int().ok_or_else(|| self.error(format!("'{key}' should be a whole number"))),
        }
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).and_then(Json::as_bool).unwrap_or(default)
    }

    pub(super) fn float(&self, key: &str, default: f64) -> Result<f64> {
        match self.get(key) {
            None => Ok(default),
            Some(json) => {
                let number = json.as_float().filter(|number| number.is_finite());
                number.ok_or_else(|| self.error(format!("'{key}' should be a finite number")))
            }
        }
    }

    /// A share between 0 and 1.
    pub(super) fn share(&self, key: &str) -> Result<f64> {
        let share = self.float(key, 0.0)?;
        if (0.0..=1.0).contains(&share) { Ok(share) } else { self.fail(format!("'{key}' should be between 0 and 1")) }
    }

    pub(super) fn text(&self, key: &str) -> Option<&'d str> {
        self.get(key).and_then(Json::as_str)
    }

    pub(super) fn channels_first(&self) -> bool {
        self.text("data_format") == Some("channels_first")
    }

    /// `rank` positive integers; one stands for all.
    pub(super) fn sizes(&self, key: &str, rank: usize, default: u64) -> Result<Vec<u64>> {
        let Some(json) = self.get(key) else { return Ok(vec![default; rank]) };
        let number = |json: &Json| json.as_int().and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0);
        let sizes = match json {
            Json::Array(items) => {
                items.iter().map(number).collect::<Option<Vec<_>>>().filter(|sizes| sizes.len() == rank)
            }
            other => number(other).map(|size| vec![size; rank]),
        };
        sizes.ok_or_else(|| self.error(format!("'{key}' should be {rank} positive whole numbers")))
    }

    /// One integer or a list of them.
    pub(super) fn ints(&self, key: &str) -> Result<Vec<i64>> {
        let wrong = || self.error(format!("'{key}' should be whole numbers"));
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) => items.iter().map(Json::as_int).collect::<Option<_>>().ok_or_else(wrong),
            Some(other) => other.as_int().map(|int| vec![int]).ok_or_else(wrong),
        }
    }

    /// An axis counted from 0; negative ones count from the end.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let rank_signed = i64::try_from(rank).unwrap_or(i64::MAX);
        let from_start = if axis < 0 { axis.saturating_add(rank_signed) } else { axis };
        match usize::try_from(from_start) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => self.fail(format!("axis {axis} is out of bounds for an input of {rank} dimensions")),
        }
    }

    /// The one tensor of the first argument.
    pub(super) fn input(&self) -> Result<TensorId> {
        let first = self.args.positional.first().or_else(|| self.args.named.first().map(|(_, value)| value));
        match first.and_then(|value| value.tensors().first().copied()) {
            Some(tensor) => Ok(tensor),
            None => self.fail("it is called without a tensor"),
        }
    }

    /// The tensors of the first argument.
    pub(super) fn inputs(&self) -> Vec<TensorId> {
        self.args.positional.first().map(Value::tensors).unwrap_or_default()
    }

    pub(super) fn shape(&self, id: TensorId) -> Shape {
        self.builder.shape(id).clone()
    }

    pub(super) fn dtype(&self, id: TensorId) -> DType {
        self.builder.dtype(id)
    }

    /// The input's shape, if it has `rank` dimensions.
    pub(super) fn shape_of_rank(&self, id: TensorId, rank: usize) -> Result<Shape> {
        let shape = self.shape(id);
        if shape.rank() == rank {
            Ok(shape)
        } else {
            self.fail(format!("it takes {rank} dimensions and is given {}", self.show(&shape)))
        }
    }

    /// A shape as Keras prints it.
    pub(super) fn show(&self, shape: &Shape) -> String {
        let mut dims: Vec<String> = shape.dims.iter().map(ToString::to_string).collect();
        if shape.batched && !dims.is_empty() {
            dims[0] = if shape.dims[0] == 1 { "batch".to_owned() } else { format!("batch×{}", shape.dims[0]) };
        }
        format!("({})", dims.join(", "))
    }

    /// The layer's weight of this name: made on the first call, the same one on later calls.
    pub(super) fn weight(&mut self, name: &str, dims: &[u64], how: WeightKind<'_>) -> Result<WeightId> {
        let owned = &self.builder.weights_of[self.layer.0 as usize];
        if let Some(&id) = owned.iter().find(|&&id| self.builder.model.weight(id).name == name) {
            let known = &self.builder.model.weight(id).dims;
            if known == dims {
                return Ok(id);
            }
            return self.fail(format!("its weight '{name}' has shape {known:?} but this call needs {dims:?}"));
        }
        let (dtype, trainable, regularized) = match how {
            WeightKind::Trainable(regularizer) => {
                (self.policy.variable, self.trainable, regularizer.is_some_and(|key| self.has(key)))
            }
            WeightKind::State => (self.policy.variable, false, false),
            // What TensorFlow's random ops take.
            WeightKind::Seed => (DType::Int64, false, false),
            WeightKind::Typed(dtype) => (dtype, false, false),
        };
        if self.builder.model.weights.len() >= MAX_OPS {
            return Err(ImportError::TooMany { what: "weights", limit: MAX_OPS, layer: self.path.clone() });
        }
        let id = WeightId(self.builder.model.weights.len() as u32);
        let weight =
            Weight { layer: self.layer, name: name.to_owned(), dims: dims.to_vec(), dtype, trainable, regularized };
        self.builder.model.weights.push(weight);
        self.builder.weights_of[self.layer.0 as usize].push(id);
        Ok(id)
    }

    /// The state of a layer's random numbers.
    pub(super) fn seed(&mut self) -> Result<()> {
        self.weight("seed_generator_state", &[2], WeightKind::Seed).map(|_| ())
    }

    /// An op with one output in the compute type.
    pub(super) fn op(
        &mut self,
        kind: OpKind,
        inputs: &[TensorId],
        shape: Shape,
        weights: &[WeightId],
    ) -> Result<TensorId> {
        self.op_to(kind, inputs, shape, self.policy.compute, weights)
    }

    /// An op with one output.
    pub(super) fn op_to(
        &mut self,
        kind: OpKind,
        inputs: &[TensorId],
        shape: Shape,
        dtype: DType,
        weights: &[WeightId],
    ) -> Result<TensorId> {
        Ok(self.op_many(kind, inputs, vec![(shape, dtype)], weights)?[0])
    }

    /// An op with several outputs.
    pub(super) fn op_many(
        &mut self,
        kind: OpKind,
        inputs: &[TensorId],
        results: Vec<(Shape, DType)>,
        weights: &[WeightId],
    ) -> Result<Vec<TensorId>> {
        let mut outputs = Vec::with_capacity(results.len());
        for (shape, dtype) in results {
            if shape.dims.contains(&0) {
                return self.fail(format!("its output would be empty: {}", self.show(&shape)));
            }
            outputs.push(self.builder.tensor(shape, dtype, &self.path)?);
        }
        let op = Op {
            layer: self.layer,
            kind,
            inputs: inputs.to_vec(),
            outputs: outputs.clone(),
            weights: weights.to_vec(),
            compute: self.policy.compute,
        };
        self.builder.push(op, &self.path)?;
        Ok(outputs)
    }

    /// An op whose output has its input's shape.
    pub(super) fn same(&mut self, kind: OpKind, input: TensorId) -> Result<TensorId> {
        let shape = self.shape(input);
        let dtype = self.result_type(input);
        self.op_to(kind, &[input], shape, dtype, &[])
    }

    /// A float input's results are in the compute type; an integer's stay integers.
    pub(super) fn result_type(&self, input: TensorId) -> DType {
        let dtype = self.dtype(input);
        if dtype.is_float() { self.policy.compute } else { dtype }
    }

    pub(super) fn cast(&mut self, tensor: TensorId, to: DType) -> Result<TensorId> {
        if self.dtype(tensor) == to {
            return Ok(tensor);
        }
        let (layer, path) = (self.layer, self.path.clone());
        self.builder.cast(tensor, to, layer, &path)
    }

    /// A wrapped layer or cell.
    pub(super) fn inner(&self, key: &str) -> Result<&'d LayerDef> {
        let found = self.def.inner.iter().find(|(name, _)| *name == key).map(|(_, def)| def);
        found.ok_or_else(|| self.error(format!("its setting '{key}' should be a layer")))
    }

    /// The view of a layer within this one, under a name of its own.
    pub(super) fn sub<'s>(&'s mut self, def: &'d LayerDef, name: &str, args: Args<'d>) -> Cx<'s, 'd> {
        let scope = Scope { path: "", trainable: self.trainable };
        let path = join(&self.path, name);
        self.builder.enter(def, scope, path, args)
    }

    /// The view of a part of this layer that Keras makes itself: same settings, own path and class.
    pub(super) fn part<'s>(&'s mut self, name: &str, class: &str) -> Cx<'s, 'd> {
        let path = join(&self.path, name);
        let layer = self.builder.layer(&path, class);
        Cx {
            layer,
            path,
            def: self.def,
            trainable: self.trainable,
            policy: self.policy,
            args: Args::default(),
            builder: self.builder,
        }
    }
}

/// What kind of weight a layer makes.
pub(super) enum WeightKind<'a> {
    /// The optimizer updates it; the setting that may hold its regularizer.
    Trainable(Option<&'a str>),
    /// The layer updates it itself.
    State,
    /// The state of random numbers.
    Seed,
    /// Not trainable, of a type of its own.
    Typed(DType),
}

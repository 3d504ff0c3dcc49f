//! What a layer's function sees of the import.
//!
//! In: a layer's settings (with overrides) and its arguments. Out: weights and ops, put into the builder. Reading a setting
//! checks it: a function in `layers/` gets positive sizes, axes within bounds and shapes of the right rank, or an error that
//! names the layer.

use brimful_core::model::{DType, LayerId, Op, OpKind, Pairs, Penalty, Shape, TensorId, Weight, WeightId};

use super::build::{Builder, Hints, MAX_OPS, Scope, join};
use super::config::LayerDef;
use super::json::Json;
use super::layers::Entry;
use super::policy::Policy;
use super::value::{Args, Value};
use crate::error::{ImportError, Result};

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
        if let Some(penalty) = self.activity_penalty().filter(|_| full) {
            for &output in &outputs {
                self.op_to(OpKind::ActivityRegularization(penalty), &[output], Shape::fixed(&[]), compute, &[])?;
            }
        }
        if masked && entry.masks {
            for &output in &outputs {
                self.builder.set_masked(output, true);
            }
        }
        Ok(value)
    }

    /// What the layer's outputs add to the loss.
    pub(super) fn activity_penalty(&self) -> Option<Penalty> {
        self.get("activity_regularizer").map(penalty_of)
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
        let mut constrained = false;
        let (dtype, trainable, penalty) = match how {
            WeightKind::Trainable(regularizer) => {
                constrained = regularizer.is_some_and(|key| self.has(&key.replace("_regularizer", "_constraint")));
                let regularizer = regularizer.and_then(|key| self.get(key));
                (self.policy.variable, self.trainable, regularizer.map(penalty_of))
            }
            WeightKind::State => (self.policy.variable, false, None),
            // What TensorFlow's random ops take.
            WeightKind::Seed => (DType::Int64, false, None),
            WeightKind::Typed(dtype) => (dtype, false, None),
        };
        if self.builder.model.weights.len() >= MAX_OPS {
            return Err(ImportError::TooMany { what: "weights", limit: MAX_OPS, layer: self.path.clone() });
        }
        let id = WeightId(self.builder.model.weights.len() as u32);
        let (name, dims) = (name.to_owned(), dims.to_vec());
        let weight = Weight { layer: self.layer, name, dims, dtype, trainable, penalty, constrained, created: id.0 };
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

/// The sums that a regularizer takes: a factor of 0 leaves one out (keras/src/regularizers, `L1L2`).
fn penalty_of(regularizer: &Json) -> Penalty {
    let factor = |key: &str| regularizer.get("config").and_then(|config| config.get(key)).and_then(Json::as_float);
    let sizes = factor("l1").is_some_and(|factor| factor != 0.0);
    let squares = factor("l2").is_some_and(|factor| factor != 0.0);
    let orthogonal = regularizer.get("class_name").and_then(Json::as_str) == Some("OrthogonalRegularizer");
    let mode = regularizer.get("config").and_then(|config| config.get("mode")).and_then(Json::as_str);
    let right_angles = orthogonal.then_some(if mode == Some("columns") { Pairs::Columns } else { Pairs::Rows });
    Penalty { sizes, squares: squares || !(sizes || right_angles.is_some()), right_angles }
}

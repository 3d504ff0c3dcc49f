//! What a model computes: ops in call order, tensors with a symbolic batch, weights, layers.
//!
//! In: an importer builds it. Out: [`Model`], which `step` lowers to a framework's kernels. Nothing here knows a framework
//! or a device. A shared layer appears once in `layers` and `weights` and once per call in `ops`.

mod op;
mod shape;

pub use op::*;
pub use shape::*;

/// An index into [`Model::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// An index into [`Model::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightId(pub u32);

/// An index into [`Model::layers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerId(pub u32);

/// A layer as the user named it.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Path through nested models and wrappers, such as `encoder/conv2d_1`.
    pub path: String,
    /// The class, such as `Conv2D`.
    pub class: String,
}

/// A variable of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The layer that owns it.
    pub layer: LayerId,
    /// Its name within the layer, such as `kernel`.
    pub name: String,
    /// Its shape; a weight never depends on the batch.
    pub dims: Vec<u64>,
    /// The type it is stored in.
    pub dtype: DType,
    /// Whether the optimizer updates it.
    pub trainable: bool,
    /// What a regularizer adds to the loss for this weight.
    pub penalty: Option<Penalty>,
    /// Whether a constraint gives it another value after each update.
    pub constrained: bool,
    /// Its place in the order in which the weights were created; memory is laid out in that order.
    pub created: u32,
}

/// A regularizer's term: sums over a weight's elements. Other regularizers are taken for one of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// Of absolute values (L1).
    pub sizes: bool,
    /// Of squares (L2).
    pub squares: bool,
    /// Of the products of all pairs of rows or columns, which are to be at right angles.
    pub right_angles: Option<Pairs>,
}

/// What is multiplied in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Rows of a matrix.
    Rows,
    /// Columns of a matrix.
    Columns,
}

impl Weight {
    /// Number of elements; saturates.
    pub fn elements(&self) -> u64 {
        product(&self.dims)
    }

    /// Bytes of one copy.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bytes())
    }
}

/// The value on an edge between two ops.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its shape.
    pub shape: Shape,
    /// Its type.
    pub dtype: DType,
}

/// One op: what one layer call (or a part of one) computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// The layer that is called.
    pub layer: LayerId,
    /// What it computes.
    pub kind: OpKind,
    /// What it reads.
    pub inputs: Vec<TensorId>,
    /// What it writes.
    pub outputs: Vec<TensorId>,
    /// The weights it uses, in the order that the kind's documentation gives.
    pub weights: Vec<WeightId>,
    /// The type it computes in (a dtype policy's compute type).
    pub compute: DType,
}

/// Something the importer wants the user to know: what was guessed, bounded or passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A stable code, such as `custom_layer`.
    pub code: &'static str,
    /// The layer it is about, if it is about one.
    pub layer: Option<String>,
    /// One sentence.
    pub text: String,
}

/// How the file says the model was compiled. `None`: the file does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The optimizer.
    pub optimizer: Option<OptimizerConfig>,
    /// The loss of each output.
    pub losses: Vec<Loss>,
    /// The metrics of each output.
    pub metrics: Vec<Vec<Metric>>,
    /// Whether the step is compiled by XLA.
    pub jit: Option<bool>,
}

/// A loss and the settings that change its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loss {
    /// As the framework names it, such as `sparse_categorical_crossentropy`. Empty: the output has no loss.
    pub name: String,
    /// The output is not probabilities but what a softmax or sigmoid would be taken of.
    pub from_logits: bool,
    /// Labels are smoothed first.
    pub smooths: bool,
}

impl Loss {
    /// A loss by name; `_from_logits` behind the name says that it takes logits.
    pub fn named(name: &str) -> Loss {
        let stem = name.strip_suffix("_from_logits");
        Loss { name: stem.unwrap_or(name).to_owned(), from_logits: stem.is_some(), smooths: false }
    }

    /// The output is not trained.
    pub fn is_none(&self) -> bool {
        self.name.is_empty()
    }
}

/// A metric and the settings that change its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Metric {
    /// As the framework names it, such as `accuracy` or `AUC`.
    pub name: String,
    /// As a loss's.
    pub from_logits: bool,
    /// At how many thresholds predictions are counted, if that is set.
    pub thresholds: Option<u32>,
    /// The thresholds were chosen one by one, and not as so many steps of equal size.
    pub chosen: bool,
    /// Each class is counted for itself.
    pub by_class: bool,
}

impl Metric {
    /// A metric by name, with its own settings.
    pub fn named(name: &str) -> Metric {
        Metric { name: name.to_owned(), ..Metric::default() }
    }
}

/// An optimizer and the settings that change its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// Lower-case name, such as `adam`.
    pub name: String,
    /// SGD's momentum (also RMSprop's) is not zero.
    pub momentum: bool,
    /// SGD's Nesterov variant.
    pub nesterov: bool,
    /// RMSprop's centred variant.
    pub centered: bool,
    /// Adam's AMSGrad variant.
    pub amsgrad: bool,
    /// Weight decay is set.
    pub weight_decay: bool,
    /// Gradients are clipped by value or by each one's norm.
    pub clip_each: bool,
    /// Gradients are clipped by their global norm.
    pub clip_global: bool,
    /// A moving average of the weights is kept.
    pub ema: bool,
    /// Gradients are accumulated over this many steps (1: not).
    pub accumulate_steps: u32,
    /// The loss is scaled (`LossScaleOptimizer`).
    pub loss_scaling: bool,
}

impl OptimizerConfig {
    /// Whether weights decay: as set, or by the optimizer's own default.
    pub fn decays_weights(&self) -> bool {
        self.weight_decay || matches!(self.name.as_str(), "adamw" | "muon")
    }

    /// An optimizer by name, with the framework's defaults.
    pub fn named(name: &str) -> OptimizerConfig {
        OptimizerConfig {
            name: name.to_ascii_lowercase(),
            momentum: false,
            nesterov: false,
            centered: false,
            amsgrad: false,
            weight_decay: false,
            clip_each: false,
            clip_global: false,
            ema: false,
            accumulate_steps: 1,
            loss_scaling: false,
        }
    }
}

/// A whole model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// The model's name.
    pub name: String,
    /// Layers, in the order of first call.
    pub layers: Vec<Layer>,
    /// Weights, in the order in which the framework lists and updates them.
    pub weights: Vec<Weight>,
    /// Tensors.
    pub tensors: Vec<Tensor>,
    /// Ops, in call order: an op's inputs are written by earlier ops or are model inputs.
    pub ops: Vec<Op>,
    /// The model's inputs.
    pub inputs: Vec<TensorId>,
    /// The model's outputs.
    pub outputs: Vec<TensorId>,
    /// How the file says it was compiled.
    pub compiled: Compiled,
    /// What the importer guessed or passed over.
    pub notes: Vec<Note>,
    /// Some size grows with the square of the batch and is that of one batch: the model is no larger for others.
    pub batch_meets_itself: bool,
    /// Products of samples with each other, or sums over them: a part of a batch gives another result than the whole.
    pub samples_meet: bool,
}

impl Model {
    /// The tensor behind an id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// The weight behind an id.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.0 as usize]
    }

    /// The layer behind an id.
    pub fn layer(&self, id: LayerId) -> &Layer {
        &self.layers[id.0 as usize]
    }

    /// Number of weights' elements, trainable or not. The state of random number generators is no parameter.
    pub fn parameter_count(&self) -> u64 {
        let counted = self.weights.iter().filter(|weight| weight.dtype.is_float());
        counted.fold(0, |sum, weight| sum.saturating_add(weight.elements()))
    }
}

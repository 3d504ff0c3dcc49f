//! The kinds of ops a model is made of: one enum, each with what memory depends on and nothing else.
//!
//! An activation that a layer applies (`Dense(64, activation="relu")`) is an op of its own after the layer's. A channels-first
//! layer says so; all shapes are as the user sees them.

/// What an op computes. Weights are given in the order named in each kind's documentation.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// Convolution. Weights: kernel, then bias if there is one; none if it only cuts out patches. Separable convolutions are two ops.
    Conv(Conv),
    /// Matrix product of the last dimension with a kernel. Weights: kernel `[in, out]`, then bias if there is one.
    Dense,
    /// `einsum(equation, input, kernel)`. Weights: kernel, then bias if there is one.
    EinsumDense {
        /// The equation, ellipsis resolved, such as `abc,cd->abd`.
        equation: String,
    },
    /// `einsum` of several tensors, no weights.
    Einsum {
        /// The equation.
        equation: String,
    },
    /// Product of two tensors over their last two dimensions, no weights.
    MatMul,
    /// Look-up of rows. Weights: table `[rows, columns]`.
    Embedding,
    /// Elementwise function of one tensor. Weights: PReLU's alpha only.
    Activation(Activation),
    /// Normalization. Weights: batch norm: gamma, beta (as present), moving mean, moving variance; others: gamma, beta (as
    /// present).
    Norm(Norm),
    /// Pooling over windows.
    Pool(Pool),
    /// Pooling over all positions.
    GlobalPool {
        /// Maximum or average.
        kind: PoolKind,
        /// Channels come before positions.
        channels_first: bool,
    },
    /// Elementwise function of two or more tensors (with broadcasting).
    Merge(Merge),
    /// Concatenation.
    Concat {
        /// The axis, counted from 0 (the batch).
        axis: usize,
    },
    /// Batched dot product of two tensors.
    Dot {
        /// The axes that are contracted.
        axes: [usize; 2],
        /// Both sides are L2-normalized first.
        normalize: bool,
    },
    /// Another shape on the same bytes.
    Reshape,
    /// Transposition.
    Permute {
        /// The axes, the batch's (0) included.
        axes: Vec<usize>,
    },
    /// The input repeated along a new or an old axis.
    Repeat,
    /// Padding with constants or by reflection.
    Pad,
    /// A part of the input: cropping, slicing, centre crops.
    Slice,
    /// One of the parts that lie one behind the other along the first axis: a step, where time comes first.
    Step {
        /// Which one, counted from 0.
        at: u32,
    },
    /// Tensors of one shape as the parts along a new first axis.
    Stack,
    /// Parts of the input picked along an axis by numbers that are known beforehand, in any order.
    Take {
        /// The axis, counted from 0 (the batch).
        axis: usize,
    },
    /// Elements picked along an axis by a tensor of numbers, one for each element of the result. Inputs: the tensor, the numbers.
    TakeAlong {
        /// The axis, counted from 0 (the batch), which it is not.
        axis: usize,
    },
    /// One tensor cut into the op's several outputs.
    Split,
    /// Spatial resizing.
    Resize {
        /// How.
        interpolation: Interpolation,
        /// Whether each side is an integer multiple of the input's (`UpSampling`).
        integer_factor: bool,
    },
    /// Random zeroing with a mask.
    Dropout {
        /// Share that is zeroed; 0 means the op is an identity.
        rate: f64,
        /// Elements of the mask per sample where it is smaller than the input (spatial dropout).
        mask_elements: Option<u64>,
    },
    /// Multiplicative or additive noise in training: one random tensor of the input's size.
    Noise {
        /// Multiplied (`GaussianDropout`) rather than added.
        multiplicative: bool,
        /// Also masks elements (`AlphaDropout`).
        masked: bool,
    },
    /// A recurrent layer, one direction. Inputs: sequence, then initial states if given. Weights: kernel, recurrent kernel,
    /// then bias if there is one. Outputs: the sequence or the last output, then states if they are returned.
    Rnn(Rnn),
    /// The core of dot-product or additive attention. Inputs: query, value, key, each `[batch, positions, heads, size]` (or
    /// without heads), then a mask if there is one. Weights: additive attention's scale.
    Attention(Attention),
    /// Statistics or encodings computed from the input with no gradient: preprocessing, random augmentation.
    Preprocess {
        /// How many results of the input's or output's size exist at once, by reading the layer's code.
        live_copies: u32,
        /// Random augmentation: at inference the output is the input.
        training_only: bool,
    },
    /// A function of several elementwise steps, such as those that `keras.ops` call chains or small layers make.
    Elementwise {
        /// Steps; each makes a result of the output's size.
        steps: u32,
        /// How many of those results the backward pass reads.
        saved: u32,
    },
    /// A reduction over some axes.
    Reduce {
        /// Which reduction.
        kind: Reduction,
    },
    /// Change of element type.
    Cast,
    /// Terms of the layer's output are added to the loss: sums of its absolute values, of its squares, or both.
    ActivityRegularization(super::Penalty),
    /// Nothing: the output is the input.
    Identity,
    /// The input, through which no gradient flows.
    StopGradient,
    /// One number everywhere, in the input's shape: nothing of the input is read.
    Filled,
    /// A Fourier transform: the real and the imaginary part come in and go out.
    Fourier,
    /// A Fourier transform along the last axis of real numbers: these come in, and the real and the imaginary part of the first half go
    /// out, which determines the other. The inverse takes both parts and gives real numbers.
    RealFourier {
        /// From the parts to real numbers.
        inverse: bool,
    },
    /// A layer whose code is not known: bounded by a guess that a note explains.
    Opaque {
        /// Results of the output's size that are assumed to be kept for backward.
        saved: u32,
        /// Further results of that size alive while it runs.
        live: u32,
    },
}

/// A convolution's geometry.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Kernel extent per spatial dimension.
    pub kernel: Vec<u64>,
    /// Stride per spatial dimension.
    pub strides: Vec<u64>,
    /// Dilation per spatial dimension.
    pub dilation: Vec<u64>,
    /// Whether the input is padded.
    pub padding: Padding,
    /// Groups of a grouped convolution.
    pub groups: u64,
    /// One filter per input channel.
    pub depthwise: bool,
    /// The transposed convolution.
    pub transposed: bool,
    /// Channels come before positions.
    pub channels_first: bool,
}

/// How borders are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// No padding.
    Valid,
    /// Padded so that stride 1 keeps the size.
    Same,
    /// Padded on the left only.
    Causal,
}

/// Elementwise functions of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activation {
    Linear,
    Relu,
    Relu6,
    /// `relu` with a slope, a cap or a threshold that the plain op does not have.
    ReluGeneral,
    LeakyRelu,
    PRelu,
    Elu,
    Selu,
    Celu,
    /// The exact form with `erf`.
    Gelu,
    /// The approximation with `tanh`.
    GeluTanh,
    /// `x · sigmoid(x)`, also called swish.
    Silu,
    Mish,
    Sigmoid,
    HardSigmoid,
    HardSilu,
    HardTanh,
    Tanh,
    Softplus,
    Softsign,
    Softmax,
    LogSoftmax,
    Exponential,
    LogSigmoid,
    Square,
    Sqrt,
    /// A function whose slope is computed from its input once the gradient is there, such as the sine.
    Curve,
    /// Any other: bounded by two saved results.
    Other,
}

/// Normalizations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Norm {
    /// Which.
    pub kind: NormKind,
    /// There is a gamma.
    pub scale: bool,
    /// There is a beta.
    pub center: bool,
    /// The axis that keeps its statistics (batch norm) or the first normalized one, from 0 (the batch).
    pub axis: usize,
    /// The layer is trainable (a frozen batch norm uses its moving statistics).
    pub trainable: bool,
}

/// Which normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NormKind {
    Batch,
    Layer,
    Group { groups: u64 },
    Rms,
    Unit,
    Spectral,
}

/// Pooling over windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Maximum or average.
    pub kind: PoolKind,
    /// Window extent per spatial dimension.
    pub window: Vec<u64>,
    /// Stride per spatial dimension.
    pub strides: Vec<u64>,
    /// Whether the input is padded.
    pub padding: Padding,
    /// Channels come before positions.
    pub channels_first: bool,
}

/// Maximum or average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PoolKind {
    Max,
    Average,
}

/// Elementwise functions of several tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Merge {
    Add,
    Subtract,
    Multiply,
    Divide,
    Average,
    Maximum,
    Minimum,
    /// A comparison or logical function: a Boolean result, no gradient.
    Compare,
    /// `where(condition, a, b)`.
    Select,
}

/// Reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Variance,
    /// Index of the largest, counts: no gradient.
    Index,
}

/// How resized values are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Interpolation {
    Nearest,
    Bilinear,
    Other,
}

/// A recurrent layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Rnn {
    /// The cell.
    pub cell: RnnCell,
    /// Units of the state (for convolutional cells: elements of one state per sample).
    pub units: u64,
    /// Time steps.
    pub steps: u64,
    /// All outputs are returned, not the last one only.
    pub return_sequences: bool,
    /// The sequence is read backwards.
    pub go_backwards: bool,
    /// The loop is unrolled into the graph.
    pub unroll: bool,
    /// A mask accompanies the sequence.
    pub masked: bool,
    /// Dropout on the inputs of each step.
    pub dropout: bool,
    /// Dropout on the state of each step.
    pub recurrent_dropout: bool,
    /// Whether cuDNN's fused kernel can run it (the framework's conditions on activations, bias and dropout).
    pub fusable: bool,
    /// Each step reads what the cell below it made in the same step of the same loop.
    pub on_cell: bool,
    /// Each step's result goes to the cell above it in the same step of the same loop, and nowhere else.
    pub under_cell: bool,
}

/// Recurrent cells.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum RnnCell {
    Simple,
    Gru {
        reset_after: bool,
    },
    Lstm,
    ConvLstm(Conv),
    /// A custom cell: bounded as an LSTM.
    Other,
}

/// The core of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Heads; 1 for layers without heads.
    pub heads: u64,
    /// Heads of key and value (grouped-query attention).
    pub key_value_heads: u64,
    /// Query positions.
    pub query_positions: u64,
    /// Key positions.
    pub key_positions: u64,
    /// Size of one head's query and key.
    pub key_size: u64,
    /// Size of one head's value.
    pub value_size: u64,
    /// Dropout on the scores.
    pub dropout: f64,
    /// A mask is applied (causal or given).
    pub masked: bool,
    /// `tanh(q + k)` in place of `q · k`.
    pub additive: bool,
    /// Scores are returned.
    pub return_scores: bool,
    /// Multi-head layers scale the query first; the plain layers scale the scores by a weight, or not at all.
    pub multi_head: bool,
    /// The layer asks for the fused kernel where the framework has one.
    pub flash: bool,
}

//! Functions of `keras.ops` as nodes of a functional graph.
//!
//! In: a call. Out: ops. Functions have no weights and no dtype policy: they compute in the type of their operands. One that
//! is not in the registry is bounded with the shape that Keras recorded, and a note says so.

mod math;
mod moving;

use brimful_core::model::{Activation, DType, Merge, OpKind, Reduction, TensorId};

use super::build::Hints;
use super::custom;
use super::cx::Cx;
use super::json::Json;
use super::policy::Policy;
use super::value::Value;
use crate::error::Result;

type Translate = for<'b, 'd> fn(&mut Cx<'b, 'd>, Hints<'d>) -> Result<Value<'d>>;

/// A registered function.
pub(super) struct OpEntry {
    class: &'static str,
    how: How,
}

/// What a function does.
enum How {
    /// An activation.
    Activation(Activation),
    /// An elementwise function of one tensor; whether backward reads its result.
    Unary { saves: bool },
    /// An elementwise function of one tensor with a Boolean result.
    Test,
    /// An elementwise function of two.
    Binary(Merge),
    /// A reduction.
    Reduce(Reduction),
    /// Anything else.
    With(Translate),
}

/// The function of a class.
pub(super) fn find(class: &str) -> Option<&'static OpEntry> {
    OPS.iter().find(|entry| entry.class == class)
}

/// Calls a function.
pub(super) fn call<'d>(cx: &mut Cx<'_, 'd>, entry: &'static OpEntry, hints: Hints<'d>) -> Result<Value<'d>> {
    let tensors = cx.args.tensors();
    let known = of_whole_numbers(cx, &tensors);
    if let Some(made) = known.as_ref().and_then(|call| cx.builder.of_whole_numbers.get(call)) {
        return Ok(made.clone());
    }
    let made = translate(cx, entry, hints, &tensors)?;
    if let Some(call) = known {
        cx.builder.of_whole_numbers.insert(call, made.clone());
    }
    Ok(made)
}

/// What tells a call from others, if it is one of whole numbers only, which TensorFlow does not compute twice
/// (common_subgraph_elimination.cc). Through those of other numbers gradients may flow, one for each call.
fn of_whole_numbers(cx: &Cx<'_, '_>, tensors: &[TensorId]) -> Option<String> {
    let floats = tensors.iter().any(|&tensor| cx.dtype(tensor).is_float());
    if tensors.is_empty() || floats || !cx.builder.overrides.is_empty() {
        return None;
    }
    let Json::Object(settings) = &cx.def.config else { return None };
    let settings: Vec<_> = settings.iter().filter(|(key, _)| *key != "name").collect();
    Some(format!("{} {settings:?} {:?}", cx.def.class, cx.args))
}

fn translate<'d>(
    cx: &mut Cx<'_, 'd>,
    entry: &'static OpEntry,
    hints: Hints<'d>,
    tensors: &[TensorId],
) -> Result<Value<'d>> {
    let compute = promote(cx, tensors);
    cx.policy = Policy { compute, variable: compute, quantized: false };
    match &entry.how {
        How::Activation(kind) => {
            let x = cx.input()?;
            Ok(Value::Tensor(cx.same(OpKind::Activation(*kind), x)?))
        }
        How::Unary { saves } => {
            let x = cx.input()?;
            Ok(Value::Tensor(cx.same(OpKind::Elementwise { steps: 1, saved: u32::from(*saves) }, x)?))
        }
        How::Test => {
            let x = cx.input()?;
            let shape = cx.shape(x);
            Ok(Value::Tensor(cx.op_to(OpKind::Merge(Merge::Compare), &[x], shape, DType::Bool, &[])?))
        }
        How::Binary(kind) => math::binary(cx, *kind, hints),
        How::Reduce(kind) => math::reduce(cx, *kind),
        How::With(translate) => translate(cx, hints),
    }
}

/// The type that operands are brought to.
fn promote(cx: &Cx<'_, '_>, tensors: &[TensorId]) -> DType {
    let mut best: Option<DType> = None;
    for &tensor in tensors {
        let dtype = cx.dtype(tensor);
        best = Some(match best {
            None => dtype,
            Some(best) if best == dtype => best,
            Some(best) => match (best.is_float(), dtype.is_float()) {
                (true, false) => best,
                (false, true) => dtype,
                // Half precisions of two kinds meet in single.
                (true, true) if best.bytes() == dtype.bytes() => DType::Float32,
                _ if dtype.bytes() > best.bytes() => dtype,
                _ => best,
            },
        });
    }
    best.unwrap_or(DType::Float32)
}

/// Gives up on exactness for this call.
fn guess<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    custom::call(cx, "keras.ops", hints)
}

const fn op(class: &'static str, how: How) -> OpEntry {
    OpEntry { class, how }
}

/// The slope is computed from the input (math_grad.py).
const CURVE: How = How::Activation(Activation::Curve);
const READS: How = How::Unary { saves: true };
const LINEAR: How = How::Unary { saves: false };

/// The registry.
static OPS: &[OpEntry] = &[
    // activations
    op("Relu", How::Activation(Activation::Relu)),
    op("Relu6", How::Activation(Activation::Relu6)),
    op("Sigmoid", How::Activation(Activation::Sigmoid)),
    op("Tanh", How::Activation(Activation::Tanh)),
    op("Softplus", How::Activation(Activation::Softplus)),
    op("Softsign", How::Activation(Activation::Softsign)),
    op("Silu", How::Activation(Activation::Silu)),
    op("LogSigmoid", How::Activation(Activation::LogSigmoid)),
    op("LeakyRelu", How::Activation(Activation::LeakyRelu)),
    op("HardSigmoid", How::Activation(Activation::HardSigmoid)),
    op("HardSilu", How::Activation(Activation::HardSilu)),
    op("HardTanh", How::Activation(Activation::HardTanh)),
    op("Elu", How::Activation(Activation::Elu)),
    op("Selu", How::Activation(Activation::Selu)),
    op("Celu", How::Activation(Activation::Celu)),
    op("Softmax", How::Activation(Activation::Softmax)),
    op("LogSoftmax", How::Activation(Activation::LogSoftmax)),
    op("Exp", How::Activation(Activation::Exponential)),
    op("Square", How::Activation(Activation::Square)),
    op("Sqrt", How::Activation(Activation::Sqrt)),
    op("Squareplus", How::Activation(Activation::Other)),
    op("SparsePlus", How::Activation(Activation::Other)),
    op("SparseSigmoid", How::Activation(Activation::Other)),
    op("SoftShrink", How::Activation(Activation::Other)),
    op("HardShrink", How::Activation(Activation::Other)),
    op("TanhShrink", How::Activation(Activation::Other)),
    op("Threshold", How::Activation(Activation::Other)),
    op("Sparsemax", How::Activation(Activation::Other)),
    op("Gelu", How::With(math::gelu)),
    op("Glu", How::With(math::glu)),
    // one tensor
    op("Absolute", CURVE),
    op("Abs", CURVE),
    op("Fabs", CURVE),
    op("Log", CURVE),
    op("Log10", CURVE),
    op("Log1p", CURVE),
    op("Log2", CURVE),
    op("Expm1", CURVE),
    op("Exp2", READS),
    op("Rsqrt", READS),
    op("Cbrt", READS),
    op("Reciprocal", READS),
    op("Sin", CURVE),
    op("Cos", CURVE),
    op("Tan", CURVE),
    op("Sinh", CURVE),
    op("Cosh", CURVE),
    op("Arcsin", CURVE),
    op("Arccos", CURVE),
    op("Arctan", CURVE),
    op("Arcsinh", READS),
    op("Arccosh", READS),
    op("Arctanh", CURVE),
    op("Erf", CURVE),
    op("Erfinv", READS),
    op("Clip", READS),
    op("Sinc", READS),
    op("Negative", LINEAR),
    op("Round", LINEAR),
    op("Floor", LINEAR),
    op("Ceil", LINEAR),
    op("Trunc", LINEAR),
    op("Sign", LINEAR),
    op("Copy", LINEAR),
    op("Real", LINEAR),
    op("Conjugate", LINEAR),
    op("NanToNum", READS),
    op("Cumsum", How::With(math::cumulative)),
    op("Cumprod", How::With(math::cumulative)),
    op("Flip", LINEAR),
    op("Fliplr", LINEAR),
    op("Flipud", LINEAR),
    op("Roll", LINEAR),
    op("Tril", LINEAR),
    op("Triu", LINEAR),
    op("Sort", READS),
    op("Deg2rad", LINEAR),
    op("Rad2deg", LINEAR),
    op("ZerosLike", How::With(math::filled)),
    op("OnesLike", How::With(math::filled)),
    op("FullLike", How::With(math::filled)),
    op("EmptyLike", How::With(math::filled)),
    op("BitwiseNot", LINEAR),
    op("BitwiseInvert", LINEAR),
    op("LogicalNot", How::Test),
    op("Isfinite", How::Test),
    op("Isinf", How::Test),
    op("Isnan", How::Test),
    op("Isposinf", How::Test),
    op("Isneginf", How::Test),
    op("Signbit", How::Test),
    op("StopGradient", How::With(math::stop_gradient)),
    op("ConvertToTensor", How::With(math::cast)),
    op("Cast", How::With(math::cast)),
    op("SaturateCast", How::With(math::cast)),
    op("Argsort", How::With(math::index_like)),
    op("Normalize", How::With(math::normalize)),
    op("RMSNorm", How::With(math::normalize)),
    op("LayerNorm", How::With(math::normalize)),
    // two tensors
    op("Add", How::Binary(Merge::Add)),
    op("Subtract", How::Binary(Merge::Subtract)),
    op("Multiply", How::Binary(Merge::Multiply)),
    op("Divide", How::Binary(Merge::Divide)),
    op("TrueDivide", How::Binary(Merge::Divide)),
    op("DivideNoNan", How::Binary(Merge::Divide)),
    op("FloorDivide", How::Binary(Merge::Divide)),
    op("Mod", How::Binary(Merge::Divide)),
    op("Fmod", How::Binary(Merge::Divide)),
    op("Power", How::Binary(Merge::Divide)),
    op("Arctan2", How::Binary(Merge::Divide)),
    op("Hypot", How::Binary(Merge::Divide)),
    op("Logaddexp", How::Binary(Merge::Divide)),
    op("Maximum", How::Binary(Merge::Maximum)),
    op("Fmax", How::Binary(Merge::Maximum)),
    op("Minimum", How::Binary(Merge::Minimum)),
    op("Fmin", How::Binary(Merge::Minimum)),
    op("BitwiseAnd", How::Binary(Merge::Add)),
    op("BitwiseOr", How::Binary(Merge::Add)),
    op("BitwiseXor", How::Binary(Merge::Add)),
    op("Equal", How::Binary(Merge::Compare)),
    op("NotEqual", How::Binary(Merge::Compare)),
    op("Greater", How::Binary(Merge::Compare)),
    op("GreaterEqual", How::Binary(Merge::Compare)),
    op("Less", How::Binary(Merge::Compare)),
    op("LessEqual", How::Binary(Merge::Compare)),
    op("LogicalAnd", How::Binary(Merge::Compare)),
    op("LogicalOr", How::Binary(Merge::Compare)),
    op("LogicalXor", How::Binary(Merge::Compare)),
    op("Isclose", How::Binary(Merge::Compare)),
    op("Where", How::With(math::where_)),
    op("FFT", How::With(math::fourier)),
    op("FFT2", How::With(math::fourier)),
    op("IFFT2", How::With(math::fourier)),
    op("IRFFT", How::With(math::fourier_to_real)),
    op("RFFT", How::With(math::fourier_of_real)),
    op("Matmul", How::With(math::matmul)),
    op("Dot", How::With(math::matmul)),
    op("Einsum", How::With(math::einsum)),
    op("DotProductAttention", How::With(math::attention)),
    // reductions
    op("Sum", How::Reduce(Reduction::Sum)),
    op("Nansum", How::Reduce(Reduction::Sum)),
    op("Mean", How::Reduce(Reduction::Mean)),
    op("Nanmean", How::Reduce(Reduction::Mean)),
    op("Average", How::Reduce(Reduction::Mean)),
    op("Max", How::Reduce(Reduction::Max)),
    op("Amax", How::Reduce(Reduction::Max)),
    op("Min", How::Reduce(Reduction::Min)),
    op("Amin", How::Reduce(Reduction::Min)),
    op("Var", How::Reduce(Reduction::Variance)),
    op("Std", How::Reduce(Reduction::Variance)),
    op("Prod", How::Reduce(Reduction::Variance)),
    op("Logsumexp", How::Reduce(Reduction::Variance)),
    op("Norm", How::Reduce(Reduction::Variance)),
    op("Argmax", How::Reduce(Reduction::Index)),
    op("Argmin", How::Reduce(Reduction::Index)),
    op("CountNonzero", How::Reduce(Reduction::Index)),
    op("All", How::Reduce(Reduction::Index)),
    op("Any", How::Reduce(Reduction::Index)),
    op("Moments", How::With(math::moments)),
    op("TopK", How::With(math::top_k)),
    // moving values
    op("Reshape", How::With(moving::reshape)),
    op("Ravel", How::With(moving::ravel)),
    op("Transpose", How::With(moving::transpose)),
    op("Swapaxes", How::With(moving::swap_axes)),
    op("Moveaxis", How::With(moving::move_axis)),
    op("ExpandDims", How::With(moving::expand_dims)),
    op("Squeeze", How::With(moving::squeeze)),
    op("Concatenate", How::With(moving::concatenate)),
    op("Stack", How::With(moving::stack)),
    op("Unstack", How::With(moving::unstack)),
    op("Split", How::With(moving::split)),
    op("GetItem", How::With(moving::get_item)),
    op("Take", How::With(moving::take)),
    op("TakeAlongAxis", How::With(moving::take_along_axis)),
    op("Tile", How::With(moving::tile)),
    op("Repeat", How::With(moving::repeat)),
    op("BroadcastTo", How::With(moving::broadcast_to)),
    op("Pad", How::With(moving::pad)),
    op("OneHot", How::With(moving::one_hot)),
    op("Resize", How::With(moving::resize)),
    op("ExtractPatches", How::With(moving::extract_patches)),
    op("DepthToSpace", How::With(moving::depth_to_space)),
    op("SpaceToDepth", How::With(moving::space_to_depth)),
];

//! Compute in half precision under autocast, keep the weights in float32.
//!
//! Bounded from above: float32 results of the forward and the backward pass halve, except those of ops that autocast runs
//! in float32 and of ops whose result may be float32 because one of their inputs is. On top come half-size copies: of each
//! weight and input from its first use to the end of its backward pass, of each gradient before it is widened, and of a
//! float32 result that several products may read, for each but the first of them.

use rustc_hash::FxHashMap;

use super::{Change, Context, Effect, Remedy};
use crate::capture::{Buffer, Dtype, Event, Recording};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::passes::{Pass, passes};
use crate::plan::torch::setup::Setup;
use crate::trace::{Phase, Role};

/// `mixed_precision`.
pub struct MixedPrecision;

/// Ops that autocast runs in float32 on CUDA, and the backward ops of those. Source: "CUDA Ops that can autocast to float32"
/// in the manual of `torch.amp`, PyTorch 2.11.
const FLOAT32: [&str; 46] = [
    "acos", "asin", "binary_cross_entropy", "cosh", "cosine_embedding_loss", "cdist", "cosine_similarity",
    "cross_entropy_loss", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "group_norm", "hinge_embedding_loss",
    "kl_div", "l1_loss", "layer_norm", "log", "log10", "log_softmax", "log1p", "log2", "margin_ranking_loss",
    "mse_loss", "multilabel_margin_loss", "nll_loss", "nll_loss2d", "norm", "pdist", "pow", "prod", "reciprocal",
    "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softplus", "sum", "tan", "huber_loss",
    "mean", "linalg_vector_norm",
];
/// Ops whose result is float32 as soon as one input is: with a residual stream, most of the time.
const WIDEST: [&str; 6] = ["add", "sub", "mul", "div", "embedding", "embedding_dense"];

/// Parts of the names of ops that narrow their operands and keep them.
const PRODUCTS: [&str; 3] = [".mm", "addmm", "linear"];

impl Remedy for MixedPrecision {
    fn id(&self) -> &'static str {
        "mixed_precision"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if context.request.precision != "float32" {
            return Vec::new();
        }
        let known = context.request.device.compute_capability.is_some();
        let half = if !known || context.capability(8) {
            "bfloat16"
        } else if context.capability(7) {
            "float16"
        } else {
            return Vec::new();
        };
        let Some(recording) = autocast(context, &setup.steps.recording) else { return Vec::new() };
        let title = format!("Compute in {half} and keep the weights in float32 (autocast)");
        let code = match (half, context.training()) {
            ("float16", true) => "scaler = torch.amp.GradScaler(\"cuda\")\n\
                 with torch.autocast(\"cuda\", dtype=torch.float16):\n    loss = loss_fn(model(x), y)\n\
                 scaler.scale(loss).backward()\nscaler.step(optimizer); scaler.update()"
                .to_owned(),
            (half, true) => {
                format!("with torch.autocast(\"cuda\", dtype=torch.{half}):\n    loss = loss_fn(model(x), y)")
            }
            (half, false) => format!("with torch.autocast(\"cuda\", dtype=torch.{half}):\n    output = model(x)"),
        };
        vec![Change::new(title, setup.with_recording(recording), Effect::Numerics, code).bounded()]
    }
}

/// Whether an op's results stay float32. `aten._softmax_backward_data` is an op of `softmax`.
fn stays_float32(op: &str) -> bool {
    let name = op.rsplit("aten.").next().unwrap_or(op);
    let name = name.split('.').next().unwrap_or(name).trim_start_matches('_').trim_start_matches("native_");
    let name = name.trim_end_matches("_data").trim_end_matches("_backward").trim_end_matches("_forward");
    let name = name.trim_end_matches('_').trim_end_matches("_with_logits");
    FLOAT32.contains(&name) || WIDEST.contains(&name)
}

fn autocast(context: &Context<'_>, recording: &Recording) -> Option<Recording> {
    let stays: Vec<bool> = recording.strings.iter().map(|op| stays_float32(op)).collect();
    let mut edit = Edit::new(recording);
    let mut changed = false;
    for (index, buffer) in (0u32..).zip(&recording.buffers) {
        let result = matches!(buffer.role, Role::SavedActivation | Role::Temporary)
            && matches!(buffer.born, Phase::Forward | Phase::Backward);
        if result && buffer.dtype == Dtype::Float32 && !stays[buffer.op as usize] {
            *edit.buffer(index) = halved(buffer);
            changed = true;
        }
    }
    let cast: Vec<Buffer> =
        recording.buffers.iter().filter(|buffer| is_cast(context, recording, buffer)).copied().collect();
    for pass in passes(recording) {
        copies(recording, &mut edit, &pass, &cast);
        copies_for_products(recording, &mut edit, &pass, &stays);
        for at in pass.backward.clone() {
            let Event::Alloc(gradient) = recording.events[at] else { continue };
            let buffer = recording.buffers[gradient as usize];
            if buffer.role == Role::Gradient && buffer.dtype == Dtype::Float32 {
                let narrow = edit.add(Buffer { role: Role::Temporary, ..halved(&buffer) });
                edit.insert(at, Event::Alloc(narrow));
                edit.insert(at + 1, Event::Free(narrow));
            }
        }
    }
    changed.then(|| edit.finish())
}

fn halved(buffer: &Buffer) -> Buffer {
    Buffer { dtype: Dtype::Bfloat16, ..buffer.scaled(1, 2) }
}

/// Weights that ops of low precision read, and inputs. Those of normalizations are read as they are.
fn is_cast(context: &Context<'_>, recording: &Recording, buffer: &Buffer) -> bool {
    let normalizes = || context.request.class(recording.string(buffer.module)).contains("Norm");
    let weight = buffer.role == Role::Parameter && !normalizes();
    buffer.dtype == Dtype::Float32 && (weight || buffer.role == Role::Input)
}

/// Half-size copies of weights and inputs: from the module's first request of a pass to its last one.
fn copies(recording: &Recording, edit: &mut Edit, pass: &Pass, cast: &[Buffer]) {
    let mut first: FxHashMap<u32, usize> = FxHashMap::default();
    let mut last: FxHashMap<u32, usize> = FxHashMap::default();
    let asked = |range: std::ops::Range<usize>, note: &mut dyn FnMut(u32, usize)| {
        for at in range {
            if let Event::Alloc(buffer) = recording.events[at] {
                note(recording.buffers[buffer as usize].module, at);
            }
        }
    };
    asked(pass.forward.clone(), &mut |module, at| {
        first.entry(module).or_insert(at);
    });
    asked(pass.backward.clone(), &mut |module, at| {
        last.insert(module, at);
    });
    let end = if pass.backward.is_empty() { pass.forward.end } else { pass.backward.end };
    for buffer in cast {
        let copy = edit.add(Buffer { role: Role::Temporary, born: Phase::Forward, ..halved(buffer) });
        let begin = first.get(&buffer.module).filter(|_| buffer.role == Role::Parameter);
        let done = last.get(&buffer.module).filter(|_| buffer.role == Role::Parameter);
        edit.insert(*begin.unwrap_or(&pass.forward.start), Event::Alloc(copy));
        edit.insert(done.map_or(end, |at| at + 1), Event::Free(copy));
    }
}

/// Each product narrows a float32 operand for itself, and keeps that copy. Who reads what is not recorded: products that
/// follow a kept float32 result, before the next one is made, are taken to read it. Of the first one the copy takes the place
/// of the result itself.
fn copies_for_products(recording: &Recording, edit: &mut Edit, pass: &Pass, stays: &[bool]) {
    let is_product: Vec<bool> =
        recording.strings.iter().map(|op| PRODUCTS.iter().any(|name| op.contains(name))).collect();
    let mut wide: Option<Buffer> = None;
    let mut readers = 0;
    let mut copies: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for at in pass.forward.clone() {
        let Event::Alloc(index) = recording.events[at] else { continue };
        let buffer = recording.buffers[index as usize];
        if is_product[buffer.op as usize] {
            readers += 1;
            if let Some(wide) = wide.filter(|_| readers > 1 && !pass.backward.is_empty()) {
                let copy = edit.add(Buffer { module: buffer.module, ..halved(&wide) });
                edit.insert(at, Event::Alloc(copy));
                copies.entry(buffer.module).or_default().push(copy);
            }
        } else if buffer.role == Role::SavedActivation && buffer.dtype == Dtype::Float32 && stays[buffer.op as usize] {
            // A normalization makes its statistics beside its result.
            let same_call = |other: &Buffer| other.call == buffer.call && other.call.is_some();
            let at_recorded = |buffer: &Buffer| buffer.bytes(recording.batch, recording.batch);
            if wide.is_none_or(|other| !same_call(&other) || at_recorded(&other) < at_recorded(&buffer)) {
                (wide, readers) = (Some(buffer), 0);
            }
        }
    }
    // They go with the backward pass of the product.
    for at in pass.backward.clone().rev() {
        let Event::Alloc(index) = recording.events[at] else { continue };
        for copy in copies.remove(&recording.buffers[index as usize].module).into_iter().flatten() {
            edit.insert(at + 1, Event::Free(copy));
        }
    }
    let mut rest: Vec<u32> = copies.into_values().flatten().collect();
    rest.sort_unstable();
    rest.into_iter().for_each(|copy| edit.insert(pass.backward.end, Event::Free(copy)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_are_told_apart_by_name() {
        for op in [
            "aten._softmax", "aten._log_softmax.default", "aten.native_layer_norm", "aten.native_layer_norm_backward",
            "aten._softmax_backward_data", "aten.nll_loss_forward", "aten.add.Tensor", "aten.add_", "aten.embedding",
        ] {
            assert!(stays_float32(op), "{op}");
        }
        for op in [
            "aten.convolution", "aten.mm", "aten.addmm", "aten.gelu", "aten.native_batch_norm",
            "aten.cudnn_batch_norm", "aten.convolution_backward", "aten.native_dropout",
            "aten.max_pool2d_with_indices", "",
        ] {
            assert!(!stays_float32(op), "{op}");
        }
    }
}

//! The batch, or the activations of even a small one, are too large: what remains when nothing else explains a failed step.

use super::super::case::Case;
use super::super::phase::{Phase, creates, grows_trees, moved, trained};
use super::super::sign::{Resource, Weight};
use super::super::sizes::{has, has_any};
use super::super::traceback::is_own;
use super::data_on_device::copies_constant;
use super::{Cause, Claim, Code, said};
use crate::bytes::{MIB, human};

pub(super) const CAUSE: Cause = Cause {
    code: Code::BatchTooLarge,
    name: "batch_too_large",
    title: "The batch, or its activations, are too large",
    remedies: &[
        "micro_batches", "mixed_precision", "activation_checkpointing", "smaller_batch", "smaller_inputs",
        "efficient_attention", "larger_share",
    ],
    page: include_str!("../../../../../docs/causes/batch_too_large.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() {
        return None;
    }
    if let Some(doubt) = unexplained(case) {
        return Claim::possible(doubt);
    }
    if let Some(claim) = said(case, Code::BatchTooLarge, "the program itself says that a batch did not fit") {
        return Some(claim);
    }
    if copies_constant(case) {
        return None;
    }
    if case.failure()?.sign.id == "tensorflow.batch" {
        return Claim::likely("what did not fit is the next batch itself, when tf.data put its rows together");
    }
    if case.saw("tensorrt.context") && !case.saw("tensorrt.engine") {
        return Claim::likely(
            "the memory that an engine computes in did not fit: it is sized for the largest batch and shapes of its profile",
        );
    }
    if case.saw("ggml.kv_cache") {
        return Claim::likely(
            "the cache of keys and values did not fit: it grows with the context, not with the model",
        );
    }
    if let Some(place) =
        case.place.as_ref().filter(|place| matches!(place.phase, Phase::Forward | Phase::Backward | Phase::Compile))
    {
        return Claim::likely(format!(
            "it failed {} ({}), where activations and gradients are made",
            place.phase.name(),
            place.shown_by
        ));
    }
    if let Some(place) = case.place.as_ref().filter(|place| place.phase == Phase::MoveData && place.training) {
        return Claim::likely(format!("the device was full when the next batch was moved to it ({})", place.shown_by));
    }
    // Somewhere in training, in code that nothing here knows.
    let failure = case.failure()?;
    let inside = failure.frames.last().filter(|last| {
        case.place.is_none()
            && trained(&failure.frames)
            && !grows_trees(&failure.frames)
            // Whoever starts others has no step of its own, unless it says so.
            && (!has_any(&last.file, &["trainer", "launch", "run.py", "spawn"])
                || has_any(&last.code, &["training_batch(", "train_batch(", "training_step(", "train_step("]))
    });
    if let Some(frame) = inside.filter(|_| {
        failure.sign.weight == Weight::Failure && (case.of(Resource::GpuMemory) || failure.sign.id.starts_with("xla."))
    }) {
        return Claim::likely(format!("it failed inside a training step (in {})", frame.function));
    }
    let program = case.numbers.temporary_bytes.zip(case.numbers.argument_bytes);
    if let Some((temporaries, arguments)) = program.filter(|(temporaries, arguments)| temporaries > arguments) {
        return Claim::likely(format!(
            "the program needs {} for what it computes, and {} for what it is given: activations, not weights",
            human(temporaries),
            human(arguments)
        ));
    }
    // XLA asks for all that a program computes at once, when it is called.
    let called = failure.frames.iter().rfind(|frame| is_own(frame)).filter(|frame| {
        failure.sign.id == "xla.exhausted"
            && case.place.is_none()
            && frame.code.contains('(')
            // What is computed without waiting fails where its result is looked at.
            && !frame.code.starts_with("print(")
            && moved(&frame.code).is_none()
            && !creates(&frame.code)
    });
    if let Some(frame) = called {
        return Claim::likely(format!("what a compiled function computes did not fit ({})", frame.code));
    }
    // Before a program's name came to be there, the client said only that it ran one.
    if failure.sign.id.starts_with("xla.") && has(&failure.text, "Execution of replica") && case.place.is_none() {
        return Claim::likely("a compiled program was being run: what did not fit is what it computes");
    }
    if case.saw("xla.breakdown") && case.numbers.device.as_deref() == Some("TPU") {
        return Claim::likely("the program's temporaries fill the device, as the compiler's own list says");
    }
    // Weights and the optimizer's state lie on the device before: what a program reserves when it is loaded is for what it computes.
    let loaded = failure.sign.id == "xla.hbm"
        && ["Error loading program", "Attempting to reserve"].iter().all(|words| has(&failure.text, words));
    if let Some(reserved) = case.numbers.requested_bytes.filter(|_| loaded) {
        return Claim::likely(format!(
            "the program reserves {} for what it computes, beside its arguments",
            human(reserved)
        ));
    }
    if let Some(op) = case
        .numbers
        .op
        .as_deref()
        .filter(|op| !has_any(op, &["_EagerConst", "IteratorGetNext", "Cast", "Const", "MakeIterator"]))
        .filter(|op| !of_a_weight(op) && !of_anything(op))
    {
        return Claim::likely(format!("the operation that failed belongs to the model: {op}"));
    }
    if let Some(told) = case.seen("told.batch").filter(|_| case.place.is_none() && case.of(Resource::GpuMemory)) {
        let claim = Claim::likely("whoever reports it says with which batch it fails");
        return claim.map(|claim| Claim { lines: vec![told.line], ..claim });
    }
    let of_tensorflow = ["tensorflow.oom", "tensorflow.pool"].contains(&failure.sign.id);
    // On a host without a limit a small tensor is the last straw: what filled the machine is not said.
    let last_straw = case.of(Resource::HostMemory)
        && case.numbers.limit_bytes().is_none()
        && case.numbers.wanted_bytes().is_some_and(|wanted| wanted < LAST_STRAW_BYTES);
    let of_activations = |shape: &Vec<u64>| shape.len() >= 3 && !is_kernel(shape);
    if case.numbers.shape.as_ref().is_some_and(of_activations) && of_tensorflow && !last_straw {
        return Claim::likely(format!(
            "the tensor that did not fit has the shape of activations: {:?}",
            case.numbers.shape.as_deref().unwrap_or_default()
        ));
    }
    None
}

/// Whether a shape is that of a convolution's weights, as TensorFlow keeps them: height, width, channels in and out. Neither depends on the batch.
fn is_kernel(shape: &[u64]) -> bool {
    matches!(shape, [height, width, inputs, outputs]
        if height == width && [3, 5, 7].contains(height) && inputs.min(outputs) > height)
}

/// TensorFlow's nodes that read a weight, restore it or assign to it have its size, whatever the batch.
fn of_a_weight(op: &str) -> bool {
    op.ends_with("/read") || has_any(op, &["/AssignMovingAvg", "ExponentialMovingAverage", "/RestoreV2"])
}

/// Operations of TensorFlow's that are run for anything; one inside of a model has a path.
const ANYWHERE: [&str; 14] = [
    "Add", "AddV2", "Sub", "Mul", "RealDiv", "Fill", "ConcatV2", "Pack", "Reshape", "Sqrt", "Square", "Sum", "Mean",
    "Transpose",
];

/// Whether an operation that stands alone says nothing of where it came from.
fn of_anything(op: &str) -> bool {
    ANYWHERE.contains(&op)
}

/// A small request of XLA's, in a small program, is the last straw of something else; so is one of a host's whole memory.
const LAST_STRAW_BYTES: u64 = 64 * MIB;

/// What in the figures speaks against a batch that is too large.
fn unexplained(case: &Case) -> Option<String> {
    if case.failure()?.sign.id == "accelerate.zero" {
        return Some(
            "not even a batch of one fits; whether weights, the optimizer or one long sample is why is not said"
                .to_owned(),
        );
    }
    let numbers = &case.numbers;
    let wanted = numbers.requested_bytes?;
    if let Some(free) = numbers.free_bytes.filter(|&free| free / 2 >= wanted && case.of(Resource::GpuMemory)) {
        return Some(format!(
            "{} were free, and only {} were asked for: the figures do not explain the failure",
            human(free),
            human(wanted)
        ));
    }
    // A TPU's compiler counts the whole program: weights, the optimizer's state and activations.
    let whole = numbers.device.as_deref() == Some("TPU") && numbers.limit_bytes().is_some_and(|limit| wanted > limit);
    let of_a_core = has_any(&case.failure()?.text, &["space vmem", "space smem"]);
    if of_a_core {
        return Some(
            "a kernel needs more of its core's scratch memory than there is; the device's own is not it".to_owned(),
        );
    }
    if whole && numbers.temporary_bytes.is_none() && !case.saw("xla.largest") {
        return Some(format!(
            "the whole program needs {}; how much of it are weights and how much activations is not said",
            human(wanted)
        ));
    }
    let small =
        case.failure()?.sign.id.starts_with("xla.") && wanted < LAST_STRAW_BYTES && numbers.capacity_bytes.is_none();
    (small && case.of(Resource::GpuMemory))
        .then(|| format!("{} were the last straw; what fills the device is not said", human(wanted)))
}

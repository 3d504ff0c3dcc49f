//! The weights alone do not fit.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Resource;
use super::super::sizes::has_any;
use super::{Cause, Claim, Code, said};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::ModelTooLarge,
    name: "model_too_large",
    title: "The model's weights do not fit",
    remedies: &[
        "half_precision_weights", "int8_weights", "shard_model", "cpu_offload", "narrower_layers",
        "smaller_embeddings", "larger_share",
    ],
    page: include_str!("../../../../../docs/causes/model_too_large.md"),
    judge,
};

/// Parts of names that TensorFlow gives to ops that make weights, or read them from a checkpoint.
const NODES: [&str; 10] = [
    "initializer/", "initializers/", "truncatednormal", "randomuniform", "random_uniform", "statelessrandom", "glorot",
    "varhandleop", "/assign", "/restorev2",
];

fn judge(case: &Case) -> Option<Claim> {
    if let Some(claim) = said(case, Code::ModelTooLarge, "the message says that the model does not fit") {
        return Some(claim);
    }
    if !case.of_memory() {
        return None;
    }
    // An engine is built by trying kernels out, each with a workspace: what found no room is not said to be a weight.
    let building = case.saw("tensorrt.no_kernel");
    // Where a cache is asked for, the weights are there.
    if case.saw("ggml.kv_cache") {
        return None;
    }
    if case.phase() == Some(Phase::LoadModel) && !building {
        let place = case.place.as_ref()?;
        return Claim::likely(format!("it failed {} ({})", place.phase.name(), place.shown_by));
    }
    if case.saw("tensorrt.engine") && !building {
        return Claim::likely("an engine was being read onto the device: its weights did not fit");
    }
    if let Some(told) = case.seen("told.model").filter(|_| case.place.is_none() && case.of(Resource::GpuMemory)) {
        let claim = Claim::likely("whoever reports it says that it is the model which is too large");
        return claim.map(|claim| Claim { lines: vec![told.line], ..claim });
    }
    // llama.cpp takes what it needs for the weights and their cache before it computes; each line has all that was taken before it.
    let buffers = case.sightings.iter().filter(|seen| seen.sign.id == "metal.working_set" && case.saw("metal.oom"));
    let taken = buffers.filter_map(|seen| seen.numbers.process_bytes).max().zip(case.numbers.limit_bytes());
    if let Some((taken, limit)) = taken.filter(|(taken, limit)| taken > limit) {
        return Claim::likely(format!(
            "the model and its cache take {} before anything is computed, and Metal recommends {} at most",
            human(taken),
            human(limit)
        ));
    }
    // XLA counts what a program is given apart from what it computes.
    let given = case.numbers.argument_bytes.zip(case.numbers.limit_bytes());
    if let Some((given, limit)) = given.filter(|(given, limit)| given >= limit) {
        return Claim::likely(format!(
            "what the program is given, its weights before all, takes {} of {} already",
            human(given),
            human(limit)
        ));
    }
    // No batch has as many rows as columns in the thousands; a matrix of weights has.
    let shape = case.numbers.shape.as_deref().unwrap_or_default();
    let matrix = shape.len() == 2 && shape.iter().all(|&size| size >= 1024 && size % 32 == 0);
    if matrix && case.numbers.op.is_none() && case.place.is_none() && failure_of_tensorflow(case) {
        return Claim::likely(format!("the tensor that did not fit has the shape of weights: {shape:?}"));
    }
    let op = case.numbers.op.as_deref()?;
    if !has_any(op, &NODES) || has_any(op, &["gradient", "adam", "dropout"]) {
        return None;
    }
    let because = format!("the operation that failed makes a weight: {op}");
    // After several steps the weights were there: this is none that is made for the first time.
    if case.numbers.step.is_some_and(|step| step > 1) { Claim::possible(because) } else { Claim::likely(because) }
}

fn failure_of_tensorflow(case: &Case) -> bool {
    case.failure().is_some_and(|failure| failure.sign.id == "tensorflow.oom")
}

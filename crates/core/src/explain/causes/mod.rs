//! Why a job ran out: one file each, one line in [`REGISTRY`], one page in `docs/causes/`.
//!
//! In: a [`Case`]. Out: claims, each with its reasons in figures. A cause that the log does not support claims nothing: a wrong confident answer
//! is worse than none.

mod batch_too_large;
mod container_or_scheduler_limit;
mod data_on_device;
mod dataset_in_memory;
mod disk_full;
mod evaluation_or_checkpoint;
mod file_descriptors;
mod fragmentation;
mod kernel_oom_kill;
mod leak;
mod message_size;
mod model_too_large;
mod not_memory;
mod optimizer_state;
mod other_process;
mod reserved_at_start;
mod tensor_too_large;
mod threads;
mod worker_shared_memory;
mod workspace_or_handle;

use serde::Serialize;

use super::case::{Case, Sighting};
use super::sign::Weight;

/// A cause's stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is described by its file and its page")]
pub enum Code {
    BatchTooLarge,
    TensorTooLarge,
    ModelTooLarge,
    OptimizerState,
    DatasetInMemory,
    DataOnDevice,
    Leak,
    Fragmentation,
    OtherProcess,
    ReservedAtStart,
    WorkspaceOrHandle,
    WorkerSharedMemory,
    ContainerOrSchedulerLimit,
    KernelOomKill,
    EvaluationOrCheckpoint,
    DiskFull,
    FileDescriptors,
    Threads,
    MessageSize,
    NotMemory,
}

/// How sure a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Worth a look; not an answer.
    Possible,
    /// The log supports it, and nothing in it speaks against it.
    Likely,
    /// The log says it.
    Certain,
}

/// What a cause has to say of a case.
#[derive(Clone, Debug)]
pub struct Claim {
    /// How sure it is.
    pub confidence: Confidence,
    /// Why, one sentence each, with the figures.
    pub because: Vec<String>,
    /// Lines that show it, beside that of the failure.
    pub lines: Vec<u64>,
    /// What it is called, and what helps, where that is not what the cause says in general.
    pub instead: Option<Instead>,
}

/// A title and remedies of a claim's own.
#[derive(Clone, Copy, Debug)]
pub struct Instead {
    /// One line.
    pub title: &'static str,
    /// Remedies, the cheapest first.
    pub remedies: &'static [&'static str],
}

impl Claim {
    fn new(confidence: Confidence, because: impl Into<String>) -> Option<Claim> {
        Some(Claim { confidence, because: vec![because.into()], lines: Vec::new(), instead: None })
    }

    fn certain(because: impl Into<String>) -> Option<Claim> {
        Claim::new(Confidence::Certain, because)
    }

    fn likely(because: impl Into<String>) -> Option<Claim> {
        Claim::new(Confidence::Likely, because)
    }

    fn possible(because: impl Into<String>) -> Option<Claim> {
        Claim::new(Confidence::Possible, because)
    }
}

/// A cause.
pub struct Cause {
    /// Its code; the page is `docs/causes/<code>.md`.
    pub code: Code,
    /// The code as text.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Remedies, the cheapest first.
    pub remedies: &'static [&'static str],
    /// Its page of the manual.
    pub page: &'static str,
    /// What it says of a case.
    pub judge: fn(&Case) -> Option<Claim>,
}

/// Every cause. Of two that are equally sure, the earlier one is said: those that figures show come before those that a place shows.
pub const REGISTRY: [Cause; 20] = [
    not_memory::CAUSE,
    worker_shared_memory::CAUSE,
    disk_full::CAUSE,
    file_descriptors::CAUSE,
    threads::CAUSE,
    message_size::CAUSE,
    container_or_scheduler_limit::CAUSE,
    leak::CAUSE,
    other_process::CAUSE,
    reserved_at_start::CAUSE,
    fragmentation::CAUSE,
    optimizer_state::CAUSE,
    evaluation_or_checkpoint::CAUSE,
    model_too_large::CAUSE,
    data_on_device::CAUSE,
    tensor_too_large::CAUSE,
    dataset_in_memory::CAUSE,
    kernel_oom_kill::CAUSE,
    workspace_or_handle::CAUSE,
    batch_too_large::CAUSE,
];

/// A cause by its code as text.
pub fn by_name(name: &str) -> Option<&'static Cause> {
    REGISTRY.iter().find(|cause| cause.name == name)
}

/// A cause by its code.
pub fn by_code(code: Code) -> &'static Cause {
    REGISTRY.iter().find(|cause| cause.code == code).unwrap_or(&REGISTRY[0])
}

/// Lines within which two signs are of one message.
const NEAR: u64 = 2;

/// A claim of the wording itself: the sign's own cause.
fn said(case: &Case, code: Code, because: &str) -> Option<Claim> {
    let failure = case.failure()?;
    // One message may carry two signs: an allocator's figures, and what its caller says of them.
    let here =
        |sighting: &&Sighting| sighting.line.abs_diff(failure.line) <= NEAR && sighting.sign.weight >= Weight::Symptom;
    let named = failure.sign.cause == Some(code)
        || case.sightings.iter().filter(here).any(|sighting| sighting.sign.cause == Some(code));
    named.then(|| Claim::certain(because))?
}

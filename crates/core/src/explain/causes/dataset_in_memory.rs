//! The data set was read, copied or converted whole, and the host has no room for it.

use super::super::case::Case;
use super::super::phase::{Phase, hands_over, has_model};
use super::super::sign::Resource;
use super::super::sizes::{has, has_any};
use super::super::traceback::Frame;
use super::{Cause, Claim, Code};
use crate::bytes::{MIB, human};

/// Less than this does not fill a machine.
const SMALL_BYTES: u64 = 200 * MIB;

pub(super) const CAUSE: Cause = Cause {
    code: Code::DatasetInMemory,
    name: "dataset_in_memory",
    title: "The data set is held whole in memory",
    remedies: &["stream_data", "smaller_types", "memory_map", "chunked_reading", "fewer_workers"],
    page: include_str!("../../../../../docs/causes/dataset_in_memory.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::HostMemory) {
        return None;
    }
    // A batch is no data set.
    let failure = case.failure().filter(|failure| failure.sign.id != "tensorflow.batch")?;
    let arrays = matches!(failure.sign.id, "numpy.array" | "pandas.tokenizing" | "arrow.malloc" | "r.vector");
    let of_array = case.numbers.wanted_bytes().map_or(String::new(), |bytes| format!(" of {}", human(bytes)));
    if failure.sign.id == "pandas.tokenizing" {
        return Claim::certain("a file was being read whole into a table");
    }
    let whole = |frame: &&Frame| {
        has_any(&frame.code, &["from_tensor_slices("]) || frame.function.ends_with("from_tensor_slices")
    };
    if let Some(frame) = failure.frames.iter().find(whole) {
        return Claim::certain(format!("the whole data is being made a tensor (in {})", frame.function));
    }
    // A process that could not be doubled was large already; of what, the line that starts a worker does not say.
    let forks = |frame: &&Frame| has(&frame.file, "popen_fork") || has(&frame.code, "os.fork(");
    if failure.frames.iter().rev().take(2).any(|frame| forks(&frame)) {
        return Claim::possible("the process could not be doubled for a worker; what fills it is not said");
    }
    // A small piece that does not fit is the last straw, and says nothing of what filled the memory before.
    let small = case.numbers.wanted_bytes().is_some_and(|bytes| bytes < SMALL_BYTES);
    if case.phase() == Some(Phase::LoadData) {
        let place = case.place.as_ref()?;
        let loads = |files: &[&str]| failure.frames.iter().any(|frame| has_any(&frame.file, files));
        let in_worker = loads(&["utils/data/_utils/fetch.py", "utils/data/_utils/worker.py"]);
        let a_sample = in_worker || loads(&["utils/data/dataloader.py"]);
        // Code that computes with arrays names what it handles, and not how much of it there is.
        let computes = |frame: &Frame| has_any(&frame.code, &[" * ", " + ", " - ", " / ", "**"]);
        // Unless the function that does it is there to read the data.
        let reads = |frame: &Frame| has_any(&frame.function, &["load_data", "read_data", "load_images", "read_images"]);
        if small && arrays && failure.frames.last().is_some_and(|frame| computes(frame) && !reads(frame)) {
            return Claim::possible(format!(
                "an array{of_array} was the last straw; what filled the memory before it is not said"
            ));
        }
        if (small && a_sample) || (case.numbers.wanted_bytes().is_none() && in_worker) {
            return Claim::possible(
                "a sample or a batch of them was being read; what filled the memory before is not said",
            );
        }
        return Claim::likely(format!(
            "it failed {} ({}){}",
            place.phase.name(),
            place.shown_by,
            if arrays { format!(", for one array{of_array}") } else { String::new() }
        ));
    }
    if arrays && small {
        return Claim::possible(format!(
            "an array{of_array} was the last straw; what filled the memory before it is not said"
        ));
    }
    if arrays
        && !matches!(
            case.phase(),
            Some(Phase::Forward | Phase::Backward | Phase::Update | Phase::Checkpoint | Phase::LoadModel)
        )
    {
        return Claim::likely(format!("an array{of_array} was made on the host at once"));
    }
    // Python itself found no room, and no model was at work: what it handles is data. A list that grows may be anything.
    // A program that is aborted shows no frames: those around it are another one's.
    let aborted = has_any(&failure.text, &["terminate called", "what():"]);
    let plain = matches!(failure.sign.id, "python.memory_error" | "native.bad_alloc") && !aborted;
    let grows = |frame: &&Frame| has_any(&frame.code, &[".append(", ".extend(", "+="]);
    // What is installed is no data.
    let installs = failure.frames.iter().any(|frame| has_any(&frame.file, &["pip/_", "pip\\_", "/conda/"]));
    let last =
        failure.frames.last().filter(|_| plain && case.place.is_none() && !installs && !has_model(&failure.frames));
    // What is raised again was raised elsewhere, and what is handed to another process is not said to be data.
    let shows = |frame: &&Frame| !frame.code.is_empty() && !frame.code.starts_with("raise ") && !hands_over(frame);
    if let Some(frame) = last.filter(|frame| !grows(frame) && shows(frame)) {
        return Claim::likely(format!("what is handled is data, and no model ({})", frame.code));
    }
    let told = case.seen("told.data").filter(|_| {
        let general = failure.sign.id.starts_with("anybody.") || failure.sign.id == "python.memory_error";
        general && case.place.is_none() && !has_model(&failure.frames)
    });
    if let Some(told) = told {
        let claim = Claim::likely("whoever reports it says that all of the data was to be in memory");
        return claim.map(|claim| Claim { lines: vec![told.line], ..claim });
    }
    if case.saw("tensorflow.shuffle") {
        return Claim::possible("a shuffle buffer was being filled: it holds its elements in memory");
    }
    None
}

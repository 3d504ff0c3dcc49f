//! The whole data set was put on the device, where a batch at a time would do.

use super::super::case::Case;
use super::super::phase::{
    Moved, Phase, grows_trees, has_model, keeps_what_it_reads, moved, names_training_set, prepares_data, trained,
    trains,
};
use super::super::sign::Resource;
use super::super::sizes::{has, has_any};
use super::super::traceback::{Frame, is_own};
use super::{Cause, Claim, Code};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::DataOnDevice,
    name: "data_on_device",
    title: "The data set itself is on the device",
    remedies: &["batches_to_device", "stream_data", "smaller_types"],
    page: include_str!("../../../../../docs/causes/data_on_device.md"),
    judge,
};

/// Operations that TensorFlow runs at once when data is prepared.
const EAGER: [&str; 8] =
    ["_EagerConst", "GatherV2", "Gather", "ConcatV2", "Pack", "Cast", "TensorSliceDataset", "StridedSlice"];
/// No batch has as many rows: in an operation that is run at once, and in any.
const ROWS_AT_ONCE: u64 = 10_000;
const ROWS_ANYWHERE: u64 = 20_000;

/// Estimators that have all of their data at once.
const ESTIMATORS: [&str; 8] = ["kmeans", "k_means", "dbscan", "neighbors", "knn", "umap", "tsne", "pca"];

/// What libraries that grow trees call themselves in their messages.
const TREES: [&str; 6] =
    ["LightGBM", "XGBoostError", "NCudaLib::", "updater_gpu", "Exception in gpu_hist", "xgboost/src/"];

/// Whether a line of code fits one of them: `self.kmeans.fit(rows)`, `IncrementalPCA(8).fit_transform(rows)`.
fn fits_estimator(code: &str) -> bool {
    let mut names = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_ascii_lowercase);
    code.contains(".fit") && names.any(|name| ESTIMATORS.iter().any(|estimator| name.ends_with(estimator)))
}

/// Whether an array of the host's could not be made a constant on the device: that is asked for by code around a model, not by its layers.
pub(super) fn copies_constant(case: &Case) -> bool {
    case.failure().is_some_and(|failure| {
        failure.sign.id == "tensorflow.destination" && has(&failure.text, "in order to run _EagerConst")
    })
}

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    let failure = case.failure()?;
    let in_step = matches!(case.phase(), Some(Phase::Forward | Phase::Backward | Phase::Update));
    let frames = || failure.frames.iter().rev();
    let own = frames().find(|frame| is_own(frame));
    let shown = |frame: &Frame| format!("the whole data was being moved to the device ({})", frame.code);
    let wanted = case.numbers.wanted_bytes().zip(case.numbers.limit_bytes());
    let much = wanted.is_some_and(|(wanted, limit)| wanted >= limit / 4);
    if let Some((frame, what)) = own.filter(|_| !in_step).and_then(|frame| Some((frame, moved(&frame.code)?))) {
        // In a loop over batches the same names stand for one of them.
        let outside = !trains(frame) && case.numbers.step.is_none_or(|step| step == 0);
        let whole = match what {
            Moved::Data => true,
            Moved::Either => outside || much,
            Moved::Batch => much && outside,
        };
        // What is larger than the device was on the host before, and no shape was mistaken.
        let larger = what == Moved::Either && wanted.is_some_and(|(wanted, limit)| wanted > limit);
        if whole && outside && (what == Moved::Data || larger) {
            return Claim::certain(shown(frame));
        }
        if whole {
            return Claim::likely(shown(frame));
        }
    }
    let slices = |frame: &&Frame| frame.function.ends_with("from_tensor_slices");
    if let Some(frame) = frames().find(slices) {
        return Claim::certain(format!(
            "the whole data was being made one tensor on the device (in {})",
            frame.function
        ));
    }
    // What would be reading on the host is reading onto the device here.
    let reads = own.filter(|frame| case.place.is_none() && prepares_data(frame) && !trained(&failure.frames));
    if let Some(frame) = reads {
        return Claim::likely(shown(frame));
    }
    // What is read piece by piece and kept in a list is all of the data in the end; before training it is no batch.
    let kept = |frame: &&Frame| keeps_what_it_reads(&frame.code);
    if let Some(frame) = frames().find(kept).filter(|_| !in_step && case.phase() != Some(Phase::LoadModel)) {
        return Claim::likely(format!("one after another, all of the data was read onto the device ({})", frame.code));
    }
    // Tables on the device: what is handled is data.
    let table = |frame: &&Frame| has_any(&frame.file, &["cuml", "cudf", "nvtabular"]);
    if let Some(frame) = frames().find(table).filter(|_| case.place.is_none() && !has_model(&failure.frames)) {
        return Claim::likely(format!("whole tables are handled on the device (in {})", frame.function));
    }
    // So do estimators that look at all rows again and again.
    let fits = |frame: &&Frame| fits_estimator(&frame.code);
    if let Some(frame) = frames().find(fits).filter(|_| case.place.is_none() && !has_model(&failure.frames)) {
        return Claim::likely(format!("an estimator holds all rows on the device ({})", frame.code));
    }
    let by_trees = grows_trees(&failure.frames) || has_any(&failure.text, &TREES);
    if by_trees && !has_model(&failure.frames) {
        return Claim::likely("trees are grown on all rows at once, and these lie on the device");
    }
    let copied = failure.sign.id == "tensorflow.destination";
    let adapts = |frame: &&Frame| has(&frame.file, "data_adapter");
    if let Some(frame) = frames().take(if copied { usize::MAX } else { 4 }).find(adapts) {
        let function = &frame.function;
        return Claim::certain(format!(
            "Keras was turning the whole arrays into tensors on the device (in {function})"
        ));
    }
    // One tensor fills the pool already, and the next is copied from the host: arrays, not batches.
    let one = case.numbers.largest_in_use_bytes.zip(case.numbers.limit_bytes());
    if let Some((one, limit)) = one.filter(|(one, limit)| copied && *one >= limit / 3) {
        return Claim::likely(format!(
            "a single tensor of {} fills most of the pool of {}, and another was being copied from the host",
            human(one),
            human(limit)
        ));
    }
    // A constant is made of an array of the host's, as whole as it was handed over.
    let hands = |frame: &&Frame| is_own(frame) && names_training_set(&frame.code);
    let constant = copies_constant(case) && case.phase() != Some(Phase::LoadModel);
    if let Some(frame) = frames().find(hands).filter(|_| constant) {
        return Claim::likely(format!("an array of the host's was being made a tensor on the device ({})", frame.code));
    }
    // Keras takes the rows of a batch out of arrays with this one: what is copied before it can run are the arrays.
    if copied && case.numbers.op.as_deref() == Some("GatherV2") && has(&failure.text, "copying input tensor") {
        return Claim::likely("what was being copied is what the rows of each batch are taken from: whole arrays");
    }
    let loads = |frame: &&Frame| has(&frame.function, "load") && has(&frame.function, "data");
    if let Some(frame) = frames().take(6).find(loads).filter(|_| case.phase() != Some(Phase::LoadModel)) {
        let function = &frame.function;
        return Claim::likely(format!("it failed while the data set was being loaded to the device (in {function})"));
    }
    let shape = case.numbers.shape.as_deref().filter(|shape| shape.len() >= 2).unwrap_or_default();
    let rows = shape.first().copied().unwrap_or(0);
    let eager = case.numbers.op.as_deref().is_some_and(|op| EAGER.iter().any(|name| op.eq_ignore_ascii_case(name)));
    if (eager && rows >= ROWS_AT_ONCE) || (shape.len() >= 3 && rows >= ROWS_ANYWHERE) {
        return Claim::likely(format!("the tensor that did not fit has {rows} rows: a data set, not a batch"));
    }
    if copied {
        return Claim::possible(
            "a copy to the device found no room: the data, or whatever filled the device before it",
        );
    }
    (case.phase() == Some(Phase::MoveData)).then(|| Claim::possible("it failed while data was moved to the device"))?
}

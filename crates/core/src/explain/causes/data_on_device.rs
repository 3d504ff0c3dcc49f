//! The whole data set was put on the device, where a batch at a time would do.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Resource;
use super::super::sizes::{has, has_any, has_word};
use super::super::traceback::Frame;
use super::{Cause, Claim, Code};

pub(super) const CAUSE: Cause = Cause {
    code: Code::DataOnDevice,
    name: "data_on_device",
    title: "The data set itself is on the device",
    remedies: &["batches_to_device", "stream_data", "smaller_types"],
    page: include_str!("../../../../../docs/causes/data_on_device.md"),
    judge,
};

/// Names that users give to the whole of their data.
const WHOLE: [&str; 9] =
    ["X_train", "x_train", "X", "train_data", "all_data", "dataset", "features_tensor", "frame", "images"];
/// Calls that move it.
const MOVES: [&str; 10] = [
    ".to(", ".cuda(", "tf.constant(", "convert_to_tensor(", "from_tensor_slices(", "jnp.asarray(", "jnp.array(",
    "device_put(", "cudf.", "cp.a",
];
/// Operations that TensorFlow runs at once when data is prepared.
const EAGER: [&str; 8] =
    ["_EagerConst", "GatherV2", "Gather", "ConcatV2", "Pack", "Cast", "TensorSliceDataset", "StridedSlice"];
/// No batch has as many rows: in an operation that is run at once, and in any.
const ROWS_AT_ONCE: u64 = 10_000;
const ROWS_ANYWHERE: u64 = 20_000;

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    let failure = case.failure()?;
    let in_step = matches!(case.phase(), Some(Phase::Forward | Phase::Backward | Phase::Update));
    let frames = || failure.frames.iter().rev();
    let own = frames().find(|frame| !has_any(&frame.file, &["site-packages", "dist-packages", "lib/python"]));
    let moves = |frame: &&Frame| MOVES.iter().any(|call| frame.code.contains(call));
    if let Some(frame) =
        own.filter(moves).filter(|frame| !in_step && WHOLE.iter().any(|name| has_word(&frame.code, name)))
    {
        return Claim::certain(format!("it failed while the whole data was moved to the device ({})", frame.code));
    }
    let copied = failure.sign.id == "tensorflow.destination";
    if let Some(frame) = frames().find(|frame| has(&frame.file, "data_adapter")).filter(|_| copied) {
        let function = &frame.function;
        return Claim::certain(format!(
            "Keras was turning the whole arrays into tensors on the device (in {function})"
        ));
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

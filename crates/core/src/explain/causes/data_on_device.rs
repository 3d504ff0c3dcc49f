//! The whole data set was put on the device, where a batch at a time would do.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Resource;
use super::super::sizes::{has, has_any};
use super::{Cause, Claim, Code};

pub(super) const CAUSE: Cause = Cause {
    code: Code::DataOnDevice,
    name: "data_on_device",
    title: "The data set itself is on the device",
    remedies: &["batches_to_device", "stream_data", "smaller_types"],
    page: include_str!("../../../../../docs/causes/data_on_device.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    let failure = case.failure()?;
    let whole = |code: &str| {
        has_any(
            code,
            &[
                "from_tensor_slices(", "tf.constant(", "X_train", "x_train", "train_data", "all_data", "dataset.data",
                "features_tensor", "convert_to_tensor(", "cudf.", "cp.asarray(", "cp.array(",
            ],
        )
    };
    if let Some(frame) = failure.frames.iter().rev().find(|frame| whole(&frame.code)).filter(|_| {
        !case
            .place
            .as_ref()
            .is_some_and(|place| matches!(place.phase, Phase::Forward | Phase::Backward | Phase::Update))
    }) {
        return Claim::certain(format!("it failed while the whole data was moved to the device ({})", frame.code));
    }
    // An eager operation on tens of thousands of rows handles a data set, not a batch.
    let rows = case.numbers.shape.as_ref().filter(|shape| shape.len() >= 2).map_or(0, |shape| shape[0]);
    let eager = case.numbers.op.as_deref().is_some_and(|op| {
        ["_EagerConst", "GatherV2", "Gather", "ConcatV2", "Pack", "Cast", "TensorSliceDataset", "StridedSlice"]
            .iter()
            .any(|name| op.eq_ignore_ascii_case(name))
    });
    let deep = case.numbers.shape.as_ref().is_some_and(|shape| shape.len() >= 3);
    let adapter = failure.frames.iter().rev().find(|frame| has(&frame.file, "data_adapter"));
    if let Some(frame) = adapter.filter(|_| failure.sign.id == "tensorflow.destination") {
        return Claim::certain(format!(
            "Keras was turning the whole arrays into tensors on the device (in {})",
            frame.function
        ));
    }
    let loading =
        failure.frames.iter().rev().take(6).find(|frame| has(&frame.function, "load") && has(&frame.function, "data"));
    if let Some(frame) = loading.filter(|_| !case.place.as_ref().is_some_and(|place| place.phase == Phase::LoadModel)) {
        return Claim::likely(format!(
            "it failed while the data set was being loaded to the device (in {})",
            frame.function
        ));
    }
    if (eager && rows >= 10_000) || (deep && rows >= 20_000) {
        return Claim::likely(format!("the tensor that did not fit has {rows} rows: a data set, not a batch"));
    }
    if failure.sign.id == "tensorflow.destination" {
        return Claim::possible(
            "a copy to the device found no room: the data, or whatever filled the device before it",
        );
    }
    if case.phase() == Some(Phase::MoveData) {
        return Claim::possible("it failed while data was moved to the device");
    }
    None
}

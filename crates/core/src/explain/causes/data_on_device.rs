//! The whole data set was put on the device, where a batch at a time would do.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Resource;
use super::super::sizes::has_any;
use super::{Cause, Claim, Code};

pub(super) const CAUSE: Cause = Cause {
    code: Code::DataOnDevice,
    name: "data_on_device",
    title: "The data set itself is on the device",
    remedies: &["batches_to_device", "stream_data", "smaller_types"],
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    let failure = case.failure()?;
    let whole = |code: &str| has_any(code, &["from_tensor_slices(", "tf.constant(", "X_train", "x_train", "train_data", "all_data", "dataset.data", "features_tensor", "convert_to_tensor("]);
    if let Some(frame) = failure.frames.iter().rev().find(|frame| whole(&frame.code)).filter(|_| !case.place.as_ref().is_some_and(|place| matches!(place.phase, Phase::Forward | Phase::Backward | Phase::Update))) {
        return Claim::likely(format!("it failed while the whole data was moved to the device ({})", frame.code));
    }
    if failure.sign.id == "tensorflow.destination" {
        return Claim::possible("a copy to the device found no room: the data, or whatever filled the device before it");
    }
    if case.phase() == Some(Phase::MoveData) {
        return Claim::possible("it failed while data was moved to the device");
    }
    None
}

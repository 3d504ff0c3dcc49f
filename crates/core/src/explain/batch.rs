//! Which dimension of a failed tensor is the batch, when the model is known.
//!
//! In: the shape from a message and the model. Out: the batch and the layer whose output has that shape. TensorFlow moves the channels of images to
//! the front on a GPU and puts time first in recurrent layers, so that the order of the other dimensions does not count; a dense layer
//! on sequences folds the steps into the batch.

use serde::Serialize;

use crate::model::Model;

/// The batch of a failed tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedBatch {
    /// Samples.
    pub batch: u64,
    /// The layer whose output has the shape.
    pub layer: String,
}

/// A job that is known: the batch that failed, and the largest that the plan says would have fitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// The batch of the failed tensor, where the model has such a tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedBatch>,
    /// The memory that was planned for.
    pub memory_bytes: u64,
    /// What the plan says that the job needs with that batch.
    pub peak_bytes: u64,
    /// The batch of that figure.
    pub batch: u64,
    /// The largest batch that fits; none where not even one sample does.
    pub max_batch: Option<u64>,
}

impl Planned {
    /// Whether a step takes half of the memory at most: then it is not the batch that filled it.
    pub fn leaves_half(&self) -> bool {
        self.peak_bytes <= self.memory_bytes / 2
    }
}

/// Finds the batch in a shape.
pub fn failed_batch(model: &Model, shape: &[u64]) -> Option<FailedBatch> {
    let samples = |folded: bool| {
        model.ops.iter().find_map(|op| {
            let tensor = op.outputs.iter().map(|&id| model.tensor(id)).find_map(|tensor| {
                let sample = tensor.shape.batched.then(|| tensor.shape.dims.get(1..)).flatten()?;
                if folded { ratio(shape, sample) } else { same(shape, sample) }
            })?;
            Some((tensor, op))
        })
    };
    let (batch, op) = samples(false).or_else(|| samples(true))?;
    Some(FailedBatch { batch, layer: model.layers[op.layer.0 as usize].path.clone() })
}

/// The batch is one dimension, and the others are the sample's in any order.
fn same(shape: &[u64], sample: &[u64]) -> Option<u64> {
    if shape.len() != sample.len() + 1 {
        return None;
    }
    let mut wanted = sample.to_vec();
    wanted.sort_unstable();
    (0..shape.len()).find_map(|at| {
        let mut rest: Vec<u64> =
            shape.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, &size)| size).collect();
        rest.sort_unstable();
        (rest == wanted).then_some(shape[at])
    })
}

/// The batch and other dimensions are one.
fn ratio(shape: &[u64], sample: &[u64]) -> Option<u64> {
    let product = |sizes: &[u64]| sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
    let (all, one) = (product(shape)?, product(sample).filter(|&one| one > 1)?);
    (sample.len() >= 2 && shape.len() >= 2 && shape.last() == sample.last() && all % one == 0).then_some(all / one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_is_found_in_any_order() {
        assert_eq!(same(&[128, 224, 224, 64], &[224, 224, 64]), Some(128));
        assert_eq!(same(&[128, 64, 224, 224], &[224, 224, 64]), Some(128));
        assert_eq!(same(&[20, 128, 64], &[20, 64]), Some(128));
        assert_eq!(same(&[20, 128], &[20, 64]), None);
        assert_eq!(ratio(&[2560, 64], &[20, 64]), Some(128));
        assert_eq!(ratio(&[2561, 64], &[20, 64]), None);
        assert_eq!(ratio(&[u64::MAX, 64], &[20, 64]), None);
    }

    #[test]
    fn a_batch_that_leaves_half_did_not_fill_the_memory() {
        let planned =
            |peak_bytes| Planned { failed: None, memory_bytes: 40 << 20, peak_bytes, batch: 4096, max_batch: None };
        assert!(planned(4 << 20).leaves_half() && !planned(21 << 20).leaves_half());
    }
}

//! Results in which every sample meets every other one: similarities within a batch, distances of all pairs.
//!
//! A shape counts the batch once. In: where the batch stands in the operands. Out: the result's shape, whose second batch is the one that
//! was asked for ([`Options::batch`](super::Options::batch)), and a note. Not followed: a batch that moved from the first place and went
//! through further layers before it meets another.

use brimful_core::model::{OpKind, Shape, TensorId};

use super::cx::Cx;
use crate::error::Result;

impl Cx<'_, '_> {
    /// The axis that counts samples, if one does.
    pub(super) fn batch_axis(&self, tensor: TensorId) -> Option<usize> {
        let moved = || self.builder.moved_batches.get(&tensor).copied().unwrap_or(0);
        self.shape(tensor).batched.then(moved)
    }

    /// Remembers where a tensor's batch stands now, if it has one that is not in the first place.
    pub(super) fn set_batch_axis(&mut self, tensor: TensorId, axis: Option<usize>) {
        if let Some(axis) = axis.filter(|&axis| axis > 0) {
            self.builder.moved_batches.insert(tensor, axis);
        }
    }

    /// A shape with the batch that was asked for by this axis.
    pub(super) fn meets_itself(&mut self, mut shape: Shape, axis: usize) -> Shape {
        let batch = self.builder.options.batch.max(1);
        if let Some(dim) = shape.dims.get_mut(axis) {
            *dim = dim.saturating_mul(batch);
        }
        self.builder.model.batch_meets_itself = true;
        self.builder.model.samples_meet = true;
        let text = format!(
            "Every sample meets every other here: its result has batch × batch elements. That is counted for a batch of {batch}; a smaller one \
             needs less than is said, and a larger one is not proposed."
        );
        self.note("batch_squared", text);
        shape
    }

    /// Two tensors of samples that are broadcast against each other: where their batches stand in different places, one of them is taken
    /// for what it is at the batch that was asked for.
    pub(super) fn broadcast_pairs(&mut self, inputs: &mut [TensorId]) -> Result<()> {
        let [a, b] = *inputs else { return Ok(()) };
        // Places are counted from the right, as they are aligned.
        let place = |tensor| Some(self.shape(tensor).rank() - self.batch_axis(tensor)?);
        let (Some(left), Some(right)) = (place(a), place(b)) else { return Ok(()) };
        if left == right {
            return Ok(());
        }
        let (at, tensor) = if left < right { (0, a) } else { (1, b) };
        inputs[at] = self.at_batch(tensor)?;
        Ok(())
    }

    /// What every sample has for every other one, times the samples: weighted sums of them. The samples are taken for what they are at the
    /// batch that was asked for, so that the two can be multiplied.
    pub(super) fn weigh_samples(&mut self, inputs: &mut [TensorId]) -> Result<()> {
        let [a, b] = *inputs else { return Ok(()) };
        let (weights, samples) = (self.shape(a), self.shape(b));
        let batch = self.builder.options.batch.max(1);
        let pairs = self.builder.model.batch_meets_itself && weights.dims.last() == Some(&batch);
        if pairs && samples.rank() == 2 && self.batch_axis(b) == Some(0) && samples.dims[0] == 1 && batch > 1 {
            inputs[1] = self.at_batch(b)?;
        }
        Ok(())
    }

    /// A tensor of samples, as a fixed one of the batch that was asked for.
    fn at_batch(&mut self, tensor: TensorId) -> Result<TensorId> {
        let axis = self.batch_axis(tensor).unwrap_or(0);
        let shape = Shape { batched: false, ..self.shape(tensor) };
        let shape = self.meets_itself(shape, axis);
        let dtype = self.dtype(tensor);
        self.op_to(OpKind::Reshape, &[tensor], shape, dtype, &[])
    }
}

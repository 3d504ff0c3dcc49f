//! Dropout and noise. Their random numbers depend on nothing but a seed, so the executor makes them at the start of the
//! step and keeps the masks until they are used.

use super::super::Lowering;
use crate::bytes::Size;
use crate::model::{DType, Dims, Shape};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

impl Lowering<'_> {
    fn random(&mut self, name: &'static str, shape: Shape, dtype: DType) -> ValueId {
        let kernel = Kernel { name, attr: self.graph.nodes.len() as u32 };
        let seed = self.graph.constant(self.graph.nodes.len() as f64, DType::Int32);
        // Ten rounds of Philox for each group of numbers (random_distributions.h).
        let work = super::super::math::times(super::super::math::elements(&shape), 10);
        self.graph.add(NewNode {
            kernel,
            inputs: &[seed],
            output: (shape, dtype),
            in_place: InPlace::No,
            scratch: Vec::<Size>::new(),
            work,
            after: &[],
        })
    }

    /// `where(uniform ≥ rate, x / (1 − rate), 0)` with a Boolean mask.
    pub(super) fn dropout(&mut self, x: ValueId, rate: f64, mask_elements: Option<u64>) -> ValueId {
        if rate <= 0.0 || !self.training() {
            return x;
        }
        let shape = self.shape(x);
        let mask_shape = match mask_elements {
            Some(count) => {
                let mut dims: Dims = smallvec::smallvec![1; shape.rank()];
                if let Some(last) = dims.last_mut() {
                    *last = count;
                }
                Shape { batched: shape.batched, dims }
            }
            None => shape,
        };
        let dtype = self.dtype(x);
        let uniform = self.random("StatelessRandomUniformV2", mask_shape, dtype);
        let bound = self.constant(rate, uniform);
        let mask = self.compare("GreaterEqual", uniform, bound);
        let scaled = self.scale(x, 1.0 / (1.0 - rate.min(0.999)));
        let zero = self.constant(0.0, scaled);
        self.select(mask, scaled, zero)
    }

    pub(super) fn noise(&mut self, x: ValueId, multiplicative: bool, masked: bool) -> ValueId {
        if !self.training() {
            return x;
        }
        let (shape, dtype) = (self.shape(x), self.dtype(x));
        if masked {
            return self.alpha_dropout(x, shape, dtype);
        }
        let normal = self.random("StatelessRandomNormalV2", shape, dtype);
        if multiplicative { self.mul(x, normal) } else { self.add(x, normal) }
    }
    /// `a · (x · kept + α · (1 − kept)) + b`. The mask is of the input's type, and what stands in for dropped units is of full
    /// size too: both depend on the seed alone, so they are there from the start of the step (keras/src/layers/regularization,
    /// `AlphaDropout.call`).
    fn alpha_dropout(&mut self, x: ValueId, shape: Shape, dtype: DType) -> ValueId {
        let uniform = self.random("StatelessRandomUniformV2", shape, dtype);
        let bound = self.constant(0.5, uniform);
        let mask = self.compare("GreaterEqual", uniform, bound);
        let kept = self.cast(mask, dtype);
        let one = self.constant(1.0, x);
        let dropped = self.sub(one, kept);
        let floor = self.scale(dropped, -1.758);
        let product = self.mul_ordered(x, kept);
        let sum = self.add(product, floor);
        let scaled = self.scale(sum, 1.1);
        self.shift(scaled, 0.1)
    }
}

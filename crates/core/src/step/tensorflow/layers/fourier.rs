//! Fourier transforms of two tensors, the real and the imaginary part.
//!
//! In: both parts. Out: both parts of the transform (keras/src/backend/tensorflow/math.py, `fft2`). Complex numbers are between the kernels
//! alone; their size is that of two floats. Not counted: what a transform takes inside, a row or a picture at a time.

use super::super::Lowering;
use crate::model::{DType, Op};
use crate::step::graph::{InPlace, ValueId};

/// As large as a complex number of two floats.
const COMPLEX: DType = DType::Float64;

impl Lowering<'_> {
    pub(super) fn fourier(&mut self, op: &Op, inputs: &[ValueId]) {
        let [real, imaginary, ..] = *inputs else { return self.opaque(op, inputs, 0, 0) };
        let shape = self.shape(real);
        let joined = self.call("Complex", &[real, imaginary], (shape, COMPLEX), InPlace::No);
        let transformed = self.transform(joined);
        for (index, part) in ["Real", "Imag"].into_iter().enumerate() {
            let made = self.part(part, transformed);
            self.set_output(op, index, made);
        }
    }

    /// The way back is a transform, too (spectral_ops.py in tensorflow/python/ops/signal, `_fft2d_grad`).
    pub(in crate::step::tensorflow) fn transform(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.call("FFT", &[x], (shape, COMPLEX), InPlace::No)
    }

    /// The real or the imaginary part.
    pub(in crate::step::tensorflow) fn part(&mut self, name: &'static str, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.call(name, &[x], (shape, DType::Float32), InPlace::No)
    }

    /// The gradient of a part, with a zero for the other.
    pub(in crate::step::tensorflow) fn part_gradient(&mut self, g: ValueId) -> ValueId {
        let (shape, zero) = (self.shape(g), self.constant(0.0, g));
        self.call("Complex", &[g, zero], (shape, COMPLEX), InPlace::No)
    }
}

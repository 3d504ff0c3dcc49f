//! Fourier transforms of two tensors, the real and the imaginary part, or of real numbers.
//!
//! In: both parts. Out: both parts of the transform (keras/src/backend/tensorflow/math.py, `fft2`, `rfft`, `irfft`). Complex numbers are
//! between the kernels alone; their size is that of two floats. Not counted: what a transform takes inside, a row or a picture at a time.

use super::super::Lowering;
use crate::model::{DType, Op, Shape};
use crate::step::graph::{InPlace, ValueId};

/// As large as a complex number of two floats.
const COMPLEX: DType = DType::Float64;

impl Lowering<'_> {
    pub(super) fn fourier(&mut self, op: &Op, inputs: &[ValueId]) {
        let [real, imaginary, ..] = *inputs else { return self.opaque(op, inputs, 0, 0) };
        let shape = self.shape(real);
        let joined = self.call("Complex", &[real, imaginary], (shape, COMPLEX), InPlace::No);
        let transformed = self.transform(joined);
        self.set_parts(op, transformed);
    }

    /// `rfft`: the input has the transform's length.
    pub(super) fn fourier_of_real(&mut self, op: &Op, x: ValueId) {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let transformed = self.call("RFFT", &[x], (shape, COMPLEX), InPlace::No);
        self.set_parts(op, transformed);
    }

    /// `irfft`: the input has half the transform's length and one more.
    pub(super) fn fourier_to_real(&mut self, op: &Op, inputs: &[ValueId]) {
        let [real, imaginary, ..] = *inputs else { return self.opaque(op, inputs, 0, 0) };
        let (half, whole) = (self.shape(real), self.model.tensor(op.outputs[0]).shape.clone());
        let joined = self.call("Complex", &[real, imaginary], (half, COMPLEX), InPlace::No);
        let made = self.call("IRFFT", &[joined], (whole, DType::Float32), InPlace::No);
        self.set_output(op, 0, made);
    }

    fn set_parts(&mut self, op: &Op, transformed: ValueId) {
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

    /// The way back through `RFFT`: the inverse transform of the gradient, and what it says of the first and the last frequency, which are there once
    /// where all others stand for two, spread over the transform's whole length as complex numbers (fft_ops.py in
    /// tensorflow/python/ops/signal, `_rfft_grad_helper`).
    pub(in crate::step::tensorflow) fn gradient_of_real_transform(&mut self, g: ValueId, whole: Shape) -> ValueId {
        let inverse = self.call("IRFFT", &[g], (whole.clone(), DType::Float32), InPlace::No);
        let mut edge = whole.clone();
        if let Some(last) = edge.dims.last_mut() {
            *last = 1;
        }
        let [first, last] = [1, 2].map(|attr| self.copy("StridedSlice", &[g], edge.clone(), attr));
        let spread = self.call("Mul", &[last], (whole.clone(), COMPLEX), InPlace::Any);
        let both = self.call("AddV2", &[first, spread], (whole.clone(), COMPLEX), InPlace::Any);
        let (real, scaled) = (self.part("Real", both), self.scale(inverse, whole.last() as f64));
        let sum = self.add(scaled, real);
        self.scale(sum, 0.5)
    }

    /// The way back through `IRFFT`: the transform of the gradient, weighed (`_irfft_grad_helper`).
    pub(in crate::step::tensorflow) fn gradient_to_real_transform(&mut self, g: ValueId, half: Shape) -> ValueId {
        let transformed = self.call("RFFT", &[g], (half, COMPLEX), InPlace::No);
        self.unary("Mul", transformed)
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

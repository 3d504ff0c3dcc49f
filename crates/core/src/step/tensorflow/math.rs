//! TensorFlow's kernels as the lowering calls them: shapes of results, what each may overwrite, what it costs.
//!
//! In: values. Out: values of new nodes. The in-place rules are those of the CPU and GPU kernels
//! (`forward_input_or_allocate_output` in tensorflow/core/kernels: cwise_ops_common.h, relu_op.h, bias_op.cc, softmax_op.cc,
//! aggregate_ops.cc, select.cc).

use super::Lowering;
use super::convolution::SLOW_BYTE_WORK;
use crate::bytes::Size;
use crate::model::{DType, Shape};
use crate::step::Processor;
use crate::step::graph::{InPlace, Kernel, NewNode, ShapeId, Storage, ValueId};

/// The shape of an elementwise function of two tensors.
pub(super) fn broadcast(a: &Shape, b: &Shape) -> Shape {
    let rank = a.rank().max(b.rank());
    let dim = |shape: &Shape, i: usize| (i + shape.rank()).checked_sub(rank).map_or(1, |i| shape.dims[i]);
    let dims = (0..rank).map(|i| dim(a, i).max(dim(b, i))).collect();
    Shape { batched: a.batched || b.batched, dims }
}

/// Multiplies a size, saturating.
pub(super) fn times(size: Size, factor: u64) -> Size {
    Size { fixed: size.fixed.saturating_mul(factor), per_sample: size.per_sample.saturating_mul(factor) }
}

/// Elements of a shape as a function of the batch.
pub(super) fn elements(shape: &Shape) -> Size {
    if shape.batched { Size::per_sample(shape.elements()) } else { Size::fixed(shape.elements()) }
}

impl Lowering<'_> {
    pub(super) fn shape(&self, value: ValueId) -> Shape {
        self.graph.shape(value).clone()
    }

    pub(super) fn dtype(&self, value: ValueId) -> DType {
        self.graph.value(value).dtype
    }

    /// A kernel with one result, no scratch and negligible arithmetic.
    pub(super) fn call(
        &mut self,
        name: &'static str,
        inputs: &[ValueId],
        output: (Shape, DType),
        in_place: InPlace,
    ) -> ValueId {
        let kernel = Kernel { name, attr: 0 };
        self.graph.add(NewNode { kernel, inputs, output, in_place, scratch: vec![], work: Size::ZERO, after: &[] })
    }

    /// The same with a result of a shape that the graph has.
    fn call_shaped(
        &mut self,
        name: &'static str,
        inputs: &[ValueId],
        output: (ShapeId, DType),
        in_place: InPlace,
    ) -> ValueId {
        let (kernel, scratch, work) = (Kernel { name, attr: 0 }, vec![], Size::ZERO);
        self.graph.add_shaped(NewNode { kernel, inputs, output, in_place, scratch, work, after: &[] })
    }

    pub(super) fn call_after(
        &mut self,
        name: &'static str,
        inputs: &[ValueId],
        output: (Shape, DType),
        after: ValueId,
    ) -> ValueId {
        let (kernel, in_place) = (Kernel { name, attr: 0 }, InPlace::Any);
        self.graph.add(NewNode { kernel, inputs, output, in_place, scratch: vec![], work: Size::ZERO, after: &[after] })
    }

    pub(super) fn constant(&mut self, number: f64, like: ValueId) -> ValueId {
        let dtype = self.dtype(like);
        self.graph.constant(number, dtype)
    }

    fn broadcast(&mut self, a: ValueId, b: ValueId) -> ShapeId {
        let (known, other) = (self.graph.value(a).shape, self.graph.value(b).shape);
        if known == other {
            return known;
        }
        let shape = broadcast(self.graph.shape(a), self.graph.shape(b));
        self.graph.shape_id(shape)
    }

    /// An elementwise function of one tensor.
    pub(super) fn unary(&mut self, name: &'static str, x: ValueId) -> ValueId {
        let output = (self.graph.value(x).shape, self.dtype(x));
        self.call_shaped(name, &[x], output, InPlace::Any)
    }

    /// An elementwise function of two tensors, with broadcasting. Commutative functions have one canonical form.
    pub(super) fn binary(&mut self, name: &'static str, a: ValueId, b: ValueId) -> ValueId {
        let (a, b) = match name {
            "Mul" | "AddV2" | "Maximum" | "Minimum" | "SquaredDifference" if self.graph.is_constant(b) => (b, a),
            _ => (a, b),
        };
        let dtype = if self.graph.is_constant(a) { self.dtype(b) } else { self.dtype(a) };
        let output = (self.broadcast(a, b), dtype);
        self.call_shaped(name, &[a, b], output, InPlace::Any)
    }

    pub(super) fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        // The optimizer's canonical order makes x·y and y·x one node.
        let (a, b) = if a.0 > b.0 && !self.graph.is_constant(a) { (b, a) } else { (a, b) };
        self.binary("Mul", a, b)
    }

    /// A product whose operands keep their order: constants are pushed down to the second one.
    pub(super) fn mul_ordered(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("Mul", a, b)
    }

    pub(super) fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("AddV2", a, b)
    }

    pub(super) fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("Sub", a, b)
    }

    /// Multiplies by a number.
    pub(super) fn scale(&mut self, x: ValueId, number: f64) -> ValueId {
        let constant = self.constant(number, x);
        self.binary("Mul", constant, x)
    }

    /// Adds a number.
    pub(super) fn shift(&mut self, x: ValueId, number: f64) -> ValueId {
        let constant = self.constant(number, x);
        self.binary("AddV2", constant, x)
    }

    pub(super) fn compare(&mut self, name: &'static str, a: ValueId, b: ValueId) -> ValueId {
        let shape = broadcast(self.graph.shape(a), self.graph.shape(b));
        self.call(name, &[a, b], (shape, DType::Bool), InPlace::No)
    }

    pub(super) fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> ValueId {
        let branches = broadcast(self.graph.shape(a), self.graph.shape(b));
        let shape = broadcast(self.graph.shape(condition), &branches);
        let dtype = if self.graph.is_constant(a) { self.dtype(b) } else { self.dtype(a) };
        self.call("SelectV2", &[condition, a, b], (shape, dtype), InPlace::NotFirst)
    }

    pub(super) fn cast(&mut self, x: ValueId, dtype: DType) -> ValueId {
        if self.dtype(x) == dtype {
            return x;
        }
        let shape = self.graph.value(x).shape;
        self.call_shaped("Cast", &[x], (shape, dtype), InPlace::No)
    }

    /// `clip_by_value`.
    pub(super) fn clip(&mut self, x: ValueId, least: f64, most: f64) -> ValueId {
        let (ceiling, floor) = (self.constant(most, x), self.constant(least, x));
        let lowered = self.binary("Minimum", ceiling, x);
        self.binary("Maximum", floor, lowered)
    }

    pub(super) fn sum_of(&mut self, values: &[ValueId]) -> ValueId {
        match *values {
            [only] => only,
            _ => {
                let output = (self.graph.value(values[0]).shape, self.dtype(values[0]));
                self.call_shaped("AddN", values, output, InPlace::Any)
            }
        }
    }

    /// A reduction to `shape`, which has size 1 or nothing where axes were reduced.
    pub(super) fn reduce(&mut self, name: &'static str, x: ValueId, shape: Shape) -> ValueId {
        let dtype = self.dtype(x);
        self.call(name, &[x], (shape, dtype), InPlace::No)
    }

    /// The gradient of broadcasting: summed down to `shape`.
    pub(super) fn sum_to(&mut self, x: ValueId, shape: &Shape) -> ValueId {
        if self.graph.shape(x) == shape {
            return x;
        }
        if elements(self.graph.shape(x)) == elements(shape) {
            return self.graph.reshape(x, shape.clone());
        }
        self.reduce("Sum", x, shape.clone())
    }

    /// The gradient of a reduction: repeated up to `shape`.
    pub(super) fn tile_to(&mut self, x: ValueId, shape: &Shape) -> ValueId {
        if self.graph.shape(x) == shape {
            return x;
        }
        if elements(self.graph.shape(x)) == elements(shape) {
            return self.graph.reshape(x, shape.clone());
        }
        if self.graph.is_constant(x) {
            return self.repeated(x, shape);
        }
        let dtype = self.dtype(x);
        self.call("Tile", &[x], (shape.clone(), dtype), InPlace::No)
    }

    /// A copy into another shape: transposition, padding, slicing, concatenation.
    pub(super) fn copy(&mut self, name: &'static str, inputs: &[ValueId], shape: Shape, attr: u32) -> ValueId {
        let dtype = self.dtype(inputs[0]);
        let kernel = Kernel { name, attr };
        let output = (shape, dtype);
        let (in_place, scratch, work) = (InPlace::No, vec![], Size::ZERO);
        self.graph.add(NewNode { kernel, inputs, output, in_place, scratch, work, after: &[] })
    }

    /// `[rows, k] × [k, columns]`, either transposed. `work` are taken from the result and `k`.
    pub(super) fn mat_mul(&mut self, a: ValueId, b: ValueId, shape: Shape, k: Size, attr: u32) -> ValueId {
        let dtype = self.dtype(a);
        let out = elements(&shape);
        // Of result and inner dimension at most one grows with the batch.
        let mut work = if k.per_sample > 0 {
            times(k, shape.elements().saturating_mul(2))
        } else {
            times(out, k.fixed.saturating_mul(2))
        };
        if attr & 2 != 0 {
            // A transposed second operand is packed piecemeal: 1 GB/s, as read off TensorFlow's log.
            work.fixed = work.fixed.saturating_add(self.graph.size(b).fixed.saturating_mul(SLOW_BYTE_WORK));
        }
        let kernel = Kernel { name: "MatMul", attr };
        let scratch = self.widened(a, b, &shape, dtype);
        let output = (shape, dtype);
        self.graph.add(NewNode { kernel, inputs: &[a, b], output, in_place: InPlace::No, scratch, work, after: &[] })
    }

    /// On a CPU, products of 16 bits are computed in float32: copies of both operands, then the result to be rounded
    /// (matmul_op_impl.h for bfloat16; that it is so for float16, too, was read off TensorFlow 2.21's log).
    pub(super) fn widened(&self, a: ValueId, b: ValueId, shape: &Shape, dtype: DType) -> Vec<Size> {
        if !matches!(dtype, DType::BFloat16 | DType::Float16) || !matches!(self.job.processor, Processor::Cpu { .. }) {
            return Vec::new();
        }
        let wide = |shape: &Shape| shape.size(DType::Float32);
        vec![wide(self.graph.shape(a)), wide(self.graph.shape(b)), wide(shape)]
    }

    /// Whether gradients flow into a value.
    pub(super) fn wants_gradient(&self, value: ValueId) -> bool {
        let value = self.graph.value(value);
        value.differentiable && value.storage != Storage::Constant
    }
}

//! Dense layers, einsums, embeddings, products of tensors.

use super::super::einsum::{ByHeads, Equation};
use super::super::gradient::FOLDED;
use super::super::math::{elements, times};
use super::super::{Attribute, Lowering};
use crate::bytes::Size;
use crate::model::{DType, Op, OpKind, Shape};
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

impl Lowering<'_> {
    /// `matmul`, through two dimensions (`Tensordot`) for inputs of higher rank, then the bias.
    pub(super) fn dense(&mut self, op: &Op, x: ValueId) -> ValueId {
        let kernel = self.weight(op.weights[0], op.compute);
        let output = self.model.tensor(op.outputs[0]).shape.clone();
        let input = self.shape(x);
        let (inner, units) = (input.last(), output.last());
        let rows = Shape::new(input.batched, &[input.elements() / inner.max(1), inner]);
        let flat = self.graph.reshape(x, rows.clone());
        let product =
            self.mat_mul(flat, kernel, Shape::new(rows.batched, &[rows.dims[0], units]), Size::fixed(inner), 0);
        let product = self.graph.reshape(product, output);
        match op.weights.get(1) {
            Some(&bias) => self.bias(product, bias, op.compute),
            None => product,
        }
    }

    pub(super) fn bias(&mut self, x: ValueId, bias: crate::model::WeightId, compute: DType) -> ValueId {
        let bias = self.weight(bias, compute);
        let output = (self.shape(x), self.dtype(x));
        self.call("BiasAdd", &[x, bias], output, InPlace::First)
    }

    /// Keras turns the usual equations into a batched product with a kernel that all samples share; the others are TensorFlow's einsums.
    pub(super) fn einsum_dense(&mut self, op: &Op, equation: &str, x: ValueId) -> ValueId {
        let kernel = self.weight(op.weights[0], op.compute);
        let output = self.model.tensor(op.outputs[0]).shape.clone();
        let product = match Equation::parse(equation).filter(|equation| !equation.is_matrix_product()) {
            Some(equation) => {
                let attr = self.new_attribute(Attribute::Einsum(equation));
                self.einsum(&[x, kernel], output, attr)
            }
            None => self.shared_product(equation, [x, kernel], output),
        };
        match op.weights.get(1) {
            Some(&bias) if self.model.weight(bias).dims.len() == 1 => self.bias(product, bias, op.compute),
            Some(&bias) => {
                let bias = self.weight(bias, op.compute);
                self.add(product, bias)
            }
            None => product,
        }
    }

    fn shared_product(&mut self, equation: &str, [x, kernel]: [ValueId; 2], output: Shape) -> ValueId {
        let shared = contracted_size(equation, self.graph.shape(kernel)).max(1);
        let columns = self.graph.shape(kernel).elements() / shared;
        let input = self.shape(x);
        let positions = input.elements() / shared;
        let matrix = self.graph.reshape(kernel, Shape::fixed(&[shared, columns]));
        let rows = self.graph.reshape(x, Shape::new(input.batched, &[1, positions, shared]));
        let shape = Shape::new(input.batched, &[1, positions, columns]);
        let product = self.batch_mat_mul(rows, matrix, shape, shared, 0);
        self.graph.reshape(product, output)
    }

    pub(in crate::step::tensorflow) fn batch_mat_mul(
        &mut self,
        a: ValueId,
        b: ValueId,
        shape: Shape,
        inner: u64,
        attr: u32,
    ) -> ValueId {
        let dtype = self.dtype(a);
        let work = times(elements(&shape), inner.saturating_mul(2));
        let scratch = self.widened(a, b, &shape, dtype);
        self.graph.add(NewNode {
            kernel: Kernel { name: "BatchMatMulV2", attr },
            inputs: &[a, b],
            output: (shape, dtype),
            in_place: InPlace::No,
            scratch,
            work,
            after: &[],
        })
    }

    /// `Einsum` of two tensors: a batched product between transposed copies (einsum_op_impl.h). The attribute is the equation.
    pub(in crate::step::tensorflow) fn einsum(&mut self, inputs: &[ValueId], shape: Shape, attr: u32) -> ValueId {
        let kernel = Kernel { name: "Einsum", attr };
        let Attribute::Einsum(equation) = self.attribute(kernel) else { unreachable!("an einsum has its equation") };
        let dtype = self.dtype(inputs[0]);
        let copied = inputs.iter().enumerate().filter(|&(at, _)| equation.copies_operand(at));
        let mut scratch: Vec<Size> = copied.map(|(_, &input)| self.graph.size(input)).collect();
        if equation.copies_result() {
            scratch.push(shape.size(dtype));
        }
        let inner = equation.inner([&self.graph.shape(inputs[0]).dims, &self.graph.shape(inputs[1]).dims]);
        let work = times(elements(&shape), inner.saturating_mul(2));
        let output = (shape, dtype);
        let result =
            self.graph.add(NewNode { kernel, inputs, output, in_place: InPlace::No, scratch, work, after: &[] });
        let node = self.graph.value(result).producer;
        self.graph.nodes[node.0 as usize].scratch_first = true;
        result
    }

    /// `matmul` or `einsum` of tensors.
    pub(super) fn product(&mut self, op: &Op, inputs: &[ValueId]) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let [a, b, ..] = *inputs else { return self.copy_op("Transpose", op, inputs) };
        let matrices = [a, b].iter().all(|&side| self.graph.shape(side).rank() > 1);
        if matches!(op.kind, OpKind::MatMul) && matrices && shape.rank() > 1 {
            let inner = self.graph.shape(a).last();
            return self.batch_mat_mul(a, b, shape, inner, 0);
        }
        let equation = match &op.kind {
            OpKind::Einsum { equation } => Equation::parse(equation).unwrap_or_default(),
            _ => Equation::default(),
        };
        if let Some(how) = equation.by_heads() {
            return self.product_by_heads(&equation, how, [a, b], shape);
        }
        let attr = self.new_attribute(Attribute::Einsum(equation));
        self.einsum(&[a, b], shape, attr)
    }

    /// Keras's own way to multiply tensors with heads: transpositions, each a kernel, around a batched product.
    fn product_by_heads(&mut self, equation: &Equation, how: &ByHeads, inputs: [ValueId; 2], shape: Shape) -> ValueId {
        let dims = inputs.map(|input| self.shape(input).dims);
        let sizes = |letters: &str| Shape::new(shape.batched, &equation.sizes(letters, [&dims[0], &dims[1]]));
        let inner = equation.inner([&dims[0], &dims[1]]);
        let mut sides = inputs;
        for (side, letters) in sides.iter_mut().zip(how.operands) {
            if let Some(letters) = letters {
                // Positions and heads change places, or the keys' features come before their positions as well.
                let attr = if letters == "acde" { 4 } else { 2 };
                *side = self.copy("Transpose", &[*side], sizes(letters), attr);
            }
        }
        let product = self.batch_mat_mul(sides[0], sides[1], sizes(how.product), inner, 0);
        match how.result {
            None => product,
            Some(last_two) => self.copy("Transpose", &[product], shape, if last_two { FOLDED } else { 2 }),
        }
    }

    /// Cosine similarity normalizes both sides first; then one batched product. That the axis to be summed may stand elsewhere
    /// than a product wants it costs nothing up to rank 3: the graph optimizer folds the transposition into the product
    /// (arithmetic_optimizer.cc, `FoldTransposeIntoMatMul`).
    pub(super) fn dot(&mut self, op: &Op, axes: [usize; 2], normalize: bool, inputs: &[ValueId]) -> ValueId {
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let mut sides = inputs.to_vec();
        if normalize {
            for side in &mut sides {
                *side = self.unit_norm(*side);
            }
        }
        if let [a, b] = sides[..]
            && self.graph.shape(a).rank() <= 3
            && self.graph.shape(b).rank() <= 3
        {
            return self.batched_dot(axes, [a, b], shape);
        }
        let [a, b, ..] = sides[..] else { return self.copy_op("Transpose", op, inputs) };
        let equation = Equation::dot(axes, [self.graph.shape(a).rank(), self.graph.shape(b).rank()]);
        let attr = self.new_attribute(Attribute::Einsum(equation));
        self.einsum(&[a, b], shape, attr)
    }

    /// Vectors are matrices of one row on the left and of one column on the right.
    fn batched_dot(&mut self, axes: [usize; 2], [a, b]: [ValueId; 2], shape: Shape) -> ValueId {
        let (left, right) = (self.shape(a), self.shape(b));
        let inner = left.dims.get(axes[0]).copied().unwrap_or(1).max(1);
        let rest = |shape: &Shape| shape.elements() / shape.dims[0].max(1) / inner;
        let (rows, columns, samples) = (rest(&left), rest(&right), left.dims[0]);
        let matrices = |this: &mut Self, value: ValueId, vector: [u64; 3]| match this.graph.shape(value).rank() {
            2 => this.graph.reshape(value, Shape::new(left.batched, &vector)),
            _ => value,
        };
        let a = matrices(self, a, [samples, 1, inner]);
        let b = matrices(self, b, [samples, inner, 1]);
        let product = self.batch_mat_mul(a, b, Shape::new(shape.batched, &[samples, rows, columns]), inner, 0);
        self.graph.reshape(product, shape)
    }

    /// Negative indices are mapped first, as NumPy has them: a comparison, a sum and a choice of the indices' size.
    pub(super) fn embedding(&mut self, op: &Op, x: ValueId) -> ValueId {
        let indices = self.cast(x, DType::Int32);
        let zero = self.graph.constant(0.0, DType::Int32);
        let negative = self.compare("Less", indices, zero);
        let rows = self.graph.constant(1.0, DType::Int32);
        let shifted = self.add(indices, rows);
        let chosen = self.select(negative, shifted, indices);
        let table = self.weight_uncast(op.weights[0]);
        let shape = self.model.tensor(op.outputs[0]).shape.clone();
        let dtype = self.dtype(table);
        let kernel = Kernel { name: "GatherV2", attr: 0 };
        let gathered = self.graph.add(NewNode {
            kernel,
            inputs: &[table, chosen],
            output: (shape, dtype),
            in_place: InPlace::No,
            scratch: vec![],
            work: Size::ZERO,
            after: &[],
        });
        self.cast(gathered, op.compute)
    }
}

/// Size of the dimensions that the kernel shares with the input, by the equation's letters.
fn contracted_size(equation: &str, kernel: &Shape) -> u64 {
    let Some((operands, result)) = equation.split_once("->") else { return kernel.dims.first().copied().unwrap_or(1) };
    let Some((input, letters)) = operands.split_once(',') else { return 1 };
    letters
        .chars()
        .zip(&kernel.dims)
        .filter(|(letter, _)| input.contains(*letter) && !result.contains(*letter))
        .fold(1, |size, (_, &dim)| size.saturating_mul(dim))
}

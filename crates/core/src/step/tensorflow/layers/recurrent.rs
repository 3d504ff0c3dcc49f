//! Recurrent layers: a loop over time steps whose results per step are kept in lists for the backward loop.
//!
//! The loop is one node: what it keeps is given per step and cell, counted in real runs' logs. The order within the loop is
//! not simulated; its scratch is that of one step. Cells on top of each other in one loop are a node each.

use super::super::convolution::Geometry;
use super::super::rewrite::SWAPS_FIRST_TWO;
use super::super::{Attribute, Lowering};
use crate::bytes::Size;
use crate::model::{Conv, DType, Op, Rnn, RnnCell, Shape};
use crate::step::Processor;
use crate::step::graph::{InPlace, Kernel, NewNode, ValueId};

/// So many steps of a loop may run at once. Source: `parallel_iterations` in keras/src/backend/tensorflow/rnn.py, which the backward
/// loop takes over (tensorflow/python/ops/while_v2.py).
const PARALLEL_ITERATIONS: u64 = 32;

/// What the gradient of a loop needs to know.
#[derive(Clone, Debug)]
pub(in crate::step::tensorflow) struct LoopAttribute {
    /// Products of one time step: inputs and states times their kernels.
    pub step_scratch: Vec<Size>,
    /// Columns of a convolutional cell's filter gradient.
    pub columns: Option<Size>,
    pub work: Size,
    pub steps: u64,
    /// The loop's gradient stacks and transposes the gradients of its inputs.
    pub listed: bool,
    /// The steps are written out: each has kernels of its own.
    pub unrolled: bool,
    /// Inputs are those of one step at a time: they come from the cell below.
    pub on_cell: bool,
}

/// Results of the state's size that one step of a cell keeps for backward. LSTM: four gates, the cell state, its tanh, the
/// output. GRU: two gates, the candidate, its recurrent part, the blend's factor and the output. Simple: the output.
///
/// Where a mask chooses between the new and the old state, the choice takes the place of the new one; the outputs of a sequence
/// are chosen by themselves (`masked_tagger`: eight for each step of an LSTM in the log; `captions`: seven; `sessions`: six).
/// Dropout on the state makes one copy of it for each gate; an LSTM needs the state itself no more, a GRU blends it, the output
/// of a plain cell is part of its gradient (`entities`: ten).
fn kept_per_step(rnn: &Rnn) -> u64 {
    let (own, dropped) = match rnn.cell {
        RnnCell::Simple => (1, 1),
        RnnCell::Gru { .. } => (6, 3),
        RnnCell::Lstm | RnnCell::ConvLstm(_) | RnnCell::Other => (7, 3),
    };
    own + if rnn.recurrent_dropout { dropped } else { 0 } + u64::from(rnn.masked && rnn.return_sequences)
}

fn gates(cell: &RnnCell) -> u64 {
    match cell {
        RnnCell::Simple => 1,
        RnnCell::Gru { .. } => 3,
        RnnCell::Lstm | RnnCell::ConvLstm(_) | RnnCell::Other => 4,
    }
}

/// Elements of the kernels that each step cuts out of the weights and keeps for the gradients of inputs and state. With dropout on the
/// state, an LSTM or a GRU computes its gates one by one (keras/src/layers/rnn: `implementation` 1). A GRU whose reset gate comes before
/// the product multiplies the state by two parts of its kernel in any case (gru.py, `call`; `stacked_cells`: both parts of 60 steps in the log).
///
/// cast: in mixed precision each step makes its own copy of both kernels in the smaller type (`both_ways`: 70 of each).
fn cut_from_weights(rnn: &Rnn, cast: bool, kernel: u64, recurrent: u64) -> u64 {
    match rnn.cell {
        RnnCell::Lstm | RnnCell::Gru { .. } if rnn.recurrent_dropout => kernel.saturating_add(recurrent),
        _ if cast => kernel.saturating_add(recurrent),
        RnnCell::Gru { reset_after: false } => recurrent,
        _ => 0,
    }
}

impl Lowering<'_> {
    pub(super) fn recurrent(&mut self, op: &Op, rnn: &Rnn, inputs: &[ValueId]) {
        let x = inputs[0];
        let sequence = self.shape(x);
        let dtype = op.compute;
        // Rows of one sample: more than one where other dimensions were folded into the batch.
        let (batched, rows) = (sequence.batched, sequence.dims[0]);
        let fused = rnn.fusable && matches!(self.job.processor, Processor::Gpu);
        // A cell hands on what it makes in the same step (keras/src/layers/rnn/stacked_rnn_cells.py, `call`): no list is made of it, and none
        // of its gradients (`cells_together`: one list for each direction in the log, for three cells).
        let list = if fused || rnn.on_cell {
            x
        } else {
            let turned = self.copy("Transpose", &[x], sequence.clone(), SWAPS_FIRST_TWO | 2);
            self.copy("TensorListFromTensor", &[turned], sequence.clone(), op.outputs[0].0 + 1)
        };
        let gates = gates(&rnn.cell);
        let step = |units: u64| {
            let shape = Shape::new(batched, &[rows, units]);
            shape.size(dtype)
        };
        let product = step(rnn.units.saturating_mul(gates));
        // A loop reads the weights as they are stored.
        let read = |this: &mut Self, weight| {
            let dtype = if fused || rnn.unroll { dtype } else { this.model.weight(weight).dtype };
            this.weight(weight, dtype)
        };
        let weights: Vec<ValueId> = op.weights.iter().map(|&weight| read(self, weight)).collect();
        let parameters: u64 =
            weights.iter().map(|&weight| self.graph.shape(weight).elements()).fold(0, u64::saturating_add);
        let step_scratch = vec![product, product];
        let (mut positions, mut columns) = (1, None);
        if let RnnCell::ConvLstm(conv) = &rnn.cell {
            let filters = weights.get(1).map_or(1, |&kernel| self.graph.shape(kernel).last() / gates).max(1);
            positions = (rnn.units / filters).max(1);
            columns = self.cell_scratch(conv, &weights, positions, filters, dtype);
        }
        let products = [2, rnn.steps, positions, rows].into_iter().fold(parameters, u64::saturating_mul);
        let work = Size::per_sample(products);
        let attr = self.new_attribute(Attribute::Loop(LoopAttribute {
            step_scratch,
            columns,
            work,
            steps: rnn.steps,
            listed: !fused,
            unrolled: rnn.unroll,
            on_cell: rnn.on_cell,
        }));
        let mut operands = vec![list];
        operands.extend(weights);
        operands.extend_from_slice(&inputs[1..]);
        let kept = if self.training() { kept_per_step(rnn) } else { 1 };
        let steps = if self.training() || rnn.return_sequences && !rnn.under_cell { rnn.steps } else { 1 };
        let results = steps.saturating_mul(kept);
        // A loop keeps a list of small tensors. In 64 pieces the allocator leaves as few gaps as with the list itself
        // (`gru_text` at batch 256: 116 MiB; in one piece 154; measured 120), and a long sequence stays cheap to simulate.
        let pieces = if fused { 1 } else { results.clamp(1, 64) };
        let saved = self.graph.add(NewNode {
            kernel: Kernel { name: if fused { "CudnnRNNV3" } else { "While" }, attr },
            inputs: &operands,
            output: (Shape::new(batched, &[rows, results.div_ceil(pieces), rnn.units]), dtype),
            in_place: InPlace::No,
            scratch: vec![product, product],
            work,
            after: &[],
        });
        for piece in 1..pieces {
            // As even as they come: one large piece would leave gaps that the list does not.
            let length = results / pieces + u64::from(piece < results % pieces);
            self.graph.add_output(saved, Shape::new(batched, &[rows, length, rnn.units]), dtype);
        }
        self.keep_parts_of_weights(rnn, &operands, saved);
        for (index, &output) in op.outputs.iter().enumerate() {
            let shape = self.model.tensor(output).shape.clone();
            if index == 0 && rnn.under_cell {
                let handed_on = self.graph.reshape(saved, shape);
                self.set_output(op, index, handed_on);
                continue;
            }
            // Outputs are stacked from the list (and, as a sequence, turned back to batch-major).
            let stacked = self.copy("TensorListStack", &[saved], shape.clone(), attr * 8 + index as u32);
            let value = if index == 0 && rnn.return_sequences && !fused {
                self.copy("Transpose", &[stacked], shape, SWAPS_FIRST_TWO | (attr * 8 + 1))
            } else {
                stacked
            };
            self.set_output(op, index, value);
        }
    }

    /// What each step cuts out of the weights; with dropout on inputs and state, a copy of the inputs for each gate as well.
    fn keep_parts_of_weights(&mut self, rnn: &Rnn, operands: &[ValueId], saved: ValueId) {
        let [list, kernel, recurrent, ..] = *operands else { return };
        let input = self.shape(list);
        let elements = |value: ValueId| self.graph.shape(value).elements();
        let kernel = if self.wants_gradient(list) { elements(kernel) } else { 0 };
        let cast = self.dtype(recurrent) != self.dtype(saved);
        let weights = cut_from_weights(rnn, cast, kernel, elements(recurrent));
        if weights == 0 || !self.training() {
            return;
        }
        let copies = if rnn.dropout && rnn.recurrent_dropout { gates(&rnn.cell) - 1 } else { 0 };
        let dtype = self.dtype(saved);
        let pieces = rnn.steps.clamp(1, 64);
        for piece in 0..pieces {
            let length = rnn.steps / pieces + u64::from(piece < rnn.steps % pieces);
            self.graph.add_output(saved, Shape::fixed(&[length, weights]), dtype);
            if copies > 0 {
                let shape = Shape::new(input.batched, &[input.dims[0], length, input.last(), copies]);
                self.graph.add_output(saved, shape, dtype);
            }
        }
    }

    /// A convolutional cell convolves inputs and state once for each gate, and the backward loop makes these filters' gradients,
    /// two at a time, each with its columns (`next_frame`: two of 27 MiB in the log; so for `conv_lstm`).
    fn cell_scratch(
        &self,
        conv: &Conv,
        weights: &[ValueId],
        positions: u64,
        filters: u64,
        dtype: DType,
    ) -> Option<Size> {
        let columns = weights.iter().take(2).flat_map(|&kernel| {
            let dims = &self.graph.shape(kernel).dims;
            let channels = dims.get(dims.len().saturating_sub(2)).copied().unwrap_or(1);
            let geometry = Geometry {
                result: &Shape::new(true, &[1, positions, filters]),
                kernel: &conv.kernel,
                channels: (channels, filters),
                groups: 1,
                depthwise: false,
                transposed: false,
                dtype,
                image_elements: positions.saturating_mul(channels),
                batch: self.job.micro_batch(),
            };
            geometry.attribute(self.job.processor).filter_scratch
        });
        columns.max_by_key(|size| size.fixed)
    }

    /// The backward loop: gradients of the input sequence (a list), of the weights, of the initial states.
    pub(in crate::step::tensorflow) fn loop_gradient(
        &mut self,
        kernel: Kernel,
        inputs: &[ValueId],
        saved: ValueId,
        g: ValueId,
    ) -> Vec<ValueId> {
        let Attribute::Loop(attribute) = self.attribute(kernel) else { return Vec::new() };
        let listed = attribute.listed && !attribute.on_cell;
        let zeros = (listed && self.wants_gradient(inputs[0])).then(|| self.list_of_zeros(inputs[0]));
        let mut shape = self.shape(inputs[0]);
        if let (true, Some(steps)) = (attribute.on_cell, shape.dims.get_mut(1)) {
            *steps = 1;
        }
        let mut operands: Vec<ValueId> = zeros.into_iter().chain([g]).collect();
        operands.extend_from_slice(&self.graph.node(self.graph.value(saved).producer).outputs);
        operands.extend_from_slice(inputs);
        let mut scratch = attribute.step_scratch.clone();
        if let Some(columns) = attribute.columns {
            operands.push(self.first_step_back(kernel, &attribute, columns, g, saved));
            scratch.extend([columns; 2]);
        }
        // Each step makes the weights' gradients before it adds them to the running totals.
        scratch.extend(inputs[1..].iter().map(|&input| self.graph.size(input)));
        let name = if attribute.listed { "WhileGrad" } else { "CudnnRNNBackpropV3" };
        let first = self.graph.add(NewNode {
            kernel: Kernel { name, attr: kernel.attr },
            inputs: &operands,
            output: (shape, self.dtype(inputs[0])),
            in_place: if zeros.is_some() { InPlace::First } else { InPlace::No },
            scratch,
            work: Size {
                fixed: attribute.work.fixed.saturating_mul(2),
                per_sample: attribute.work.per_sample.saturating_mul(2),
            },
            after: &[],
        });
        if attribute.listed {
            let weights: Vec<ValueId> =
                inputs[1..].iter().copied().filter(|&input| !self.graph.shape(input).batched).collect();
            let at_once = if attribute.unrolled { attribute.steps } else { PARALLEL_ITERATIONS };
            let waiting = self.gradients_that_wait(&weights, saved, attribute.steps, at_once);
            let node = self.graph.value(first).producer;
            let node = &mut self.graph.nodes[node.0 as usize];
            // A sum of all steps waits for the last of them.
            if attribute.unrolled { node.scratch.extend(waiting) } else { node.backlog = waiting }
        }
        let mut gradients = vec![first];
        for &input in &inputs[1..] {
            let (shape, dtype) = (self.shape(input), self.dtype(input));
            let output: ValueId = self.graph.add_output(first, shape, dtype);
            gradients.push(output);
        }
        gradients
    }

    /// Weights' gradients of single steps that wait to be added to the running totals. No other step needs them, so the loop goes on
    /// while the thread that adds them up is put off by other work, as far as it may; what it kept of these steps is free by then, and
    /// counts against them. (`lstm` of the end-to-end tests beside other programs: 20 to 31 of them in the dumps of pools that ran out.)
    fn gradients_that_wait(&self, weights: &[ValueId], saved: ValueId, steps: u64, at_once: u64) -> Vec<Size> {
        let batch = self.job.micro_batch();
        let bytes = |values: &[ValueId]| {
            values.iter().map(|&value| self.graph.size(value).at(batch)).fold(0, u64::saturating_add)
        };
        let kept = bytes(&self.graph.node(self.graph.value(saved).producer).outputs) / steps.max(1);
        let made = bytes(weights);
        // Those of one step are scratch of the loop anyway.
        let more = (at_once.min(steps).saturating_sub(1)).saturating_mul(made.saturating_sub(kept));
        let waiting = more.checked_div(made).unwrap_or(0);
        (0..waiting).flat_map(|_| weights.iter().map(|&weight| self.graph.size(weight))).collect()
    }

    /// The gradients of the inputs start as a list of zeros, which waits for nothing but the list of the inputs: it is there from
    /// the forward loop on, and each step of the backward loop puts a gradient in the place of zeros (`zeros_like` in the logs of
    /// all models whose recurrent layers have inputs with gradients).
    fn list_of_zeros(&mut self, list: ValueId) -> ValueId {
        let output = (self.shape(list), self.dtype(list));
        self.call("ZerosLike", &[list], output, InPlace::No)
    }

    /// The first step of a convolutional cell's backward loop: the other thread is still busy with what stands behind the loop,
    /// so this one makes the filters' gradients alone. Inferred from the peak of one measured job (`conv_lstm`), not seen in a log.
    fn first_step_back(
        &mut self,
        kernel: Kernel,
        attribute: &LoopAttribute,
        columns: Size,
        g: ValueId,
        saved: ValueId,
    ) -> ValueId {
        let (shape, dtype) = (self.shape(saved), self.dtype(saved));
        self.graph.add(NewNode {
            kernel: Kernel { name: "WhileGradStart", attr: kernel.attr },
            inputs: &[g],
            output: (Shape::new(shape.batched, &[1]), dtype),
            in_place: InPlace::No,
            scratch: vec![columns],
            work: Size { fixed: 0, per_sample: attribute.work.per_sample.saturating_mul(2) / attribute.steps.max(1) },
            after: &[],
        })
    }

    /// Gradient of the stacked outputs with respect to what the loop kept: read where it is used, nothing of full size.
    pub(in crate::step::tensorflow) fn stack_gradient(&mut self, g: ValueId) -> ValueId {
        let shape = self.shape(g);
        let dtype: DType = self.dtype(g);
        self.call("TensorListElement", &[g], (shape, dtype), InPlace::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Layer, LayerId, Loss, Model, OpKind, OptimizerConfig, Tensor, TensorId, Weight, WeightId};
    use crate::step::tensorflow::Network;
    use crate::step::{Job, Mode};

    /// How often two plain layers, on top of each other or as cells of one loop, make a list of a sequence, a sequence of a list, and a list
    /// of zeros.
    fn lists(one_loop: bool) -> [usize; 3] {
        let weight = |of: u32, name: &str, dims: [u64; 2]| Weight {
            layer: LayerId(of),
            name: name.to_owned(),
            dims: dims.to_vec(),
            dtype: DType::Float32,
            trainable: true,
            penalty: None,
            constrained: false,
            created: 0,
        };
        let op = |of: u32| Op {
            layer: LayerId(of),
            kind: OpKind::Rnn(Rnn {
                cell: RnnCell::Simple,
                units: 8,
                steps: 5,
                return_sequences: true,
                go_backwards: false,
                unroll: false,
                masked: false,
                dropout: false,
                recurrent_dropout: false,
                fusable: false,
                on_cell: one_loop && of == 1,
                under_cell: one_loop && of == 0,
            }),
            inputs: vec![TensorId(of)],
            outputs: vec![TensorId(of + 1)],
            weights: vec![WeightId(2 * of), WeightId(2 * of + 1)],
            compute: DType::Float32,
        };
        let tensor = || Tensor { shape: Shape::new(true, &[1, 5, 8]), dtype: DType::Float32 };
        let model = Model {
            layers: ["below", "above"]
                .map(|path| Layer { path: path.to_owned(), class: "RNN".to_owned() })
                .into_iter()
                .collect(),
            weights: (0..4).map(|at| weight(at / 2, "kernel", [8, 8])).collect(),
            tensors: (0..3).map(|_| tensor()).collect(),
            ops: vec![op(0), op(1)],
            inputs: vec![TensorId(0)],
            outputs: vec![TensorId(2)],
            ..Model::default()
        };
        let job = Job {
            batch: 2,
            optimizer: OptimizerConfig::named("sgd"),
            losses: vec![Loss::named("mean_squared_error")],
            metrics: vec![],
            mode: Mode::Training,
            processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
            micro_batches: 1,
        };
        let graph = Network::new(&model, &job).graph;
        let count = |name| graph.nodes.iter().filter(|node| node.kernel.name == name).count();
        assert_eq!(count("While"), 2);
        assert_eq!(count("WhileGrad"), 2);
        ["TensorListFromTensor", "TensorListStack", "ZerosLike"].map(count)
    }

    #[test]
    fn cells_of_one_loop_hand_on_each_step_without_lists() {
        // Of the three that are stacked, two are outputs and one the gradients of the inputs above.
        assert_eq!(lists(false), [2, 3, 1]);
        assert_eq!(lists(true), [1, 1, 0]);
    }

    #[test]
    fn what_a_step_keeps_is_what_the_logs_of_real_jobs_show() {
        let plain = Rnn {
            cell: RnnCell::Lstm,
            units: 100,
            steps: 75,
            return_sequences: true,
            go_backwards: false,
            unroll: false,
            masked: false,
            dropout: false,
            recurrent_dropout: false,
            fusable: true,
            on_cell: false,
            under_cell: false,
        };
        assert_eq!(kept_per_step(&plain), 7);
        assert_eq!(kept_per_step(&Rnn { masked: true, ..plain.clone() }), 8);
        assert_eq!(kept_per_step(&Rnn { masked: true, return_sequences: false, ..plain.clone() }), 7);
        assert_eq!(kept_per_step(&Rnn { recurrent_dropout: true, ..plain.clone() }), 10);
        let gru = Rnn { cell: RnnCell::Gru { reset_after: true }, ..plain };
        assert_eq!(kept_per_step(&Rnn { masked: true, return_sequences: false, ..gru.clone() }), 6);
        assert_eq!(kept_per_step(&Rnn { recurrent_dropout: true, ..gru }), 9);
    }

    #[test]
    fn a_step_cuts_kernels_apart_where_keras_does() {
        let gru = |reset_after: bool, recurrent_dropout: bool| Rnn {
            cell: RnnCell::Gru { reset_after },
            units: 8,
            steps: 5,
            return_sequences: true,
            go_backwards: false,
            unroll: false,
            masked: false,
            dropout: false,
            recurrent_dropout,
            fusable: false,
            on_cell: false,
            under_cell: false,
        };
        assert_eq!(cut_from_weights(&gru(true, false), false, 96, 192), 0);
        assert_eq!(cut_from_weights(&gru(false, false), false, 96, 192), 192);
        assert_eq!(cut_from_weights(&gru(true, true), false, 96, 192), 288);
        assert_eq!(cut_from_weights(&Rnn { cell: RnnCell::Lstm, ..gru(true, true) }, false, 96, 192), 288);
        assert_eq!(cut_from_weights(&gru(true, false), true, 96, 192), 288);
    }
}

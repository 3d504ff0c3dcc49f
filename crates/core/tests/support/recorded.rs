//! Recordings of made-up networks, in the rows that `Capture` reads.
//!
//! In: a [`Network`]. Out: strings and bytes, as a recording with some batch would have them, and the modules for a request.
//! A part of several tests and benches, not a test of its own.

use std::fmt::Write as _;

use brimful_core::capture::Capture;

/// An op of a network, with a weight of its own.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Bytes of its result for each sample.
    pub per_sample: i64,
    /// Bytes of its result beside that.
    pub fixed: i64,
    /// Whether the result is kept for the backward pass.
    pub saved: bool,
    /// Bytes of its weight; none if 0.
    pub weight: i64,
    /// Bytes of its scratch; none if 0.
    pub scratch: i64,
    /// Its place in [`OPS`].
    pub op: usize,
}

/// Ops that autocast treats in different ways.
pub const OPS: [&str; 6] =
    ["aten.convolution", "aten.addmm", "aten.gelu", "aten.native_layer_norm", "aten.add.Tensor", "aten._softmax"];

/// A network of blocks, and how it is trained.
#[derive(Clone, Debug)]
pub struct Network {
    /// The ops of each block `h.N`; after each block comes one op outside of it.
    pub blocks: Vec<Vec<Op>>,
    /// Slots of the optimizer for each weight.
    pub slots: usize,
    /// Whether the update makes copies of all weights.
    pub foreach: bool,
    /// Whether gradients stay from step to step.
    pub keeps_gradients: bool,
    /// Passes through the network in a step.
    pub passes: usize,
    /// Whether there is a backward pass.
    pub trains: bool,
}

#[derive(Default)]
struct Rows {
    values: Vec<i64>,
    strings: Vec<String>,
    buffers: i64,
    calls: i64,
}

impl Rows {
    fn string(&mut self, text: &str) -> i64 {
        let known = self.strings.iter().position(|string| string == text);
        known.unwrap_or_else(|| {
            self.strings.push(text.to_owned());
            self.strings.len() - 1
        }) as i64
    }

    fn alloc(&mut self, op: &str, module: &str, role: i64, bytes: i64) -> i64 {
        let (op, module, source) = (self.string(op), self.string(module), self.string("train.py:7"));
        let buffer = self.buffers;
        self.buffers += 1;
        self.calls += 1;
        self.values.extend([0, buffer, bytes, op, module, source, role, self.calls, 1]);
        buffer
    }

    fn free(&mut self, buffer: i64) {
        self.values.extend([1, buffer, 0, 0, 0, 0, 0, -1, 0]);
    }

    fn mark(&mut self, phase: i64) {
        self.values.extend([3, 0, 0, 0, 0, 0, phase, -1, 0]);
    }
}

impl Network {
    /// All ops in order, with their modules.
    fn ops(&self) -> Vec<(String, Op)> {
        let mut ops = Vec::new();
        for (block, inside) in self.blocks.iter().enumerate() {
            for (place, op) in inside.iter().enumerate() {
                ops.push((format!("h.{block}.m{place}"), *op));
            }
            let outside = inside.last().map(|op| Op { weight: 0, scratch: 0, op: 4, ..*op });
            ops.extend(outside.map(|op| ("mix".to_owned(), op)));
        }
        ops
    }

    /// Two steps with this batch.
    fn rows(&self, batch: i64) -> Rows {
        let mut rows = Rows::default();
        rows.string("");
        rows.mark(0);
        let ops = self.ops();
        let weights: Vec<(&str, i64)> =
            ops.iter().filter(|(_, op)| op.weight > 0).map(|(module, op)| (module.as_str(), op.weight)).collect();
        for (module, bytes) in &weights {
            rows.alloc("aten.empty", module, 0, *bytes);
        }
        rows.alloc("aten._to_copy", "", 4, 64 * batch);
        let mut gradients: Vec<Option<i64>> = vec![None; weights.len()];
        let mut output: Option<i64> = None;
        for step in 0..2 {
            rows.values.extend([4, step, 0, 0, 0, 0, 0, -1, 0]);
            if !self.keeps_gradients {
                gradients.iter_mut().filter_map(Option::take).for_each(|gradient| rows.free(gradient));
            }
            for _ in 0..self.passes {
                self.pass(&mut rows, &ops, batch, &mut output, &mut gradients);
            }
            if self.trains {
                rows.mark(3);
                if step == 0 {
                    for (_, bytes) in &weights {
                        for _ in 0..self.slots {
                            rows.alloc("aten.zeros_like", "", 2, *bytes);
                        }
                    }
                }
                let copies: Vec<i64> = weights
                    .iter()
                    .filter(|_| self.foreach)
                    .map(|(_, bytes)| rows.alloc("aten._foreach_sqrt", "", 5, *bytes))
                    .collect();
                copies.into_iter().for_each(|copy| rows.free(copy));
            }
        }
        rows
    }

    fn pass(
        &self,
        rows: &mut Rows,
        ops: &[(String, Op)],
        batch: i64,
        output: &mut Option<i64>,
        gradients: &mut [Option<i64>],
    ) {
        rows.mark(1);
        let mut kept: Vec<Option<i64>> = Vec::new();
        let mut unsaved: Option<i64> = None;
        for (module, op) in ops {
            let scratch = (op.scratch > 0).then(|| rows.alloc("cudnn_workspace", module, 6, op.scratch));
            let result = rows.alloc(OPS[op.op % OPS.len()], module, 5, op.fixed + op.per_sample * batch);
            scratch.into_iter().for_each(|scratch| rows.free(scratch));
            unsaved.take().into_iter().for_each(|buffer| rows.free(buffer));
            let saved = op.saved && self.trains;
            kept.push(saved.then_some(result));
            unsaved = (!saved).then_some(result);
        }
        let loss = rows.alloc("aten.mse_loss", "", 5, 4);
        // The variable that held the last output is given a new value.
        output.replace(loss).into_iter().for_each(|old| rows.free(old));
        unsaved.take().into_iter().for_each(|buffer| rows.free(buffer));
        if !self.trains {
            return;
        }
        rows.mark(2);
        let mut flowing = rows.alloc("aten.mse_loss_backward", "", 5, 64 * batch);
        let mut weight = gradients.len();
        for ((module, op), saved) in ops.iter().zip(kept).rev() {
            let next = rows.alloc("aten.mm", module, 5, op.fixed + op.per_sample * batch);
            rows.free(flowing);
            flowing = next;
            if op.weight > 0 {
                weight -= 1;
                let role = if gradients[weight].is_none() { 1 } else { 5 };
                let gradient = rows.alloc("aten.mm", module, role, op.weight);
                if role == 1 { gradients[weight] = Some(gradient) } else { rows.free(gradient) }
            }
            saved.into_iter().for_each(|buffer| rows.free(buffer));
        }
        rows.free(flowing);
    }

    /// The strings and the columns of all rows with this batch.
    #[allow(dead_code)]
    pub fn written(&self, batch: i64) -> (Vec<String>, Vec<i64>) {
        let rows = self.rows(batch);
        (rows.strings, rows.values)
    }

    /// Recorded with this batch and twice that.
    pub fn captured(&self, batch: u64) -> Capture {
        let (a, b) = (self.rows(batch as i64), self.rows(batch as i64 * 2));
        let bytes = |rows: &Rows| rows.values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        Capture::new(a.strings.clone(), batch, &bytes(&a), batch * 2, Some(&bytes(&b))).expect("a good recording")
    }

    /// The modules, as a request has them.
    pub fn modules(&self) -> String {
        let mut text = r#"[{"path": "", "class": "Net"}"#.to_owned();
        for (block, inside) in self.blocks.iter().enumerate() {
            let _ = write!(text, r#", {{"path": "h.{block}", "class": "Block"}}"#);
            for (place, op) in inside.iter().enumerate() {
                let class = ["Conv2d", "Linear", "GELU", "LayerNorm", "Add", "Softmax"][op.op % OPS.len()];
                let parameters = op.weight / 4;
                let _ = write!(
                    text,
                    r#", {{"path": "h.{block}.m{place}", "class": "{class}", "parameters": {parameters}}}"#
                );
            }
        }
        text + "]"
    }
}

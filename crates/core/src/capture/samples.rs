//! Recordings made by hand, for tests.

use super::{COLUMNS, Capture};

/// Writes rows.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// The columns of all rows.
    pub values: Vec<i64>,
    strings: Vec<String>,
    buffers: i64,
    calls: i64,
    /// The module, source and type of the rows to come.
    pub module: String,
    /// The line of source.
    pub source: String,
    /// The type, as in a row.
    pub dtype: i64,
}

impl Writer {
    /// No rows yet.
    pub fn new() -> Writer {
        Writer { strings: vec![String::new()], dtype: 1, ..Writer::default() }
    }

    /// One row, column by column.
    pub fn row(&mut self, columns: [i64; COLUMNS]) {
        self.values.extend(columns);
    }

    fn string(&mut self, text: &str) -> i64 {
        let known = self.strings.iter().position(|string| string == text);
        known.unwrap_or_else(|| {
            self.strings.push(text.to_owned());
            self.strings.len() - 1
        }) as i64
    }

    /// A buffer, with its number.
    pub fn alloc(&mut self, op: &str, role: i64, bytes: i64) -> i64 {
        let (module, source) = (self.module.clone(), self.source.clone());
        let (op, module, source) = (self.string(op), self.string(&module), self.string(&source));
        let (buffer, call) = (self.buffers, self.calls);
        self.buffers += 1;
        self.calls += 1;
        self.row([0, buffer, bytes, op, module, source, role, call, self.dtype]);
        buffer
    }

    /// Its end.
    pub fn free(&mut self, buffer: i64) {
        self.row([1, buffer, 0, 0, 0, 0, 0, -1, 0]);
    }

    /// The begin of a phase.
    pub fn mark(&mut self, phase: i64) {
        self.row([3, 0, 0, 0, 0, 0, phase, -1, 0]);
    }

    /// The begin of a step.
    pub fn step(&mut self, number: i64) {
        self.row([4, number, 0, 0, 0, 0, 0, -1, 0]);
    }

    /// The rows as they are handed over.
    pub fn bytes(&self) -> Vec<u8> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The strings that rows refer to.
    pub fn strings(&self) -> Vec<String> {
        self.strings.clone()
    }
}

/// Two steps of a chain of equal blocks `h.0`, `h.1`, … trained with Adam. Each block keeps one result of `width` bytes a
/// sample and one twice as large inside it, and has `width × 64` bytes of weights.
pub fn chain(batch: i64, blocks: usize, width: i64) -> Writer {
    let mut writer = Writer::new();
    writer.source = "train.py:3".to_owned();
    writer.mark(0);
    let mut parameters = Vec::new();
    for block in 0..blocks {
        writer.module = format!("h.{block}.fc");
        parameters.push(writer.alloc("aten.empty", 0, width * 64));
    }
    writer.module.clear();
    let input = writer.alloc("aten._to_copy", 4, width * batch);
    let mut states = Vec::new();
    for step in 0..2 {
        writer.step(step);
        writer.mark(1);
        writer.source = "train.py:10".to_owned();
        let mut saved = Vec::new();
        for block in 0..blocks {
            writer.module = format!("h.{block}.fc");
            let inner = writer.alloc("aten.addmm", 5, 2 * width * batch);
            let scratch = writer.alloc("aten.addmm", 5, width * batch);
            writer.free(scratch);
            writer.module = format!("h.{block}.act");
            saved.push((inner, writer.alloc("aten.gelu", 5, width * batch)));
        }
        writer.module.clear();
        let loss = writer.alloc("aten.mse_loss", 5, 4);
        writer.mark(2);
        writer.source = "train.py:12".to_owned();
        let mut gradient = writer.alloc("aten.mse_loss_backward", 5, width * batch);
        let mut gradients = Vec::new();
        for block in (0..blocks).rev() {
            writer.module = format!("h.{block}.act");
            let (inner, outer) = saved[block];
            let inside = writer.alloc("aten.gelu_backward", 5, 2 * width * batch);
            writer.free(gradient);
            writer.free(outer);
            writer.module = format!("h.{block}.fc");
            gradients.push(writer.alloc("aten.mm", 1, width * 64));
            gradient = writer.alloc("aten.mm", 5, width * batch);
            writer.free(inside);
            writer.free(inner);
        }
        writer.free(gradient);
        writer.mark(3);
        writer.source = "train.py:13".to_owned();
        writer.module.clear();
        if step == 0 {
            for _ in &parameters {
                states.push(writer.alloc("aten.zeros_like", 2, width * 64));
                states.push(writer.alloc("aten.zeros_like", 2, width * 64));
            }
        }
        let foreach: Vec<i64> = parameters.iter().map(|_| writer.alloc("aten._foreach_sqrt", 5, width * 64)).collect();
        foreach.into_iter().for_each(|buffer| writer.free(buffer));
        writer.free(loss);
        gradients.into_iter().for_each(|buffer| writer.free(buffer));
    }
    let _ = (input, states);
    writer
}

/// [`chain`], recorded with two batches.
pub fn captured(batch: u64, blocks: usize, width: i64) -> Capture {
    let (a, b) = (chain(batch as i64, blocks, width), chain(batch as i64 * 2, blocks, width));
    Capture::new(a.strings(), batch, &a.bytes(), batch * 2, Some(&b.bytes())).expect("a good recording")
}

//! One run of a prepared graph: buffers come and go as kernels start and end.

use super::Execution;
use super::prepared::{Extra, Prepared, Write};
use super::workers::{Next, Random, Workers};
use crate::bytes::Size;
use crate::step::graph::{InPlace, NodeId, Storage, ValueId, VariableId};
use crate::trace::{BufferId, CauseId, Event, Phase, Role, Trace};

/// What an initializer of random numbers holds meanwhile: its seed, its key, a counter, a shape. Few bytes, but they lie where the numbers would.
/// This and the next two were read off TensorFlow's own log of Keras models being built.
const DRAWING: [Size; 4] = [few(8), few(8), few(8), few(16)];
/// The number that draws are scaled by, or the zero or one that a constant is made of.
const NUMBER: Size = few(4);
/// A variable's handle, which lives as long as the variable.
const HANDLE: Size = few(200);

const fn few(bytes: u64) -> Size {
    Size { fixed: bytes, per_sample: 0 }
}

/// No buffer (yet).
const NONE: BufferId = BufferId(u32::MAX);

/// A buffer of the trace.
struct Buffer {
    /// Readers (and owners) that are still to come.
    holders: u32,
    /// What it is for now.
    role: Role,
}

pub(super) struct Run<'a> {
    prepared: &'a Prepared,
    execution: Execution,
    trace: Trace,
    phase: Option<Phase>,
    buffers: Vec<Buffer>,
    variable_buffer: Vec<BufferId>,
    /// By variable: some of its rows were changed, so that it is copied when it is read.
    copied: Vec<bool>,
    /// Of all nodes.
    readers: Vec<NodeId>,
    /// The buffer of each value of the step that runs.
    value_buffer: Vec<BufferId>,
}

impl<'a> Run<'a> {
    pub(super) fn new(prepared: &'a Prepared, execution: Execution) -> Run<'a> {
        // About two events for each kernel that is no view.
        let events = Vec::with_capacity(prepared.node_count() * 5 / 4 * execution.steps as usize);
        let trace = Trace { events, causes: prepared.causes.clone(), buffer_count: 0 };
        Run {
            prepared,
            execution,
            trace,
            phase: None,
            // Of a large model, every second value has a buffer of its own.
            buffers: Vec::with_capacity(prepared.variables.len() + prepared.values.len() / 2),
            variable_buffer: Vec::new(),
            readers: prepared.readers(execution.seed),
            copied: prepared.variables.iter().map(|variable| variable.rows && !execution.from_start).collect(),
            value_buffer: vec![NONE; prepared.values.len()],
        }
    }

    pub(super) fn into_trace(mut self) -> Trace {
        self.trace.buffer_count = self.buffers.len() as u32;
        self.trace.events.shrink_to_fit();
        self.trace
    }

    fn alloc(&mut self, size: Size, cause: CauseId, role: Role, holders: u32) -> BufferId {
        let buffer = BufferId(self.buffers.len() as u32);
        self.buffers.push(Buffer { holders, role });
        self.trace.events.push(Event::Alloc { buffer, size, cause, role });
        buffer
    }

    /// A buffer is taken over for another use.
    fn relabel(&mut self, buffer: BufferId, role: Role) {
        let known = &mut self.buffers[buffer.0 as usize].role;
        if *known != role {
            *known = role;
            self.trace.events.push(Event::Relabel { buffer, role });
        }
    }

    fn release(&mut self, buffer: BufferId) {
        let holders = &mut self.buffers[buffer.0 as usize].holders;
        *holders -= 1;
        if *holders == 0 {
            self.trace.events.push(Event::Free { buffer });
        }
    }

    fn mark(&mut self, phase: Phase) {
        if self.phase != Some(phase) {
            self.phase = Some(phase);
            self.trace.events.push(Event::Mark { phase });
        }
    }

    /// Weights, then what the first step creates: slots and unfolded constants.
    ///
    /// Slots of one shape start as one shared buffer of zeros: each gets its own when it is first written.
    pub(super) fn set_up(&mut self) {
        self.mark(Phase::Setup);
        let prepared = self.prepared;
        // By kind of variable.
        let mut zeros = vec![NONE; if self.execution.from_start { prepared.variables.len() } else { 0 }];
        self.variable_buffer.resize(prepared.variables.len(), NONE);
        for &VariableId(index) in &prepared.creation {
            let index = index as usize;
            let variable = &prepared.variables[index];
            let slot = self.execution.from_start && variable.role == Role::OptimizerState;
            if slot && zeros[variable.kind as usize] != NONE {
                let buffer = zeros[variable.kind as usize];
                self.buffers[buffer.0 as usize].holders += 1;
                self.variable_buffer[index] = buffer;
                continue;
            }
            let cause = prepared.variable_cause(index);
            if variable.role == Role::Temporary {
                // A constant of the compiled graph, unless it was folded into others.
                if variable.size != Size::ZERO {
                    self.variable_buffer[index] = self.alloc(variable.size, cause, variable.role, 1);
                }
                continue;
            }
            let buffer = if variable.random {
                self.draw(variable.size, cause, variable.role)
            } else {
                self.constant(variable.size, cause, variable.role)
            };
            self.variable_buffer[index] = buffer;
            self.alloc(HANDLE, cause, variable.role, 1);
            if slot {
                zeros[variable.kind as usize] = buffer;
            }
        }
    }

    /// A variable's first value: an initializer draws numbers, scales and shifts them, and the last of the three results is kept.
    fn draw(&mut self, size: Size, cause: CauseId, role: Role) -> BufferId {
        let drawing = DRAWING.map(|few| self.alloc(few, cause, Role::Temporary, 1));
        let drawn = self.alloc(size, cause, Role::Temporary, 1);
        let number = self.alloc(NUMBER, cause, Role::Temporary, 1);
        let scaled = self.alloc(size, cause, Role::Temporary, 1);
        self.release(number);
        let buffer = self.alloc(size, cause, role, 1);
        self.release(scaled);
        drawing[1..].iter().for_each(|&few| self.release(few));
        self.release(drawn);
        self.release(drawing[0]);
        buffer
    }

    /// The same for one that starts as a constant.
    fn constant(&mut self, size: Size, cause: CauseId, role: Role) -> BufferId {
        let number = self.alloc(NUMBER, cause, Role::Temporary, 1);
        let buffer = self.alloc(size, cause, role, 1);
        self.release(number);
        buffer
    }

    pub(super) fn step(&mut self, step: u32) {
        let prepared = self.prepared;
        self.mark(Phase::Forward);
        self.value_buffer.fill(NONE);
        let mut feeds = Vec::new();
        for (index, value) in prepared.values.iter().enumerate() {
            if value.storage == Storage::Feed {
                // The caller holds it too, so no kernel may overwrite it.
                let buffer = self.alloc(value.size, prepared.feed_cause(), Role::Input, 1);
                feeds.push(buffer);
                self.value_buffer[index] = buffer;
            }
        }
        let readers = std::mem::take(&mut self.readers);
        let mut pending = prepared.dependency_count.clone();
        let mut random = Random::new(self.execution.seed, step);
        let mut workers = Workers::new(self.execution.threads);
        for &node in &prepared.sources {
            self.start_outputs(node);
            self.finish(node);
            for &successor in prepared.readers_of(&readers, node) {
                let count = &mut pending[successor.0 as usize];
                *count -= 1;
                if *count == 0 {
                    workers.enqueue(successor);
                }
            }
        }
        let mut scratch = vec![Vec::new(); self.execution.threads];
        let mut ready = Vec::new();
        let mut now = 0;
        loop {
            while let Some((worker, node)) = workers.next(now, &mut random) {
                self.start(node, &mut scratch[worker]);
                let runs_ns = random.jitter(prepared.call(node).cost_ns);
                let waits_ns = if self.execution.busy { random.waits(runs_ns) } else { 0 };
                workers.start(worker, node, now + runs_ns + waits_ns);
            }
            let Some((then, next)) = workers.advance(now) else { break };
            now = then;
            let Next::Ends(worker, node) = next else { continue };
            for buffer in scratch[worker].drain(..) {
                self.release(buffer);
            }
            self.finish(node);
            ready.clear();
            for &successor in prepared.readers_of(&readers, node) {
                let count = &mut pending[successor.0 as usize];
                *count -= 1;
                if *count == 0 {
                    ready.push(successor);
                }
            }
            workers.hand_out(worker, &ready, prepared);
        }
        for feed in feeds {
            self.release(feed);
        }
        self.readers = readers;
    }

    /// Places a node's outputs and scratch, in the kernel's order.
    fn start(&mut self, node: NodeId, scratch: &mut Vec<BufferId>) {
        let call = self.prepared.call(node);
        self.mark(call.phase);
        let Some(extra) = self.prepared.extra(call) else { return self.start_outputs(node) };
        if extra.scratch_first {
            self.start_scratch(node, extra, scratch);
        }
        self.start_outputs(node);
        if !extra.scratch_first {
            self.start_scratch(node, extra, scratch);
        }
    }

    fn start_outputs(&mut self, node: NodeId) {
        let prepared = self.prepared;
        let mut taken = false;
        for &output in prepared.outputs(node) {
            let index = output.0 as usize;
            let value = &prepared.values[index];
            let buffer = match value.storage {
                Storage::Constant => continue,
                Storage::Feed => self.value_buffer[index],
                Storage::Alias(of) => match self.value_buffer[of.0 as usize] {
                    NONE => continue,
                    buffer => buffer,
                },
                Storage::Variable(variable) if self.copied[variable.0 as usize] => {
                    self.alloc(value.size, CauseId(node.0), Role::Temporary, 0)
                }
                Storage::Variable(variable) => self.variable_buffer[variable.0 as usize],
                Storage::Own => {
                    if !taken && let Some(buffer) = self.overwritable(node, output) {
                        taken = true;
                        self.relabel(buffer, value.role);
                        buffer
                    } else {
                        self.alloc(value.size, CauseId(node.0), value.role, 0)
                    }
                }
            };
            // One more for the node itself, so that an unread result lives until it ends.
            self.buffers[buffer.0 as usize].holders += value.consumer_count + 1;
            self.value_buffer[index] = buffer;
        }
    }

    fn start_scratch(&mut self, node: NodeId, extra: &Extra, scratch: &mut Vec<BufferId>) {
        let own = extra.scratch_from.is_some_and(|input| self.only_reader(input).is_some());
        for &size in self.prepared.scratch(extra, self.execution.busy).iter().skip(own as usize) {
            scratch.push(self.alloc(size, CauseId(node.0), Role::Workspace, 1));
        }
    }

    /// The buffer of an input that nobody else needs.
    fn only_reader(&self, input: ValueId) -> Option<BufferId> {
        let buffer = self.value_buffer[input.0 as usize];
        (buffer != NONE && self.buffers[buffer.0 as usize].holders == 1).then_some(buffer)
    }

    /// The buffer that the output can take over: of an input alike in size and type, and with no other reader.
    fn overwritable(&self, node: NodeId, output: ValueId) -> Option<BufferId> {
        let inputs = self.prepared.inputs(node);
        let candidates = match self.prepared.call(node).in_place {
            InPlace::No => return None,
            InPlace::Any => inputs,
            InPlace::First => &inputs[..1],
            InPlace::NotFirst => &inputs[1..],
        };
        let value = |id: ValueId| &self.prepared.values[id.0 as usize];
        let output = value(output);
        candidates
            .iter()
            .filter(|&&input| value(input).size == output.size && value(input).dtype == output.dtype)
            .find_map(|&input| self.only_reader(input))
    }

    /// Gives back what a node read, and carries out its write to a variable.
    fn finish(&mut self, node: NodeId) {
        let prepared = self.prepared;
        if let Some(extra) = prepared.extra(prepared.call(node)) {
            self.write(node, extra);
        }
        for value in prepared.inputs_and_outputs(node) {
            let buffer = self.value_buffer[value.0 as usize];
            if buffer != NONE {
                self.release(buffer);
            }
        }
    }

    /// A variable takes a new value: in place, or in another buffer if somebody still reads the old one.
    fn write(&mut self, node: NodeId, extra: &Extra) {
        let Some(variable) = extra.writes else { return };
        let index = variable.0 as usize;
        let old = self.variable_buffer[index];
        let known = &self.prepared.variables[index];
        let alone = self.buffers[old.0 as usize].holders == 1;
        let copied = extra.how == Write::Rows && std::mem::replace(&mut self.copied[index], true);
        match extra.how {
            Write::Rows if copied || alone => return,
            Write::Whole if alone && !self.copied[index] => return,
            _ => {}
        }
        let new = match self.only_reader(self.prepared.inputs(node)[0]).filter(|_| extra.how == Write::Replaces) {
            // The variable takes the value's own buffer.
            Some(buffer) => {
                self.buffers[buffer.0 as usize].holders += 1;
                self.relabel(buffer, known.role);
                buffer
            }
            None => self.alloc(known.size, CauseId(node.0), known.role, 1),
        };
        self.variable_buffer[index] = new;
        self.release(old);
    }
}

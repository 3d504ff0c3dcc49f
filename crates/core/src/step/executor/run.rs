//! One run of a prepared graph: buffers come and go as kernels start and end.

use std::collections::HashMap;

use super::Execution;
use super::prepared::Prepared;
use super::workers::{Random, Workers};
use crate::bytes::Size;
use crate::model::{DType, Shape};
use crate::step::graph::{InPlace, Node, NodeId, Storage, ValueId};
use crate::trace::{BufferId, CauseId, Event, Phase, Role, Trace};

/// No buffer (yet).
const NONE: BufferId = BufferId(u32::MAX);

pub(super) struct Run<'a> {
    prepared: &'a Prepared<'a>,
    execution: Execution,
    trace: Trace,
    phase: Option<Phase>,
    /// Readers (and owners) of each buffer that are still to come.
    holders: Vec<u32>,
    /// What each buffer is for now.
    role: Vec<Role>,
    variable_buffer: Vec<BufferId>,
    /// The buffer of each value of the step that runs.
    value_buffer: Vec<BufferId>,
}

impl<'a> Run<'a> {
    pub(super) fn new(prepared: &'a Prepared<'a>, execution: Execution) -> Run<'a> {
        // About two events for each kernel that is no view.
        let events = Vec::with_capacity(prepared.graph.nodes.len() * 5 / 4 * execution.steps as usize);
        let trace = Trace { events, causes: prepared.causes.clone(), buffer_count: 0 };
        Run {
            prepared,
            execution,
            trace,
            phase: None,
            holders: Vec::new(),
            role: Vec::new(),
            variable_buffer: Vec::new(),
            value_buffer: vec![NONE; prepared.graph.values.len()],
        }
    }

    pub(super) fn into_trace(mut self) -> Trace {
        self.trace.buffer_count = self.holders.len() as u32;
        self.trace.events.shrink_to_fit();
        self.trace
    }

    fn alloc(&mut self, size: Size, cause: CauseId, role: Role, holders: u32) -> BufferId {
        let buffer = BufferId(self.holders.len() as u32);
        self.holders.push(holders);
        self.role.push(role);
        self.trace.events.push(Event::Alloc { buffer, size, cause, role });
        buffer
    }

    /// A buffer is taken over for another use.
    fn relabel(&mut self, buffer: BufferId, role: Role) {
        let known = &mut self.role[buffer.0 as usize];
        if *known != role {
            *known = role;
            self.trace.events.push(Event::Relabel { buffer, role });
        }
    }

    fn release(&mut self, buffer: BufferId) {
        let holders = &mut self.holders[buffer.0 as usize];
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
        let graph = self.prepared.graph;
        let mut zeros: HashMap<(&Shape, DType), BufferId> = HashMap::new();
        for (index, variable) in graph.variables.iter().enumerate() {
            let slot = self.execution.from_start && variable.role == Role::OptimizerState;
            let shared = slot.then_some((&variable.shape, variable.dtype));
            if let Some(&buffer) = shared.and_then(|key| zeros.get(&key)) {
                self.holders[buffer.0 as usize] += 1;
                self.variable_buffer.push(buffer);
                continue;
            }
            let cause = self.prepared.variable_cause(index);
            let size = variable.shape.size(variable.dtype);
            // An initializer draws numbers, scales and shifts them; the last of the three results is kept.
            let temporaries = if variable.random { 2 } else { 0 };
            let drawn: Vec<BufferId> = (0..temporaries).map(|_| self.alloc(size, cause, Role::Temporary, 1)).collect();
            let buffer = self.alloc(size, cause, variable.role, 1);
            self.variable_buffer.push(buffer);
            if let Some(key) = shared {
                zeros.insert(key, buffer);
            }
            for buffer in drawn {
                self.release(buffer);
            }
        }
    }

    pub(super) fn step(&mut self, step: u32) {
        let prepared = self.prepared;
        self.mark(Phase::Forward);
        self.value_buffer.fill(NONE);
        let mut feeds = Vec::new();
        for (index, value) in prepared.graph.values.iter().enumerate() {
            if value.storage == Storage::Feed {
                // The caller holds it too, so no kernel may overwrite it.
                let buffer = self.alloc(prepared.sizes[index], prepared.feed_cause(), Role::Input, 1);
                feeds.push(buffer);
                self.value_buffer[index] = buffer;
            }
        }
        let mut pending = prepared.dependency_count.clone();
        let mut random = Random::new(self.execution.seed, step);
        let mut workers = Workers::new(self.execution.threads);
        for &node in &prepared.sources {
            self.start_outputs(prepared.graph.node(node), CauseId(node.0));
            self.finish(node);
            for &successor in prepared.successors(node) {
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
            while let Some((worker, node)) = workers.next(&mut random) {
                self.start(node, &mut scratch[worker]);
                workers.start(worker, node, now + random.jitter(prepared.costs[node.0 as usize]));
            }
            let Some((end, worker, node)) = workers.finish() else { break };
            now = end;
            for buffer in scratch[worker].drain(..) {
                self.release(buffer);
            }
            self.finish(node);
            ready.clear();
            for &successor in prepared.successors(node) {
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
    }

    /// Places a node's outputs and scratch, in the kernel's order.
    fn start(&mut self, id: NodeId, scratch: &mut Vec<BufferId>) {
        let node = self.prepared.graph.node(id);
        self.mark(node.phase);
        let cause = CauseId(id.0);
        // Most kernels have no scratch.
        let takes_scratch = !node.scratch.is_empty();
        if takes_scratch && node.scratch_first {
            self.start_scratch(node, cause, scratch);
        }
        self.start_outputs(node, cause);
        if takes_scratch && !node.scratch_first {
            self.start_scratch(node, cause, scratch);
        }
    }

    fn start_outputs(&mut self, node: &Node, cause: CauseId) {
        let prepared = self.prepared;
        let mut taken = false;
        for &output in &node.outputs {
            let index = output.0 as usize;
            let buffer = match prepared.graph.value(output).storage {
                Storage::Constant => continue,
                Storage::Feed => self.value_buffer[index],
                Storage::Alias(of) => match self.value_buffer[of.0 as usize] {
                    NONE => continue,
                    buffer => buffer,
                },
                Storage::Variable(variable) => self.variable_buffer[variable.0 as usize],
                Storage::Own => {
                    if !taken && let Some(buffer) = self.overwritable(node, output) {
                        taken = true;
                        self.relabel(buffer, prepared.roles[index]);
                        buffer
                    } else {
                        self.alloc(prepared.sizes[index], cause, prepared.roles[index], 0)
                    }
                }
            };
            // One more for the node itself, so that an unread result lives until it ends.
            self.holders[buffer.0 as usize] += prepared.consumer_count[index] + 1;
            self.value_buffer[index] = buffer;
        }
    }

    fn start_scratch(&mut self, node: &Node, cause: CauseId, scratch: &mut Vec<BufferId>) {
        let own = node.scratch_from.is_some_and(|input| self.only_reader(input).is_some());
        for &size in node.scratch.iter().skip(own as usize) {
            scratch.push(self.alloc(size, cause, Role::Workspace, 1));
        }
    }

    /// The buffer of an input that nobody else needs.
    fn only_reader(&self, input: ValueId) -> Option<BufferId> {
        let buffer = self.value_buffer[input.0 as usize];
        (buffer != NONE && self.holders[buffer.0 as usize] == 1).then_some(buffer)
    }

    /// The buffer that the output can take over: of an input alike in size and type, and with no other reader.
    fn overwritable(&self, node: &Node, output: ValueId) -> Option<BufferId> {
        let candidates = match node.in_place {
            InPlace::No => return None,
            InPlace::Any => &node.inputs[..],
            InPlace::First => &node.inputs[..1],
            InPlace::NotFirst => &node.inputs[1..],
        };
        let (graph, sizes) = (self.prepared.graph, &self.prepared.sizes);
        let (dtype, size) = (graph.value(output).dtype, sizes[output.0 as usize]);
        candidates
            .iter()
            .filter(|input| sizes[input.0 as usize] == size && graph.value(**input).dtype == dtype)
            .find_map(|&input| self.only_reader(input))
    }

    /// Gives back what a node read, and carries out its write to a variable.
    fn finish(&mut self, id: NodeId) {
        let node = self.prepared.graph.node(id);
        if node.writes.is_some() {
            self.write(id, node);
        }
        for value in node.inputs.iter().chain(&node.outputs) {
            let buffer = self.value_buffer[value.0 as usize];
            if buffer != NONE {
                self.release(buffer);
            }
        }
    }

    /// A variable takes a new value: in place, or in another buffer if somebody still reads the old one.
    fn write(&mut self, id: NodeId, node: &Node) {
        let Some(variable) = node.writes else { return };
        let index = variable.0 as usize;
        let old = self.variable_buffer[index];
        let known = &self.prepared.graph.variables[index];
        let replaces = node.kernel.name == "AssignVariableOp";
        if !replaces && self.holders[old.0 as usize] == 1 {
            return;
        }
        let new = match self.only_reader(node.inputs[0]).filter(|_| replaces) {
            // The variable takes the value's own buffer.
            Some(buffer) => {
                self.holders[buffer.0 as usize] += 1;
                self.relabel(buffer, known.role);
                buffer
            }
            None => {
                let cause = CauseId(id.0);
                self.alloc(known.shape.size(known.dtype), cause, known.role, 1)
            }
        };
        self.variable_buffer[index] = new;
        self.release(old);
    }
}

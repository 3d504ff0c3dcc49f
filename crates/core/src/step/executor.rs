//! The order in which a dataflow executor runs the kernels of a step, and so the trace its allocator sees.
//!
//! In: a [`Graph`]. Out: a [`Trace`]: set-up, then the same step as often as asked. The rules are those of TensorFlow's
//! executor (tensorflow/core/common_runtime/executor.cc, `ScheduleReady`): a kernel runs as soon as its inputs are there;
//! of the kernels that one result makes ready, the last runs on the same thread and the others go to the front of the
//! thread's queue, from whose back an idle thread steals. A buffer is freed when its last reader has run, and a kernel
//! takes over an input's buffer when it is the last reader.
//!
//! How long each kernel runs is an estimate, so the order is one of several that really happen: `seed` picks one. Not
//! counted: bookkeeping of the executor itself, and tensors of a few bytes such as shapes and loop counters.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use super::graph::{Graph, InPlace, Node, NodeId, Storage, ValueId};
use crate::bytes::Size;
use crate::model::{DType, Shape};
use crate::trace::{BufferId, Cause, CauseId, Event, Phase, Role, Trace};

/// How to run the graph.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// Threads that run kernels side by side: 1 for a GPU, whose kernels are queued in order.
    pub threads: usize,
    /// How many steps follow each other.
    pub steps: u32,
    /// The batch whose running times decide the order.
    pub batch: u64,
    /// Which of the possible orders.
    pub seed: u64,
}

/// Runs the graph and records what its allocator is asked for. `layer_name` gives a layer's path.
pub fn execute(graph: &Graph, execution: Execution, layer_name: &dyn Fn(u32) -> String) -> Trace {
    let mut run = Run::new(graph, execution, layer_name);
    run.set_up();
    for step in 0..execution.steps {
        run.step(step);
    }
    run.trace.buffer_count = run.holders.len() as u32;
    run.trace
}

/// Kernels that cost next to nothing run at once on the thread that made them ready (their `IsExpensive()` is false).
fn is_inexpensive(name: &str) -> bool {
    matches!(name, "Const" | "Identity" | "Reshape" | "ReadVariableOp" | "_Arg" | "Squeeze")
}

struct Run<'a> {
    graph: &'a Graph,
    execution: Execution,
    layer_name: &'a dyn Fn(u32) -> String,
    trace: Trace,
    causes: HashMap<(&'static str, Option<u32>), CauseId>,
    phase: Option<Phase>,
    /// Readers (and owners) of each buffer that are still to come.
    holders: Vec<u32>,
    /// The event that allocated each buffer.
    born: Vec<usize>,
    variable_buffer: Vec<BufferId>,
    /// Consumers of each value's edges, and nodes that wait for a node without data.
    consumer_count: Vec<u32>,
    successors: Vec<Vec<NodeId>>,
    dependency_count: Vec<u32>,
    roles: Vec<Role>,
    costs: Vec<u64>,
}

impl<'a> Run<'a> {
    fn new(graph: &'a Graph, execution: Execution, layer_name: &'a dyn Fn(u32) -> String) -> Run<'a> {
        let mut consumer_count = vec![0u32; graph.values.len()];
        let mut successors = vec![Vec::new(); graph.nodes.len()];
        let mut dependency_count = vec![0u32; graph.nodes.len()];
        let mut roles = vec![Role::Temporary; graph.values.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            for &input in &node.inputs {
                consumer_count[input.0 as usize] += 1;
                let producer = graph.value(input).producer;
                successors[producer.0 as usize].push(NodeId(index as u32));
                dependency_count[index] += 1;
                let role = read_role(graph.node(producer).phase, node.phase);
                let known = &mut roles[input.0 as usize];
                *known = (*known).min(role);
            }
            for &before in &node.after {
                successors[before.0 as usize].push(NodeId(index as u32));
                dependency_count[index] += 1;
            }
        }
        order_by_way_to_go(&mut successors);
        let costs = graph.nodes.iter().map(|node| cost(graph, node, execution.batch)).collect();
        Run {
            graph,
            execution,
            layer_name,
            trace: Trace::default(),
            causes: HashMap::new(),
            phase: None,
            holders: Vec::new(),
            born: Vec::new(),
            variable_buffer: Vec::new(),
            consumer_count,
            successors,
            dependency_count,
            roles,
            costs,
        }
    }

    fn cause(&mut self, op: &'static str, layer: Option<u32>) -> CauseId {
        if let Some(&cause) = self.causes.get(&(op, layer)) {
            return cause;
        }
        let id = CauseId(self.trace.causes.len() as u32);
        let path = layer.map(|layer| (self.layer_name)(layer)).unwrap_or_default();
        self.trace.causes.push(Cause { op: op.to_owned(), layer: path, source: None });
        self.causes.insert((op, layer), id);
        id
    }

    fn alloc(&mut self, size: Size, cause: CauseId, role: Role, holders: u32) -> BufferId {
        let buffer = BufferId(self.holders.len() as u32);
        self.holders.push(holders);
        self.born.push(self.trace.events.len());
        self.trace.events.push(Event::Alloc { buffer, size, cause, role });
        buffer
    }

    /// A buffer that is taken over counts for the most lasting of its uses.
    fn promote(&mut self, buffer: BufferId, new: Role) {
        if let Event::Alloc { role, .. } = &mut self.trace.events[self.born[buffer.0 as usize]] {
            *role = (*role).min(new);
        }
    }

    fn release(&mut self, buffer: BufferId, count: u32) {
        let holders = &mut self.holders[buffer.0 as usize];
        *holders -= count;
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
    fn set_up(&mut self) {
        self.mark(Phase::Setup);
        let graph = self.graph;
        let mut zeros: HashMap<(&Shape, DType), BufferId> = HashMap::new();
        for variable in &graph.variables {
            let shared = (variable.role == Role::OptimizerState).then_some((&variable.shape, variable.dtype));
            if let Some(&buffer) = shared.and_then(|key| zeros.get(&key)) {
                self.holders[buffer.0 as usize] += 1;
                self.variable_buffer.push(buffer);
                continue;
            }
            let cause = self.cause("Variable", variable.layer);
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
                self.release(buffer, 1);
            }
        }
    }

    fn step(&mut self, step: u32) {
        let graph = self.graph;
        self.mark(Phase::Forward);
        let mut feeds = Vec::new();
        let mut buffers = vec![None; graph.values.len()];
        for (index, value) in graph.values.iter().enumerate() {
            if value.storage == Storage::Feed {
                let cause = self.cause("_Arg", None);
                // The caller holds it too, so no kernel may overwrite it.
                let buffer = self.alloc(value.shape.size(value.dtype), cause, Role::Input, 1);
                feeds.push(buffer);
                buffers[index] = Some(buffer);
            }
        }
        let mut pending = self.dependency_count.clone();
        let mut random = Random::new(self.execution.seed, step);
        let mut workers = Workers::new(self.execution.threads);
        for (index, &count) in pending.iter().enumerate() {
            if count == 0 {
                workers.queues[index % self.execution.threads].push_back(NodeId(index as u32));
            }
        }
        let mut running = BinaryHeap::new();
        let mut scratch: HashMap<NodeId, Vec<BufferId>> = HashMap::new();
        let mut now = 0u64;
        let mut ready = Vec::new();
        loop {
            while let Some((worker, node)) = workers.next(&mut random) {
                let held = self.start(node, &mut buffers);
                if !held.is_empty() {
                    scratch.insert(node, held);
                }
                running.push(Reverse((now + random.jitter(self.costs[node.0 as usize]), worker, node)));
            }
            let Some(Reverse((time, worker, node))) = running.pop() else { break };
            now = time;
            for buffer in scratch.remove(&node).unwrap_or_default() {
                self.release(buffer, 1);
            }
            self.finish(node, &mut buffers);
            ready.clear();
            for &successor in &self.successors[node.0 as usize] {
                let count = &mut pending[successor.0 as usize];
                *count -= 1;
                if *count == 0 {
                    ready.push(successor);
                }
            }
            workers.finished(worker, &ready, graph);
        }
        for feed in feeds {
            self.release(feed, 1);
        }
    }

    /// Places a node's outputs and scratch, in the kernel's order; gives the scratch.
    fn start(&mut self, id: NodeId, buffers: &mut [Option<BufferId>]) -> Vec<BufferId> {
        let node = self.graph.node(id);
        self.mark(node.phase);
        if node.scratch_first {
            let scratch = self.start_scratch(node, buffers);
            self.start_outputs(node, buffers);
            return scratch;
        }
        self.start_outputs(node, buffers);
        self.start_scratch(node, buffers)
    }

    fn start_outputs(&mut self, node: &Node, buffers: &mut [Option<BufferId>]) {
        let graph = self.graph;
        let mut taken = false;
        for &output in &node.outputs {
            let consumers = self.consumer_count[output.0 as usize];
            let buffer = match graph.value(output).storage {
                Storage::Constant => continue,
                Storage::Feed => buffers[output.0 as usize].expect("feeds are placed before the step"),
                Storage::Alias(of) => match buffers[of.0 as usize] {
                    Some(buffer) => buffer,
                    None => continue,
                },
                Storage::Variable(variable) => self.variable_buffer[variable.0 as usize],
                Storage::Own => {
                    if !taken && let Some(input) = self.overwritable(node, output, buffers) {
                        taken = true;
                        let buffer = buffers[input.0 as usize].expect("checked");
                        self.promote(buffer, self.roles[output.0 as usize]);
                        buffer
                    } else {
                        let cause = self.cause(node.kernel.name, node.layer);
                        let role = self.roles[output.0 as usize];
                        self.alloc(graph.size(output), cause, role, 0)
                    }
                }
            };
            // One more for the node itself, so that an unread result lives until it ends.
            self.holders[buffer.0 as usize] += consumers + 1;
            buffers[output.0 as usize] = Some(buffer);
        }
    }

    fn start_scratch(&mut self, node: &Node, buffers: &[Option<BufferId>]) -> Vec<BufferId> {
        let own = node
            .scratch_from
            .and_then(|input| buffers[input.0 as usize])
            .is_some_and(|buffer| self.holders[buffer.0 as usize] == 1);
        node.scratch
            .iter()
            .skip(own as usize)
            .map(|&size| {
                let cause = self.cause(node.kernel.name, node.layer);
                self.alloc(size, cause, Role::Workspace, 1)
            })
            .collect()
    }

    /// The input whose buffer the output can take over: alike in size and type, and with no other reader.
    fn overwritable(&self, node: &Node, output: ValueId, buffers: &[Option<BufferId>]) -> Option<ValueId> {
        let candidates = match node.in_place {
            InPlace::No => return None,
            InPlace::Any => &node.inputs[..],
            InPlace::First => &node.inputs[..1],
            InPlace::NotFirst => &node.inputs[1..],
        };
        let result = self.graph.value(output);
        candidates.iter().copied().find(|&input| {
            let value = self.graph.value(input);
            value.dtype == result.dtype
                && self.graph.size(input) == self.graph.size(output)
                && buffers[input.0 as usize].is_some_and(|buffer| self.holders[buffer.0 as usize] == 1)
        })
    }

    /// Gives back what a node read, and carries out its write to a variable.
    fn finish(&mut self, id: NodeId, buffers: &mut [Option<BufferId>]) {
        let graph = self.graph;
        let node = graph.node(id);
        if let Some(variable) = node.writes {
            let old = self.variable_buffer[variable.0 as usize];
            let input = buffers[node.inputs[0].0 as usize];
            if node.kernel.name == "AssignVariableOp" {
                // The variable takes the value's buffer, or a copy if somebody still reads that.
                let exclusive = input.filter(|buffer| self.holders[buffer.0 as usize] == 1);
                let new = match exclusive {
                    Some(buffer) => {
                        self.holders[buffer.0 as usize] += 1;
                        self.promote(buffer, graph.variables[variable.0 as usize].role);
                        buffer
                    }
                    None => self.variable_copy(node, variable.0),
                };
                self.variable_buffer[variable.0 as usize] = new;
                self.release(old, 1);
            } else if self.holders[old.0 as usize] > 1 {
                // Somebody still reads the old value: the update goes to a copy.
                let new = self.variable_copy(node, variable.0);
                self.variable_buffer[variable.0 as usize] = new;
                self.release(old, 1);
            }
        }
        for &input in &node.inputs {
            if let Some(buffer) = buffers[input.0 as usize] {
                self.release(buffer, 1);
            }
        }
        for &output in &node.outputs {
            if let Some(buffer) = buffers[output.0 as usize] {
                self.release(buffer, 1);
            }
        }
    }

    fn variable_copy(&mut self, node: &Node, variable: u32) -> BufferId {
        let known = &self.graph.variables[variable as usize];
        let cause = self.cause(node.kernel.name, node.layer);
        self.alloc(known.shape.size(known.dtype), cause, known.role, 1)
    }
}

/// Puts the successor with the longest way to the end of the step last. In TensorFlow's optimized graphs it stands last, so
/// that the thread which made it ready also runs it.
fn order_by_way_to_go(successors: &mut [Vec<NodeId>]) {
    let mut way = vec![0u32; successors.len()];
    // Node ids rise along every edge but those that the constant rewrite turned around, which are one node long.
    for index in (0..successors.len()).rev() {
        way[index] = successors[index].iter().map(|next| way[next.0 as usize] + 1).max().unwrap_or(0);
    }
    for next in successors {
        next.sort_by_key(|next| way[next.0 as usize]);
    }
}

/// What a value is for, judged by one of its readers.
fn read_role(made: Phase, read: Phase) -> Role {
    match (made, read) {
        (Phase::Forward, Phase::Backward) => Role::SavedActivation,
        (Phase::Backward, Phase::Optimizer) => Role::Gradient,
        _ => Role::Temporary,
    }
}

/// Nanoseconds that a kernel runs, roughly: 150 operations a nanosecond, 40 bytes a nanosecond, 5 µs to start. The rates
/// were read off the time stamps of TensorFlow's own log on a two-core machine; only the order in which parallel kernels end
/// depends on them.
fn cost(graph: &Graph, node: &Node, batch: u64) -> u64 {
    if is_inexpensive(node.kernel.name) {
        return 0;
    }
    let touched: u64 =
        node.inputs.iter().chain(&node.outputs).map(|&value| graph.size(value).at(batch)).fold(0, u64::saturating_add);
    5_000u64.saturating_add(node.work.at(batch) / 150).saturating_add(touched / 40).min(1 << 50)
}

/// The threads: what each runs next, and what waits in its queue.
struct Workers {
    queues: Vec<VecDeque<NodeId>>,
    inline: Vec<VecDeque<NodeId>>,
    busy: Vec<bool>,
}

impl Workers {
    fn new(threads: usize) -> Workers {
        Workers {
            queues: vec![VecDeque::new(); threads],
            inline: vec![VecDeque::new(); threads],
            busy: vec![false; threads],
        }
    }

    /// An idle thread and the node it takes up.
    fn next(&mut self, random: &mut Random) -> Option<(usize, NodeId)> {
        let threads = self.busy.len();
        let first = random.below(threads);
        for offset in 0..threads {
            let worker = (first + offset) % threads;
            if self.busy[worker] {
                continue;
            }
            let own = self.inline[worker].pop_front().or_else(|| self.queues[worker].pop_front());
            let node =
                own.or_else(|| (1..threads).find_map(|other| self.queues[(worker + other) % threads].pop_back()));
            if let Some(node) = node {
                self.busy[worker] = true;
                return Some((worker, node));
            }
        }
        None
    }

    /// A thread has run a node that made others ready.
    fn finished(&mut self, worker: usize, ready: &[NodeId], graph: &Graph) {
        self.busy[worker] = false;
        let mut expensive = None;
        for &node in ready {
            if is_inexpensive(graph.node(node).kernel.name) {
                self.inline[worker].push_back(node);
            } else if let Some(previous) = expensive.replace(node) {
                self.queues[worker].push_front(previous);
            }
        }
        if let Some(node) = expensive {
            if self.inline[worker].is_empty() {
                self.inline[worker].push_back(node);
            } else {
                self.queues[worker].push_front(node);
            }
        }
    }
}

/// A small deterministic generator (SplitMix64): the same seed gives the same order on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64, step: u32) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(step) << 32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A running time between half and twice the estimate: what sharing two cores with other work does.
    fn jitter(&mut self, cost: u64) -> u64 {
        let factor = 128 + self.next() % 384;
        cost / 256 * factor + cost % 256
    }
}

//! What every order of a graph shares: who waits for whom, how long kernels run, what values are for.
//!
//! In: a graph and the batch whose running times decide the order. Out: [`Prepared`], which can be run in many orders and does
//! not need the graph any more. A run comes by each node and value several times and in no order of memory, so that what it
//! reads of them is kept close together here.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::many_readers;
use super::successors::Dependencies;
use crate::bytes::Size;
use crate::model::DType;
use crate::step::cost::{
    CACHED_BYTES, CACHED_BYTES_PER_NS, CACHED_START_NS, CPU_BYTES_PER_NS, CPU_OPERATIONS_PER_NS, START_NS, StepCost,
};
use crate::step::graph::{Graph, InPlace, Node, NodeId, Storage, Value, ValueId, VariableId};
use crate::trace::{CauseId, Causes, Phase, Role};

/// A graph ready to be run.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(super) causes: Arc<Causes>,
    /// The nodes, and one more that says where the last one's lists end.
    calls: Vec<Call>,
    /// Inputs, then outputs, of each node, one node after the other.
    edges: Vec<ValueId>,
    dependencies: Dependencies,
    /// Where each node's readers begin, and the end.
    first_reader: Vec<u32>,
    /// What few nodes have.
    extras: Vec<Extra>,
    scratch: Vec<Size>,
    pub(super) values: Vec<Flow>,
    pub(super) variables: Vec<Kept>,
    /// The variables in the order in which they come into being.
    pub(super) creation: Vec<VariableId>,
    /// How many results each node waits for.
    pub(super) dependency_count: Vec<u32>,
    /// Nodes that wait for nothing: reads of variables, the batch, constants.
    pub(super) sources: Vec<NodeId>,
    /// What a step costs, whatever its order.
    pub cost: StepCost,
}

/// A node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Nanoseconds.
    pub(super) cost_ns: u64,
    first_edge: u32,
    first_output: u32,
    /// Its place in `extras`; [`NO_EXTRA`] for most.
    extra: u32,
    pub(super) in_place: InPlace,
    pub(super) phase: Phase,
    /// Whether another thread may be asked to run it. The others run at once on the thread that made them ready: those that
    /// cost next to nothing, and on a GPU all of them (tensorflow/core/framework/op_kernel.cc, `expensive_`).
    pub(super) dear: bool,
}

const NO_EXTRA: u32 = u32::MAX;

/// Scratch and writes of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    first_scratch: u32,
    end_scratch: u32,
    end_backlog: u32,
    /// See [`Node::scratch_from`].
    pub(super) scratch_from: Option<ValueId>,
    /// See [`Node::scratch_first`].
    pub(super) scratch_first: bool,
    /// See [`Node::writes`].
    pub(super) writes: Option<VariableId>,
    /// How that variable is written.
    pub(super) how: Write,
}

/// What a write does to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Changes all of it.
    Whole,
    /// Changes some of its rows.
    Rows,
    /// Gives it another value.
    Replaces,
}

impl Write {
    fn of(kernel: &str) -> Write {
        match kernel {
            "AssignVariableOp" => Write::Replaces,
            "ResourceScatterAdd" | "ResourceScatterSub" => Write::Rows,
            _ => Write::Whole,
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) size: Size,
    pub(super) storage: Storage,
    /// How many inputs it is.
    pub(super) consumer_count: u32,
    pub(super) role: Role,
    pub(super) dtype: DType,
}

/// A variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) size: Size,
    /// The same number for all of one shape and type.
    pub(super) kind: u32,
    pub(super) role: Role,
    pub(super) random: bool,
    /// Some write changes but its rows: whoever reads it gets a copy then.
    pub(super) rows: bool,
}

impl Prepared {
    /// Reads the graph's nodes once: they are many times the room of all that is kept of them. With a batch, kernels take as
    /// long as they do on a CPU at that batch; without, each takes as long as it takes to queue it on a GPU, and all run
    /// [first come, first served](Prepared::first_come_first_served). `layers` are the layers' paths.
    pub fn new(graph: &Graph, batch: Option<u64>, layers: Vec<Arc<str>>) -> Prepared {
        let (nodes, variables) = (graph.nodes.len(), graph.variables.len());
        let mut prepared = Prepared {
            causes: Arc::default(),
            calls: Vec::with_capacity(nodes + 1),
            // Most have two inputs and one output, or less.
            edges: Vec::with_capacity(nodes * 3),
            dependencies: Dependencies::default(),
            first_reader: Vec::new(),
            extras: Vec::with_capacity(variables * 2),
            scratch: Vec::new(),
            values: flows(graph),
            variables: kept(graph),
            creation: creation(graph),
            dependency_count: Vec::with_capacity(nodes),
            sources: Vec::with_capacity(variables * 2),
            cost: StepCost::default(),
        };
        // Who asks for memory when the graph is run: its nodes, then its variables, then the batch.
        let mut causes = Causes::new(layers, nodes + variables + 1);
        let mut dependencies = Dependencies::with_room(nodes);
        for node in &graph.nodes {
            dependencies.push(graph, node);
            causes.push(node.kernel.name, node.layer);
            prepared.cost.add(node, |value| {
                let Flow { size, dtype, .. } = prepared.values[value.0 as usize];
                (size, dtype)
            });
            prepared.push(node, batch);
        }
        for variable in &graph.variables {
            causes.push("Variable", variable.layer);
        }
        causes.push("_Arg", None);
        prepared.causes = Arc::new(causes);
        let end = prepared.edges.len() as u32;
        prepared.calls.push(Call {
            cost_ns: 0,
            first_edge: end,
            first_output: end,
            extra: NO_EXTRA,
            in_place: InPlace::No,
            phase: Phase::Setup,
            dear: false,
        });
        prepared.read_inputs(&dependencies);
        prepared.dependencies = dependencies;
        if batch.is_some() { prepared } else { prepared.first_come_first_served() }
    }

    /// The same where no kernel is worth another thread: on a GPU, and on a CPU in a session that runs in its caller's thread.
    #[must_use]
    pub fn first_come_first_served(mut self) -> Prepared {
        for call in &mut self.calls {
            call.dear = false;
        }
        self
    }

    fn push(&mut self, node: &Node, batch: Option<u64>) {
        let first_edge = self.edges.len() as u32;
        self.edges.extend(node.inputs.iter().copied());
        self.edges.extend(node.outputs.iter().copied());
        let mut extra = NO_EXTRA;
        if !(node.scratch.is_empty() && node.backlog.is_empty() && node.writes.is_none()) {
            extra = self.extras.len() as u32;
            let first_scratch = self.scratch.len() as u32;
            self.scratch.extend_from_slice(&node.scratch);
            let end_scratch = self.scratch.len() as u32;
            self.scratch.extend_from_slice(&node.backlog);
            self.extras.push(Extra {
                first_scratch,
                end_scratch,
                end_backlog: self.scratch.len() as u32,
                scratch_from: node.scratch_from,
                scratch_first: node.scratch_first,
                writes: node.writes,
                how: Write::of(node.kernel.name),
            });
        }
        let dependencies = (node.inputs.len() + node.after.len()) as u32;
        if dependencies == 0 {
            self.sources.push(NodeId(self.calls.len() as u32));
        }
        self.dependency_count.push(dependencies);
        self.calls.push(Call {
            cost_ns: cost_ns(node, &self.values, batch),
            first_edge,
            first_output: first_edge + node.inputs.len() as u32,
            extra,
            in_place: node.in_place,
            phase: node.phase,
            dear: !node.free,
        });
    }

    /// What values are for, and who waits for whom.
    fn read_inputs(&mut self, dependencies: &Dependencies) {
        let nodes = self.node_count();
        let mut first_successor = vec![0u32; nodes + 1];
        for index in 0..nodes {
            let call = self.calls[index];
            let before = dependencies.of(index);
            for &before in before {
                first_successor[before.0 as usize + 1] += 1;
            }
            let inputs = &self.edges[call.first_edge as usize..call.first_output as usize];
            for (&input, &producer) in inputs.iter().zip(before) {
                let role = read_role(self.calls[producer.0 as usize].phase, call.phase);
                let value = &mut self.values[input.0 as usize];
                value.consumer_count += 1;
                value.role = value.role.min(role);
            }
        }
        for index in 0..nodes {
            first_successor[index + 1] += first_successor[index];
        }
        self.first_reader = first_successor;
    }

    /// How many kernels there are.
    pub fn node_count(&self) -> usize {
        self.calls.len() - 1
    }

    pub(super) fn call(&self, node: NodeId) -> &Call {
        &self.calls[node.0 as usize]
    }

    pub(super) fn inputs(&self, node: NodeId) -> &[ValueId] {
        let call = self.call(node);
        &self.edges[call.first_edge as usize..call.first_output as usize]
    }

    pub(super) fn outputs(&self, node: NodeId) -> &[ValueId] {
        &self.edges[self.call(node).first_output as usize..self.calls[node.0 as usize + 1].first_edge as usize]
    }

    pub(super) fn inputs_and_outputs(&self, node: NodeId) -> &[ValueId] {
        &self.edges[self.call(node).first_edge as usize..self.calls[node.0 as usize + 1].first_edge as usize]
    }

    /// The readers of all nodes in the order that a seed stands for.
    pub(super) fn readers(&self, seed: u64) -> Vec<NodeId> {
        let mut readers = self.dependencies.readers(&self.first_reader, seed);

        many_readers::shuffle(self, &mut readers, seed);
        readers
    }

    /// Those of one node.
    pub(super) fn readers_of<'r>(&self, readers: &'r [NodeId], node: NodeId) -> &'r [NodeId] {
        &readers[self.reader_range(node)]
    }

    /// Where they stand among those of all nodes.
    pub(super) fn reader_range(&self, node: NodeId) -> Range<usize> {
        self.first_reader[node.0 as usize] as usize..self.first_reader[node.0 as usize + 1] as usize
    }

    /// How many inputs a node has in TensorFlow's graph.
    pub(super) fn edges(&self, node: NodeId) -> u64 {
        self.dependencies.edges(node)
    }

    pub(super) fn extra(&self, call: &Call) -> Option<&Extra> {
        // Most have none, and need no look.
        if call.extra == NO_EXTRA { None } else { self.extras.get(call.extra as usize) }
    }

    /// What a node takes while it runs, on a machine that has other work to do or not.
    pub(super) fn scratch(&self, extra: &Extra, busy: bool) -> &[Size] {
        let end = if busy { extra.end_backlog } else { extra.end_scratch };
        &self.scratch[extra.first_scratch as usize..end as usize]
    }

    pub(super) fn variable_cause(&self, variable: usize) -> CauseId {
        CauseId((self.node_count() + variable) as u32)
    }

    pub(super) fn feed_cause(&self) -> CauseId {
        self.variable_cause(self.variables.len())
    }
}

/// The values, before it is known who reads them.
fn flows(graph: &Graph) -> Vec<Flow> {
    let elements = graph.elements();
    let flow = |value: &Value| Flow {
        size: elements.size(value),
        storage: value.storage,
        consumer_count: 0,
        role: Role::Temporary,
        dtype: value.dtype,
    };
    graph.values.iter().map(flow).collect()
}

fn kept(graph: &Graph) -> Vec<Kept> {
    let mut kinds = FxHashMap::default();
    let kept = graph.variables.iter().map(|variable| {
        let next = kinds.len() as u32;
        Kept {
            size: variable.shape.size(variable.dtype),
            kind: *kinds.entry((&variable.shape, variable.dtype)).or_insert(next),
            role: variable.role,
            random: variable.random,
            rows: false,
        }
    });
    let mut kept: Vec<Kept> = kept.collect();
    for node in &graph.nodes {
        if let Some(variable) = node.writes.filter(|_| Write::of(node.kernel.name) == Write::Rows) {
            kept[variable.0 as usize].rows = true;
        }
    }
    kept
}

fn creation(graph: &Graph) -> Vec<VariableId> {
    let mut order: Vec<VariableId> = (0..graph.variables.len() as u32).map(VariableId).collect();
    order.sort_by_key(|variable| graph.variables[variable.0 as usize].created);
    order
}

/// What a value is for, judged by one of its readers.
fn read_role(made: Phase, read: Phase) -> Role {
    match (made, read) {
        (Phase::Forward, Phase::Backward) => Role::SavedActivation,
        (Phase::Backward, Phase::Optimizer) => Role::Gradient,
        _ => Role::Temporary,
    }
}

/// Nanoseconds that a kernel runs, roughly. Only the order in which parallel kernels end depends on them.
fn cost_ns(node: &Node, values: &[Flow], batch: Option<u64>) -> u64 {
    if node.free {
        return 0;
    }
    let Some(batch) = batch else { return START_NS };
    let touched: u64 = node
        .inputs
        .iter()
        .chain(&node.outputs)
        .map(|&value| values[value.0 as usize].size.at(batch))
        .fold(0, u64::saturating_add);
    let (start_ns, bytes_per_ns) =
        if touched <= CACHED_BYTES { (CACHED_START_NS, CACHED_BYTES_PER_NS) } else { (START_NS, CPU_BYTES_PER_NS) };
    start_ns
        .saturating_add(node.work.at(batch) / CPU_OPERATIONS_PER_NS)
        .saturating_add(touched / bytes_per_ns)
        .min(1 << 50)
}

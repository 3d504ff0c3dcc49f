//! What every order of a graph shares: who waits for whom, how long kernels run, what values are for.
//!
//! In: a graph and the batch whose running times decide the order. Out: [`Prepared`], which can be run in many orders.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::bytes::Size;
use crate::step::cost::StepCost;
use crate::step::graph::{Graph, Node, NodeId};
use crate::trace::{Cause, CauseId, Phase, Role};

/// A graph ready to be run.
pub struct Prepared<'g> {
    pub(super) graph: &'g Graph,
    pub(super) causes: Arc<[Cause]>,
    /// The cause of what each node allocates.
    pub(super) node_cause: Vec<CauseId>,
    pub(super) variable_cause: Vec<CauseId>,
    pub(super) feed_cause: CauseId,
    pub(super) sizes: Vec<Size>,
    pub(super) roles: Vec<Role>,
    /// How many inputs each value is.
    pub(super) consumer_count: Vec<u32>,
    /// How many results each node waits for.
    pub(super) dependency_count: Vec<u32>,
    /// Nanoseconds; 0 for kernels that run at once on the thread that made them ready.
    pub(super) costs: Vec<u64>,
    /// Nodes that wait for nothing: reads of variables, the batch, constants.
    pub(super) sources: Vec<NodeId>,
    /// Successors of all nodes, one after the other.
    successors: Vec<NodeId>,
    first_successor: Vec<u32>,
}

impl<'g> Prepared<'g> {
    /// Reads the graph once. With a batch, kernels take as long as they do on a CPU at that batch; without, each takes as
    /// long as it takes to queue it on a GPU. `layer_name` gives a layer's path.
    pub fn new(graph: &'g Graph, batch: Option<u64>, layer_name: &dyn Fn(u32) -> String) -> Prepared<'g> {
        let sizes: Vec<Size> = graph.values.iter().map(|value| value.shape.size(value.dtype)).collect();
        let mut consumer_count = vec![0u32; graph.values.len()];
        let mut dependency_count = vec![0u32; graph.nodes.len()];
        let mut roles = vec![Role::Temporary; graph.values.len()];
        let mut first_successor = vec![0u32; graph.nodes.len() + 1];
        for (index, node) in graph.nodes.iter().enumerate() {
            for &input in &node.inputs {
                consumer_count[input.0 as usize] += 1;
                let producer = graph.value(input).producer;
                first_successor[producer.0 as usize + 1] += 1;
                let role = read_role(graph.node(producer).phase, node.phase);
                let known = &mut roles[input.0 as usize];
                *known = (*known).min(role);
            }
            for &before in &node.after {
                first_successor[before.0 as usize + 1] += 1;
            }
            dependency_count[index] = (node.inputs.len() + node.after.len()) as u32;
        }
        for index in 0..graph.nodes.len() {
            first_successor[index + 1] += first_successor[index];
        }
        let successors = successors(graph, &first_successor);
        let costs = graph.nodes.iter().map(|node| cost(node, &sizes, batch)).collect();
        let mut table = CauseTable {
            causes: Vec::new(),
            known: FxHashMap::default(),
            by_address: FxHashMap::default(),
            paths: FxHashMap::default(),
            layer_name,
        };
        let feed_cause = table.id("_Arg", None);
        let node_cause = graph.nodes.iter().map(|node| table.id(node.kernel.name, node.layer)).collect();
        let variable_cause = graph.variables.iter().map(|variable| table.id("Variable", variable.layer)).collect();
        Prepared {
            graph,
            causes: table.causes.into(),
            node_cause,
            variable_cause,
            feed_cause,
            sizes,
            roles,
            consumer_count,
            sources: (0..graph.nodes.len() as u32)
                .map(NodeId)
                .filter(|id| dependency_count[id.0 as usize] == 0)
                .collect(),
            dependency_count,
            costs,
            successors,
            first_successor,
        }
    }

    /// What a step costs, whatever its order.
    pub fn cost(&self) -> StepCost {
        StepCost::of(self.graph, &self.sizes)
    }

    pub(super) fn successors(&self, node: NodeId) -> &[NodeId] {
        let (from, to) = (self.first_successor[node.0 as usize], self.first_successor[node.0 as usize + 1]);
        &self.successors[from as usize..to as usize]
    }
}

/// Successors by node, the one with the longest way to the end of the step last. In TensorFlow's optimized graphs it stands
/// last, so that the thread which made it ready also runs it.
fn successors(graph: &Graph, first: &[u32]) -> Vec<NodeId> {
    let mut next = first.to_vec();
    let mut successors = vec![NodeId(0); *first.last().unwrap_or(&0) as usize];
    for (index, node) in graph.nodes.iter().enumerate() {
        let producers = node.inputs.iter().map(|&input| graph.value(input).producer);
        for before in producers.chain(node.after.iter().copied()) {
            let place = &mut next[before.0 as usize];
            successors[*place as usize] = NodeId(index as u32);
            *place += 1;
        }
    }
    let mut way = vec![0u32; graph.nodes.len()];
    // Node ids rise along every edge but those that the constant rewrite turned around, which are one node long.
    for index in (0..graph.nodes.len()).rev() {
        let own = &mut successors[first[index] as usize..first[index + 1] as usize];
        way[index] = own.iter().map(|next| way[next.0 as usize] + 1).max().unwrap_or(0);
        own.sort_by_key(|next| way[next.0 as usize]);
    }
    successors
}

struct CauseTable<'a> {
    causes: Vec<Cause>,
    known: FxHashMap<(&'static str, Option<u32>), CauseId>,
    /// The same by the name's address, which is quicker to look up; one name may have several.
    by_address: FxHashMap<(usize, Option<u32>), CauseId>,
    paths: FxHashMap<u32, Arc<str>>,
    layer_name: &'a dyn Fn(u32) -> String,
}

impl CauseTable<'_> {
    fn id(&mut self, op: &'static str, layer: Option<u32>) -> CauseId {
        let address = (op.as_ptr() as usize, layer);
        if let Some(&cause) = self.by_address.get(&address) {
            return cause;
        }
        let cause = self.named(op, layer);
        self.by_address.insert(address, cause);
        cause
    }

    fn named(&mut self, op: &'static str, layer: Option<u32>) -> CauseId {
        if let Some(&cause) = self.known.get(&(op, layer)) {
            return cause;
        }
        let path = match layer {
            Some(layer) => self.paths.entry(layer).or_insert_with(|| (self.layer_name)(layer).into()).clone(),
            None => "".into(),
        };
        let id = CauseId(self.causes.len() as u32);
        self.causes.push(Cause { op: op.into(), layer: path, source: None });
        self.known.insert((op, layer), id);
        id
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

/// Nanoseconds to start a kernel, or to queue it on a GPU.
const START_NS: u64 = 5_000;

/// Nanoseconds that a kernel runs, roughly: 150 operations a nanosecond, 40 bytes a nanosecond, 5 µs to start. The rates
/// were read off the time stamps of TensorFlow's own log on a two-core machine; only the order in which parallel kernels end
/// depends on them.
fn cost(node: &Node, sizes: &[Size], batch: Option<u64>) -> u64 {
    if node.free {
        return 0;
    }
    let Some(batch) = batch else { return START_NS };
    let touched: u64 = node
        .inputs
        .iter()
        .chain(&node.outputs)
        .map(|&value| sizes[value.0 as usize].at(batch))
        .fold(0, u64::saturating_add);
    START_NS.saturating_add(node.work.at(batch) / 150).saturating_add(touched / 40).min(1 << 50)
}

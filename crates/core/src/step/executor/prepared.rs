//! What every order of a graph shares: who waits for whom, how long kernels run, what values are for.
//!
//! In: a graph and the batch whose running times decide the order. Out: [`Prepared`], which can be run in many orders.

use std::sync::Arc;

use crate::bytes::Size;
use crate::step::cost::{CPU_BYTES_PER_NS, CPU_OPERATIONS_PER_NS, START_NS, StepCost};
use crate::step::graph::{Graph, Node, NodeId, ValueId};
use crate::trace::{CauseId, Causes, Phase, Role};

/// A graph ready to be run.
pub struct Prepared<'g> {
    pub(super) graph: &'g Graph,
    pub(super) causes: Arc<Causes>,
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
    /// long as it takes to queue it on a GPU. `causes` are those of [`causes`].
    pub fn new(graph: &'g Graph, batch: Option<u64>, causes: Arc<Causes>) -> Prepared<'g> {
        let sizes: Vec<Size> = (0..graph.values.len() as u32).map(|id| graph.size(ValueId(id))).collect();
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
        Prepared {
            graph,
            causes,
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

    pub(super) fn variable_cause(&self, variable: usize) -> CauseId {
        CauseId((self.graph.nodes.len() + variable) as u32)
    }

    pub(super) fn feed_cause(&self) -> CauseId {
        self.variable_cause(self.graph.variables.len())
    }

    pub(super) fn successors(&self, node: NodeId) -> &[NodeId] {
        let (from, to) = (self.first_successor[node.0 as usize], self.first_successor[node.0 as usize + 1]);
        &self.successors[from as usize..to as usize]
    }
}

/// Who asks for memory when a graph is run: its nodes, then its variables, then the batch. `layers` are the layers' paths.
pub fn causes(graph: &Graph, layers: Vec<Arc<str>>) -> Causes {
    let mut causes = Causes::new(layers, graph.nodes.len() + graph.variables.len() + 1);
    for node in &graph.nodes {
        causes.push(node.kernel.name, node.layer);
    }
    for variable in &graph.variables {
        causes.push("Variable", variable.layer);
    }
    causes.push("_Arg", None);
    causes
}

/// Successors by node, the one with the longest way to the end of the step last. In TensorFlow's optimized graphs it mostly
/// stands last, so that the thread which made it ready also runs it, and the sum for a bias behind the product for its kernel.
/// The gradients of a convolution whose filter several calls share are an exception: there the image's gradient stands before
/// the filter's (in all 14 of three such graphs).
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
        own.sort_by_key(|next| (way[next.0 as usize], graph.node(*next).kernel.name == "BiasAddGrad"));
    }
    for node in graph.nodes.iter().filter(|node| node.kernel.name == "AddN") {
        let summed = node.inputs.iter().map(|&input| graph.node(graph.value(input).producer));
        for filter in summed.filter(|summed| summed.kernel.name.contains("BackpropFilter")) {
            for &input in &filter.inputs {
                let producer = graph.value(input).producer.0 as usize;
                successors[first[producer] as usize..first[producer + 1] as usize].sort_by_key(|next| {
                    match graph.node(*next).kernel.name {
                        name if name.ends_with("BackpropInput") => 0,
                        "BiasAddGrad" => 2,
                        _ => 1,
                    }
                });
            }
        }
    }
    successors
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
    START_NS
        .saturating_add(node.work.at(batch) / CPU_OPERATIONS_PER_NS)
        .saturating_add(touched / CPU_BYTES_PER_NS)
        .min(1 << 50)
}

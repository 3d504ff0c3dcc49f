//! Constants of full size that TensorFlow makes once and keeps.
//!
//! In: a number and a shape, or a graph with kernels that depend on constants alone. Out: a value that lives as long as the compiled graph, or a kernel that
//! makes it anew in each step where it is too large to be kept. Not counted: constants of a few bytes.

use rustc_hash::FxHashMap;

use super::Lowering;
use crate::model::{DType, Shape};
use crate::step::Processor;
use crate::step::graph::{Graph, InPlace, Kernel, Node, Storage, ValueId, Variable, VariableId};
use crate::trace::Role;

/// Before a graph is run, whatever depends on constants alone is computed and kept, unless it is larger than this
/// (tensorflow/core/common_runtime/constant_folding.h, `max_constant_size_in_bytes`). The graph optimizer's own folding stops
/// at 100 KiB, so the kernels are still there in the graphs that it writes out.
const KEPT_BYTES: u64 = 10 << 20;

/// Those that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptConstants {
    /// Unfolded by the graph optimizer.
    pub full: FxHashMap<(Shape, DType), ValueId>,
    /// Numbers repeated to a shape, by the number.
    repeated: FxHashMap<(ValueId, Shape), ValueId>,
}

impl Lowering<'_> {
    /// A constant of full size that the graph optimizer unfolds: it lives as long as the compiled graph.
    pub(super) fn full_constant(&mut self, shape: Shape, dtype: DType) -> ValueId {
        let key = (shape.clone(), dtype);
        if let Some(&value) = self.kept_constants.full.get(&key) {
            return value;
        }
        let value = self.kept(shape, dtype);
        self.kept_constants.full.insert(key, value);
        value
    }

    /// A number repeated to a shape: what the gradient of a sum of losses begins with. On a GPU, where nothing of this was
    /// measured, it is made anew: kernels do not depend on the batch there.
    pub(super) fn repeated(&mut self, number: ValueId, shape: &Shape) -> ValueId {
        let dtype = self.dtype(number);
        if self.job.processor == Processor::Gpu || shape.size(dtype).at(self.job.micro_batch()) > KEPT_BYTES {
            return self.call("Tile", &[number], (shape.clone(), dtype), InPlace::No);
        }
        let key = (number, shape.clone());
        if let Some(&value) = self.kept_constants.repeated.get(&key) {
            return value;
        }
        let value = self.kept(shape.clone(), dtype);
        self.kept_constants.repeated.insert(key, value);
        value
    }

    fn kept(&mut self, shape: Shape, dtype: DType) -> ValueId {
        let variable = self.graph.variable(kept(shape, dtype));
        self.graph.read(variable, false)
    }

    /// What kernels make of constants alone is computed when the graph is compiled, and kept where other kernels read it.
    pub(super) fn fold_constants(&mut self) {
        let graph = &mut self.graph;
        let mut constant: Vec<bool> = graph.values.iter().map(|value| is_constant(graph, value.storage)).collect();
        let mut folded = Vec::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let [output] = node.outputs[..] else { continue };
            if is_function(node)
                && node.inputs.iter().all(|&input| constant[input.0 as usize])
                && graph.size(output).at(self.job.micro_batch()) <= KEPT_BYTES
            {
                constant[output.0 as usize] = true;
                folded.push(index);
            }
        }
        if folded.is_empty() {
            return;
        }
        let read_before = read(graph);
        for &index in &folded {
            graph.nodes[index].inputs.clear();
        }
        let read_by_others = read(graph);
        for index in folded {
            let output = graph.nodes[index].outputs[0];
            let (shape, dtype) = (graph.shape(output).clone(), graph.value(output).dtype);
            // Numbers are not worth counting, and what only folded kernels read is gone.
            graph.values[output.0 as usize].storage = match read_by_others[output.0 as usize] {
                true if shape.rank() > 0 => Storage::Variable(graph.variable(kept(shape, dtype))),
                _ => Storage::Constant,
            };
            let node = &mut graph.nodes[index];
            (node.kernel, node.in_place, node.free) = (Kernel { name: "Const", attr: 0 }, InPlace::No, true);
            node.scratch.clear();
        }
        for index in 0..graph.values.len() {
            let storage = graph.values[index].storage;
            if let Storage::Variable(VariableId(kept)) = storage
                && (read_before[index], read_by_others[index]) == (true, false)
                && is_constant(graph, storage)
            {
                graph.values[index].storage = Storage::Constant;
                graph.variables[kept as usize].shape = Shape::fixed(&[0]);
            }
        }
    }
}

/// Of each value, whether a kernel reads it.
fn read(graph: &Graph) -> Vec<bool> {
    let mut read = vec![false; graph.values.len()];
    graph.nodes.iter().flat_map(|node| &node.inputs).for_each(|input| read[input.0 as usize] = true);
    read
}

/// A number, or what is kept of full size.
fn is_constant(graph: &Graph, storage: Storage) -> bool {
    match storage {
        Storage::Constant => true,
        Storage::Variable(variable) => graph.variables[variable.0 as usize].role == Role::Temporary,
        _ => false,
    }
}

/// Whether a kernel makes the same of the same inputs, and nothing else.
fn is_function(node: &Node) -> bool {
    let named = |part| node.kernel.name.contains(part);
    !node.inputs.is_empty() && node.writes.is_none() && !node.free && !named("Random") && !named("Logged")
}

/// The variable that stands for a constant.
fn kept(shape: Shape, dtype: DType) -> Variable {
    Variable { layer: None, role: Role::Temporary, shape, dtype, random: false, created: Variable::LAST }
}

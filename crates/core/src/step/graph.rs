//! The kernels of one training step and what flows between them.
//!
//! In: a framework's lowering adds nodes. Out: [`Graph`], which the executor orders. A node says which input it may
//! overwrite, which scratch it takes and about how long it runs. Nothing here knows an allocator.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bytes::Size;
use crate::model::{DType, Shape};
use crate::trace::{Phase, Role};

/// An index into [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// An index into [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// An index into [`Graph::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableId(pub u32);

/// An index into the shapes of a [`Graph`]: thousands of values have one of some hundred shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeId(u32);

/// Where a value's bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a buffer of its own (or one taken over from an input).
    Own,
    /// In the buffer of another value: a reshape.
    Alias(ValueId),
    /// In a variable: reading it copies nothing.
    Variable(VariableId),
    /// In a buffer that exists before the step and after it: the batch that the caller holds.
    Feed,
    /// Nowhere worth counting: constants folded into the graph.
    Constant,
}

/// A tensor during the step.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its shape; [`Graph::shape`] gives it.
    pub shape: ShapeId,
    /// Its type.
    pub dtype: DType,
    /// Who makes it.
    pub producer: NodeId,
    /// Where it lives.
    pub storage: Storage,
    /// Whether a trainable weight lies behind it, so that gradients flow through it.
    pub differentiable: bool,
}

/// The elements of a graph's shapes, as functions of the batch: from these, the sizes of thousands of values are quickly made.
pub struct Elements(Vec<Size>);

impl Elements {
    /// Bytes of a value, as [`Graph::size`] gives them.
    pub fn size(&self, value: &Value) -> Size {
        let Size { fixed, per_sample } = self.0[value.shape.0 as usize];
        let bytes = value.dtype.bytes();
        Size { fixed: fixed.saturating_mul(bytes), per_sample: per_sample.saturating_mul(bytes) }
    }
}

/// Something that outlives the step: a weight or an optimizer's slot.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Index of the layer that owns it, if one does.
    pub layer: Option<u32>,
    /// What it is for.
    pub role: Role,
    /// Its shape; only constants that the framework unfolds depend on the batch.
    pub shape: Shape,
    /// Its type.
    pub dtype: DType,
    /// Whether it starts from random numbers, which are made in temporaries.
    pub random: bool,
    /// Its place in the order of creation; [`Variable::LAST`], in the order of declaration, for what is made for the first step.
    pub created: u32,
}

impl Variable {
    /// Created after everything else.
    pub const LAST: u32 = u32::MAX;
}

/// The framework's kernel behind a node. Only what gradients and rewrites must tell apart has a variant or an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The framework's name for it.
    pub name: &'static str,
    /// Which attributes it has: an index that the lowering understands, 0 if none matter.
    pub attr: u32,
}

/// One kernel call.
#[derive(Debug)]
pub struct Node {
    /// Which kernel.
    pub kernel: Kernel,
    /// What it reads.
    pub inputs: SmallVec<[ValueId; 4]>,
    /// What must have run before, without data.
    pub after: SmallVec<[NodeId; 2]>,
    /// What it makes.
    pub outputs: SmallVec<[ValueId; 2]>,
    /// Inputs whose buffer the first output may take over if nobody else needs it.
    pub in_place: InPlace,
    /// Buffers that live while it runs.
    pub scratch: Vec<Size>,
    /// What waits inside it for a thread that other work holds up: on a busy machine scratch, too, at the batch it was lowered for.
    pub backlog: Vec<Size>,
    /// The input whose buffer serves as the first scratch if nobody else needs it.
    pub scratch_from: Option<ValueId>,
    /// Scratch is taken before the outputs, not after.
    pub scratch_first: bool,
    /// The variable it writes, if it does.
    pub writes: Option<VariableId>,
    /// Arithmetic operations as a function of the batch, slow memory traffic counted as operations; it decides the order in
    /// which parallel kernels end.
    pub work: Size,
    /// Index of the layer it belongs to, if to one.
    pub layer: Option<u32>,
    /// Which part of the step it belongs to.
    pub phase: Phase,
    /// It costs next to nothing, so the thread that makes it ready runs it at once (its `IsExpensive()` is false in
    /// TensorFlow): a read, a constant, a view.
    pub free: bool,
}

/// Whole networks are copied, so that their short lists are copied as they lie rather than one by one.
impl Clone for Node {
    fn clone(&self) -> Node {
        Node {
            inputs: SmallVec::from_slice(&self.inputs),
            after: SmallVec::from_slice(&self.after),
            outputs: SmallVec::from_slice(&self.outputs),
            scratch: self.scratch.clone(),
            backlog: self.backlog.clone(),
            ..*self
        }
    }
}

/// Which inputs a kernel may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// None: the output is always a new buffer.
    No,
    /// Any input of the output's size and type.
    Any,
    /// The first input only.
    First,
    /// Any but the first (a condition).
    NotFirst,
}

/// All kernels of a step.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The kernels; an input is made by an earlier node.
    pub nodes: Vec<Node>,
    /// The tensors.
    pub values: Vec<Value>,
    /// The variables.
    pub variables: Vec<Variable>,
    /// The layer that new nodes belong to.
    pub layer: Option<u32>,
    /// The phase that new nodes belong to.
    pub phase: Phase,
    /// Pure nodes by kernel and inputs: the framework computes equal subexpressions once.
    known: FxHashMap<(Kernel, SmallVec<[ValueId; 4]>), NodeId>,
    shapes: Vec<Shape>,
    shape_ids: FxHashMap<Shape, ShapeId>,
    constants: FxHashMap<u64, ValueId>,
    reads: FxHashMap<VariableId, ValueId>,
}

/// A node about to be added; [`Graph::add`] takes it, or [`Graph::add_shaped`] if the result's shape is one of the graph's.
#[derive(Clone, Debug)]
pub struct NewNode<'a, S = Shape> {
    /// Which kernel.
    pub kernel: Kernel,
    /// What it reads.
    pub inputs: &'a [ValueId],
    /// Shape and type of the result.
    pub output: (S, DType),
    /// See [`Node::in_place`].
    pub in_place: InPlace,
    /// See [`Node::scratch`].
    pub scratch: Vec<Size>,
    /// See [`Node::work`]; the executor adds the cost of touching memory itself.
    pub work: Size,
    /// Values whose makers must have run before.
    pub after: &'a [ValueId],
}

impl Default for Graph {
    fn default() -> Graph {
        Graph {
            nodes: Vec::new(),
            values: Vec::new(),
            variables: Vec::new(),
            layer: None,
            phase: Phase::Forward,
            known: FxHashMap::default(),
            shapes: Vec::new(),
            shape_ids: FxHashMap::default(),
            constants: FxHashMap::default(),
            reads: FxHashMap::default(),
        }
    }
}

impl Graph {
    /// An empty graph with room for about this many nodes, so that a large model's is never moved; `looked_for` of them, lest an
    /// equal one be added.
    pub fn with_room(nodes: usize, looked_for: usize) -> Graph {
        let mut graph =
            Graph { nodes: Vec::with_capacity(nodes), values: Vec::with_capacity(nodes), ..Graph::default() };
        graph.known.reserve(looked_for);
        graph
    }

    /// A copy with room for this many more nodes.
    pub fn copy_with_room(&self, nodes: usize) -> Graph {
        let mut copy = Graph::with_room(self.nodes.len().saturating_add(nodes), 0);
        copy.nodes.extend_from_slice(&self.nodes);
        copy.values.extend_from_slice(&self.values);
        Graph {
            nodes: copy.nodes,
            values: copy.values,
            variables: self.variables.clone(),
            layer: self.layer,
            phase: self.phase,
            known: self.known.clone(),
            shapes: self.shapes.clone(),
            shape_ids: self.shape_ids.clone(),
            constants: self.constants.clone(),
            reads: self.reads.clone(),
        }
    }

    /// From here on, no node is looked for that is equal to one from before: an update has none in common with the network.
    pub fn forget_calls(&mut self) {
        (self.known, self.reads) = Default::default();
    }

    /// A variable that exists before the step.
    pub fn variable(&mut self, variable: Variable) -> VariableId {
        self.variables.push(variable);
        VariableId(self.variables.len() as u32 - 1)
    }

    /// The value of a variable at the start of the step; read once.
    pub fn read(&mut self, variable: VariableId, differentiable: bool) -> ValueId {
        if let Some(&value) = self.reads.get(&variable) {
            return value;
        }
        let value = self.read_after(variable, None);
        self.values[value.0 as usize].differentiable = differentiable;
        self.reads.insert(variable, value);
        value
    }

    /// The value of a variable after a node has written it.
    pub fn read_after(&mut self, variable: VariableId, write: Option<NodeId>) -> ValueId {
        let Variable { shape, dtype, .. } = &self.variables[variable.0 as usize];
        let (shape, dtype) = (shape.clone(), *dtype);
        let value = self.source("ReadVariableOp", shape, dtype, Storage::Variable(variable));
        if let Some(write) = write {
            self.nodes.last_mut().expect("just added").after.push(write);
        }
        value
    }

    /// A tensor of the batch.
    pub fn feed(&mut self, shape: Shape, dtype: DType) -> ValueId {
        self.source("_Arg", shape, dtype, Storage::Feed)
    }

    /// A scalar constant, the same value once.
    pub fn constant(&mut self, number: f64, dtype: DType) -> ValueId {
        let key = number.to_bits() ^ ((dtype.bytes() + 16 * dtype.is_float() as u64) << 1);
        if let Some(&value) = self.constants.get(&key) {
            return value;
        }
        let value = self.source("Const", Shape::fixed(&[]), dtype, Storage::Constant);
        self.constants.insert(key, value);
        value
    }

    /// Whether a value is a constant.
    pub fn is_constant(&self, value: ValueId) -> bool {
        self.value(value).storage == Storage::Constant
    }

    fn source(&mut self, name: &'static str, shape: Shape, dtype: DType, storage: Storage) -> ValueId {
        let shape = self.shape_id(shape);
        let value = self.new_value(shape, dtype, storage, false);
        self.push(Node {
            kernel: Kernel { name, attr: 0 },
            inputs: SmallVec::new(),
            after: SmallVec::new(),
            outputs: smallvec::smallvec![value],
            in_place: InPlace::No,
            scratch: Vec::new(),
            backlog: Vec::new(),
            scratch_from: None,
            scratch_first: false,
            writes: None,
            work: Size::ZERO,
            layer: self.layer,
            phase: self.phase,
            free: true,
        });
        value
    }

    /// Adds a kernel call with one result; an equal call that waits for nothing else is not added again.
    pub fn add(&mut self, new: NewNode<'_>) -> ValueId {
        let NewNode { kernel, inputs, output: (shape, dtype), in_place, scratch, work, after } = new;
        let output = (self.shape_id(shape), dtype);
        self.add_shaped(NewNode { kernel, inputs, output, in_place, scratch, work, after })
    }

    /// The same for a shape that the graph has: most results have the shape of an input.
    pub fn add_shaped(&mut self, new: NewNode<'_, ShapeId>) -> ValueId {
        // Updates of different weights have nothing in common, so nothing is looked for there.
        let shared = new.after.is_empty() && self.phase != Phase::Optimizer;
        let key = shared.then(|| (new.kernel, SmallVec::from_slice(new.inputs)));
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            let output = self.nodes[known.0 as usize].outputs[0];
            // The same kernel on the same inputs may reduce or repeat to another shape.
            let value = self.value(output);
            if value.shape == new.output.0 && value.dtype == new.output.1 {
                return output;
            }
        }
        let differentiable =
            new.output.1.is_float() && new.inputs.iter().any(|&input| self.value(input).differentiable);
        let value = self.new_value(new.output.0, new.output.1, Storage::Own, differentiable);
        let mut after = SmallVec::new();
        if !new.after.is_empty() {
            after.extend(new.after.iter().map(|&value| self.value(value).producer));
        }
        let id = self.push(Node {
            kernel: new.kernel,
            inputs: SmallVec::from_slice(new.inputs),
            after,
            outputs: smallvec::smallvec![value],
            in_place: new.in_place,
            scratch: new.scratch,
            backlog: Vec::new(),
            scratch_from: None,
            scratch_first: false,
            writes: None,
            work: new.work,
            layer: self.layer,
            phase: self.phase,
            free: false,
        });
        if let Some(key) = key {
            self.known.insert(key, id);
        }
        value
    }

    /// A view of the same bytes under another shape.
    pub fn reshape(&mut self, input: ValueId, shape: Shape) -> ValueId {
        if *self.shape(input) == shape {
            return input;
        }
        if self.is_constant(input) {
            return input;
        }
        let differentiable = self.value(input).differentiable;
        let shape = self.shape_id(shape);
        self.view(input, shape, differentiable)
    }

    /// The same bytes through which no gradient flows.
    pub fn stop_gradient(&mut self, input: ValueId) -> ValueId {
        if !self.value(input).differentiable {
            return input;
        }
        let shape = self.value(input).shape;
        self.view(input, shape, false)
    }

    fn view(&mut self, input: ValueId, shape: ShapeId, differentiable: bool) -> ValueId {
        let dtype = self.value(input).dtype;
        let value = self.new_value(shape, dtype, Storage::Alias(input), differentiable);
        self.push(Node {
            kernel: Kernel { name: "Reshape", attr: 0 },
            inputs: smallvec::smallvec![input],
            after: SmallVec::new(),
            outputs: smallvec::smallvec![value],
            in_place: InPlace::No,
            scratch: Vec::new(),
            backlog: Vec::new(),
            scratch_from: None,
            scratch_first: false,
            writes: None,
            work: Size::ZERO,
            layer: self.layer,
            phase: self.phase,
            free: true,
        });
        value
    }

    /// Gives a node a further result.
    pub fn add_output(&mut self, first: ValueId, shape: Shape, dtype: DType) -> ValueId {
        let node = self.value(first).producer;
        let differentiable = dtype.is_float() && self.value(first).differentiable;
        let shape = self.shape_id(shape);
        let value = self.new_value(shape, dtype, Storage::Own, differentiable);
        self.values[value.0 as usize].producer = node;
        self.nodes[node.0 as usize].outputs.push(value);
        value
    }

    /// Writes a variable in place (`AssignAdd`, `AssignSub`) or replaces it (`Assign`), and gives the node.
    pub fn assign(&mut self, name: &'static str, variable: VariableId, input: ValueId, after: &[ValueId]) -> NodeId {
        let after = after.iter().map(|&value| self.value(value).producer).collect();
        self.push(Node {
            kernel: Kernel { name, attr: 0 },
            inputs: smallvec::smallvec![input],
            after,
            outputs: SmallVec::new(),
            in_place: InPlace::No,
            scratch: Vec::new(),
            backlog: Vec::new(),
            scratch_from: None,
            scratch_first: false,
            writes: Some(variable),
            work: Size::ZERO,
            layer: self.layer,
            phase: self.phase,
            free: false,
        })
    }

    /// Ends the building: what only new nodes need is given back.
    pub fn finish(&mut self) {
        (self.known, self.shape_ids, self.constants, self.reads) = Default::default();
    }

    /// A value by id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// A node by id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Shape of a value.
    pub fn shape(&self, id: ValueId) -> &Shape {
        &self.shapes[self.value(id).shape.0 as usize]
    }

    /// Elements of all shapes.
    pub fn elements(&self) -> Elements {
        let elements = |shape: &Shape| {
            let elements = shape.elements();
            if shape.batched { Size::per_sample(elements) } else { Size::fixed(elements) }
        };
        Elements(self.shapes.iter().map(elements).collect())
    }

    /// Bytes of a value as a function of the batch.
    pub fn size(&self, id: ValueId) -> Size {
        self.shape(id).size(self.value(id).dtype)
    }

    fn new_value(&mut self, shape: ShapeId, dtype: DType, storage: Storage, differentiable: bool) -> ValueId {
        let producer = NodeId(self.nodes.len() as u32);
        self.values.push(Value { shape, dtype, producer, storage, differentiable });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Finds or adds a shape.
    pub fn shape_id(&mut self, shape: Shape) -> ShapeId {
        if let Some(&known) = self.shape_ids.get(&shape) {
            return known;
        }
        let id = ShapeId(self.shapes.len() as u32);
        self.shapes.push(shape.clone());
        self.shape_ids.insert(shape, id);
        id
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }
}

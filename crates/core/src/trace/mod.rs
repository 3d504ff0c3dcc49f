//! What one training step asks of an allocator: allocations and frees in order.
//!
//! In: kernels from `step`, or a capture of a real framework. Out: [`Trace`]. Each allocation names its cause (op, layer)
//! and its role, so that a report can say who held the peak. Nothing here knows where bytes are placed.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::bytes::Size;

/// What a buffer is for: the parts of a report's breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Weights, trainable or not.
    Parameter,
    /// Gradients of the loss with respect to weights.
    Gradient,
    /// Slots of the optimizer.
    OptimizerState,
    /// Forward results that are kept for the backward pass.
    SavedActivation,
    /// The batch itself: features, labels, sample weights.
    Input,
    /// Results that die within the phase that made them.
    Temporary,
    /// Scratch inside one kernel.
    Workspace,
}

/// The part of a step in which something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Before the first step: weights and optimizer slots.
    Setup,
    /// From the inputs to the loss.
    Forward,
    /// From the loss to the gradients.
    Backward,
    /// From the gradients to the new weights.
    Optimizer,
}

/// Who asked for a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The framework's op, such as `Conv2DBackpropFilter`.
    pub op: Cow<'static, str>,
    /// The layer's path in the model, such as `encoder/conv2d_1`; empty for what belongs to no layer.
    pub layer: Arc<str>,
    /// Where in the user's source the op was called, when it is known.
    pub source: Option<String>,
}

/// The causes of a trace: what asks for something, with ops, paths of layers and lines of source kept once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    entries: Vec<Entry>,
    ops: Vec<Cow<'static, str>>,
    /// By the text's place in the program, which is quicker to look up than the text; a text at two places is kept twice.
    op_indices: FxHashMap<usize, u32>,
    /// Paths of layers and lines of source.
    names: Vec<Arc<str>>,
}

/// Indices of an op, its layer and its line. A large job has some ten thousand of them for each remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    op: u32,
    layer: u32,
    source: u32,
}

/// The layer of an op that belongs to none, or the line of one whose line is not known.
const NO_NAME: u32 = u32::MAX;

impl Causes {
    /// No causes yet; layers, and sources where there are any, go by their index in `names`.
    pub fn new(names: Vec<Arc<str>>, capacity: usize) -> Causes {
        Causes { entries: Vec::with_capacity(capacity), names, ..Causes::default() }
    }

    /// Adds the cause of an op, and of its layer if it has one.
    pub fn push(&mut self, op: &'static str, layer: Option<u32>) -> CauseId {
        let op = *self.op_indices.entry(op.as_ptr() as usize).or_insert_with(|| {
            self.ops.push(Cow::Borrowed(op));
            self.ops.len() as u32 - 1
        });
        self.add(Entry { op, layer: layer.unwrap_or(NO_NAME), source: NO_NAME })
    }

    /// Adds the cause of an op that a known line of source calls. Whoever calls this keeps causes that are alike together.
    pub fn push_with_source(&mut self, op: Cow<'static, str>, layer: Option<u32>, source: Option<u32>) -> CauseId {
        self.ops.push(op);
        let op = self.ops.len() as u32 - 1;
        self.add(Entry { op, layer: layer.unwrap_or(NO_NAME), source: source.unwrap_or(NO_NAME) })
    }

    fn add(&mut self, entry: Entry) -> CauseId {
        self.entries.push(entry);
        CauseId(self.entries.len() as u32 - 1)
    }

    /// A cause by its id; an empty one for an id that was never given out.
    pub fn get(&self, id: CauseId) -> Cause {
        let Some(entry) = self.entries.get(id.0 as usize) else {
            return Cause { op: Cow::Borrowed(""), layer: "".into(), source: None };
        };
        let name = |index: u32| self.names.get(index as usize).cloned();
        Cause {
            op: self.ops[entry.op as usize].clone(),
            layer: name(entry.layer).unwrap_or_else(|| "".into()),
            source: name(entry.source).map(|source| source.to_string()),
        }
    }
}

/// A buffer within one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// An index into [`Trace::causes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CauseId(pub u32);

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A buffer is asked for.
    Alloc {
        /// The buffer; each is allocated once.
        buffer: BufferId,
        /// How much, as a function of the batch.
        size: Size,
        /// Who asks.
        cause: CauseId,
        /// What for.
        role: Role,
    },
    /// A buffer is given back.
    Free {
        /// A buffer that was allocated and not yet freed.
        buffer: BufferId,
    },
    /// A buffer that lives on serves another purpose from here on: it was overwritten, or became a variable's value.
    Relabel {
        /// The buffer.
        buffer: BufferId,
        /// What it is for now.
        role: Role,
    },
    /// What follows belongs to this phase.
    Mark {
        /// The phase.
        phase: Phase,
    },
}

/// Events in the order in which the allocator sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The events.
    pub events: Vec<Event>,
    /// The causes that events refer to; traces of one job share them.
    pub causes: Arc<Causes>,
    /// How many buffers there are: every [`BufferId`] is below this.
    pub buffer_count: u32,
}

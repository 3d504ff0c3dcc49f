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

/// The causes of a trace: one entry each time something is asked for, with ops and the layers' paths kept once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    entries: Vec<Entry>,
    ops: Vec<&'static str>,
    /// By the text's place in the program, which is quicker to look up than the text; a text at two places is kept twice.
    op_indices: FxHashMap<usize, u32>,
    layers: Vec<Arc<str>>,
}

/// Indices of an op and its layer. A large job has some ten thousand of them for each remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    op: u32,
    layer: u32,
}

/// The layer of an op that belongs to none.
const NO_LAYER: u32 = u32::MAX;

impl Causes {
    /// No causes yet, of these layers.
    pub fn new(layers: Vec<Arc<str>>, capacity: usize) -> Causes {
        Causes { entries: Vec::with_capacity(capacity), layers, ..Causes::default() }
    }

    /// Adds the cause of an op, and of its layer if it has one.
    pub fn push(&mut self, op: &'static str, layer: Option<u32>) -> CauseId {
        let op = *self.op_indices.entry(op.as_ptr() as usize).or_insert_with(|| {
            self.ops.push(op);
            self.ops.len() as u32 - 1
        });
        self.entries.push(Entry { op, layer: layer.unwrap_or(NO_LAYER) });
        CauseId(self.entries.len() as u32 - 1)
    }

    /// A cause by its id; an empty one for an id that was never given out.
    pub fn get(&self, id: CauseId) -> Cause {
        let entry = self.entries.get(id.0 as usize);
        let layer = entry.and_then(|entry| self.layers.get(entry.layer as usize));
        Cause {
            op: entry.map_or(Cow::Borrowed(""), |entry| Cow::Borrowed(self.ops[entry.op as usize])),
            layer: layer.cloned().unwrap_or_else(|| "".into()),
            source: None,
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

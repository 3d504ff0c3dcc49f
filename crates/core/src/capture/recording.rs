//! A recorded step as values that can be changed: buffers, and what happens to them in order.
//!
//! In: checked rows with their sizes. Out: [`Recording`], from which a [`Trace`] is made at any time. Forward results that
//! live into the backward pass become saved activations here. It keeps what a trace has no use for and remedies need: the
//! op's call, the type of the elements, where steps begin.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::rows::{Kind, Row};
use crate::bytes::Size;
use crate::trace::{BufferId, CauseId, Causes, Event as TraceEvent, Phase, Role, Trace};

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Dtype {
    Other,
    Float32,
    Float16,
    Bfloat16,
    Float64,
    Complex,
    Integer,
    Bool,
}

impl Dtype {
    /// By its number in a row.
    pub fn numbered(number: i64) -> Option<Dtype> {
        const ALL: [Dtype; 8] = [
            Dtype::Other,
            Dtype::Float32,
            Dtype::Float16,
            Dtype::Bfloat16,
            Dtype::Float64,
            Dtype::Complex,
            Dtype::Integer,
            Dtype::Bool,
        ];
        ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// One buffer of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// How much is asked for.
    pub size: Size,
    /// What for, when it is born.
    pub role: Role,
    /// The phase in which it is born.
    pub born: Phase,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The call of an op that asks; none where no op does.
    pub call: Option<u64>,
    /// The op, as an index into [`Recording::strings`].
    pub op: u32,
    /// The module's path, as an index into [`Recording::strings`].
    pub module: u32,
    /// Op, module and source, for reports.
    pub cause: CauseId,
}

/// One event of a recording; buffers are indices into [`Recording::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A buffer is asked for.
    Alloc(u32),
    /// It is given back.
    Free(u32),
    /// It serves another purpose from here on.
    Relabel(u32, Role),
    /// A phase begins.
    Mark(Phase),
    /// A step begins.
    Step,
}

/// A recorded step.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Names of ops and modules, and lines of source.
    pub strings: Arc<Vec<Arc<str>>>,
    /// Who asked.
    pub causes: Arc<Causes>,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

impl Recording {
    /// Rows with the sizes of their requests.
    pub(super) fn new(strings: Vec<String>, rows: &[Row], sizes: &[Size]) -> Recording {
        let strings: Vec<Arc<str>> = strings.into_iter().map(Arc::from).collect();
        let mut causes = Causes::new(strings.clone(), rows.len() / 8);
        let mut known: FxHashMap<(u32, u32, u32), CauseId> = FxHashMap::default();
        let mut buffers: Vec<Option<Buffer>> = vec![None; rows.len()];
        let mut events = Vec::with_capacity(rows.len());
        let mut phase = Phase::Setup;
        for (row, &size) in rows.iter().zip(sizes) {
            events.push(match row.kind {
                Kind::Alloc(role) => {
                    let cause = *known.entry((row.op, row.module, row.source)).or_insert_with(|| {
                        let named = |index: u32| (index != 0).then_some(index);
                        let op = Cow::Owned(strings[row.op as usize].to_string());
                        causes.push_with_source(op, named(row.module), named(row.source))
                    });
                    buffers[row.buffer as usize] = Some(Buffer {
                        size,
                        role,
                        born: phase,
                        dtype: row.dtype,
                        call: u64::try_from(row.call).ok(),
                        op: row.op,
                        module: row.module,
                        cause,
                    });
                    Event::Alloc(row.buffer)
                }
                Kind::Free => Event::Free(row.buffer),
                Kind::Relabel(role) => Event::Relabel(row.buffer, role),
                Kind::Mark(next) => {
                    phase = next;
                    Event::Mark(next)
                }
                Kind::Step => Event::Step,
            });
        }
        let buffers = buffers.into_iter().flatten().collect();
        let mut recording = Recording { strings: Arc::new(strings), causes: Arc::new(causes), buffers, events };
        recording.find_saved_activations();
        recording
    }

    /// A temporary of a forward pass that is still there when a backward pass begins is kept for it.
    fn find_saved_activations(&mut self) {
        // How many backward passes have begun, when each buffer is born and when it dies.
        let mut passes = 0u32;
        let mut at_birth = vec![0u32; self.buffers.len()];
        let mut at_death = vec![None; self.buffers.len()];
        for event in &self.events {
            match *event {
                Event::Alloc(buffer) => at_birth[buffer as usize] = passes,
                Event::Free(buffer) => at_death[buffer as usize] = Some(passes),
                Event::Mark(Phase::Backward) => passes += 1,
                Event::Mark(_) | Event::Relabel(..) | Event::Step => {}
            }
        }
        for ((buffer, birth), death) in self.buffers.iter_mut().zip(at_birth).zip(at_death) {
            let outlives = death.unwrap_or(passes) > birth;
            if buffer.role == Role::Temporary && buffer.born == Phase::Forward && outlives {
                buffer.role = Role::SavedActivation;
            }
        }
    }

    /// A string by its index; empty for one that is not there.
    pub fn string(&self, index: u32) -> &str {
        self.strings.get(index as usize).map_or("", |string| string)
    }

    /// The trace that an allocator sees.
    pub fn trace(&self) -> Trace {
        let event = |event: &Event| {
            Some(match *event {
                Event::Alloc(index) => {
                    let Buffer { size, cause, role, .. } = *self.buffers.get(index as usize)?;
                    TraceEvent::Alloc { buffer: BufferId(index), size, cause, role }
                }
                Event::Free(index) => TraceEvent::Free { buffer: BufferId(index) },
                Event::Relabel(index, role) => TraceEvent::Relabel { buffer: BufferId(index), role },
                Event::Mark(phase) => TraceEvent::Mark { phase },
                Event::Step => return None,
            })
        };
        Trace {
            events: self.events.iter().filter_map(event).collect(),
            causes: self.causes.clone(),
            buffer_count: self.buffers.len() as u32,
        }
    }
}

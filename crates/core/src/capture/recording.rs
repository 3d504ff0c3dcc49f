//! A recorded step as values that can be changed: buffers, and what happens to them in order.
//!
//! In: checked rows with their sizes. Out: [`Recording`], from which a [`Trace`] is made at any time. Forward results that
//! live into the backward pass become saved activations here. It keeps what a trace has no use for and remedies need: the
//! op's call, the type of the elements, where steps begin.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::pair::SizedRow;
use super::rows::Kind;
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
    /// How much is asked for, as a function of the batch.
    pub size: Size,
    /// How much is asked for with the recorded batch, where `size` is a bound for others.
    pub recorded_bytes: Option<u64>,
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

impl Buffer {
    /// How much is asked for with this batch, if that or another was recorded.
    pub fn bytes(&self, batch: u64, recorded_batch: u64) -> u64 {
        self.recorded_bytes.filter(|_| batch == recorded_batch).unwrap_or_else(|| self.size.at(batch))
    }

    /// The same buffer with a share of its size, in whole bytes, rounded up.
    pub fn scaled(&self, numerator: u64, denominator: u64) -> Buffer {
        let part = |bytes: u64| bytes.saturating_mul(numerator).div_ceil(denominator.max(1));
        let size = Size { fixed: part(self.size.fixed), per_sample: part(self.size.per_sample) };
        Buffer { size, recorded_bytes: self.recorded_bytes.map(part), ..*self }
    }
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
    /// The recorded batch.
    pub batch: u64,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

impl Recording {
    /// Rows with the sizes of their requests, recorded with this batch.
    pub(super) fn new(strings: Vec<String>, batch: u64, rows: &[SizedRow]) -> Recording {
        let strings: Vec<Arc<str>> = strings.into_iter().map(Arc::from).collect();
        let mut causes = Causes::new(strings.clone(), rows.len() / 8);
        let mut known: FxHashMap<(u32, u32, u32), CauseId> = FxHashMap::default();
        let mut buffers: Vec<Option<Buffer>> = vec![None; rows.len()];
        let mut events = Vec::with_capacity(rows.len());
        let mut phase = Phase::Setup;
        for &SizedRow { row, size, recorded_bytes } in rows {
            events.push(match row.kind {
                Kind::Alloc(role) => {
                    let cause = *known.entry((row.op, row.module, row.source)).or_insert_with(|| {
                        let named = |index: u32| (index != 0).then_some(index);
                        let op = Cow::Owned(strings[row.op as usize].to_string());
                        causes.push_with_source(op, named(row.module), named(row.source))
                    });
                    buffers[row.buffer as usize] = Some(Buffer {
                        size,
                        recorded_bytes,
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
        let (strings, causes) = (Arc::new(strings), Arc::new(causes));
        let mut recording = Recording { strings, causes, batch, buffers, events };
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

    /// Whether each buffer is born at most once, and dies at most once and after its birth. Rows are checked for it; what
    /// rewrites a recording must keep it.
    pub fn is_sound(&self) -> bool {
        #[derive(Clone, Copy, PartialEq)]
        enum Life {
            Unborn,
            Alive,
            Freed,
        }
        let mut lives = vec![Life::Unborn; self.buffers.len()];
        self.events.iter().all(|event| match *event {
            Event::Alloc(buffer) => std::mem::replace(&mut lives[buffer as usize], Life::Alive) == Life::Unborn,
            Event::Free(buffer) => std::mem::replace(&mut lives[buffer as usize], Life::Freed) == Life::Alive,
            Event::Relabel(buffer, _) => lives[buffer as usize] == Life::Alive,
            Event::Mark(_) | Event::Step => true,
        })
    }

    /// A string by its index; empty for one that is not there.
    pub fn string(&self, index: u32) -> &str {
        self.strings.get(index as usize).map_or("", |string| string)
    }

    /// Whether sizes are exact with the recorded batch only, and bounded with others.
    pub fn is_bounded_elsewhere(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.recorded_bytes.is_some())
    }

    /// The trace that an allocator sees with this batch. With another it says too much or too little only where
    /// [`is_bounded_elsewhere`](Recording::is_bounded_elsewhere) holds and one of the two is the recorded batch.
    pub fn trace(&self, batch: u64) -> Trace {
        let recorded = batch == self.batch;
        let event = |event: &Event| {
            Some(match *event {
                Event::Alloc(index) => {
                    let Buffer { size, recorded_bytes, cause, role, .. } = *self.buffers.get(index as usize)?;
                    let size = recorded_bytes.filter(|_| recorded).map_or(size, Size::fixed);
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

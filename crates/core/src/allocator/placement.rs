//! Runs a trace through an allocator and finds the peak.
//!
//! In: a trace, a batch size, an allocator. Out: [`Placement`]. The floor (no rounding, no fragmentation) is counted beside
//! the allocator, so that the difference can be shown as slack. Set-up counts for the state, not for the peak: peaks are
//! those of the steps.

use super::{Allocator, Handle};
use crate::trace::{BufferId, CauseId, Event, Phase, Role, Trace};

/// The op of a request that is done without where it cannot be served: PyTorch then tries cuDNN's next algorithm, which needs less.
pub const CUDNN_WORKSPACE: &str = "cudnn_workspace";

/// Who holds memory at the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who asked for it.
    pub cause: CauseId,
    /// What for.
    pub role: Role,
    /// How much was asked for, before the allocator's rounding.
    pub bytes: u64,
}

/// A request that could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its place in the trace.
    pub event: usize,
    /// Who asked.
    pub cause: CauseId,
    /// How much.
    pub requested_bytes: u64,
}

/// What an allocator did with a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Most bytes handed out at once, in the allocator's units.
    pub peak_allocated_bytes: u64,
    /// Most bytes taken from the device.
    pub peak_reserved_bytes: u64,
    /// Most bytes asked for at once: no allocator can need less.
    pub floor_peak_bytes: u64,
    /// Bytes asked for that are alive at the peak of `peak_allocated_bytes`.
    pub requested_at_peak_bytes: u64,
    /// The event that made the peak.
    pub peak_event: Option<usize>,
    /// The first request that failed; the trace ends there.
    pub failure: Option<Failure>,
    /// Workspaces that could not be had and were done without: nobody holds them.
    pub done_without: Vec<BufferId>,
}

/// Runs a whole trace.
pub fn place(trace: &Trace, batch: u64, allocator: &mut impl Allocator) -> Placement {
    place_seen(trace, batch, allocator, |_, _| {})
}

/// The same, and shows the allocator after each event that took place: a workspace that was done without did not.
pub(super) fn place_seen<A: Allocator>(
    trace: &Trace,
    batch: u64,
    allocator: &mut A,
    mut seen: impl FnMut(usize, &A),
) -> Placement {
    // Where each buffer is, and its size.
    let mut held: Vec<(Option<Handle>, u64)> = vec![(None, 0); trace.buffer_count as usize];
    let mut placement = Placement::default();
    let mut phase = Phase::Setup;
    let mut requested = 0u64;
    for (index, event) in trace.events.iter().enumerate() {
        match *event {
            Event::Alloc { buffer, size, cause, role } => {
                let bytes = size.at(batch);
                match allocator.alloc(bytes) {
                    Ok(handle) => held[buffer.0 as usize] = (Some(handle), bytes),
                    Err(_) if role == Role::Workspace && trace.causes.get(cause).op == CUDNN_WORKSPACE => {
                        placement.done_without.push(buffer);
                        continue;
                    }
                    Err(_) => {
                        // What would have been needed: the peak is at least this request on top of what is held.
                        let needed = allocator.usage().allocated_bytes.saturating_add(bytes);
                        placement.peak_allocated_bytes = placement.peak_allocated_bytes.max(needed);
                        placement.floor_peak_bytes = placement.floor_peak_bytes.max(requested.saturating_add(bytes));
                        placement.failure = Some(Failure { event: index, cause, requested_bytes: bytes });
                        return placement;
                    }
                }
                requested = requested.saturating_add(bytes);
                seen(index, allocator);
                if phase == Phase::Setup {
                    continue;
                }
                let usage = allocator.usage();
                placement.floor_peak_bytes = placement.floor_peak_bytes.max(requested);
                placement.peak_reserved_bytes = placement.peak_reserved_bytes.max(usage.reserved_bytes);
                if usage.allocated_bytes > placement.peak_allocated_bytes {
                    placement.peak_allocated_bytes = usage.allocated_bytes;
                    placement.requested_at_peak_bytes = requested;
                    placement.peak_event = Some(index);
                }
            }
            Event::Free { buffer } => {
                let (handle, bytes) = &mut held[buffer.0 as usize];
                if let Some(handle) = handle.take() {
                    requested -= *bytes;
                    allocator.free(handle);
                    seen(index, allocator);
                }
            }
            Event::Relabel { .. } => seen(index, allocator),
            Event::Mark { phase: next } => {
                phase = next;
                seen(index, allocator);
            }
        }
    }
    placement
}

/// Who holds memory after an event, in order of allocation; not those who had to do without.
pub fn holders(trace: &Trace, event: usize, batch: u64, done_without: &[BufferId]) -> Vec<Holder> {
    let mut alive: Vec<Option<Holder>> = vec![None; trace.buffer_count as usize];
    let mut order: Vec<BufferId> = Vec::new();
    for event in trace.events.iter().take(event.saturating_add(1)) {
        match *event {
            Event::Alloc { buffer, size, cause, role } => {
                alive[buffer.0 as usize] = Some(Holder { cause, role, bytes: size.at(batch) });
                order.push(buffer);
            }
            Event::Free { buffer } => alive[buffer.0 as usize] = None,
            Event::Relabel { buffer, role } => {
                if let Some(holder) = &mut alive[buffer.0 as usize] {
                    holder.role = role;
                }
            }
            Event::Mark { .. } => {}
        }
    }
    for buffer in done_without {
        alive[buffer.0 as usize] = None;
    }
    order.into_iter().filter_map(|buffer| alive[buffer.0 as usize].take()).collect()
}

//! How much of which role is held after each event of a trace: the picture of a training step.
//!
//! In: a trace, a batch size, an allocator that has served nothing yet. Out: [`Timeline`], of bounded size whatever the length of the
//! trace: of each stretch of events its lowest and its highest moment are kept. Set-up counts for the state; only the steps are shown. It costs
//! as much as a placement, so it is made only for those who look at it.

use rustc_hash::FxHashMap;

use super::placement::place_seen;
use super::{Allocator, Placement};
use crate::trace::{Cause, CauseId, Event, Phase, Role, Trace};

/// Stretches of events; each keeps two moments at most.
const STRETCHES: usize = 1000;

/// The roles in the order of [`Moment::role_bytes`].
pub const ROLES: [Role; 7] = [
    Role::Parameter,
    Role::Gradient,
    Role::OptimizerState,
    Role::SavedActivation,
    Role::Input,
    Role::Temporary,
    Role::Workspace,
];

/// What is held, event by event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// In the order of events.
    pub moments: Vec<Moment>,
    /// What the moments refer to, each once.
    pub causes: Vec<Cause>,
    /// The place of the highest moment.
    pub peak: Option<usize>,
    /// Events of the steps; more than there are moments where some were left out.
    pub event_count: u64,
}

/// What is held after an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Which event, counted from the first of the steps.
    pub event: u64,
    /// The part of the step.
    pub phase: Phase,
    /// Asked for and alive, by [`ROLES`].
    pub role_bytes: [u64; 7],
    /// What the allocator handed out beyond that.
    pub slack_bytes: u64,
    /// What the allocator has taken from the device.
    pub reserved_bytes: u64,
    /// Who asked last, as a place in [`Timeline::causes`].
    pub cause: usize,
}

impl Moment {
    /// Handed out by the allocator, its rounding included.
    pub fn allocated_bytes(&self) -> u64 {
        self.role_bytes.iter().fold(self.slack_bytes, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Runs a whole trace, and watches.
pub fn watch<A: Allocator>(trace: &Trace, batch: u64, allocator: &mut A) -> (Timeline, Placement) {
    let is_step = |event: &Event| matches!(*event, Event::Mark { phase } if phase != Phase::Setup);
    let begin = trace.events.iter().position(is_step).unwrap_or(trace.events.len());
    let event_count = (trace.events.len() - begin) as u64;
    let mut held = Held { buffers: vec![None; trace.buffer_count as usize], role_bytes: [0; 7] };
    let mut picture = Picture::default();
    let (mut phase, mut cause) = (Phase::Setup, None);
    let placement = place_seen(trace, batch, allocator, |index, allocator: &A| {
        match trace.events[index] {
            Event::Alloc { buffer, size, cause: who, role } => {
                held.set(buffer.0, Some((role, size.at(batch))));
                cause = Some(who);
            }
            Event::Free { buffer } => held.set(buffer.0, None),
            Event::Relabel { buffer, role } => held.relabel(buffer.0, role),
            Event::Mark { phase: next } => phase = next,
        }
        let (Some(event), Some(cause)) = (index.checked_sub(begin), cause) else { return };
        let usage = allocator.usage();
        let asked = held.role_bytes.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let moment = Moment {
            event: event as u64,
            phase,
            role_bytes: held.role_bytes,
            slack_bytes: usage.allocated_bytes.saturating_sub(asked),
            reserved_bytes: usage.reserved_bytes,
            cause: cause.0 as usize,
        };
        picture.push(event * STRETCHES / (event_count as usize).max(1), moment);
    });
    let peak_event = placement.peak_event.map(|event| event.saturating_sub(begin) as u64);
    (picture.finish(trace, event_count, peak_event), placement)
}

/// Buffers that are alive, and their sums.
struct Held {
    buffers: Vec<Option<(Role, u64)>>,
    role_bytes: [u64; 7],
}

impl Held {
    fn set(&mut self, buffer: u32, next: Option<(Role, u64)>) {
        let Some(known) = self.buffers.get_mut(buffer as usize) else { return };
        if let Some((role, bytes)) = std::mem::replace(known, next) {
            let sum = &mut self.role_bytes[place_of(role)];
            *sum = sum.saturating_sub(bytes);
        }
        if let Some((role, bytes)) = next {
            let sum = &mut self.role_bytes[place_of(role)];
            *sum = sum.saturating_add(bytes);
        }
    }

    fn relabel(&mut self, buffer: u32, role: Role) {
        if let Some(Some((_, bytes))) = self.buffers.get(buffer as usize).copied() {
            self.set(buffer, Some((role, bytes)));
        }
    }
}

fn place_of(role: Role) -> usize {
    match role {
        Role::Parameter => 0,
        Role::Gradient => 1,
        Role::OptimizerState => 2,
        Role::SavedActivation => 3,
        Role::Input => 4,
        Role::Temporary => 5,
        Role::Workspace => 6,
    }
}

/// The moments that are kept.
#[derive(Default)]
struct Picture {
    moments: Vec<Moment>,
    stretch: Option<usize>,
    lowest: Option<Moment>,
    highest: Option<Moment>,
}

impl Picture {
    fn push(&mut self, stretch: usize, moment: Moment) {
        if self.stretch.replace(stretch) != Some(stretch) {
            self.close();
        }
        let bytes = moment.allocated_bytes();
        if self.lowest.is_none_or(|lowest| bytes < lowest.allocated_bytes()) {
            self.lowest = Some(moment);
        }
        // The first of several that are equally high: that one is the peak.
        if self.highest.is_none_or(|highest| bytes > highest.allocated_bytes()) {
            self.highest = Some(moment);
        }
    }

    fn close(&mut self) {
        let (Some(low), Some(high)) = (self.lowest.take(), self.highest.take()) else { return };
        let (first, second) = if low.event <= high.event { (low, high) } else { (high, low) };
        self.moments.push(first);
        if second.event != first.event {
            self.moments.push(second);
        }
    }

    fn finish(mut self, trace: &Trace, event_count: u64, peak_event: Option<u64>) -> Timeline {
        self.close();
        let (mut causes, mut known) = (Vec::new(), FxHashMap::default());
        for moment in &mut self.moments {
            let id = moment.cause as u32;
            moment.cause = *known.entry(id).or_insert_with(|| {
                causes.push(trace.causes.get(CauseId(id)));
                causes.len() - 1
            });
        }
        let peak = peak_event.and_then(|event| self.moments.iter().position(|moment| moment.event == event));
        Timeline { moments: self.moments, causes, peak, event_count }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::allocator::bfc::{Bfc, BfcOptions};
    use crate::bytes::Size;
    use crate::trace::{BufferId, Causes};

    /// A weight, then steps that each make a buffer of growing size and give it back.
    fn trace(steps: u32) -> Trace {
        let mut causes = Causes::new(vec!["dense".into()], 2);
        let weight = causes.push("Variable", Some(0));
        let op = causes.push("MatMul", Some(0));
        let alloc = |buffer, bytes, cause, role| Event::Alloc {
            buffer: BufferId(buffer),
            size: Size::fixed(bytes),
            cause,
            role,
        };
        let mut events = vec![Event::Mark { phase: Phase::Setup }, alloc(0, 4096, weight, Role::Parameter)];
        events.push(Event::Mark { phase: Phase::Forward });
        for step in 1..=steps {
            events.push(alloc(step, 256 * u64::from(step), op, Role::Temporary));
            events.push(Event::Relabel { buffer: BufferId(step), role: Role::SavedActivation });
            events.push(Event::Free { buffer: BufferId(step) });
        }
        Trace { events, causes: Arc::new(causes), buffer_count: steps + 1 }
    }

    #[test]
    fn the_peak_is_that_of_the_placement_and_the_size_is_bounded() {
        let trace = trace(40_000);
        let (timeline, placement) = watch(&trace, 1, &mut Bfc::new(BfcOptions::tensorflow_cpu(1 << 40)));
        assert!(timeline.moments.len() <= 2 * STRETCHES && timeline.moments.len() >= STRETCHES);
        assert_eq!(timeline.event_count, 3 * 40_000 + 1);
        let peak = timeline.moments[timeline.peak.unwrap()];
        assert_eq!(peak.allocated_bytes(), placement.peak_allocated_bytes);
        assert_eq!(timeline.moments.iter().map(Moment::allocated_bytes).max(), Some(placement.peak_allocated_bytes));
        assert!(timeline.moments.is_sorted_by_key(|moment| moment.event));
    }

    #[test]
    fn roles_follow_the_buffers() {
        let (timeline, _) = watch(&trace(1), 1, &mut Bfc::new(BfcOptions::tensorflow_cpu(1 << 40)));
        let shown: Vec<_> =
            timeline.moments.iter().map(|m| (m.role_bytes[0], m.role_bytes[3], m.role_bytes[5])).collect();
        assert_eq!(shown, [(4096, 0, 0), (4096, 0, 256), (4096, 256, 0), (4096, 0, 0)]);
        assert_eq!(timeline.causes[timeline.moments[1].cause].op, "MatMul");
    }
}

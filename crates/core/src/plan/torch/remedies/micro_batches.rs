//! Take the batch in several parts and add up their gradients before the update.
//!
//! The parts are equal, so the mean of their means is the batch's: only divisors of the batch are tried. Simulated: in the
//! last recorded step a second pass follows the first, with the gradients of the first alive; its own live for a moment, until
//! they are added. Further passes are like the second.

use rustc_hash::FxHashMap;

use super::{Change, Context, Effect, Remedy};
use crate::capture::{Event, Recording};
use crate::plan::MAX_BATCH;
use crate::plan::torch::edit::Edit;
use crate::plan::torch::passes::lives;
use crate::plan::torch::setup::Setup;
use crate::trace::{Phase, Role};

/// `micro_batches`.
pub struct MicroBatches;

impl Remedy for MicroBatches {
    fn id(&self) -> &'static str {
        "micro_batches"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if !context.training() || setup.micro_batches > 1 || !context.capture.paired {
            return Vec::new();
        }
        // A job that accumulates already was recorded with several passes.
        let twice = if context.request.accumulate > 1 { None } else { accumulated(&setup.steps.recording) };
        let accumulating = match twice {
            Some(recording) => Setup { repeats: 2, ..setup.with_recording(recording) },
            None if context.request.accumulate > 1 => setup.clone(),
            None => return Vec::new(),
        };
        let coupled = context.couples_samples();
        let batch = setup.batch / setup.devices.max(1) / context.request.accumulate;
        let parts = (2..=batch.min(MAX_BATCH)).filter(|parts| batch.is_multiple_of(*parts));
        parts.map(|parts| change(context, &accumulating, parts, coupled)).collect()
    }
}

fn change(context: &Context<'_>, setup: &Setup, parts: u64, coupled: bool) -> Change {
    let all = parts.saturating_mul(context.request.accumulate);
    let samples = setup.batch / all;
    let mut title = format!("Take each batch as {all} micro-batches of {samples} and accumulate their gradients");
    if coupled {
        title.push_str("; batch normalization sees each micro-batch alone");
    }
    let code = format!(
        "for xs, ys in zip(x.chunk({all}), y.chunk({all})):\n    (loss_fn(model(xs), ys) / {all}).backward()\n\
         optimizer.step(); optimizer.zero_grad()"
    );
    let effect = if coupled { Effect::Statistics } else { Effect::Exact };
    let changed = Setup { micro_batches: parts, ..setup.clone() };
    Change { only_batch: true, ..Change::new(title, changed, effect, code) }
}

/// The last step with its pass through the network taken twice; none if it has no backward pass.
fn accumulated(recording: &Recording) -> Option<Recording> {
    let events = &recording.events;
    let steps: Vec<usize> = (0..events.len()).filter(|&at| events[at] == Event::Step).collect();
    let update = |begin: usize| {
        let found = events[begin..].iter().position(|event| *event == Event::Mark(Phase::Optimizer));
        found.map_or(events.len(), |at| begin + at)
    };
    let begin = *steps.last()?;
    let end = update(begin);
    if !events[begin..end].contains(&Event::Mark(Phase::Backward)) {
        return None;
    }
    let lives = lives(recording);
    let born = |range: std::ops::Range<usize>| -> Vec<u32> {
        let asked = |event: &Event| match *event {
            Event::Alloc(buffer) => Some(buffer),
            _ => None,
        };
        events[range].iter().filter_map(asked).collect()
    };
    let ours = born(begin..end);
    // What the step before made at the same place: when that goes, the first pass's own goes in the second.
    let before = steps.len().checked_sub(2).map_or(Vec::new(), |at| born(steps[at]..update(steps[at])));
    let successor: FxHashMap<u32, u32> = before
        .into_iter()
        .zip(ours)
        .filter(|(old, new)| {
            let (old, new) = (&recording.buffers[*old as usize], &recording.buffers[*new as usize]);
            (old.op, old.module, old.size, old.role) == (new.op, new.module, new.size, new.role)
                && new.role != Role::Gradient
        })
        .collect();

    let mut edit = Edit::new(recording);
    let mut copies: FxHashMap<u32, u32> = FxHashMap::default();
    let mut added: Vec<u32> = Vec::new();
    for event in &events[begin + 1..end] {
        match *event {
            Event::Mark(phase) => edit.insert(end, Event::Mark(phase)),
            Event::Alloc(buffer) => {
                // What was made before this request has been added to the gradient by now.
                added.drain(..).for_each(|gradient| edit.insert(end, Event::Free(gradient)));
                let copy = edit.copy(buffer);
                edit.insert(end, Event::Alloc(copy));
                if edit.buffer(copy).role == Role::Gradient {
                    edit.buffer(copy).role = Role::Temporary;
                    added.push(copy);
                } else {
                    copies.insert(buffer, copy);
                    if let Some(freed) = lives[buffer as usize].freed.filter(|freed| *freed >= end) {
                        edit.insert(freed, Event::Free(copy));
                    }
                }
            }
            Event::Free(buffer) => {
                let first_pass = successor.get(&buffer).filter(|new| lives[**new as usize].reaches(end));
                if let Some(&copy) = copies.get(&buffer) {
                    edit.insert(end, Event::Free(copy));
                } else if let Some(&old) = first_pass {
                    edit.insert(end, Event::Free(old));
                    if let Some(freed) = lives[old as usize].freed {
                        edit.remove(freed);
                    }
                }
            }
            Event::Relabel(buffer, role) => {
                if let Some(&copy) = copies.get(&buffer) {
                    edit.insert(end, Event::Relabel(copy, role));
                }
            }
            Event::Step => {}
        }
    }
    added.into_iter().for_each(|gradient| edit.insert(end, Event::Free(gradient)));
    Some(edit.finish())
}

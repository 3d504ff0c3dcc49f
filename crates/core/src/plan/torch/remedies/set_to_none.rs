//! Let gradients go between two steps.
//!
//! Offered only where the recording shows gradients that live through a forward pass. Simulated: they are freed after the
//! update, and in the next backward pass what was added to them becomes the gradient itself.

use super::{Change, Context, Effect, Remedy};
use crate::capture::{Buffer, Event, Recording};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::passes::lives;
use crate::plan::torch::setup::Setup;
use crate::trace::{Phase, Role};

/// `set_to_none`.
pub struct SetToNone;

impl Remedy for SetToNone {
    fn id(&self) -> &'static str {
        "set_to_none"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if !context.training() || context.request.accumulate > 1 {
            return Vec::new();
        }
        let Some(recording) = without_old_gradients(&setup.steps.recording) else { return Vec::new() };
        let title = "Let gradients go between steps (zero_grad(set_to_none=True))";
        let code = "optimizer.zero_grad(set_to_none=True)  # right after optimizer.step()";
        vec![Change::new(title, setup.with_recording(recording), Effect::Exact, code)]
    }
}

/// None where no gradient outlives its step, or where its successor is not found.
fn without_old_gradients(recording: &Recording) -> Option<Recording> {
    let steps: Vec<usize> = (0..recording.events.len()).filter(|&at| recording.events[at] == Event::Step).collect();
    let [.., begin, second] = steps[..] else { return None };
    let lives = lives(recording);
    let old = (0u32..).zip(&recording.buffers).filter(|(index, buffer)| {
        let life = lives[*index as usize];
        buffer.role == Role::Gradient && (begin..second).contains(&life.born) && life.freed.is_none()
    });
    let mut edit = Edit::new(recording);
    let mut taken = vec![false; recording.buffers.len()];
    let mut changed = false;
    for (index, gradient) in old {
        let alike = |other: &Buffer| {
            (other.op, other.module, other.size, other.born)
                == (gradient.op, gradient.module, gradient.size, Phase::Backward)
        };
        let successor = (0u32..).zip(&recording.buffers).find(|(other, buffer)| {
            let life = lives[*other as usize];
            life.born > second && !taken[*other as usize] && buffer.role == Role::Temporary && alike(buffer)
        });
        let Some((successor, _)) = successor else { continue };
        taken[successor as usize] = true;
        changed = true;
        edit.insert(second, Event::Free(index));
        edit.buffer(successor).role = Role::Gradient;
        if let Some(freed) = lives[successor as usize].freed {
            edit.remove(freed);
        }
    }
    changed.then(|| edit.finish())
}

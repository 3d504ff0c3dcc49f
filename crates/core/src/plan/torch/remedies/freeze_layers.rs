//! Train only the last blocks: the first ones keep their weights.
//!
//! What autograd keeps of a frozen block, its backward pass and its gradients fall away. Bounded: results that frozen blocks
//! return stay as long as before, what lies between blocks stays as it is, and of the optimizer's state the share of the
//! frozen weights is left out.

use super::{Change, Context, Effect, Remedy, is_update_scratch};
use crate::capture::{Event, Recording};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::passes::{backward_begin, leftovers, lives, owners, passes, runs};
use crate::plan::torch::setup::Setup;
use crate::trace::{Phase, Role};

/// `freeze_layers`.
pub struct FreezeLayers;

impl Remedy for FreezeLayers {
    fn id(&self) -> &'static str {
        "freeze_layers"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let blocks = &context.blocks;
        if !context.training() || blocks.len() < 2 || setup.applied.contains(&"activation_checkpointing") {
            return Vec::new();
        }
        let change = |count: usize| {
            let frozen = &blocks[..count];
            let recording = freeze(&setup.steps.recording, frozen)?;
            let title = format!("Freeze the first {count} of {} blocks: their weights stay as they are", blocks.len());
            let names: Vec<String> = [frozen.first()?, frozen.last()?].iter().map(|path| (*path).clone()).collect();
            let code = format!(
                "# from {} to {}, and what comes before them\n\
                 for block in frozen_blocks:\n    block.requires_grad_(False)",
                names[0], names[1]
            );
            Some(Change::new(title, setup.with_recording(recording), Effect::Training, code).bounded())
        };
        [blocks.len() / 2, blocks.len() - 1].into_iter().filter(|&count| count > 0).filter_map(change).collect()
    }
}

fn freeze(recording: &Recording, frozen: &[String]) -> Option<Recording> {
    let (lives, owners) = (lives(recording), owners(recording, frozen));
    let is_frozen = |module: u32| owners[module as usize].is_some();
    let mut edit = Edit::new(recording);
    let mut changed = false;
    for pass in passes(recording).iter().filter(|pass| !pass.backward.is_empty()) {
        for run in runs(recording, &pass.forward, &owners) {
            let begin = backward_begin(recording, pass, &owners, run.block);
            for buffer in leftovers(recording, &lives, pass, &run, begin) {
                if let Some(freed) = lives[buffer as usize].freed {
                    edit.remove(freed);
                    edit.insert(run.events.end, Event::Free(buffer));
                    changed = true;
                }
            }
        }
    }
    let (mut all, mut left) = (0u64, 0u64);
    for buffer in recording.buffers.iter().filter(|buffer| buffer.role == Role::Parameter) {
        all = all.saturating_add(buffer.size.fixed);
        left = left.saturating_add(if is_frozen(buffer.module) { 0 } else { buffer.size.fixed });
    }
    for (index, buffer) in (0u32..).zip(&recording.buffers) {
        if buffer.born == Phase::Backward && is_frozen(buffer.module) {
            edit.drop(index);
        } else if buffer.role == Role::OptimizerState || is_update_scratch(buffer) {
            // In shares of 1/1024, rounded up: sums of bytes would overflow the product.
            let share = left / (all / 1024).max(1) + 1;
            *edit.buffer(index) = buffer.scaled(share.min(1024), 1024);
        }
    }
    changed.then(|| edit.finish())
}

//! Keep of each block only what goes in and comes out, and compute the rest again in the backward pass.
//!
//! Simulated on the recording: what autograd keeps of a block is freed when the block returns, and before the block's first
//! request of the backward pass the requests of its forward pass are made again. A recording does not say who reads a
//! buffer, so two things are bounded: what a block returns is made again too, and what dies inside the block but was born
//! before it is kept as its input. Time: the forward pass of the blocks once more.

use rustc_hash::FxHashMap;

use super::{Change, Context, Effect, Remedy};
use crate::capture::{Event, Recording};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::passes::{Life, Pass, Run, backward_begin, leftovers, lives, owners, passes, runs};
use crate::plan::torch::setup::Setup;

/// `activation_checkpointing`.
pub struct ActivationCheckpointing;

impl Remedy for ActivationCheckpointing {
    fn id(&self) -> &'static str {
        "activation_checkpointing"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let blocks = &context.blocks;
        if !context.training() || blocks.is_empty() || setup.applied.contains(&"freeze_layers") {
            return Vec::new();
        }
        let class = context.request.class(&blocks[0]);
        // Where classes differ, the first one's name would mislead.
        let alike = blocks.iter().all(|block| context.request.class(block) == class);
        let kind = match class {
            _ if !alike => "block".to_owned(),
            _ if class.ends_with("Block") || class.ends_with("Layer") => class.to_owned(),
            _ => format!("{class} block"),
        };
        let normalizes = context.request.modules.iter().any(|module| module.class.contains("BatchNorm"));
        let change = |chosen: &[String], how: &str| {
            let recording = recompute(&setup.steps.recording, chosen)?;
            let mut title = format!("Compute {how} again in the backward pass instead of keeping all results");
            // Its running averages are updated in both forward passes; the gradients are the same.
            let effect = if normalizes {
                title.push_str("; batch normalization counts each batch twice");
                Effect::Statistics
            } else {
                Effect::Exact
            };
            let code = format!(
                "from torch.utils.checkpoint import checkpoint\n\
                 # where a block such as {} is called, x = block(x) becomes\n\
                 x = checkpoint(block, x, use_reentrant=False)",
                chosen[0]
            );
            Some(Change::new(title, setup.with_recording(recording), effect, code))
        };
        let every_other: Vec<String> = blocks.iter().step_by(2).cloned().collect();
        let half = (blocks.len() > 3).then(|| change(&every_other, &format!("every other {kind}"))).flatten();
        let all = change(blocks, &format!("all {} {kind}s", blocks.len()));
        half.into_iter().chain(all).collect()
    }
}

/// The recording with these blocks computed again; none if they keep nothing.
fn recompute(recording: &Recording, blocks: &[String]) -> Option<Recording> {
    let (lives, owners) = (lives(recording), owners(recording, blocks));
    let mut edit = Edit::new(recording);
    let mut changed = false;
    for pass in passes(recording).iter().filter(|pass| !pass.backward.is_empty()) {
        let runs = runs(recording, &pass.forward, &owners);
        let mut calls = vec![0; blocks.len()];
        runs.iter().for_each(|run| calls[run.block] += 1);
        for run in &runs {
            let once = calls[run.block] == 1;
            changed |= recompute_run(recording, &mut edit, &lives, &owners, pass, run, once);
        }
    }
    changed.then(|| edit.finish())
}

fn recompute_run(
    recording: &Recording,
    edit: &mut Edit,
    lives: &[Life],
    owners: &[Option<usize>],
    pass: &Pass,
    run: &Run,
    once: bool,
) -> bool {
    // Of a block that is called several times it is not known which of its requests belongs to which call.
    let asked = if once { backward_begin(recording, pass, owners, run.block) } else { None };
    let kept = leftovers(recording, lives, pass, run, asked);
    let freed = |buffer: u32| lives[buffer as usize].freed;
    let ends = || kept.iter().filter_map(|&buffer| freed(buffer));
    let (Some(first), Some(last)) = (ends().min(), ends().max()) else { return false };
    let begin = asked.map_or(first, |asked| asked.min(first));

    let mut copies: FxHashMap<u32, u32> = FxHashMap::default();
    let (mut inputs, mut outputs): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for at in run.events.clone() {
        match recording.events[at] {
            Event::Alloc(buffer) => {
                let copy = edit.copy(buffer);
                copies.insert(buffer, copy);
                edit.insert(begin, Event::Alloc(copy));
                if kept.contains(&buffer) {
                    if let Some(freed) = freed(buffer) {
                        edit.insert(freed, Event::Free(copy));
                        edit.remove(freed);
                    }
                    edit.insert(run.events.end, Event::Free(buffer));
                } else if lives[buffer as usize].reaches(run.events.end) {
                    outputs.push(copy);
                }
            }
            Event::Free(buffer) => match copies.get(&buffer) {
                Some(&copy) => edit.insert(begin, Event::Free(copy)),
                None if pass.forward.contains(&lives[buffer as usize].born) => {
                    edit.remove(at);
                    inputs.push(buffer);
                }
                None => {}
            },
            Event::Relabel(buffer, role) => {
                if let Some(&copy) = copies.get(&buffer) {
                    edit.insert(begin, Event::Relabel(copy, role));
                }
            }
            Event::Mark(_) | Event::Step => {}
        }
    }
    // The block's first op of the backward pass may read what it returned.
    outputs.into_iter().for_each(|buffer| edit.insert(first + 1, Event::Free(buffer)));
    inputs.into_iter().for_each(|buffer| edit.insert(last + 1, Event::Free(buffer)));
    true
}

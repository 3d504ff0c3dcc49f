//! Inference without autograd: nothing is kept for a backward pass that never comes.
//!
//! Offered where the recording was made with autograd on. Bounded: what a block keeps is freed when the block returns, what
//! it returns and what lies between blocks stays as long as before.

use super::{Change, Context, Effect, Remedy};
use crate::capture::{Event, Recording};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::passes::{Pass, leftovers, lives, owners, passes, runs};
use crate::plan::torch::setup::Setup;

/// `inference_mode`.
pub struct InferenceMode;

impl Remedy for InferenceMode {
    fn id(&self) -> &'static str {
        "inference_mode"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if context.training() || !context.request.autograd {
            return Vec::new();
        }
        let Some(recording) = without_graph(&setup.steps.recording, &context.blocks) else { return Vec::new() };
        let title = "Run without autograd (torch.inference_mode)";
        let code = "with torch.inference_mode():\n    output = model(x)";
        vec![Change::new(title, setup.with_recording(recording), Effect::Exact, code).bounded()]
    }
}

fn without_graph(recording: &Recording, blocks: &[String]) -> Option<Recording> {
    let (lives, owners) = (lives(recording), owners(recording, blocks));
    let mut edit = Edit::new(recording);
    let mut changed = false;
    for pass in passes(recording) {
        // What autograd holds goes with the output, after the pass or in the next one.
        let whole = Pass { forward: pass.forward.clone(), backward: pass.forward.start..recording.events.len() };
        for run in runs(recording, &pass.forward, &owners) {
            for buffer in leftovers(recording, &lives, &whole, &run, None) {
                let Some(freed) = lives[buffer as usize].freed.filter(|freed| *freed >= run.events.end) else {
                    continue;
                };
                edit.remove(freed);
                edit.insert(run.events.end, Event::Free(buffer));
                changed = true;
            }
        }
    }
    changed.then(|| edit.finish())
}

//! What a replay says about where the memory goes.
//!
//! In: an outcome. Out: the report's moment, heaviest lines of source and notes; breakdown and modules are those of any plan.

use std::collections::BTreeMap;

use super::request::Request;
use super::simulate::Outcome;
use crate::allocator::{Holder, holders};
use crate::capture::Capture;
use crate::framework::Framework;
use crate::report::{LineShare, NoteReport};
use crate::trace::Cause;

/// How many lines of source a report shows.
const SHOWN_LINES: usize = 10;

/// Lines that hold less than this part of all are left out.
const LEAST_SHARE: u64 = 1000;

/// Who holds memory at the peak.
pub fn at_peak(outcome: &Outcome) -> Vec<(Cause, Holder)> {
    let trace = outcome.setup.steps.trace(outcome.setup.at_once());
    let Some(event) = outcome.placement.peak_event else { return Vec::new() };
    let holders = holders(trace, event, outcome.setup.at_once(), &outcome.placement.done_without).into_iter();
    holders.map(|holder| (trace.causes.get(holder.cause), holder)).collect()
}

/// The lines of source whose calls hold most at the peak, most bytes first.
pub fn heaviest_lines(holders: &[(Cause, Holder)]) -> Vec<LineShare> {
    let held = holders.iter().fold(0u64, |sum, (_, holder)| sum.saturating_add(holder.bytes));
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    for (cause, holder) in holders {
        if let Some(source) = &cause.source {
            let bytes = lines.entry(source).or_default();
            *bytes = bytes.saturating_add(holder.bytes);
        }
    }
    let mut lines: Vec<LineShare> =
        lines.into_iter().map(|(source, bytes)| LineShare { source: source.to_owned(), bytes }).collect();
    // A loss of four bytes has a line too.
    lines.retain(|line| line.bytes > held / LEAST_SHARE);
    lines.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.source.cmp(&b.source)));
    lines.truncate(SHOWN_LINES);
    lines
}

/// What was guessed, bounded or never measured.
pub fn notes(capture: &Capture, request: &Request, outcome: &Outcome, bounded: &[&str]) -> Vec<NoteReport> {
    let mut notes = request.notes.clone();
    let mut add = |code: &str, text: String| notes.push(NoteReport { code: code.to_owned(), layer: None, text });
    if !capture.paired {
        let text = "Another batch takes other steps, or was not recorded: nothing is said about other batches.";
        add("batch_fixed", text.to_owned());
    } else if let Some(most) = capture.known_up_to {
        let text = format!("Something grows faster than the batch: batches above {most} are not searched.");
        add("batch_superlinear", text);
    }
    if outcome.prediction_fits && !outcome.without_retries {
        let text = "The allocator would take more if there were more: here it gives cached memory back and asks again, \
                    which costs time.";
        add("allocator_retries", text.to_owned());
    }
    if !bounded.is_empty() {
        let text = format!(
            "A recording does not show all that these change, so their figures are bounds: {}.",
            bounded.join(", ")
        );
        add("remedy_bounded", text);
    }
    if request.device.compute_capability.is_some() && !request.device.measured(Framework::Torch) {
        let text = format!(
            "No run on {} with PyTorch was measured: the steps are recorded, what CUDA itself holds is not known exactly.",
            request.device.name
        );
        add("not_measured", text);
    }
    notes
}

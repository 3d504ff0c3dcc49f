//! Failures that a job outlived, and kills that have a sender.
//!
//! In: sightings in the order of the log. Out: which of them did not end the job. A job that catches a failure and goes on with less prints the same
//! words as one that dies of it, and a process that a person ended looks like one that the kernel killed: only the lines around them tell.

use super::case::Sighting;
use super::sign::Weight;

// The three distances are judgements, from how the programs' own messages are laid out; nothing was measured.

/// Lines within which a job says what it does about a failure: a traceback may stand in between.
const SAID_WITHIN: u64 = 4;

/// Lines of a job that went on, between a traceback and its end.
const WENT_ON_FOR: u64 = 6;

/// Lines within which a process is gone, once it was ended.
const GONE_WITHIN: u64 = 60;

/// Signs that say who ended a process, before it is gone.
const ENDED_BY: [&str; 5] =
    ["scheduler.cancelled", "user.killed", "service.stopping", "service.kills", "actions.shutdown"];

/// Signs of a process that was killed, by whomever.
const KILLED: [&str; 7] = [
    "shell.killed", "process.killed", "process.exit_code", "torch.elastic_killed", "torch.worker_killed",
    "gunicorn.killed", "python.pool_broken",
];

/// What is known of how a job went on.
pub struct Outlived {
    retried: Vec<u64>,
    gave_up: Option<u64>,
    finished: Option<u64>,
    searched: Option<u64>,
    /// Who ended it, and what was started since.
    ended: Vec<(u64, bool)>,
}

impl Outlived {
    /// Reads it from a log's sightings.
    pub fn new(sightings: &[Sighting]) -> Outlived {
        let lines =
            |id: &'static str| sightings.iter().filter(move |seen| seen.sign.id == id).map(|seen| seen.last_line);
        let turns = sightings.iter().filter_map(|seen| {
            let ends = ENDED_BY.contains(&seen.sign.id);
            (ends || seen.sign.id == "shell.python").then_some((seen.last_line, ends))
        });
        Outlived {
            retried: sightings.iter().filter(|seen| seen.sign.id == "job.retried").map(|seen| seen.line).collect(),
            gave_up: lines("job.gave_up").max(),
            finished: lines("job.finished").max(),
            searched: lines("job.searched").max(),
            ended: turns.collect(),
        }
    }

    /// Whether the job went on after a failure.
    pub fn has(&self, failure: &Sighting) -> bool {
        let line = failure.last_line;
        // Whoever looks for the largest batch goes on until one fails.
        if self.searched.is_some_and(|until| line < until) {
            return true;
        }
        if failure.sign.weight < Weight::Symptom || self.gave_up.is_some_and(|gave_up| gave_up > line) {
            return false;
        }
        let retried = self.retried.iter().any(|&said| said >= line && said - line <= SAID_WITHIN);
        // Whoever starts a job may call it finished when it is dead: right below a traceback, that is not the job's own word.
        let after = if failure.frames.is_empty() && !is_raised(&failure.text) { 0 } else { WENT_ON_FOR };
        retried || self.finished.is_some_and(|finished| finished > line + after)
    }

    /// Whether somebody is named who ended the process that was killed here.
    pub fn was_ended(&self, killed: &Sighting) -> bool {
        let before = self.ended.iter().filter(|(line, _)| *line <= killed.line).max_by_key(|(line, _)| *line);
        KILLED.contains(&killed.sign.id)
            && before.is_some_and(|(line, ends)| *ends && killed.line - line <= GONE_WITHIN)
    }
}

/// Whether a message has the name of its exception before it, as the interpreter writes it when nothing catches it: `RuntimeError: CUDA out of memory`.
/// Whoever catches one prints what it says.
fn is_raised(text: &str) -> bool {
    let name = text.split_once(':').map_or(text, |(name, _)| name);
    name.ends_with("Error") && name.chars().all(|c| c.is_alphanumeric() || "._".contains(c))
}

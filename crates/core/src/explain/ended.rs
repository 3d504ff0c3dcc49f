//! The exception that a traceback ends in, whatever it is called.
//!
//! In: the lines below the head of a traceback. Out: its last line, if all of it is there and it names an exception: with a message, or alone. Signs know
//! exceptions by their names; this is for those that nobody knows, and it counts only where nothing else in the log does. Not read: tracebacks of
//! notebooks and of pytest, which end in other ways.

use super::case::Sighting;
use super::excerpt::Excerpt;
use super::sign::{Numbers, Sign, Weight};
use super::signs::lookalikes::{ENDED, TRACEBACK};
use super::sizes::has_any;

const HEAD: &str = "Traceback (most recent call last)";
/// A name of an exception is shorter.
const LONGEST_NAME: usize = 120;
/// Words that may speak of memory or of another limit: data is found corrupt where what was written had no room for it, too.
const OF_MEMORY: [&str; 15] = [
    "memory", "oom", "alloc", "exhaust", "killed", "sigkill", "cuda", "hip", "limit", "space", "quota", "too large",
    "bytes", "capacity", "corrupt",
];

/// Whether a sign is the head of a traceback.
pub fn is_head(sign: &Sign) -> bool {
    sign.id == TRACEBACK
}

/// The name of the exception in such a line: `mypkg.errors.TrainingFailed` of `mypkg.errors.TrainingFailed: no data`.
pub fn name(line: &str) -> Option<&str> {
    let name = line.split(": ").next()?.trim_end().trim_end_matches(':');
    let whole = name.len() <= LONGEST_NAME
        && name.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let of_class = name.rsplit('.').next()?.starts_with(|c: char| c.is_uppercase());
    (whole && of_class).then_some(name)
}

/// The last line of the traceback whose head this is.
pub fn ending(excerpt: &Excerpt) -> Option<Sighting> {
    let (prefix, _) = excerpt.line.text.split_once(HEAD)?;
    let mut framed = false;
    for line in &excerpt.after {
        let text = line.text.strip_prefix(prefix).unwrap_or(&line.text);
        if text.starts_with("  File \"") {
            framed = true;
        } else if !text.starts_with([' ', '\t']) {
            let named = framed && name(text).is_some();
            return named.then(|| Sighting {
                sign: &ENDED,
                line: line.number,
                last_line: line.number,
                text: text.trim_end().chars().take(super::QUOTED).collect(),
                numbers: Numbers::default(),
                frames: Vec::new(),
                place: None,
            });
        }
    }
    None
}

/// Whether it is what ended the job: nothing in the log says more, and it does not speak of memory itself.
pub fn counts(ended: &Sighting, sightings: &[Sighting]) -> bool {
    let goes_on = ["job.finished", "job.retried", "job.searched"];
    let more = |seen: &Sighting| {
        seen.sign.weight >= Weight::Symptom || (seen.line > ended.line && goes_on.contains(&seen.sign.id))
    };
    !has_any(&ended.text, &OF_MEMORY) && !sightings.iter().any(more)
}

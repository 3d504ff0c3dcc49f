//! What a summary says, in sentences. In: a [`Summary`]. Out: text that the terminal and the page share.

use brimful_core::page::Tone;
use brimful_monitor::recording::Good;
use serde_json::Value;

use super::open;
use crate::job::signal_name;
use crate::summary::date::duration;
use crate::summary::facts::at_clock;
use crate::summary::{Outcome, Summary};

/// The first sentence: how it is meant, its first words, the rest.
pub fn headline(summary: &Summary) -> (Tone, String, String) {
    let after = format!("after {}{}", duration(summary.duration_ms), at_clock(summary, summary.duration_ms));
    let kills = summary.oom_kills.unwrap_or(0);
    match summary.outcome {
        Outcome::EndedWell if kills > 0 => (
            Tone::Warning,
            "Ended".to_owned(),
            format!("{after}, but {} of its processes were killed for memory.", kills),
        ),
        Outcome::EndedWell => (Tone::Good, "Ended well".to_owned(), format!("{after}.")),
        Outcome::KilledForMemory => (Tone::Bad, "Killed for memory".to_owned(), format!("by the kernel {after}.")),
        Outcome::Killed => {
            let name = summary.signal.map_or(String::new(), signal_name);
            let no_memory = if summary.signal == Some(9) && summary.oom_kills == Some(0) {
                " The kernel counts no kill for memory: somebody sent it."
            } else {
                ""
            };
            (Tone::Bad, format!("Killed by {name}"), format!("{after}.{no_memory}"))
        }
        Outcome::Failed => {
            let code = summary.exit_code.unwrap_or(0);
            (Tone::Bad, "Failed".to_owned(), format!("with exit code {code} {after}."))
        }
        Outcome::Ended => {
            (Tone::Good, "Ended".to_owned(), format!("{after}; how is not known, as it was watched and not started."))
        }
        Outcome::NotRecorded => (
            Tone::Warning,
            "The recording stops".to_owned(),
            format!("{after}, without saying how the job ended: it still runs, or brimful itself was ended."),
        ),
    }
}

/// The command as it was typed, or nearly.
pub fn command(summary: &Summary) -> String {
    if summary.command.is_empty() {
        return "A job".to_owned();
    }
    let word = |word: &String| {
        let plain = !word.is_empty() && !word.chars().any(|c| c.is_whitespace() || "'\"\\$`;|&<>()*?".contains(c));
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    summary.command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// What could not be read.
pub fn torn(summary: &Summary) -> Option<String> {
    let read = summary.recording?;
    let good = Good { frames: read.entries, good_bytes: read.good_bytes, bad_bytes: read.bad_bytes };
    (read.bad_bytes > 0).then(|| format!("Of the recording, {}.", open::torn(good)))
}

/// The cause of a failure, as `brimful explain` named it.
pub struct Cause {
    /// One line.
    pub title: String,
    /// Why, one sentence each.
    pub because: Vec<String>,
    /// What to do, the cheapest first: one line, and code for each that has some.
    pub remedies: Vec<(String, Vec<String>)>,
}

/// Reads the explanation; none where it names no cause.
pub fn cause(summary: &Summary) -> Option<Cause> {
    let explanation = summary.explanation.as_ref()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| -> Vec<Value> { value.as_array().cloned().unwrap_or_default() };
    let cause = &explanation["cause"];
    let remedies = list(&explanation["remedies"]).into_iter().take(8).filter_map(|remedy| {
        let code = list(&remedy["apply"]).iter().filter_map(|snippet| text(&snippet["code"])).collect();
        Some((text(&remedy["title"])?, code))
    });
    Some(Cause {
        title: text(&cause["title"])?,
        because: list(&cause["because"]).iter().filter_map(text).collect(),
        remedies: remedies.collect(),
    })
}

//! What a summary says, in sentences. In: a [`Summary`]. Out: text that the terminal and the page share.

use brimful_core::bytes::human;
use brimful_core::page::Tone;
use brimful_monitor::recording::Good;
use serde_json::Value;

use super::date::{clock, duration};
use super::open;
use super::summary::{Outcome, Summary};

/// The processes that a sentence names.
const NAMED: usize = 3;

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
            let name = summary.signal.map_or(String::new(), signal);
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

/// `, at 12:03:10 UTC`, where the date is known.
fn at_clock(summary: &Summary, at_ms: u64) -> String {
    match summary.started_unix_ms {
        0 => String::new(),
        began => format!(", at {}", clock(began.saturating_add(at_ms))),
    }
}

fn signal(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
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

/// The peak, who held it, the GPUs, the steps: one sentence or two each.
pub fn facts(summary: &Summary) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(peak) = summary.peak {
        let of = peak.limit_bytes.filter(|limit| *limit > 0).map_or(String::new(), |limit| {
            let share = peak.held_bytes as f64 * 100.0 / limit as f64;
            format!(" of {} ({share:.0} %)", human(limit))
        });
        let step = peak.step.map_or(String::new(), |step| format!(", after step {step}"));
        let when = format!("{}{}", duration(peak.at_ms), at_clock(summary, peak.at_ms));
        facts.push(format!("Peak of memory: {}{of}, {when}{step}.", human(peak.held_bytes)));
        if let Some(most) = summary.peak_rss_bytes.filter(|most| *most > peak.held_bytes / 50 * 51) {
            facts.push(format!("Its processes had {} resident at most, spikes between samples included.", human(most)));
        }
    }
    if let Some(holders) = summary.holders.as_ref().filter(|holders| !holders.processes.is_empty()) {
        let named = holders.processes.iter().take(NAMED);
        let named: Vec<String> =
            named.map(|each| format!("{} (process {}) {}", each.name, each.pid, human(each.rss_bytes))).collect();
        let more = match holders.processes.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", {more} more less"),
        };
        facts.push(format!("Held then by {}{more}.", named.join(", ")));
    }
    for gpu in &summary.gpus {
        let Some(used) = gpu.peak_used_bytes.or(gpu.peak_job_bytes) else { continue };
        let of = gpu.total_bytes.map_or(String::new(), |total| format!(" of {}", human(total)));
        let job = gpu.peak_job_bytes.map_or(String::new(), |job| format!("; the job's own peak is {}", human(job)));
        facts.push(format!("Peak of GPU {}: {}{of}, {}{job}.", gpu.index, human(used), duration(gpu.at_ms)));
    }
    for each in summary.frameworks.iter().take(16) {
        let Some(allocated) = each.peak_allocated_bytes else { continue };
        let reserved = each.peak_reserved_bytes.map_or(String::new(), |bytes| format!(", reserved {}", human(bytes)));
        let (framework, device) = (&each.framework, &each.device);
        facts.push(format!(
            "{framework} on {device}, process {}: tensors held {} at most{reserved}.",
            each.pid,
            human(allocated)
        ));
    }
    facts.extend(steps(summary));
    facts
}

fn steps(summary: &Summary) -> Vec<String> {
    let Some(steps) = summary.steps else { return Vec::new() };
    let mut said = format!("{} training steps", steps.last);
    if let Some(rate) = steps.per_second.filter(|rate| *rate > 0.0) {
        said += &if rate >= 1.0 { format!(", {rate:.1} each second") } else { format!(", one in {:.1} s", 1.0 / rate) };
    }
    if let Some(loss) = steps.last_loss {
        said += &format!(", last loss {loss:.4}");
    }
    if let Some(share) = steps.waited_share {
        said += &format!("; {:.0} % of the time was between steps, waiting for data mostly", share * 100.0);
    }
    let bad = steps.first_bad_loss.map(|step| format!("From step {step} on the loss was infinite or no number."));
    [Some(said + "."), bad].into_iter().flatten().collect()
}

/// What could not be read.
pub fn torn(summary: &Summary) -> Option<String> {
    let read = summary.recording;
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

//! What a summary says, in sentences that a run's last lines, the report's text and its page share.
//!
//! In: a [`Summary`]. Out: the peak, who held it, GPUs, frameworks, steps: one sentence or two each. Not here: how a job ended, and why.

use brimful_core::bytes::human;

use super::Summary;
use super::date::{clock, duration};
use crate::live::words::count;

/// The processes that a sentence names.
const NAMED: usize = 3;
/// The first step that is heard of a job that was watched from its start has at most this number: not every step is told.
const FIRST_HEARD: u64 = 20;

/// The peak, who held it, the GPUs, the steps: one sentence or two each.
pub fn facts(summary: &Summary) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(peak) = summary.peak {
        let of = peak.limit_bytes.filter(|limit| *limit > 0).map_or(String::new(), |limit| {
            let share = peak.held_bytes as f64 * 100.0 / limit as f64;
            format!(" of {} ({share:.0} %)", human(limit))
        });
        let step = peak.step.map_or(String::new(), |step| format!(", after step {}", count(step)));
        let when = format!("after {}{}", duration(peak.at_ms), at_clock(summary, peak.at_ms));
        facts.push(format!("Peak of memory: {}{of} {when}{step}.", human(peak.held_bytes)));
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
        facts.push(format!("Peak of GPU {}: {}{of} after {}{job}.", gpu.index, human(used), duration(gpu.at_ms)));
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
    // A job that is watched from the middle on has made steps before.
    let mut said = match steps.first {
        first if first > FIRST_HEARD => {
            let made = (steps.last + 1).saturating_sub(first);
            format!("{} training steps ({} to {})", count(made), count(first), count(steps.last))
        }
        _ => format!("{} training steps", count(steps.last)),
    };
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

/// `, at 12:03:10 UTC`, where the date is known.
pub fn at_clock(summary: &Summary, at_ms: u64) -> String {
    match summary.started_unix_ms {
        0 => String::new(),
        began => format!(", at {}", clock(began.saturating_add(at_ms))),
    }
}

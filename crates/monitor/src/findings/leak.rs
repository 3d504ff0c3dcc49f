//! Growth in words: what a leak does, when it meets the limit, and that it has ended.
//!
//! In: [`News`] of one kind of memory, its name, its limit and the pace of steps. Out: a finding.

use super::finding;
use super::growth::{News, Pace, Unit};
use super::words::{about, count, percent, size};
use crate::judge::{Found, Plateau};
use crate::recording::Finding;

/// Further away is no danger that is worth a number.
const FAR_MINUTES: f64 = 14.0 * 24.0 * 60.0;

/// The memory that grows.
pub struct Subject<'a> {
    /// The code of its leak.
    pub code: &'static str,
    /// How a sentence begins: `host memory`, `memory of cuda:0 in torch`.
    pub name: &'a str,
    /// What is met when it goes on: `the limit of 8.00 GiB`.
    pub limit_name: Option<String>,
    /// How much that is.
    pub limit_bytes: Option<u64>,
    /// The number of the device.
    pub device: Option<u32>,
}

/// The finding.
pub fn says(at_ms: u64, news: &News, pace: Pace, subject: &Subject) -> Finding {
    let mut finding = match news {
        News::Leak { found, unit } => leak(at_ms, found, *unit, pace, subject),
        News::Rest { plateau, unit } => rest(at_ms, plateau, *unit, subject),
    };
    finding.figures.extend(subject.device.map(|device| ("device".to_owned(), f64::from(device))));
    finding
}

fn leak(at_ms: u64, found: &Found, unit: Unit, pace: Pace, subject: &Subject) -> Finding {
    let leak = &found.leak;
    let per = match unit {
        Unit::Step => "step",
        Unit::Minute => "minute",
    };
    let mut figures: Vec<(String, f64)> = vec![
        (format!("bytes_per_{per}"), leak.bytes_per_x),
        (format!("low_bytes_per_{per}"), leak.low_bytes_per_x),
        (format!("high_bytes_per_{per}"), leak.high_bytes_per_x),
        (format!("from_{per}"), leak.from_x),
        (format!("to_{per}"), leak.to_x),
        ("confidence".to_owned(), leak.confidence()),
        ("grown_bytes".to_owned(), leak.grown_bytes),
        ("is_early".to_owned(), f64::from(u8::from(found.is_early))),
    ];
    let mut text = format!(
        "{} grows by {} each {per}, and has grown by {} (confidence {})",
        subject.name,
        size(leak.bytes_per_x),
        size(leak.grown_bytes),
        // Never quite sure.
        percent(leak.confidence().min(0.99))
    );
    if let Some((forecast, limit_name)) = found.forecast.as_ref().zip(subject.limit_name.as_ref()) {
        let step_minutes = pace.step_ms().map(|ms| ms / 60_000.0);
        let minutes_left = match unit {
            Unit::Step => step_minutes.map(|minutes| forecast.left_x * minutes),
            Unit::Minute => Some(forecast.left_x),
        };
        let at_step = match unit {
            Unit::Step => Some(forecast.at_x),
            Unit::Minute => {
                pace.last_step().zip(step_minutes).map(|(step, minutes)| step as f64 + forecast.left_x / minutes)
            }
        };
        figures.push(("left_bytes".to_owned(), forecast.left_bytes));
        figures.extend(subject.limit_bytes.map(|bytes| ("limit_bytes".to_owned(), bytes as f64)));
        figures.extend(at_step.map(|step| ("limit_at_step".to_owned(), step)));
        figures.extend(minutes_left.map(|minutes| ("minutes_left".to_owned(), minutes)));
        text += &match (at_step, minutes_left) {
            (_, Some(minutes)) if minutes > FAR_MINUTES => format!("; at this rate {limit_name} is weeks away"),
            (Some(step), Some(minutes)) => {
                format!("; at this rate {limit_name} is reached at step {}, in {}", count(step), about(minutes))
            }
            (Some(step), None) => format!("; at this rate {limit_name} is reached at step {}", count(step)),
            (None, Some(minutes)) => format!("; at this rate {limit_name} is reached in {}", about(minutes)),
            (None, None) => String::new(),
        };
    }
    if found.is_early {
        text += "; it may still be warming up";
    }
    finding(at_ms, subject.code, text, figures.iter().map(|(name, value)| (name.as_str(), *value)))
}

fn rest(at_ms: u64, plateau: &Plateau, unit: Unit, subject: &Subject) -> Finding {
    let (since, figure) = match unit {
        Unit::Step => (format!("since step {}", count(plateau.since_x)), "since_step"),
        Unit::Minute => (format!("since minute {}", count(plateau.since_x)), "since_minute"),
    };
    let text = format!(
        "{} has been level at {} {since}: the growth that was seen before has ended",
        subject.name,
        size(plateau.high_bytes)
    );
    let figures = [(figure, plateau.since_x), ("low_bytes", plateau.low_bytes), ("high_bytes", plateau.high_bytes)];
    finding(at_ms, "plateau", text, figures)
}

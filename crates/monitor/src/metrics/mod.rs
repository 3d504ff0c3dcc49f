//! The latest figures of a job, for Prometheus.
//!
//! In: the job's frames. Out: the text exposition format, version 0.0.4: a `# HELP` and a `# TYPE` line for each figure, and its values; units are
//! bytes and seconds. A figure that is not known has no line. Not here: the network, and anything that names what the job is: neither its command nor
//! its environment.

mod figures;
mod latest;

use std::fmt::Write as _;

pub use latest::Latest;

/// What a scraper is told that it gets.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One figure, with all its values.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Labels and values.
    values: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// The text that a scraper gets.
pub fn text(latest: &Latest) -> String {
    let mut text = String::with_capacity(8 << 10);
    for metric in figures::metrics(latest).into_iter().filter(|metric| !metric.values.is_empty()) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind);
        for (labels, value) in &metric.values {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{}{labels} {}", metric.name, number(*value));
        }
    }
    text
}

/// A value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v => v.to_string(),
    }
}

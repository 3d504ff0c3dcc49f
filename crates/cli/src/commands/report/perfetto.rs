//! A recorded job in the JSON of Chrome's traces, which Perfetto reads too.
//!
//! In: what was gathered. Out: counters, judgements as instants, epochs and phases as slices; times are microseconds since the job began. Long
//! recordings are thinned, extremes kept, so that a viewer can open them.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::gather::Gathered;
use super::words;

/// Points in a trace: some 20 MB.
const MOST_POINTS: usize = 200_000;
/// One process in the viewer stands for the job.
const PID: u32 = 1;
/// The rows of slices.
const EPOCHS: u32 = 1;
const PHASES: u32 = 2;

/// Writes the trace.
pub fn write(gathered: &Gathered, out: &mut dyn Write) -> io::Result<()> {
    let summary = &gathered.summary;
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[", other(gathered))?;
    let name = |tid: u32, kind: &str, name: &str| json!({"ph": "M", "pid": PID, "tid": tid, "name": kind, "args": {"name": name}});
    write!(out, "\n{}", name(0, "process_name", &words::command(summary)))?;
    write!(out, ",\n{},\n{}", name(EPOCHS, "thread_name", "epochs"), name(PHASES, "thread_name", "phases"))?;
    let most = gathered.points_each(MOST_POINTS);
    for line in &gathered.lines {
        let name = format!("{}: {}", line.plot.title(), line.name);
        for (at_ms, value) in line.thin.points(most) {
            let event = json!({"ph": "C", "pid": PID, "name": name, "ts": micros(at_ms), "args": {"value": value}});
            write!(out, ",\n{event}")?;
        }
    }
    for span in &gathered.spans {
        let tid = if span.epoch { EPOCHS } else { PHASES };
        let dur = micros(span.to_ms).saturating_sub(micros(span.from_ms));
        let ts = micros(span.from_ms);
        write!(out, ",\n{}", json!({"ph": "X", "pid": PID, "tid": tid, "name": span.name, "ts": ts, "dur": dur}))?;
    }
    for finding in gathered.findings() {
        let args = json!({"text": finding.text, "figures": finding.figures});
        let (ts, name) = (micros(finding.at_ms), &finding.code);
        write!(out, ",\n{}", json!({"ph": "i", "s": "g", "pid": PID, "tid": 0, "name": name, "ts": ts, "args": args}))?;
    }
    let (_, word, rest) = words::headline(summary);
    let (ts, args) = (micros(summary.duration_ms), json!({"text": format!("{word} {rest}")}));
    write!(out, ",\n{}", json!({"ph": "i", "s": "g", "pid": PID, "tid": 0, "name": "end", "ts": ts, "args": args}))?;
    writeln!(out, "\n]}}")
}

fn other(gathered: &Gathered) -> Value {
    let summary = &gathered.summary;
    json!({"command": words::command(summary), "started": summary.started, "brimful": env!("CARGO_PKG_VERSION")})
}

fn micros(at_ms: u64) -> u64 {
    at_ms.saturating_mul(1000)
}

//! `brimful data bench`: how fast, with how much memory. In: a source, settings. Out: text or JSON with `"schema": 1`. Wall time is
//! what this machine does while it does other things too; CPU time and peak memory say more.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use brimful_core::bytes::human;
use brimful_data::loader::Loader;
use brimful_monitor::readings::process::peak_rss_bytes;
use serde_json::json;

use super::args::BenchArgs;
use super::bad_rows;
use super::progress::Progress;
use crate::args::Format;
use crate::output::Output;

/// Reads and counts.
pub fn run(args: &BenchArgs, output: &Output) -> anyhow::Result<()> {
    let own_bytes = peak_rss_bytes(Path::new("/"), std::process::id());
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let source = args.source.open()?;
    let opened = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let layout = args.source.layout(&*source, false)?;
    let loader = Loader::new(source, layout, args.source.options(&args.order)?)?;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut progress = Progress::new(loader.plan().epoch_rows * args.epochs, args.format == Format::Json);
    let mut rows = 0;
    for epoch in 0..args.epochs {
        let mut batches = loader.epoch(epoch)?;
        while let Some(batch) = batches.next(&|| false)? {
            rows += batch.rows().len() as u64;
            progress.at(rows);
        }
    }
    drop(progress);
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let peak_bytes = peak_rss_bytes(Path::new("/"), std::process::id());
    let figures = loader.figures();
    let budget_bytes = loader.plan().memory_bytes;
    if args.format == Format::Json {
        let value = json!({
            "schema": 1, "rows": rows, "epochs": args.epochs, "opening_seconds": opened.0, "opening_cpu_seconds": opened.1,
            "seconds": seconds, "cpu_seconds": cpu, "waited_seconds": figures.waited_us as f64 / 1e6,
            "budget_bytes": budget_bytes, "ledger_peak_bytes": figures.ledger.peak_bytes,
            "process_peak_bytes": peak_bytes, "process_before_bytes": own_bytes, "bad_rows": figures.bad_rows,
        });
        return output.write(&(serde_json::to_string_pretty(&value)? + "\n"));
    }
    let mut text = String::new();
    let speed = rows as f64 / seconds.max(1e-9);
    let _ = writeln!(text, "{rows} rows in {seconds:.2} s: {speed:.0} rows/s, {cpu:.2} s of CPU");
    let _ = writeln!(text, "opening the files took {:.2} s, {:.2} s of CPU", opened.0, opened.1);
    let held = human(figures.ledger.peak_bytes);
    let _ = write!(text, "memory: {held} of {} by the ledger", human(budget_bytes));
    if let (Some(peak), Some(own)) = (peak_bytes, own_bytes) {
        let _ = write!(text, "; the process held {} at most, {} before", human(peak), human(own));
    }
    text.push('\n');
    text.push_str(&bad_rows(&figures, "were counted"));
    output.write(&text)
}

/// CPU time of all threads of this process so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

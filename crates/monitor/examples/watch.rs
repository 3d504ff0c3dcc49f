//! Watches a process until it ends: `cargo run -p brimful-monitor --example watch -- PID RECORDING [LIMIT_MB]`.
//!
//! In: a process. Out: a line every five seconds, what is wrong once, and a recording, which is read back at the end. What `brimful watch` does,
//! without its screen.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use brimful_monitor::judge::{Rule, Series, Watch, strain};
use brimful_monitor::recording::{End, Frame, Holders, Line, Reader, Start, Writer};
use brimful_monitor::sample::Sample;
use brimful_monitor::sampler::Sampler;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().ok_or("which process?")?.parse()?;
    let path = arguments.next().ok_or("where to?")?;
    let limit_bytes = arguments.next().and_then(|mb| mb.parse::<u64>().ok()).map(|mb| mb * 1_000_000);
    let mut sampler = Sampler::new(Path::new("/"), pid)?;
    let mut writer = Writer::new(File::create(&path)?, &Start { pid, ..Start::default() })?;
    let (begin, mut series, mut watch) = (Instant::now(), Series::default(), Watch::new(Rule::MINUTES));
    let mut ten_seconds_ago = Sample::default();
    while !sampler.has_ended() {
        std::thread::sleep(Duration::from_millis(100));
        let at_ms = u64::try_from(begin.elapsed().as_millis())?;
        let sample = sampler.sample(at_ms);
        writer.push(&Frame::Sample(sample));
        series.push(at_ms as f64 / 60_000.0, sample.rss_bytes.unwrap_or(0));
        if at_ms % 5000 < 100 {
            let cores = sample.since(&ten_seconds_ago).cpu_cores.unwrap_or(0.0);
            println!(
                "{:6.1} s {:8.1} MB, {cores:.2} cores",
                at_ms as f64 / 1e3,
                sample.rss_bytes.unwrap_or(0) as f64 / 1e6
            );
            if let Some(strain) = strain(&ten_seconds_ago, &sample) {
                println!("{strain:?}");
            }
            writer.push(&Frame::Holders(Holders::of(at_ms, sampler.members())));
            ten_seconds_ago = sample;
        }
        if let Some(found) = watch.look(&series, limit_bytes.or(sample.limit_bytes())) {
            let text = format!("{:.1} s: {found:?}", at_ms as f64 / 1e3);
            println!("{text}");
            writer.push(&Frame::Line(Line { at_ms, text }));
        }
        writer.tick(at_ms)?;
    }
    let at_ms = u64::try_from(begin.elapsed().as_millis())?;
    writer.push(&Frame::End(End { at_ms, ..End::default() }));
    writer.finish()?;
    let bytes = fs::read(&path)?;
    let mut reader = Reader::new(&bytes)?;
    let peak = reader
        .by_ref()
        .filter_map(|frame| if let Frame::Sample(sample) = frame { sample.peak_rss_bytes } else { None })
        .max();
    println!("{:?}, peak {:.1} MB", reader.good(), peak.unwrap_or(0) as f64 / 1e6);
    Ok(())
}

//! Watches a process until it ends: `cargo run -p brimful-monitor --example watch -- PID RECORDING [LIMIT_MB] [SOCKET]`.
//!
//! In: a process, this machine's GPUs, and a socket that the process may send steps to. Out: a line every five seconds, what is wrong once, and a
//! recording, which is read back at the end. What `brimful watch` does, without its screen.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use brimful_monitor::agent::{Listener, Ranks, monotonic_ns};
use brimful_monitor::findings::Judge;
use brimful_monitor::gpu::GpuReader;
use brimful_monitor::recording::{End, Frame, Holders, Reader, Start, Writer};
use brimful_monitor::sample::Sample;
use brimful_monitor::sampler::Sampler;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().ok_or("which process?")?.parse()?;
    let path = arguments.next().ok_or("where to?")?;
    let limit_bytes = arguments.next().and_then(|mb| mb.parse::<u64>().ok()).map(|mb| mb * 1_000_000);
    let listener = arguments.next().map(|path| Listener::at(Path::new(&path))).transpose()?;
    let mut sampler = Sampler::new(Path::new("/"), pid)?;
    let mut gpus = GpuReader::open();
    println!("GPUs: {}", gpus.reason().unwrap_or("some"));
    let mut writer = Writer::new(File::create(&path)?, &Start { pid, ..Start::default() })?;
    let (began_ns, mut judge, mut ranks) = (monotonic_ns(), Judge::new(limit_bytes), Ranks::default());
    let (mut before, mut steps) = (Sample::default(), 0);
    while !sampler.has_ended() {
        std::thread::sleep(Duration::from_millis(100));
        let at_ms = (monotonic_ns() - began_ns) / 1_000_000;
        let sample = sampler.sample(at_ms);
        let mut frames = vec![Frame::Sample(sample)];
        let pids: Vec<u32> = sampler.members().iter().map(|member| member.id.pid).collect();
        frames.extend(gpus.sample(at_ms, &pids).into_iter().map(Frame::Gpu));
        if let Some(listener) = &listener {
            listener.drain(began_ns, |message| frames.extend(ranks.take(&message)));
            judge.set_phase(ranks.phase());
        }
        if at_ms % 5000 < 100 {
            let cores = sample.since(&before).cpu_cores.unwrap_or(0.0);
            let megabytes = sample.rss_bytes.unwrap_or(0) as f64 / 1e6;
            println!("{:6.1} s {megabytes:8.1} MB, {cores:.2} cores, step {steps}", at_ms as f64 / 1e3);
            frames.iter().filter(|frame| matches!(frame, Frame::Gpu(_))).for_each(|frame| println!("{frame:?}"));
            frames.push(Frame::Holders(Holders::of(at_ms, sampler.members())));
            before = sample;
        }
        for frame in &frames {
            writer.push(frame);
            if let Frame::Step(mark) = frame {
                steps = mark.step;
            }
            for finding in judge.take(frame) {
                println!("{:6.1} s {}: {}", finding.at_ms as f64 / 1e3, finding.code, finding.text);
                writer.push(&Frame::Finding(finding));
            }
        }
        writer.tick(at_ms)?;
    }
    let at_ms = (monotonic_ns() - began_ns) / 1_000_000;
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

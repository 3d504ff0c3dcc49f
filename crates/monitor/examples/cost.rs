//! What watching costs on this machine: `cargo run --release -p brimful-monitor --example cost [PROCESSES]`.
//!
//! In: a tree of so many sleeping processes, started here. Out: the time of one sample, on average and by what it reads, the share of a core at
//! 10 Hz, the bytes of an hour's recording, and the resident memory of this program.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use brimful_monitor::readings::process::{rss_bytes, stat, ticks_as_ms};
use brimful_monitor::readings::{disk, memory, pressure, pss, tree};
use brimful_monitor::recording::{Frame, Start, Writer};
use brimful_monitor::sample::Sample;
use brimful_monitor::sampler::Sampler;

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(20);
    let mut children: Vec<Child> = (1..count).filter_map(|_| Command::new("sleep").arg("600").spawn().ok()).collect();
    let (root, pid) = (Path::new("/"), std::process::id());
    println!("scan of all processes    {:8.1} µs", mean_us(|| tree::scan(root, &[], |_| false)));
    println!("stat of one              {:8.1} µs", mean_us(|| stat(root, pid)));
    println!("statm of one             {:8.1} µs", mean_us(|| rss_bytes(root, pid)));
    println!("smaps_rollup of one      {:8.1} µs", mean_us(|| pss::pss_bytes(root, pid)));
    println!("io of one                {:8.1} µs", mean_us(|| disk::disk(root, pid)));
    println!("meminfo                  {:8.1} µs", mean_us(|| memory::machine_memory(root)));
    println!("pressure                 {:8.1} µs", mean_us(|| pressure::machine_pressure(root)));
    let Ok(mut sampler) = Sampler::new(root, pid) else { return };
    let Ok(mut writer) = Writer::new(Vec::new(), &Start::default()) else { return };
    let (begin, before_ms) = (Instant::now(), cpu_ms(root, pid));
    let (mut busy, mut samples) = (Duration::ZERO, 0_u32);
    // What a minute at ten a second reads, in a tenth of the time.
    for tick in 0..600_u64 {
        let now = Instant::now();
        writer.push(&Frame::Sample(sampler.sample(tick * 100)));
        let _ = writer.tick(tick * 100);
        busy += now.elapsed();
        samples += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    let used_ms = cpu_ms(root, pid).saturating_sub(before_ms);
    let us = busy.as_secs_f64() * 1e6 / f64::from(samples);
    println!(
        "one sample, {count} processes {us:8.1} µs on average: {:.2} % of a core at 10 Hz by the wall",
        us * 10.0 / 1e4
    );
    println!("by the kernel's count    {:8.2} % of a core at 10 Hz", used_ms as f64 / 60_000.0 * 100.0);
    let bytes = writer.finish().map_or(0, |bytes| bytes.len());
    println!("an hour's recording      {:8.2} MB", bytes as f64 * 60.0 / 1e6);
    println!("the busiest hour's       {:8.2} MB", busiest_hour_bytes() as f64 / 1e6);
    println!("resident                 {:8.1} MB", rss_bytes(root, pid).known().unwrap_or(0) as f64 / 1e6);
    println!("took                     {:8.1} s", begin.elapsed().as_secs_f64());
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn mean_us<T>(read: impl Fn() -> T) -> f64 {
    let begin = Instant::now();
    (0..200).for_each(|_| drop(black_box(read())));
    begin.elapsed().as_secs_f64() * 1e6 / 200.0
}

/// An hour of a job in which every figure is another one, each time that it is read.
fn busiest_hour_bytes() -> usize {
    let Ok(mut writer) = Writer::new(Vec::new(), &Start::default()) else { return 0 };
    let (mut row, mut random) = ([Some(8_u64 << 30); Sample::NAMES.len()], 1_u64);
    for tick in 0..36_000_u64 {
        for (index, figure) in row.iter_mut().enumerate() {
            let at_10_hz =
                matches!(Sample::NAMES[index], "rss_bytes" | "anon_bytes" | "peak_rss_bytes" | "cgroup_used_bytes");
            let each_10_s = matches!(Sample::NAMES[index], "pss_bytes" | "shared_bytes" | "open_file_count");
            if at_10_hz || tick.is_multiple_of(if each_10_s { 100 } else { 10 }) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Up to 100 MB up or down, in pages.
                *figure =
                    figure.map(|bytes| bytes.wrapping_add((random >> 33) % 25_000 * 4096).wrapping_sub(12_500 * 4096));
            }
        }
        writer.push(&Frame::Sample(Sample::from_row(tick * 100, row)));
        let _ = writer.tick(tick * 100);
    }
    writer.finish().map_or(0, |bytes| bytes.len())
}

fn cpu_ms(root: &Path, pid: u32) -> u64 {
    stat(root, pid).known().map_or(0, |stat| ticks_as_ms(stat.cpu_ticks))
}

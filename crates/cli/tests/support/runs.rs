//! Jobs that never ran, as the frames that would have been made of them: for tests of the live screen, and to look at it.

use std::collections::BTreeMap;

use brimful_core::bytes::{GIB, MIB};
use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{Finding, Frame, FrameworkMemory, Start, StepMark};
use brimful_monitor::sample::Sample;

/// Their names.
pub const NAMES: [&str; 4] = ["calm", "leak", "gpus", "none"];

/// All frames of one of them.
pub fn frames(name: &str) -> Vec<Frame> {
    match name {
        "calm" => job(2 * 60 + 30, &Kind { leaks: false, gpu_count: 0 }),
        "leak" => job(11 * 60, &Kind { leaks: true, gpu_count: 0 }),
        "gpus" => job(8 * 60, &Kind { leaks: false, gpu_count: 2 }),
        _ => vec![start("python -c pass")],
    }
}

/// What a job prints.
pub fn output(name: &str) -> Vec<u8> {
    let mut text = String::new();
    if name != "none" {
        text.push_str("\x1b[1mTraining\x1b[0m on 50,000 images, 391 batches an epoch\r\n");
        for epoch in 1..=4 {
            let bar = "━".repeat(20);
            let loss = 2.1 / f64::from(epoch);
            text.push_str(&format!(
                "Epoch {epoch}/20\r\n\x1b[32m{bar}\x1b[0m 391/391 48s 123ms/step - loss: {loss:.4}\r\n"
            ));
        }
        text.push_str("Epoch 5/20\r\n\x1b[33m━━━━━━━━\x1b[0m");
    }
    text.into_bytes()
}

struct Kind {
    leaks: bool,
    gpu_count: u32,
}

fn start(command: &str) -> Frame {
    let command = command.split(' ').map(str::to_owned).collect();
    Frame::Start(Start { command, ..Start::default() })
}

/// Up and down between nothing and one.
fn wave(tick: u64, period: u64) -> f64 {
    (tick as f64 * std::f64::consts::TAU / period as f64).sin() / 2.0 + 0.5
}

fn job(seconds: u64, kind: &Kind) -> Vec<Frame> {
    let mut frames = vec![start("python train.py --model resnet50 --batch-size 128 --data /data/cifar10 --epochs 20")];
    for tick in 0..=seconds * 10 {
        let at_ms = tick * 100;
        frames.push(Frame::Sample(sample(tick, at_ms, kind)));
        for index in 0..kind.gpu_count {
            frames.push(Frame::Gpu(gpu(tick, at_ms, index)));
            if index == 0 && tick > 150 {
                frames.push(Frame::Framework(torch(tick, at_ms)));
            }
        }
        if tick > 100 {
            frames.push(Frame::Step(step(tick, at_ms)));
        }
        if kind.leaks && tick == 4000 {
            frames.push(leak(at_ms));
        }
        if kind.leaks && tick == 6000 {
            let text = "Memory is at 80 % of its limit of 8.0 GiB.".to_owned();
            frames.push(Frame::Finding(Finding { at_ms, code: "near_limit".to_owned(), text, ..Finding::default() }));
        }
        if kind.gpu_count > 0 && tick == 2000 {
            let text =
                "The job waits for data in 41 % of the time: GPU 0 is idle meanwhile. More loader workers would help.";
            let code = "gpu_waits_for_data".to_owned();
            frames.push(Frame::Finding(Finding { at_ms, code, text: text.to_owned(), ..Finding::default() }));
        }
    }
    frames
}

fn sample(tick: u64, at_ms: u64, kind: &Kind) -> Sample {
    let warm = (tick as f64 / 150.0).min(1.0) * 2.6 * GIB as f64;
    let breathing = wave(tick, 300) * 300.0 * MIB as f64;
    let leaked = if kind.leaks { tick.saturating_sub(100) as f64 * 0.8 * 0.78 * MIB as f64 } else { 0.0 };
    let rss_bytes = (200.0 * MIB as f64 + warm + breathing + leaked) as u64;
    Sample {
        at_ms,
        rss_bytes: Some(rss_bytes),
        peak_rss_bytes: Some(if tick >= 700 { rss_bytes.max(7 * GIB / 2) } else { rss_bytes }),
        process_count: Some(5),
        cpu_ms: Some((at_ms as f64 * 1.9 + wave(tick, 170) * 4000.0) as u64),
        disk_read_bytes: Some(at_ms * 12_000),
        disk_written_bytes: Some(at_ms / 60_000 * 90_000_000),
        cgroup_limit_bytes: Some(8 * GIB),
        machine_total_bytes: Some(64 * GIB),
        machine_available_bytes: Some(50 * GIB),
        shm_size_bytes: Some(2 * GIB),
        shm_used_bytes: Some(410 * MIB),
        namespace_received_bytes: Some(at_ms * 900),
        namespace_sent_bytes: Some(at_ms * 15),
        ..Sample::default()
    }
}

fn gpu(tick: u64, at_ms: u64, index: u32) -> GpuSample {
    let full = if index == 0 { 14.4 } else { 6.0 };
    let used = ((tick as f64 / 200.0).min(1.0) * full * GIB as f64) as u64 + 300 * MIB;
    GpuSample {
        at_ms,
        index,
        total_bytes: Some(15 * GIB),
        used_bytes: Some(used),
        job_bytes: Some(used),
        others_bytes: (index == 1).then_some(2 * GIB),
        busy_percent: Some((40.0 + wave(tick, 90) * 55.0) as u64),
        temperature_c: Some(61 + u64::from(index) * 4),
        power_mw: Some(148_000 + tick % 40 * 1000),
    }
}

fn torch(tick: u64, at_ms: u64) -> FrameworkMemory {
    FrameworkMemory {
        at_ms,
        pid: 4711,
        framework: "torch".to_owned(),
        device: "cuda:0".to_owned(),
        allocated_bytes: Some(9 * GIB + (wave(tick, 7) * 3.0 * GIB as f64) as u64),
        reserved_bytes: Some(14 * GIB),
        peak_allocated_bytes: Some(12 * GIB + 100 * MIB),
        limit_bytes: Some(15 * GIB),
    }
}

fn step(tick: u64, at_ms: u64) -> StepMark {
    let step = (tick - 100) * 8 / 10;
    let loss = Some(2.3 / (1.0 + step as f64 / 400.0));
    StepMark { at_ms, step, epoch: Some(1 + step / 391), loss, waited_us: Some(at_ms * 120) }
}

fn leak(at_ms: u64) -> Frame {
    let text = "Memory grows by 0.8 MB each step and does not stop; at this rate the limit of 8.0 GiB is reached at step 7,800, \
                in about 10 minutes.";
    let figures = BTreeMap::from([("bytes_per_step".to_owned(), 0.78 * MIB as f64)]);
    Frame::Finding(Finding { at_ms, code: "leak_host".to_owned(), text: text.to_owned(), figures })
}

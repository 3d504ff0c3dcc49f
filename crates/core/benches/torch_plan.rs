//! How long everything after a recording takes: reading it, and a whole plan with remedies and the largest batch.
//!
//! In: a made-up network whose two recorded steps have some 20 000 events. Out: milliseconds, the median of several rounds.
//! The promise is 100 ms for a plan that fits, 300 ms with every remedy and the cheapest set.

#![allow(clippy::print_stdout)]

#[path = "../tests/support/recorded.rs"]
mod recorded;

use std::time::Instant;

use brimful_core::allocator::torch_caching::{Options, TorchCaching};
use brimful_core::allocator::{Placement, place};
use brimful_core::capture::Capture;
use brimful_core::plan::torch::{Request, plan};
use recorded::{Network, Op};

const ROUNDS: usize = 15;

fn median_ms(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn rows_of(network: &Network, batch: i64) -> (Vec<String>, Vec<u8>) {
    let (strings, values) = network.written(batch);
    (strings, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn replayed(capture: &Capture) -> Placement {
    place(&capture.recording.trace(16), 16, &mut TorchCaching::new(Options::default()))
}

fn main() {
    let sizes = [4, 8, 1, 4, 4, 2, 16, 16, 4, 4, 1, 3];
    let op = |(place, size): (usize, &i64)| Op {
        per_sample: size * 65_536,
        fixed: 0,
        saved: place % 3 != 1,
        weight: if place % 2 == 0 { size * 262_144 } else { 0 },
        scratch: if place % 5 == 0 { 8 << 20 } else { 0 },
        op: place,
    };
    let block: Vec<Op> = (0..60).zip(sizes.iter().cycle()).map(op).collect();
    let network =
        Network { blocks: vec![block; 24], slots: 2, foreach: true, keeps_gradients: false, passes: 1, trains: true };
    let capture = network.captured(16);
    let rows = capture.recording.events.len();
    println!("{rows} events; {} buffers", capture.recording.buffers.len());
    let (strings, bytes_a) = rows_of(&network, 16);
    let bytes_b = rows_of(&network, 32).1;
    let read = || Capture::new(strings.clone(), 16, &bytes_a, 32, Some(&bytes_b)).expect("a good recording");
    println!("read and pair          {:>7.1} ms", median_ms(|| drop(read())));
    println!(
        "one replay             {:>7.1} ms",
        median_ms(|| {
            replayed(&capture);
        })
    );
    for (device, batch) in [("h200", 16), ("t4", 16), ("t4", 64), ("rtx-3090", 48)] {
        let text = format!(
            r#"{{"batch": {batch}, "device": "{device}", "optimizer": "adamw", "modules": {}}}"#,
            network.modules()
        );
        let request = Request::from_json(&text).expect("a good request");
        let report = plan(&capture, &request).expect("a plan");
        let ms = median_ms(|| drop(plan(&capture, &request)));
        let cheapest = report.cheapest_fit.map_or(Vec::new(), |plan| plan.remedies);
        println!(
            "{device:<9} batch {batch:<6} {ms:>7.1} ms   {:?}, needs {:.1} GiB, largest batch {:?}, {} remedies, cheapest {cheapest:?}",
            report.verdict,
            report.peak.device_bytes as f64 / (1u64 << 30) as f64,
            report.max_batch,
            report.remedies.len()
        );
    }
}

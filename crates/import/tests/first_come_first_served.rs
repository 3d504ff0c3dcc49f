//! The order of a GPU's kernels, compared with what TensorFlow's executor did in that order.
//!
//! In: `fixtures/measured/inline_tensorflow_cpu.jsonl`, steps that ran in their caller's thread on a CPU (`tools/measure_inline.py`). Checked:
//! their peaks are predicted, and better than by the order of a CPU's threads. Not checked: the kernels of a GPU.

#![allow(clippy::print_stdout)]

use std::path::Path;

use brimful_core::allocator::bfc::{Bfc, BfcOptions};
use brimful_core::allocator::place;
use brimful_core::model::{Loss, OptimizerConfig};
use brimful_core::step::executor::{Execution, Prepared};
use brimful_core::step::tensorflow::Network;
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{Options, read};
use serde_json::Value;

/// Peaks of three steps, the median of five orders: first come, first served, and on two threads.
fn predicted(fixtures: &Path, row: &Value) -> [f64; 2] {
    let text = |key: &str| row[key].as_str().unwrap();
    let bytes = std::fs::read(fixtures.join(format!("models/{}.json", text("model")))).unwrap();
    let model = read(&bytes).and_then(|document| document.model(&Options::default())).unwrap();
    let job = Job {
        batch: row["batch"].as_u64().unwrap(),
        optimizer: OptimizerConfig::named(text("opt")),
        losses: vec![Loss::named(text("loss"))],
        metrics: Vec::new(),
        mode: Mode::Training,
        processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
        micro_batches: 1,
    };
    let (graph, _) = Network::new(&model, &job).with_update(&model, &job);
    let prepared = Prepared::new(&graph, Some(job.batch), Vec::new());
    // The median of some orders, as a plan has it.
    let peak = |prepared: &Prepared, threads| {
        let mut peaks = [0, 1, 2, 3, 4].map(|seed| {
            let trace = prepared.run(Execution { threads, steps: 3, from_start: true, seed, busy: false });
            let mut pool = Bfc::new(BfcOptions::tensorflow_cpu(u64::MAX >> 8));
            place(&trace, job.batch, &mut pool).peak_allocated_bytes
        });
        peaks.sort_unstable();
        peaks[2] as f64
    };
    let two_threads = peak(&prepared, 2);
    [peak(&prepared.first_come_first_served(), 1), two_threads]
}

#[test]
fn steps_of_tensorflow_in_this_order_are_predicted() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let measured = std::fs::read_to_string(fixtures.join("measured/inline_tensorflow_cpu.jsonl")).unwrap();
    let rows: Vec<Value> = measured.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut errors = [Vec::new(), Vec::new()];
    for row in &rows {
        for (errors, peak) in errors.iter_mut().zip(predicted(&fixtures, row)) {
            errors.push(peak / row["peak_bytes"].as_f64().unwrap() - 1.0);
        }
    }
    let report: Vec<String> = rows
        .iter()
        .zip(errors[0].iter().zip(&errors[1]))
        .map(|(row, (own, threads))| format!("{} {:+.1} %, {:+.1} %", row["model"], own * 100.0, threads * 100.0))
        .collect();
    let report = report.join("\n");
    let [own, threads] = errors.map(|mut errors| {
        errors.iter_mut().for_each(|error| *error = error.abs());
        errors.sort_by(f64::total_cmp);
        (errors[errors.len() / 2], errors[errors.len() * 9 / 10])
    });
    println!("median and ninth of ten: {own:?}, on two threads {threads:?}\n{report}");
    assert!(own.0 <= 0.08 && own.1 <= 0.15, "{own:?}\n{report}");
    assert!(threads.0 > 2.0 * own.0, "{threads:?}\n{report}");
}

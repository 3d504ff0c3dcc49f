//! Any text as a model's JSON, read and planned: an answer or one sentence, never a panic, a hang or much memory.

#![no_main]

use brimful_core::model::OptimizerConfig;
use brimful_core::predict::{Orders, Runs};
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{Options, read};
use libfuzzer_sys::fuzz_target;

/// Larger models are imported but not simulated: a run would take seconds, not break.
const MAX_OPS: usize = 500;

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = read(bytes) else { return };
    let mixed = Options { policy: Some("mixed_bfloat16".to_owned()), ..Options::default() };
    for options in [Options::default(), mixed] {
        let Ok(model) = document.model(&options) else { continue };
        if model.ops.len() > MAX_OPS {
            continue;
        }
        for processor in [Processor::Cpu { threads: 2, cache_bytes: 320 << 20 }, Processor::Gpu] {
            let job = Job {
                batch: 3,
                optimizer: OptimizerConfig::named("adam"),
                losses: model.compiled.losses.clone(),
                metrics: model.compiled.metrics.clone(),
                mode: Mode::Training,
                processor,
                micro_batches: 1,
            };
            let _ = Runs::new(&model, &job, Orders::One).predict(3);
        }
    }
});

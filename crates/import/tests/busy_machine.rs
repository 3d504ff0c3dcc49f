//! Orders of a machine that has other work to do, beside those of one that has not.
//!
//! In: `seed_lstm` of the measured models. Checked: what waits in the backward loop for a thread that was put off is bounded by what the loop
//! lets run at once, and by what it frees meanwhile; other models ask for buffers of no other sizes.

use std::collections::BTreeMap;
use std::path::Path;

use brimful_core::model::{Loss, OptimizerConfig};
use brimful_core::step::executor::{Execution, Prepared};
use brimful_core::step::tensorflow::Network;
use brimful_core::step::{Job, Mode, Processor};
use brimful_core::trace::Event;
use brimful_import::{Options, read};

/// How often a step of a model asks for buffers of each size.
fn requests(model: &str, batch: u64, busy: bool) -> BTreeMap<u64, u64> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/models/keras/{model}.json"));
    let model = read(&std::fs::read(file).unwrap()).and_then(|document| document.model(&Options::default())).unwrap();
    let job = Job {
        batch,
        optimizer: OptimizerConfig::named("sgd"),
        losses: vec![Loss::named("binary_crossentropy")],
        metrics: Vec::new(),
        mode: Mode::Training,
        processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
        micro_batches: 1,
    };
    let (graph, _) = Network::new(&model, &job).with_update(&model, &job);
    let execution = Execution { threads: 2, steps: 1, from_start: false, seed: 7, busy };
    let trace = Prepared::new(&graph, Some(batch), Vec::new()).run(execution);
    let mut requests = BTreeMap::new();
    for event in &trace.events {
        if let Event::Alloc { size, .. } = event {
            *requests.entry(size.at(batch)).or_default() += 1;
        }
    }
    requests
}

/// Gradients of the recurrent kernel of `seed_lstm` (64 × 256) that wait at this batch.
fn waiting(batch: u64) -> u64 {
    let bytes = 64 * 256 * 4;
    requests("seed_lstm", batch, true)[&bytes] - requests("seed_lstm", batch, false)[&bytes]
}

#[test]
fn gradients_of_a_loop_wait_for_a_thread_that_was_put_off() {
    // As many as the loop lets run, less a little that a step of one sample frees.
    assert_eq!(waiting(1), 30);
    let more: Vec<u64> = [1, 16, 64, 128].into_iter().map(waiting).collect();
    assert!(more.is_sorted_by(|a, b| a > b), "{more:?}: with more samples more is freed");
    // What a step of so many samples kept is more than its gradients.
    assert_eq!(waiting(512), 0);
}

#[test]
fn without_a_loop_only_the_order_is_another() {
    for model in ["seed_cnn28", "transformer", "unet"] {
        let sizes = |busy| requests(model, 16, busy).into_keys().collect::<Vec<_>>();
        assert_eq!(sizes(true), sizes(false), "{model}");
    }
}

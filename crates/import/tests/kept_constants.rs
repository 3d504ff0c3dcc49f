//! What TensorFlow computes once, when a graph is compiled, and keeps from step to step.
//!
//! In: models of `fixtures/`. Checked: which constants of the batch's size their compiled graphs have, as TensorFlow's log of the first step lists them
//! (`Unknown (from Proto)`). Not checked: numbers of a few bytes.

use std::path::Path;

use brimful_core::model::{Loss, OptimizerConfig};
use brimful_core::step::tensorflow::Network;
use brimful_core::step::{Job, Mode, Processor};
use brimful_core::trace::Role;
use brimful_import::{Options, read};

/// The kept constants of a model that depend on the batch: bytes at this batch, sorted.
fn kept(file: &str, batch: u64, loss: &str) -> Vec<u64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(file);
    let model = read(&std::fs::read(path).unwrap()).and_then(|document| document.model(&Options::default())).unwrap();
    let job = Job {
        batch,
        optimizer: OptimizerConfig::named("adam"),
        losses: vec![Loss::named(loss)],
        metrics: Vec::new(),
        mode: Mode::Training,
        processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
        micro_batches: 1,
    };
    let (graph, _) = Network::new(&model, &job).with_update(&model, &job);
    let kept = graph.variables.iter().filter(|kept| kept.role == Role::Temporary && kept.shape.batched);
    let mut bytes: Vec<u64> = kept.map(|kept| kept.shape.size(kept.dtype).at(batch)).collect();
    bytes.sort_unstable();
    bytes
}

#[test]
fn the_gradient_of_binary_cross_entropy_begins_with_three_constants() {
    // Zeros, a part of the batch, and the same less than zero: the gradient of what is subtracted.
    assert_eq!(kept("keras/seed_mlp128.json", 1024, "binary_crossentropy"), [4096; 3]);
    assert_eq!(kept("keras_measured/volume_autoencoder.keras", 8, "binary_crossentropy"), [1 << 20; 3]);
    // Above 10 MiB they are computed in each step: what is left are the zeros, which another part of TensorFlow makes.
    let larger = kept("keras_measured/volume_autoencoder.keras", 88, "binary_crossentropy");
    assert_eq!(larger.iter().filter(|&&bytes| bytes == 11 << 20).count(), 1, "{larger:?}");
}

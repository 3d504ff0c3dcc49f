//! Parts of samples that were folded into the batch take as much as samples of their own.
//!
//! In: `fixtures/models/keras_extra`, the same layer on six parts of each sample (`folded_…`) and on samples (`unfolded_…`). Checked: one at some batch
//! needs what the other one needs at six times that batch.

use std::path::Path;

use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::plan::keras::{Choices, plan};
use brimful_core::plan::{ModelChange, Place};
use brimful_import::read;

/// The parts of a sample, as `tools/keras_fixtures/folded.py` has them.
const PARTS: u64 = 6;

fn floor_bytes(name: &str, batch: u64, precision: &str) -> u64 {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/models/keras_extra/{name}.json"));
    let document = read(&std::fs::read(file).unwrap()).unwrap();
    let choices = Choices {
        batch: Some(batch),
        optimizer: Some("sgd".to_owned()),
        loss: Some("mean_squared_error".to_owned()),
        change: ModelChange { policy: Some(precision.to_owned()), ..ModelChange::default() },
        ..Choices::default()
    };
    let place = Place::of(Device::find("cpu").unwrap().clone(), Framework::TensorFlow);
    let report = plan(&document, document.compiled().clone(), document.policy(), &choices, place).unwrap();
    assert!(report.notes.iter().all(|note| note.code == "no_limit"), "{name}: {:?}", report.notes);
    report.peak.floor_bytes
}

#[test]
fn a_part_of_a_sample_takes_what_a_sample_takes() {
    for layer in ["lstm", "gru", "dropped_lstm", "heads", "dropped_heads", "sums", "groups"] {
        for precision in ["float32", "mixed_bfloat16"] {
            let folded = floor_bytes(&format!("folded_{layer}"), 40, precision) as f64;
            let unfolded = floor_bytes(&format!("unfolded_{layer}"), 40 * PARTS, precision) as f64;
            // One node more, and orders are drawn differently.
            assert!((folded / unfolded - 1.0).abs() < 0.15, "{layer}, {precision}: {folded} and {unfolded}");
        }
    }
}

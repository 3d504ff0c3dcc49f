//! Models in which every sample of a batch meets every other one, against what TensorFlow needed for them.
//!
//! In: `fixtures/models/keras_pairs`. Checked: peaks at a batch, the note that says what they stand for, and that no larger batch is proposed.

use std::path::Path;

use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::plan::Place;
use brimful_core::plan::keras::{Choices, plan};
use brimful_core::report::{Report, SameResult, Verdict};
use brimful_import::{Document, read};
use serde_json::Value;

const GIB: u64 = 1 << 30;

fn document(name: &str) -> Document {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/models/keras_pairs/{name}"));
    read(&std::fs::read(file).unwrap()).unwrap()
}

/// A plan as it was measured, on a CPU or on another device.
fn planned(name: &str, batch: u64, device: &str, limit_bytes: u64) -> Report {
    let document = document(&format!("{name}.json"));
    let choices = Choices {
        batch: Some(batch),
        optimizer: Some("sgd".to_owned()),
        loss: Some("mean_squared_error".to_owned()),
        ..Choices::default()
    };
    let mut place = Place::of(Device::find(device).unwrap().clone(), Framework::TensorFlow);
    place.hold_to(Some(limit_bytes)).unwrap();
    plan(&document, document.compiled().clone(), document.policy(), &choices, place).unwrap()
}

#[test]
fn peaks_are_those_of_real_steps() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/keras_pairs/measured.json");
    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for row in rows {
        let (name, batch) = (row["model"].as_str().unwrap(), row["batch"].as_u64().unwrap());
        let measured = row["peak_bytes"].as_f64().unwrap();
        let report = planned(name, batch, "cpu", 4 * GIB);
        let error = report.peak.allocated_bytes as f64 / measured - 1.0;
        // As for the tables: small ones within 4 MiB.
        let close = if measured < 32e6 { 4.2e6 / measured } else { 0.02 };
        assert!(error.abs() < close, "{name}: {:+.1} %", error * 100.0);
        let pairs = name != "products_over_the_batch";
        let noted = report.notes.iter().any(|note| note.code == "batch_squared");
        assert_eq!(noted, pairs, "{name}: {:?}", report.notes);
        assert_eq!(report.max_batch == Some(batch), pairs, "{name}: {:?}", report.max_batch);
        let parts = report.remedies.iter().find(|remedy| remedy.id == "micro_batches").unwrap();
        assert_eq!(parts.same_result, SameResult::Changed, "{name}: {}", parts.title);
        assert!(parts.title.ends_with("samples meet only those of their own micro-batch"), "{}", parts.title);
    }
}

#[test]
fn a_batch_whose_pairs_do_not_fit_is_not_said_to_fit() {
    for name in ["similarities", "similarities_by_einsum"] {
        let report = planned(name, 65_536, "t4", 13 * GIB);
        assert_eq!(report.verdict, Verdict::DoesNotFit, "{name}");
        assert!(report.peak.allocated_bytes > 65_536 * 65_536 * 4, "{name}");
        let largest = report.max_batch.unwrap();
        assert!(largest > 0 && largest < 65_536, "{name}: {largest}");
    }
}

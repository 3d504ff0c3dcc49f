//! HDF5 files (`.h5`) that Keras 2 and Keras 3 wrote, whole, without a model, and damaged.
//!
//! In: `fixtures/models/keras_hdf5`. Checked: the model and how it was compiled are those of the same model's JSON, and no byte of such a file
//! can do harm.

use std::path::Path;

use brimful_import::{Document, Options, read};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/models/keras_hdf5/{name}")))
        .unwrap()
}

fn parameters(document: &Document) -> u64 {
    document.model(&Options::default()).unwrap().parameter_count()
}

#[test]
fn a_whole_model_is_that_of_its_json() {
    let json = read(&bytes("keras_3.json")).unwrap();
    for (name, version) in [("keras_3.h5", "3.15"), ("keras_2.h5", "2.")] {
        let document = read(&bytes(name)).unwrap();
        assert!(document.keras_version().unwrap().starts_with(version), "{name}: {:?}", document.keras_version());
        assert_eq!(parameters(&document), parameters(&json), "{name}");
        let compiled = document.compiled();
        let optimizer = compiled.optimizer.as_ref().unwrap();
        assert_eq!((optimizer.name.as_str(), optimizer.momentum), ("sgd", true), "{name}");
        assert_eq!(compiled.losses.len(), 1, "{name}: {:?}", compiled.losses);
        let model = document.model(&Options::default()).unwrap();
        let noted = model.notes.iter().any(|note| note.code == "keras2");
        assert_eq!(noted, version == "2.", "{name}: {:?}", model.notes);
    }
}

#[test]
fn a_file_without_a_model_says_so() {
    let error = read(&bytes("only.weights.h5")).unwrap_err().to_string();
    let expected = "this is an HDF5 file without a model's configuration, such as weights alone, not a Keras 3 model: it holds no layers; \
                    save the whole model with model.save('model.keras')";
    assert_eq!(error, expected);
}

#[test]
fn what_lies_outside_of_the_file_is_not_there() {
    for name in ["keras_3.h5", "keras_2.h5"] {
        let whole = bytes(name);
        for end in 0..whole.len().min(8192) {
            let _ = read(&whole[..end]);
        }
        // The texts and all that leads to them stand in the first kilobytes.
        for at in 8..4096 {
            for value in [0, 1, 0x7F, 0x80, 0xFF, whole[at] ^ 0x10] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = read(&changed);
            }
        }
    }
}

//! Everything that goes wrong says so in one sentence on standard error, and ends with 2.

mod support;

use std::fs;
use std::process::Stdio;

use support::{command, run, stderr, stdout};

const EXAMPLE: &str = "examples/vision_cnn.json";

/// Runs, expects 2 and nothing on standard output, and gives the sentence.
fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

#[test]
fn files() {
    assert_eq!(refused(&["plan", "absent.keras"]), "error: absent.keras: there is no such file\n");
    assert_eq!(
        refused(&["plan", "examples"]),
        "error: examples is a folder, not a Keras 3 model: load it in Keras and save it with model.save('model.keras')\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let said = |path: &str| refused(&["plan", path]).replace(folder.path().to_str().unwrap(), "FOLDER");
    assert_eq!(
        said(&file("model.h5", b"\x89HDF\r\n\x1a\n....")),
        "error: FOLDER/model.h5: this is an HDF5 file (.h5), not a Keras 3 model: load it in Keras and save it again \
         with model.save('model.keras')\n"
    );
    assert_eq!(
        said(&file("empty.json", b"")),
        "error: FOLDER/empty.json: this is not a model file: expected a .keras archive or the text of \
         model.to_json(), found an empty file; save the model with model.save('model.keras')\n"
    );
    assert_eq!(
        said(&file("model.safetensors", b"\x40\0\0\0\0\0\0\0{\"weight\":{}}")),
        "error: FOLDER/model.safetensors: this is a safetensors file, not a Keras 3 model: it holds weights but no graph \
         of layers; name the code that makes the model, such as train.py:make_model, or a config.json of transformers\n"
    );
    let exported = folder.path().join("exported");
    fs::create_dir(&exported).unwrap();
    fs::write(exported.join("saved_model.pb"), b"x").unwrap();
    assert_eq!(
        said(exported.to_str().unwrap()),
        "error: FOLDER/exported is a TensorFlow SavedModel, not a Keras 3 model: save the model itself with \
         model.save('model.keras'), not its export\n"
    );
    let cut = said(&file("cut.keras", b"PK\x03\x04 and then nothing"));
    assert!(cut.starts_with("error: FOLDER/cut.keras: the archive cannot be read: "), "{cut}");
    assert!(cut.ends_with("; the file is damaged or was cut short, save the model again\n"), "{cut}");
    let json = said(&file("wrong.json", b"{\"class_name\": \n oops"));
    assert!(json.contains("is not valid JSON at line 2"), "{json}");
}

#[test]
fn devices_and_sizes() {
    let near = refused(&["plan", EXAMPLE, "--device", "rtx4900"]);
    assert!(near.starts_with("error: no device is called 'rtx4900'; did you mean rtx-4090"), "{near}");
    assert_eq!(near.lines().count(), 1);
    assert_eq!(
        refused(&["plan", EXAMPLE, "--device", "abacus"]),
        "error: no device is called 'abacus'; 'brimful devices' lists those that are known\n"
    );
    assert_eq!(
        refused(&["plan", EXAMPLE, "--memory", "lots"]),
        "error: 'lots' is not a size: write a number and a unit, such as 15GiB, 512MiB or 8GB\n"
    );
}

#[test]
fn settings() {
    assert_eq!(
        refused(&["plan", EXAMPLE, "--device", "t4", "--set", "dense"]),
        "error: 'dense' is not a setting: write LAYER.ATTR=VALUE, such as --set dense.units=128\n"
    );
    let layer = refused(&["plan", EXAMPLE, "--device", "t4", "--set", "dens.units=3"]);
    assert!(
        layer.starts_with("error: examples/vision_cnn.json: there is no layer 'dens' to set 'units' on"),
        "{layer}"
    );
    assert!(layer.contains("'dense'") && layer.lines().count() == 1, "{layer}");
    let attr = refused(&["plan", EXAMPLE, "--device", "t4", "--set", "dense.unit=3"]);
    assert!(attr.contains("layer 'dense' (Dense) has no setting 'unit'; the closest are 'units'"), "{attr}");
}

#[test]
fn what_is_not_there_yet() {
    assert_eq!(
        refused(&["plan", EXAMPLE, "--framework", "torch"]),
        "error: planning a Keras file for PyTorch is not there yet: only TensorFlow's way to run Keras layers is \
         modelled; use --framework tensorflow\n"
    );
    assert_eq!(
        refused(&["plan", EXAMPLE, "--framework", "jax"]),
        "error: planning a Keras file for JAX is not there yet: only TensorFlow's way to run Keras layers is \
         modelled; use --framework tensorflow\n"
    );
}

#[test]
fn usage() {
    let batch = refused(&["plan", EXAMPLE, "--batch", "0"]);
    assert!(
        batch.starts_with("error: invalid value '0' for '--batch <N>': write a whole number, from 1 to"),
        "{batch}"
    );
    let precision = refused(&["plan", EXAMPLE, "--precision", "mixed_floot16"]);
    assert!(precision.contains("tip: a similar value exists: 'mixed_float16'"), "{precision}");
    let verb = refused(&["plam", EXAMPLE]);
    assert!(verb.contains("tip: some similar subcommands exist") && verb.contains("'plan'"), "{verb}");
    assert!(refused(&[]).contains("Usage: brimful"));
}

#[test]
fn a_file_that_cannot_be_written() {
    let said = refused(&["plan", EXAMPLE, "--device", "cpu", "--batch", "1", "-o", "absent/report.txt"]);
    assert!(said.starts_with("error: absent/report.txt cannot be written: "), "{said}");
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child =
        command(&["devices", "--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The pipe is closed before anything can be read from it.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

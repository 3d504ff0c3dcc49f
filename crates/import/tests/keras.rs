//! Keras models against what Keras itself says about them.

use std::path::{Path, PathBuf};

use brimful_core::model::{DType, Model, Op, Tensor, TensorId, Weight};
use brimful_import::{Options, read};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models")
}

fn import(path: &Path) -> Model {
    let bytes = std::fs::read(path).unwrap();
    let document = read(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    document.model(&Options::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What Keras's `count_params` counts: weights without the states of random numbers.
fn parameters(model: &Model) -> u64 {
    let counted = model.weights.iter().filter(|weight| weight.name != "seed_generator_state");
    counted.map(|weight| weight.elements()).sum()
}

/// The measured models and the shape of their output, per sample. Parameter counts are in `params.json`: what Keras's
/// `count_params` said when the models were measured.
const MEASURED: &[(&str, &[u64])] = &[
    ("EfficientNetB0-128", &[1, 100]),
    ("InceptionV3-128", &[1, 100]),
    ("MobileNetV2-128", &[1, 100]),
    ("ResNet50-128", &[1, 100]),
    ("VGG16-96", &[1, 100]),
    ("seed_cnn256", &[1, 1]),
    ("seed_cnn28", &[1, 10]),
    ("seed_dense10", &[1, 10]),
    ("seed_lstm", &[1, 1]),
    ("seed_mlp128", &[1, 1]),
    ("seed_mlp_large", &[1, 1]),
    ("seed_mlp_small", &[1, 1]),
    ("transformer", &[1, 4]),
    ("unet", &[1, 128, 128, 1]),
];

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn measured_models_import_without_notes() {
    let measured = json(&fixtures().join("keras/params.json"));
    assert_eq!(measured.as_object().unwrap().len(), MEASURED.len());
    for (name, output) in MEASURED {
        let model = import(&fixtures().join(format!("keras/{name}.json")));
        assert_eq!(model.notes, [], "{name}");
        assert_eq!(Some(parameters(&model)), measured[*name].as_u64(), "{name}");
        let output_shape = &model.tensor(model.outputs[0]).shape;
        assert_eq!((output_shape.batched, &output_shape.dims[..]), (true, *output), "{name}");
    }
}

/// A shape and type as Keras says it against one that was imported; null in Keras's is the batch or unknown.
fn agrees(said: &serde_json::Value, tensor: &Tensor) -> bool {
    let dims = said[0].as_array().unwrap();
    let shape = &tensor.shape;
    let same_dims = dims.len() == shape.rank()
        && dims.iter().zip(&shape.dims).enumerate().all(|(axis, (said, &dim))| match said.as_u64() {
            Some(said) => said == dim && !(axis == 0 && shape.batched),
            None => axis > 0 || shape.batched,
        });
    same_dims && DType::parse(said[1].as_str().unwrap()) == Some(tensor.dtype)
}

/// Everything that Keras says about a model, against what was imported.
fn check(name: &str, model: &Model, said: &serde_json::Value) {
    assert_eq!(Some(parameters(model)), said["params"].as_u64(), "{name}: parameters");
    let seed = |weight: &&Weight| weight.name == "seed_generator_state";
    let trainable: u64 = model.weights.iter().filter(|weight| weight.trainable).map(Weight::elements).sum();
    assert_eq!(Some(trainable), said["trainable"].as_u64(), "{name}: trainable parameters");
    let seeds: u64 = model.weights.iter().filter(seed).map(|weight| weight.elements() / 2).sum();
    assert_eq!(Some(seeds), said["seeds"].as_u64(), "{name}: seed states");
    let counted = |weight: &&Weight| !seed(weight);
    // Those that are trained in Keras's order, which is that of the updates; then the others.
    let (mut weights, mut fixed): (Vec<&Weight>, Vec<&Weight>) =
        model.weights.iter().filter(counted).partition(|weight| weight.trainable);
    fixed.sort_by_key(|weight| show_weight(weight));
    weights.append(&mut fixed);
    let weights: Vec<String> = weights.into_iter().map(show_weight).collect();
    let expected: Vec<&str> =
        said["weights"].as_array().unwrap().iter().map(|weight| weight.as_str().unwrap()).collect();
    assert_eq!(weights, expected, "{name}: weights");

    let outputs = said["outputs"].as_array().unwrap();
    assert_eq!(model.outputs.len(), outputs.len(), "{name}: number of outputs");
    for (said, &id) in outputs.iter().zip(&model.outputs) {
        assert!(agrees(said, model.tensor(id)), "{name}: output {said} is {:?}", model.tensor(id));
    }

    // The outermost layers, by the order of their first op.
    let top = |op: &Op| model.layer(op.layer).path.split('/').next().unwrap().to_owned();
    let mut order: Vec<String> = Vec::new();
    for op in &model.ops {
        let layer = top(op);
        if !order.contains(&layer) {
            order.push(layer);
        }
    }
    let mut expected = Vec::new();
    for run in said["runs"].as_array().unwrap() {
        let layer = run[0].as_str().unwrap().to_owned();
        for output in run[1].as_array().unwrap() {
            let made = |op: &&Op| top(op) == layer && op.outputs.iter().any(|&id| agrees(output, model.tensor(id)));
            assert!(model.ops.iter().any(|op| made(&op)), "{name}: no op of {layer} makes {output}");
        }
        if !expected.contains(&layer) {
            expected.push(layer);
        }
    }
    assert_eq!(order, expected, "{name}: running order");

    // Every op reads what was written before it.
    let mut written: Vec<TensorId> = model.inputs.clone();
    for op in &model.ops {
        assert!(op.inputs.iter().all(|input| written.contains(input)), "{name}: {op:?} reads ahead");
        written.extend(&op.outputs);
    }
}

fn show_weight(weight: &Weight) -> String {
    let dims: Vec<String> = weight.dims.iter().map(ToString::to_string).collect();
    // As Python writes a tuple.
    let dims = if dims.len() == 1 { format!("{},", dims[0]) } else { dims.join(", ") };
    let dtype = format!("{:?}", weight.dtype).to_lowercase();
    format!("({dims}) {dtype} {}", if weight.trainable { "trainable" } else { "fixed" })
}

/// Checks every model of a folder and names all that disagree.
fn check_folder(folder: &Path, allowed_notes: impl Fn(&str) -> &'static [&'static str] + std::panic::RefUnwindSafe) {
    let expected = json(&folder.join("expected.json"));
    let mut wrong = Vec::new();
    for (name, said) in expected.as_object().unwrap() {
        let result = std::panic::catch_unwind(|| {
            let model = import(&folder.join(format!("{name}.json")));
            check(name, &model, said);
            let codes: Vec<&str> = model.notes.iter().map(|note| note.code).collect();
            assert_eq!(codes, allowed_notes(name), "{name}: notes");
        });
        if result.is_err() {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{} models disagree with Keras: {wrong:?}", wrong.len());
}

#[test]
fn made_models_agree_with_keras() {
    check_folder(&fixtures().join("keras_extra"), |name| match name {
        "variable_length" => &["unknown_dimension"],
        "adapted" => &["lora"; 4],
        _ => &[],
    });
}

/// All models of `keras.applications`, made by `tools/make_keras_fixtures.py --applications DIR`: too large to keep.
#[test]
#[ignore = "needs BRIMFUL_KERAS_APPLICATIONS=DIR"]
fn applications_agree_with_keras() {
    let folder = PathBuf::from(std::env::var_os("BRIMFUL_KERAS_APPLICATIONS").unwrap());
    check_folder(&folder, |name| match name {
        // Made without an image size.
        "MobileNetV3Large" | "MobileNetV3Small" => &["unknown_dimension"],
        _ => &[],
    });
}

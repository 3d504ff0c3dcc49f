//! Bad files: each gives one sentence that says what is wrong, where, and what to do; none panics or takes long.

#[path = "support/cpu_time.rs"]
mod cpu_time;

use std::io::Write;
use std::path::Path;

use brimful_core::model::OptimizerConfig;
use brimful_core::predict::{Orders, Runs};
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{ImportError, Options, read};
use cpu_time::CpuClock;
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

/// What reading or translating says.
fn said(bytes: &[u8]) -> String {
    let started = CpuClock::start();
    let result = read(bytes).and_then(|document| document.model(&Options::default()));
    assert!(started.elapsed().as_secs() < 20, "took {:?}", started.elapsed());
    match result {
        Ok(model) => format!("imported '{}' with {} ops", model.name, model.ops.len()),
        Err(error) => error.to_string(),
    }
}

fn said_json(json: &Value) -> String {
    said(json.to_string().as_bytes())
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn layer(class: &str, config: Value) -> Value {
    json!({"module": "keras.layers", "class_name": class, "config": config, "registered_name": null})
}

fn input(dims: Value) -> Value {
    layer("InputLayer", json!({"batch_shape": dims, "dtype": "float32", "name": "in"}))
}

/// A Sequential model of an input and other layers.
fn sequential(dims: Value, layers: &[Value]) -> Value {
    let mut all = vec![input(dims)];
    all.extend_from_slice(layers);
    json!({"module": "keras", "class_name": "Sequential", "config": {"name": "net", "layers": all}, "registered_name": null})
}

/// A functional model: layers with the names of the layers they read.
fn functional(layers: &[(&str, &str, Value, &[&str])], output: &str) -> Value {
    let tensor = |name: &&str| json!({"class_name": "__keras_tensor__", "config": {"shape": [null, 4], "dtype": "float32", "keras_history": [name, 0, 0]}});
    let mut all = Vec::new();
    for (name, class, config, reads) in layers {
        let mut config = config.clone();
        config["name"] = json!(name);
        let mut item = layer(class, config);
        item["name"] = json!(name);
        let args: Vec<Value> = reads.iter().map(tensor).collect();
        let args = if args.len() == 1 { json!(args) } else { json!([args]) };
        item["inbound_nodes"] = if reads.is_empty() { json!([]) } else { json!([{"args": args, "kwargs": {}}]) };
        all.push(item);
    }
    json!({"module": "keras", "class_name": "Functional", "registered_name": "Functional", "config": {
        "name": "net", "layers": all, "input_layers": ["in", 0, 0], "output_layers": [output, 0, 0]}})
}

const IN: (&str, &str) = ("in", "InputLayer");

#[test]
fn other_files_are_recognised() {
    let resave = "load it in Keras and save it again with model.save('model.keras')";
    assert_eq!(
        said(b"\x89HDF\r\n\x1a\n\0\0\0\0"),
        format!("this is an HDF5 file (.h5), not a Keras 3 model: {resave}")
    );
    assert_eq!(
        said(b"\x08\x01\x12\xc5\x90\x10\x0a\x00"),
        "this is a TensorFlow SavedModel, not a Keras 3 model: save the model itself with model.save('model.keras'), not its \
         export"
    );
    assert_eq!(
        said(b"\x80\x02}q\x00."),
        "this is a Python pickle, such as an old PyTorch checkpoint, not a Keras 3 model: it holds weights but no graph of \
         layers; name the code that makes the model, such as train.py:make_model, or a config.json of transformers"
    );
    assert_eq!(
        said(b"\x08\x08\x12\x07pytorch\x1a\x052.1.0"),
        "this is a protocol buffer, such as an ONNX or TensorFlow graph, not a Keras 3 model: give the Keras model itself, \
         saved with model.save('model.keras')"
    );
    assert_eq!(
        said(b"\x1c\0\0\0TFL3\0\0\0\0"),
        "this is a TensorFlow Lite model, not a Keras 3 model: it is for inference only; give the Keras model it was made from"
    );
    assert_eq!(
        said(b"\x40\0\0\0\0\0\0\0{\"weight\":{}}"),
        "this is a safetensors file, not a Keras 3 model: it holds weights but no graph of \
         layers; name the code that makes the model, such as train.py:make_model, or a config.json of transformers"
    );
    assert_eq!(
        said(&archive(&[("model/data.pkl", b"x"), ("model/version", b"3")])),
        "this is a PyTorch checkpoint, not a Keras 3 model: it holds weights but no graph of \
         layers; name the code that makes the model, such as train.py:make_model, or a config.json of transformers"
    );
    assert_eq!(
        said(&archive(&[("model.weights.h5", b"x")])),
        "this is a weights file, not a Keras 3 model: it holds no layers; save the whole model with model.save('model.keras')"
    );
    let not = "this is not a model file: expected a .keras archive or the text of model.to_json(), found";
    let save = "save the model with model.save('model.keras')";
    assert_eq!(said(&archive(&[("a.txt", b"x")])), format!("{not} a zip archive without config.json; {save}"));
    assert_eq!(said(b""), format!("{not} an empty file; {save}"));
    assert_eq!(said(b"import keras\n"), format!("{not} text that starts with 'import keras'; {save}"));
    assert_eq!(said(b"\xff\xfe\x00\x01\x02"), format!("{not} bytes ff fe 00 01 02; {save}"));
    assert_eq!(said(b"{\"a\": 1}"), format!("{not} JSON without a class_name; {save}"));
}

#[test]
fn damaged_archives_are_said() {
    let good = archive(&[("config.json", b"{}"), ("metadata.json", b"{}")]);
    let damaged = "the file is damaged or was cut short, save the model again";
    let short = said(&good[..good.len() / 2]);
    assert!(short.starts_with("the archive cannot be read: ") && short.ends_with(damaged), "{short}");
    assert_eq!(short.lines().count(), 1);
    let text = said(&archive(&[("config.json", b"\xff\xff"), ("metadata.json", b"{}")]));
    assert!(text.starts_with("config.json is not valid JSON at line 1, column 1 (at the top): "), "{text}");
    // A byte of the compressed text is flipped: either the text or its checksum is wrong.
    let mut flipped = archive(&[("config.json", "{\"class_name\": \"Sequential\"}".repeat(9).as_bytes())]);
    flipped[50] ^= 0x40;
    let text = said(&flipped);
    assert!(text.starts_with("config.json "), "{text}");
}

#[test]
fn a_zip_bomb_stops_at_the_limit() {
    let bomb = archive(&[("config.json", &vec![b' '; 80 << 20])]);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(
        said(&bomb),
        "config.json is larger than 64 MiB, the most this importer reads; no known model comes near it"
    );
    let mut text = vec![b' '; 65 << 20];
    text[0] = b'{';
    assert_eq!(
        said(&text),
        "the model's JSON is larger than 64 MiB, the most this importer reads; no known model comes near it"
    );
}

#[test]
fn bad_json_names_its_place() {
    assert_eq!(
        said(b"{\"class_name\": \"Sequential\",\n \"config\": {\"layers\": [1, 2,"),
        "the file is not valid JSON at line 2, column 28 (config.layers): EOF while parsing a value; save the model again"
    );
    let deep = format!("{{\"a\":{}", "[".repeat(200));
    let text = said(deep.as_bytes());
    assert!(text.starts_with("the file is not valid JSON at line 1, column 134 (a[0][0][0]"), "{text}");
    assert!(text.ends_with("values are nested deeper than 128; save the model again"), "{text}");
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(4_000_000));
    let text = said(many.as_bytes());
    assert!(text.ends_with("there are more than 4000000 values; save the model again"), "{text}");
}

#[test]
fn bad_layouts_name_their_place() {
    let keras = "save the model again with Keras 3";
    assert_eq!(
        said_json(&json!({"class_name": "Functional", "config": {"layers": {}, "input_layers": []}})),
        format!("the model's JSON.config.layers is not what Keras writes: it should be a list, not an object; {keras}")
    );
    assert_eq!(
        said_json(&sequential(json!([null, 4]), &[json!(7)])),
        format!(
            "the model's JSON.config.layers[1] is not what Keras writes: a layer should be an object, not a number; {keras}"
        )
    );
    assert_eq!(
        said_json(&layer("Dense", json!({"name": "dense", "units": 3}))),
        format!("the model's JSON is not what Keras writes: it describes a single layer of class Dense; {keras}")
    );
    let twice =
        functional(&[(IN.0, IN.1, json!({"batch_shape": [null, 4]}), &[]), ("in", "Dense", json!({}), &["in"])], "in");
    assert_eq!(
        said_json(&twice),
        format!("the model's JSON.config.layers[1] is not what Keras writes: two layers are called 'in'; {keras}")
    );
    let missing = functional(&[(IN.0, IN.1, json!({"batch_shape": [null, 4]}), &[])], "out");
    assert_eq!(
        said_json(&missing),
        format!(
            "the model's JSON.config.output_layers is not what Keras writes: it names 'out', which is not a layer of the \
             model; {keras}"
        )
    );
    let long = sequential(json!([null, 4]), &[layer("Dense", json!({"name": "x".repeat(2000), "units": 3}))]);
    assert_eq!(
        said_json(&long),
        format!(
            "the model's JSON.config.layers[1] is not what Keras writes: its name or class is longer than 1000 bytes; {keras}"
        )
    );
}

#[test]
fn graphs_that_do_not_hold_together_are_said() {
    let source = (IN.0, IN.1, json!({"batch_shape": [null, 4]}), &[][..]);
    let cycle = functional(
        &[source.clone(), ("a", "Add", json!({}), &["in", "b"]), ("b", "Dense", json!({"units": 4}), &["a"])],
        "b",
    );
    assert_eq!(
        said_json(&cycle),
        "the graph of 'net' has a cycle through layer 'b': a model must be acyclic, save it again"
    );
    let dangling = functional(&[source.clone(), ("a", "Dense", json!({"units": 4}), &["gone"])], "a");
    assert_eq!(
        said_json(&dangling),
        "layer 'a' reads layer 'gone', which the file does not define: save the model again"
    );
    let mut second = functional(&[source, ("a", "Dense", json!({"units": 4}), &["in"])], "a");
    second["config"]["output_layers"] = json!(["a", 3, 0]);
    assert_eq!(
        said_json(&second),
        "layer 'net' reads call 3 of layer 'a', which the file does not define: save the model again"
    );
    second["config"]["output_layers"] = json!(["a", 0, 5]);
    assert_eq!(
        said_json(&second),
        "layer 'net' reads output 5 of call 0 of layer 'a', which the file does not define: save the model again"
    );
}

#[test]
fn a_subclassed_model_is_told_what_to_do() {
    let model =
        json!({"module": null, "class_name": "MyModel", "config": {"name": "mine"}, "registered_name": "MyModel"});
    assert_eq!(
        said_json(&model),
        "the model 'mine' of class MyModel is subclassed, so the file does not hold its graph: build it with the functional \
         API, keras.Model(inputs, outputs), and save that"
    );
}

#[test]
fn a_model_without_an_input_shape_says_so() {
    let model = json!({"class_name": "Sequential", "module": "keras", "config": {"name": "net", "layers": [layer("Dense", json!({"name": "d", "units": 3}))]}});
    let unbuilt = "the model 'net' was saved before it was built, so its input shape is unknown: add an Input layer, or give \
                   it with --set input.shape=…";
    assert_eq!(said_json(&model), unbuilt);
    let document = read(model.to_string().as_bytes()).unwrap();
    let shape = brimful_import::Override { layer: "input".to_owned(), attr: "shape".to_owned(), value: "7".to_owned() };
    let model = document.model(&Options { overrides: vec![shape], ..Options::default() }).unwrap();
    assert_eq!(model.weights[0].dims, [7, 3]);
}

#[test]
fn layers_that_keras_would_reject_are_named() {
    let on = |dims: Value, class: &str, config: Value| {
        let mut config = config;
        config["name"] = json!("it");
        said_json(&sequential(dims, &[layer(class, config)]))
    };
    let image = || json!([null, 4, 4, 3]);
    assert_eq!(
        on(image(), "Conv2D", json!({"filters": 2, "kernel_size": [5, 5]})),
        "layer 'it' (Conv2D): its output would be empty: a window of 5 does not fit into 4 of (batch, 4, 4, 3)"
    );
    assert_eq!(
        on(image(), "MaxPooling2D", json!({"pool_size": [9, 9]})),
        "layer 'it' (MaxPooling2D): its output would be empty: a window of 9 does not fit into 4 of (batch, 4, 4, 3)"
    );
    assert_eq!(
        on(image(), "Conv2D", json!({"filters": 0, "kernel_size": 1})),
        "layer 'it' (Conv2D): 'filters' should be a positive whole number"
    );
    assert_eq!(
        on(image(), "Conv2D", json!({"filters": 4, "kernel_size": 1, "groups": 2})),
        "layer 'it' (Conv2D): 3 input channels and 4 filters cannot be divided into 2 groups"
    );
    assert_eq!(
        on(image(), "Dense", json!({"units": -3})),
        "layer 'it' (Dense): 'units' should be a positive whole number"
    );
    assert_eq!(
        on(image(), "Dense", json!({"units": "NaN"})),
        "layer 'it' (Dense): 'units' should be a positive whole number"
    );
    assert_eq!(on(image(), "Dense", json!({})), "layer 'it' (Dense): it has no setting 'units'");
    assert_eq!(
        on(image(), "LSTM", json!({"units": 3, "dropout": 2.0})),
        "layer 'it' (LSTM): 'dropout' should be between 0 and 1"
    );
    assert_eq!(
        on(json!([null, 4]), "Conv2D", json!({"filters": 2, "kernel_size": 1})),
        "layer 'it' (Conv2D): it takes 4 dimensions and is given (batch, 4)"
    );
    assert_eq!(
        on(json!([null, 7]), "Reshape", json!({"target_shape": [2, -1]})),
        "layer 'it' (Reshape): (batch, 7) cannot be reshaped to [2, -1]: the sizes differ"
    );
    assert_eq!(
        on(json!([null, 7]), "BatchNormalization", json!({"axis": 4})),
        "layer 'it' (BatchNormalization): axis 4 is out of bounds for an input of 2 dimensions"
    );
    assert_eq!(
        on(json!([null, 0]), "Dense", json!({"units": 2})),
        "layer 'in' (InputLayer): dimension 1 of its shape is not a positive number"
    );
    assert_eq!(
        on(json!([null, -5]), "Dense", json!({"units": 2})),
        "layer 'in' (InputLayer): dimension 1 of its shape is not a positive number"
    );
}

#[test]
fn absurd_sizes_saturate_and_absurd_counts_stop() {
    let huge = i64::MAX;
    let wide = sequential(json!([null, huge, huge]), &[layer("Dense", json!({"name": "d", "units": huge}))]);
    let document = read(wide.to_string().as_bytes()).unwrap();
    let model = document.model(&Options::default()).unwrap();
    assert_eq!(model.parameter_count(), u64::MAX);
    let inner = layer("Dense", json!({"name": "d", "units": 2}));
    let steps = sequential(json!([null, huge, 4]), &[layer("TimeDistributed", json!({"name": "t", "layer": inner}))]);
    assert_eq!(said_json(&steps), "the model has more than 500000 tensors at layer 't': it is too large to plan");
    // Models that each call the one inside twice: 2^24 calls in a few lines.
    let mut nested = sequential(json!([null, 4]), &[layer("ReLU", json!({"name": "r"}))]);
    for level in 0..24 {
        nested["config"]["name"] = json!("n");
        let mut outer = functional(&[(IN.0, IN.1, json!({"batch_shape": [null, 4]}), &[])], "in");
        let read = |name: &str| json!({"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}], "kwargs": {}});
        nested["name"] = json!("n");
        nested["inbound_nodes"] = json!([read("in"), read("n")]);
        outer["config"]["layers"].as_array_mut().unwrap().push(nested);
        // Here calls of functional models are counted from 1, those of the Sequential inside from 0.
        outer["config"]["output_layers"] = json!(["n", if level == 0 { 1 } else { 2 }, 0]);
        nested = outer;
    }
    let text = said_json(&nested);
    assert!(text.starts_with("the model has more than 500000 layer calls at layer 'n/n/n/"), "{text}");
    let dims: Vec<Value> = std::iter::once(Value::Null).chain((0..1000).map(|_| json!(1))).collect();
    assert_eq!(
        said_json(&sequential(json!(dims), &[])),
        "the model has more than 64 dimensions at layer 'in': it is too large to plan"
    );
}

#[test]
fn a_chain_of_many_layers_is_read_quickly() {
    let layers: Vec<Value> = (0..20_000).map(|at| layer("ReLU", json!({"name": format!("r{at}")}))).collect();
    assert_eq!(said_json(&sequential(json!([null, 4]), &layers)), "imported 'net' with 20000 ops");
    // Custom layers each leave a note; there are not endless notes.
    let layers: Vec<Value> = (0..20_000)
        .map(|at| json!({"module": "mine", "class_name": "Odd", "config": {"name": format!("r{at}")}, "registered_name": "Odd"}))
        .collect();
    let document = read(sequential(json!([null, 4]), &layers).to_string().as_bytes()).unwrap();
    assert_eq!(document.model(&Options::default()).unwrap().notes.len(), 1000);
}

#[test]
fn inputs_that_once_went_wrong_stay_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/bad/keras");
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let text = said(&std::fs::read(&path).unwrap());
        assert_eq!(text.lines().count(), 1, "{}: {text}", path.display());
    }
}

/// Pointers to every value of a JSON text, but those that the importer never looks at.
fn pointers(json: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match json {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), found));
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                if !key.ends_with("initializer") && !key.ends_with("constraint") {
                    pointers(item, &format!("{at}/{key}"), found);
                }
            }
        }
        _ => {}
    }
}

/// Imports a model and simulates a step of it, as a plan does.
fn planned(bytes: &[u8]) {
    let Ok(model) = read(bytes).and_then(|document| document.model(&Options::default())) else { return };
    if model.ops.len() > 3000 {
        return;
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
        let prediction = Runs::new(&model, &job, Orders::One).predict(3);
        assert!(prediction.floor_bytes <= prediction.allocated_bytes);
    }
}

/// Each value of each model in turn replaced by each odd one: an answer or one sentence, never a panic.
/// `BRIMFUL_EVERY=1` tries all of them, which takes minutes; else one in many.
#[test]
fn no_single_odd_value_makes_it_panic() {
    let every: usize = std::env::var("BRIMFUL_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(97);
    let odd = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1),
        json!(3),
        json!(i64::MAX),
        json!(1.5),
        json!("x"),
        json!([]),
        json!([1]),
        json!([[2, 3], [4, 5]]),
        json!([0, -1, 7]),
        json!({}),
        json!(true),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/keras_extra");
    let mut turn = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "json") || path.ends_with("expected.json") {
            continue;
        }
        let whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut places = Vec::new();
        pointers(&whole, "", &mut places);
        let mut changed = whole.clone();
        for place in &places {
            for value in &odd {
                turn += 1;
                if turn % every != 0 {
                    continue;
                }
                let before = std::mem::replace(changed.pointer_mut(place).unwrap(), value.clone());
                let text = changed.to_string();
                let result = std::panic::catch_unwind(|| planned(text.as_bytes()));
                assert!(result.is_ok(), "{} with {value} at {place}", path.display());
                *changed.pointer_mut(place).unwrap() = before;
            }
        }
    }
}

#[test]
fn errors_can_be_compared() {
    assert_eq!(read(b"").unwrap_err(), ImportError::Unrecognised { found: "an empty file".to_owned() });
}

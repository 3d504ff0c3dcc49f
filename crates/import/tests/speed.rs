//! How fast a document becomes a model: remedies translate it again for every setting they try.

#[path = "support/cpu_time.rs"]
mod cpu_time;

use std::path::Path;

use brimful_import::{Options, read};
use cpu_time::CpuClock;
use serde_json::{Value, json};

/// A functional model of 700 layers: blocks of convolution, normalization, activation and addition.
fn large() -> Value {
    let tensor = |name: &str| json!({"class_name": "__keras_tensor__", "config": {"shape": [null, 32, 32, 16], "dtype": "float32", "keras_history": [name, 0, 0]}});
    let policy =
        json!({"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": null});
    let mut layers =
        vec![json!({"module": "keras.layers", "class_name": "InputLayer", "name": "in", "inbound_nodes": [],
        "config": {"batch_shape": [null, 32, 32, 16], "dtype": "float32", "name": "in"}, "registered_name": null})];
    let mut last = "in".to_owned();
    for block in 0..175 {
        let classes = [
            (
                "Conv2D",
                json!({"filters": 16, "kernel_size": [3, 3], "strides": [1, 1], "padding": "same", "data_format": "channels_last", "dilation_rate": [1, 1], "groups": 1, "activation": "linear", "use_bias": false}),
            ),
            (
                "BatchNormalization",
                json!({"axis": -1, "momentum": 0.99, "epsilon": 0.001, "center": true, "scale": true}),
            ),
            ("Activation", json!({"activation": "relu"})),
            ("Add", json!({})),
        ];
        let start = last.clone();
        for (class, mut config) in classes {
            let name = format!("{}_{block}", class.to_lowercase());
            config["name"] = json!(name);
            config["trainable"] = json!(true);
            config["dtype"] = policy.clone();
            let args = if class == "Add" { json!([[tensor(&start), tensor(&last)]]) } else { json!([tensor(&last)]) };
            layers
                .push(json!({"module": "keras.layers", "class_name": class, "config": config, "registered_name": null,
                "name": name, "inbound_nodes": [{"args": args, "kwargs": {}}]}));
            last = name;
        }
    }
    json!({"module": "keras", "class_name": "Functional", "registered_name": "Functional", "config": {
        "name": "large", "layers": layers, "input_layers": ["in", 0, 0], "output_layers": [last, 0, 0]}})
}

#[test]
fn a_model_of_700_layers_is_translated_in_milliseconds() {
    let text = large().to_string();
    let started = CpuClock::start();
    let document = read(text.as_bytes()).unwrap();
    let read_in = started.elapsed();
    // The best of several: other tests empty the caches.
    let mut best = std::time::Duration::MAX;
    for _ in 0..10 {
        let started = CpuClock::start();
        let model = document.model(&Options::default()).unwrap();
        best = best.min(started.elapsed());
        assert_eq!(model.layers.len(), 700);
    }
    // A release build takes well under one; this bound is for debug builds on a busy machine.
    assert!(best.as_millis() < 30, "reading took {read_in:?}, translating {best:?}");
}

#[test]
fn real_files_are_read_in_milliseconds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/keras");
    let bytes = std::fs::read(folder.join("InceptionV3-128.json")).unwrap();
    let started = CpuClock::start();
    let document = read(&bytes).unwrap();
    document.model(&Options::default()).unwrap();
    assert!(started.elapsed().as_millis() < 500, "took {:?}", started.elapsed());
}

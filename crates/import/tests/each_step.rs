//! Layers that are called for each step, one behind the other, take what one layer of all of them takes.
//!
//! In: Keras's JSON of such models, written here. Checked: what is stacked for one `TimeDistributed` layer and taken apart for the next one is not there.

use serde_json::{Value, json};

use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::plan::Place;
use brimful_core::plan::keras::{Choices, plan};
use brimful_import::read;

const STEPS: u64 = 20;
const BATCH: u64 = 4;

fn layer(class: &str, config: Value) -> Value {
    json!({"module": "keras.layers", "class_name": class, "config": config, "registered_name": null})
}

fn sequential(name: &str, layers: Vec<Value>) -> Value {
    json!({"module": "keras", "class_name": "Sequential", "config": {"name": name, "layers": layers}, "registered_name": null})
}

fn input(dims: Value) -> Value {
    layer("InputLayer", json!({"batch_shape": dims, "dtype": "float32", "name": "in"}))
}

fn dense(name: &str, units: u64) -> Value {
    layer("Dense", json!({"name": name, "units": units, "activation": "linear", "use_bias": true}))
}

fn each(name: &str, inner: Value) -> Value {
    layer("TimeDistributed", json!({"name": name, "layer": inner}))
}

/// Bytes of a forward pass without rounding or gaps.
fn floor_bytes(layers: Vec<Value>) -> u64 {
    let model = sequential("net", [vec![input(json!([null, STEPS, 64]))], layers].concat());
    let document = read(model.to_string().as_bytes()).unwrap();
    let choices = Choices { batch: Some(BATCH), inference: true, ..Choices::default() };
    let place = Place::of(Device::find("cpu").unwrap().clone(), Framework::TensorFlow);
    let report = plan(&document, document.compiled().clone(), document.policy(), &choices, place).unwrap();
    report.peak.floor_bytes
}

#[test]
fn nothing_is_stacked_between_layers_that_are_called_for_each_step() {
    let (wide, narrow) = (|| dense("wide", 4096), || dense("narrow", 8));
    let two = floor_bytes(vec![each("first", wide()), each("second", narrow())]);
    let of_both = sequential("both", vec![input(json!([null, 64])), wide(), narrow()]);
    let one = floor_bytes(vec![each("only", of_both)]);
    assert_eq!(two, one);
    let stacked = 4 * STEPS * BATCH * 4096;
    let weights = 4 * (64 * 4096 + 4096 + 4096 * 8 + 8);
    assert!(two < weights + stacked, "{two}");
}

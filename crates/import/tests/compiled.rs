//! What `compile()` was told: losses and metrics of each output, and what a plan makes of them.

use brimful_core::model::{Compiled, Loss, Metric, Model, OptimizerConfig};
use brimful_core::predict::{Orders, Runs};
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{Options, read};
use serde_json::{Value, json};

/// Two outputs, `left` with a softmax over 50 classes and `right` with a sigmoid.
fn two_heads(compile_config: &Value) -> Model {
    let tensor = |layer: &str| {
        json!({"class_name": "__keras_tensor__",
               "config": {"shape": [null, 8], "dtype": "float32", "keras_history": [layer, 0, 0]}})
    };
    let dense = |name: &str, units: u64, activation: &str| {
        json!({"module": "keras.layers", "class_name": "Dense", "name": name,
               "config": {"name": name, "units": units, "activation": activation},
               "inbound_nodes": [{"args": [tensor("batch")], "kwargs": {}}]})
    };
    let input = json!({"module": "keras.layers", "class_name": "InputLayer", "name": "batch",
                       "config": {"batch_shape": [null, 8], "dtype": "float32", "name": "batch"}, "inbound_nodes": []});
    let text = json!({
        "module": "keras", "class_name": "Functional",
        "config": {
            "name": "heads", "layers": [input, dense("left", 50, "softmax"), dense("right", 50, "sigmoid")],
            "input_layers": [["batch", 0, 0]], "output_layers": [["left", 0, 0], ["right", 0, 0]],
        },
        "compile_config": compile_config,
    });
    read(text.to_string().as_bytes()).unwrap().model(&Options::default()).unwrap()
}

fn run(model: &Model, losses: Vec<Loss>, metrics: Vec<Vec<Metric>>) -> Runs {
    let job = Job {
        batch: 20_000,
        optimizer: OptimizerConfig::named("sgd"),
        losses,
        metrics,
        mode: Mode::Training,
        processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
        micro_batches: 1,
    };
    Runs::new(model, &job, Orders::One)
}

fn peak(model: &Model, losses: Vec<Loss>, metrics: Vec<Vec<Metric>>) -> u64 {
    run(model, losses, metrics).predict(20_000).allocated_bytes
}

fn notes(runs: &Runs) -> Vec<&'static str> {
    runs.notes.iter().map(|note| note.code).collect()
}

fn compiled(compile_config: &Value) -> Compiled {
    two_heads(compile_config).compiled
}

#[test]
fn losses_come_in_the_order_of_the_outputs() {
    let focal = json!({"class_name": "BinaryFocalCrossentropy",
                       "config": {"name": "mine", "from_logits": true, "label_smoothing": 0.1}});
    let by_name = compiled(&json!({"loss": {"right": focal, "left": "mse"}}));
    let named = Loss { name: "BinaryFocalCrossentropy".to_owned(), from_logits: true, smooths: true };
    assert_eq!(by_name.losses, [Loss::named("mse"), named]);
    let function = json!({"class_name": "function", "config": "my_loss", "registered_name": "my_loss"});
    assert_eq!(compiled(&json!({"loss": [null, function]})).losses, [Loss::default(), Loss::named("my_loss")]);
    assert_eq!(compiled(&json!({"loss": {"left": "mse"}})).losses, [Loss::named("mse"), Loss::default()]);
    assert_eq!(compiled(&json!({"loss": "mse"})).losses, [Loss::named("mse")]);
}

#[test]
fn metrics_come_with_the_settings_that_count() {
    let curve = json!({"class_name": "AUC", "config": {"name": "auc", "num_thresholds": 50, "multi_label": true}});
    let chosen = json!({"class_name": "Precision", "config": {"name": "p", "thresholds": [0.2, 0.7]}});
    let found = compiled(
        &json!({"metrics": {"right": ["accuracy", curve], "left": chosen}, "weighted_metrics": [null, ["mae"]]}),
    );
    let curve = Metric { thresholds: Some(50), by_class: true, ..Metric::named("AUC") };
    let chosen = Metric { thresholds: Some(2), chosen: true, ..Metric::named("Precision") };
    assert_eq!(found.metrics, [vec![chosen], vec![Metric::named("accuracy"), curve, Metric::named("mae")]]);
}

#[test]
fn an_output_without_a_loss_is_not_trained() {
    let model = two_heads(&json!({}));
    let both = peak(&model, vec![Loss::named("mse")], vec![]);
    let one = peak(&model, vec![Loss::named("mse"), Loss::default()], vec![]);
    assert!(one < both, "{one} {both}");
}

/// Every loss of `keras.losses` and every metric of `keras.metrics` in 3.15: none gives a note, and each metric has kernels.
#[test]
fn all_losses_and_metrics_of_keras_are_known() {
    let model = two_heads(&json!({}));
    let losses = [
        "BinaryCrossentropy", "BinaryFocalCrossentropy", "CategoricalCrossentropy", "CategoricalFocalCrossentropy",
        "SparseCategoricalCrossentropy", "Poisson", "KLDivergence", "MeanSquaredError", "MeanAbsoluteError",
        "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "CosineSimilarity", "LogCosh", "Huber", "Hinge",
        "SquaredHinge", "CategoricalHinge", "Dice", "Tversky",
    ];
    for name in losses {
        for loss in [Loss::named(name), Loss { from_logits: true, smooths: true, ..Loss::named(name) }] {
            assert_eq!(notes(&run(&model, vec![loss], vec![])), [""; 0], "{name}");
        }
    }
    let metrics = [
        "accuracy", "BinaryAccuracy", "CategoricalAccuracy", "TopKCategoricalAccuracy", "AUC", "Precision", "Recall",
        "TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives", "PrecisionAtRecall", "RecallAtPrecision",
        "SensitivityAtSpecificity", "SpecificityAtSensitivity", "F1Score", "FBetaScore", "BinaryIoU", "IoU", "MeanIoU",
        "OneHotIoU", "OneHotMeanIoU", "PearsonCorrelation", "ConcordanceCorrelation", "RootMeanSquaredError",
        "R2Score", "MeanAbsoluteError", "KLDivergence", "Poisson", "BinaryCrossentropy", "CategoricalCrossentropy",
        "Hinge", "SquaredHinge", "CategoricalHinge", "CosineSimilarity", "LogCosh", "MeanSquaredLogarithmicError",
    ];
    let bare = run(&model, vec![Loss::named("mse")], vec![]).cost.network.kernels;
    for name in metrics {
        let runs = run(&model, vec![Loss::named("mse")], vec![vec![Metric::named(name)]; 2]);
        assert_eq!(notes(&runs), [""; 0], "{name}");
        assert!(runs.cost.network.kernels > bare, "{name}");
    }
    for name in ["SparseCategoricalAccuracy", "SparseTopKCategoricalAccuracy", "SparseCategoricalCrossentropy"] {
        let loss = vec![Loss::named("sparse_categorical_crossentropy")];
        assert_eq!(notes(&run(&model, loss, vec![vec![Metric::named(name)]])), [""; 0], "{name}");
    }
}

#[test]
fn what_is_not_known_is_said() {
    let model = two_heads(&json!({}));
    let runs = run(&model, vec![Loss::named("mine")], vec![vec![Metric::named("ours")]]);
    assert_eq!(notes(&runs), ["unknown_loss", "unknown_metric"]);
}

/// A metric's answers are there with the output, however many thresholds there are.
#[test]
fn thresholds_that_were_chosen_count_one_by_one() {
    let model = two_heads(&json!({}));
    let of = |count: u32| {
        let metric = Metric { thresholds: Some(count), chosen: true, ..Metric::named("AUC") };
        peak(&model, vec![Loss::named("mse")], vec![vec![metric]])
    };
    assert!(of(1) < of(3) && of(3) < of(9));
    // One that no machine has.
    assert!(of(u32::MAX) > of(9));
}

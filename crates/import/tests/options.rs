//! Overrides, policies, compile settings, and models whose code is partly unknown.

use std::path::{Path, PathBuf};

use brimful_core::model::{
    Activation, Compiled, DType, Loss, Metric, Model, NormKind, OpKind, OptimizerConfig, Pairs, Penalty, Reduction,
    RnnCell, Shape, Weight,
};
use brimful_import::{Document, ImportError, Options, Override, read};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models")
}

fn document(path: &str) -> Document {
    read(&std::fs::read(fixtures().join(path)).unwrap()).unwrap()
}

fn model(path: &str) -> Model {
    document(path).model(&Options::default()).unwrap()
}

fn with(document: &Document, settings: &[(&str, &str, &str)]) -> Result<Model, ImportError> {
    let overrides = settings
        .iter()
        .map(|(layer, attr, value)| Override {
            layer: (*layer).to_owned(),
            attr: (*attr).to_owned(),
            value: (*value).to_owned(),
        })
        .collect();
    document.model(&Options { overrides, ..Options::default() })
}

fn weight<'m>(model: &'m Model, path: &str, name: &str) -> &'m [u64] {
    let found = model.weights.iter().find(|weight| model.layer(weight.layer).path == path && weight.name == name);
    &found.unwrap_or_else(|| panic!("{path} has no {name}")).dims
}

#[test]
fn weights_are_listed_by_layers_and_created_as_the_program_called_them() {
    // dense(dropout(picture)), then lstm(dropout_1(embedding(words))): the file lists the layers by their distance from the output.
    let model = model("keras_measured/captions.keras");
    let layers = |weights: &[&Weight]| {
        let mut layers: Vec<&str> = weights.iter().map(|weight| model.layer(weight.layer).path.as_str()).collect();
        layers.dedup();
        layers.join(" ")
    };
    let mut weights: Vec<&Weight> = model.weights.iter().filter(|weight| weight.trainable).collect();
    assert_eq!(layers(&weights), "embedding dense lstm dense_1 dense_2");
    weights.sort_by_key(|weight| weight.created);
    assert_eq!(layers(&weights), "dense embedding lstm dense_1 dense_2");
}

#[test]
fn an_override_changes_shapes_downstream() {
    let document = document("keras/seed_cnn28.json");
    let model = with(&document, &[("conv2d_103", "filters", "64"), ("input", "shape", "32,32,3")]).unwrap();
    assert_eq!(weight(&model, "conv2d_103", "kernel"), [3, 3, 3, 64]);
    // 32 → 30 → 15, times 64 filters.
    assert_eq!(weight(&model, "dense_2", "kernel"), [15 * 15 * 64, 10]);
    assert_eq!(model.tensor(model.inputs[0]).shape, Shape::batched(&[32, 32, 3]));
    // The document itself is as it was.
    let before = document.model(&Options::default()).unwrap();
    assert_eq!(weight(&before, "conv2d_103", "kernel"), [3, 3, 3, 32]);
}

#[test]
fn overrides_reach_nested_and_wrapped_layers() {
    let document = document("keras_extra/nested.json");
    let model = with(&document, &[("encoder/dense", "units", "5"), ("head", "use_bias", "false")]).unwrap();
    assert_eq!(weight(&model, "encoder/dense", "kernel"), [16, 5]);
    assert_eq!(weight(&model, "encoder/dense_1", "kernel"), [5, 8]);
    assert!(!model.weights.iter().any(|weight| model.layer(weight.layer).path == "deep/head" && weight.name == "bias"));

    let document = self::document("keras_extra/bidirectional.json");
    let model = with(&document, &[("lstm", "units", "6")]).unwrap();
    assert_eq!(weight(&model, "bidirectional/forward_lstm", "kernel"), [4, 24]);
    assert_eq!(weight(&model, "bidirectional/backward_lstm", "kernel"), [4, 24]);
}

#[test]
fn a_model_or_layer_is_frozen_or_cast_by_an_override() {
    let document = document("keras_extra/nested.json");
    let trainable = |model: &Model| model.weights.iter().filter(|weight| weight.trainable).count();
    assert_eq!(trainable(&with(&document, &[]).unwrap()), 6);
    assert_eq!(trainable(&with(&document, &[("encoder", "trainable", "false")]).unwrap()), 2);
    assert_eq!(trainable(&with(&document, &[("encoder/dense", "trainable", "False")]).unwrap()), 4);
    let model = with(&document, &[("head", "dtype", "mixed_float16")]).unwrap();
    assert_eq!(model.tensor(model.outputs[0]).dtype, DType::Float16);
    assert_eq!(model.tensor(model.outputs[1]).dtype, DType::Float32);
    let error = with(&document, &[("head", "dtype", "tiny")]).unwrap_err();
    assert_eq!(error, ImportError::UnknownPolicy { policy: "tiny".to_owned() });
}

#[test]
fn an_unknown_override_names_what_is_close() {
    let document = document("keras/transformer.json");
    let error = with(&document, &[("embeding_2", "output_dim", "64")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no layer 'embeding_2' to set 'output_dim' on; the closest are 'embedding_2', 'dense_20', 'dense_21', \
         'dense_22'"
    );
    let error = with(&document, &[("embedding_2", "outputdim", "64")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer 'embedding_2' (Embedding) has no setting 'outputdim'; the closest are 'output_dim', 'input_dim', 'dtype', \
         'mask_zero'"
    );
    let error = with(&document, &[("embedding_2", "output_dim", "many")]).unwrap_err();
    assert_eq!(error.to_string(), "layer 'embedding_2' (Embedding): 'output_dim' should be a positive whole number");
}

#[test]
fn a_forced_policy_replaces_the_model_wide_one() {
    let document = document("keras/seed_cnn28.json");
    assert_eq!(document.policy(), "float32");
    let model = document.model(&Options { policy: Some("mixed_bfloat16".to_owned()), ..Options::default() }).unwrap();
    assert!(model.weights.iter().all(|weight| weight.dtype == DType::Float32));
    assert!(model.ops.iter().all(|op| op.compute == DType::BFloat16));
    // The input is cast once; then all is in half precision.
    assert_eq!(model.ops.iter().filter(|op| op.kind == OpKind::Cast).count(), 1);
    assert_eq!(model.tensor(model.inputs[0]).dtype, DType::Float32);
    assert_eq!(model.tensor(model.outputs[0]).dtype, DType::BFloat16);

    // A layer with a policy of its own keeps it.
    let mixed = self::document("keras_extra/mixed_float16.json");
    assert_eq!(mixed.policy(), "mixed_float16");
    let model = mixed.model(&Options { policy: Some("bfloat16".to_owned()), ..Options::default() }).unwrap();
    assert_eq!(model.tensor(model.outputs[0]).dtype, DType::Float32);
    let count = |dtype| model.weights.iter().filter(|weight| weight.dtype == dtype).count();
    assert_eq!((count(DType::Float32), count(DType::BFloat16)), (2, 14));

    let error = document.model(&Options { policy: Some("float33".to_owned()), ..Options::default() }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'float33' is not a dtype policy: use float32, float16, bfloat16, float64, mixed_float16 or mixed_bfloat16"
    );
}

#[test]
fn unknown_dimensions_are_assumed_and_said() {
    let document = document("keras_extra/variable_length.json");
    let model = document.model(&Options { unknown_dim: 50, ..Options::default() }).unwrap();
    assert_eq!(model.tensor(model.outputs[0]).shape, Shape::batched(&[50, 2]));
    assert_eq!(
        model.notes[0].text,
        "The size of dimension 1 varies; 50 is assumed. Set it with --set input_layer.shape=…."
    );
    // Keras vectorizes over a varying number of steps: the wrapped layer runs once, on all of them.
    let dense: Vec<_> = model.ops.iter().filter(|op| op.kind == OpKind::Dense).collect();
    assert_eq!(dense.len(), 2);
    assert_eq!(model.tensor(dense[0].outputs[0]).shape.dims[..], [50, 6]);
    // A known number is unrolled.
    let model = with(&document, &[("input", "shape", "7,8")]).unwrap();
    assert_eq!(model.ops.iter().filter(|op| op.kind == OpKind::Dense).count(), 8);
    assert_eq!(model.notes, []);
}

#[test]
fn compile_settings_are_read() {
    let adam = model("keras_extra/compiled_adam.keras").compiled;
    assert_eq!(
        adam,
        Compiled {
            optimizer: Some(OptimizerConfig::named("adam")),
            losses: vec![Loss::named("mse")],
            metrics: vec![vec![Metric::named("mae"), Metric::named("RootMeanSquaredError")]],
            jit: Some(false),
        }
    );
    let sgd = model("keras_extra/compiled_sgd.keras").compiled;
    let expected = OptimizerConfig {
        momentum: true,
        nesterov: true,
        weight_decay: true,
        clip_global: true,
        ..OptimizerConfig::named("sgd")
    };
    assert_eq!(sgd.optimizer, Some(expected));
    assert_eq!(sgd.losses, [Loss::named("MeanSquaredError")]);
    let scaled = model("keras_extra/compiled_scaled.keras").compiled;
    let expected = OptimizerConfig {
        amsgrad: true,
        ema: true,
        clip_each: true,
        accumulate_steps: 4,
        loss_scaling: true,
        ..OptimizerConfig::named("adam")
    };
    assert_eq!(scaled.optimizer, Some(expected));
    assert_eq!(document("keras_extra/compiled_adam.keras").keras_version(), Some("3.15.1"));
    assert_eq!(model("keras/unet.json").compiled, Compiled::default());
}

#[test]
fn unknown_code_gives_an_answer_and_notes() {
    let model = model("keras_extra/custom.json");
    let notes: Vec<(&str, &str)> =
        model.notes.iter().map(|note| (note.code, note.layer.as_deref().unwrap_or_default())).collect();
    assert_eq!(
        notes,
        [
            ("custom_layer", "widen"),
            ("lambda", "lambda"),
            ("custom_activation", "dense"),
            ("custom_cell", "rnn/cell"),
            ("unmodelled_function", "median"),
        ]
    );
    let shape = |path: &str| {
        let op = model.ops.iter().find(|op| model.layer(op.layer).path == path).unwrap();
        (&op.kind, &model.tensor(op.outputs[0]).shape.dims[..])
    };
    // What Keras recorded beside the next layer's input.
    assert_eq!(shape("widen"), (&OpKind::Opaque { saved: 2, live: 2 }, &[1, 10, 12][..]));
    assert_eq!(shape("lambda").1, [1, 5, 12]);
    assert!(model.ops.iter().any(|op| op.kind == OpKind::Activation(Activation::Other)));
    assert!(matches!(shape("rnn/cell").0, OpKind::Rnn(rnn) if rnn.cell == RnnCell::Other && rnn.units == 5));
    assert_eq!(model.tensor(model.outputs[0]).shape, Shape::batched(&[5]));
    assert_eq!(
        model.notes[0].text,
        "The code of Widen is not in the file: its output is taken to be (batch, 10, 12), its memory is a \
         guess and its weights are not counted."
    );
}

#[test]
fn an_override_before_unknown_code_changes_what_both_shapes_share() {
    let document = document("keras_extra/custom.json");
    let model = with(&document, &[("input", "shape", "20,6")]).unwrap();
    let op = model.ops.iter().find(|op| model.layer(op.layer).path == "widen").unwrap();
    assert_eq!(model.tensor(op.outputs[0]).shape.dims[..], [1, 20, 12]);
}

#[test]
fn a_sequential_model_knows_a_custom_layers_output_from_the_next() {
    let model = model("keras_extra/custom_sequential.json");
    assert_eq!(weight(&model, "dense", "kernel"), [120, 2]);
}

#[test]
fn quantized_layers_are_noted() {
    let model = model("keras_extra/quantized.json");
    let codes: Vec<&str> = model.notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, ["quantized", "quantized"]);
}

#[test]
fn a_shared_layer_has_one_set_of_weights_and_an_op_for_each_call() {
    let model = model("keras_extra/shared.json");
    assert_eq!(model.weights.iter().filter(|weight| weight.name == "kernel").count(), 1);
    assert_eq!(model.ops.iter().filter(|op| op.kind == OpKind::Dense).count(), 3);
    assert_eq!(model.layers.iter().filter(|layer| layer.class == "Dense").count(), 1);
}

#[test]
fn attention_is_projections_around_a_core() {
    let model = model("keras/transformer.json");
    let path = |op: &brimful_core::model::Op| model.layer(op.layer).path.clone();
    let ops: Vec<_> = model.ops.iter().filter(|op| path(op).starts_with("multi_head_attention/")).map(path).collect();
    assert_eq!(
        ops,
        [
            "multi_head_attention/query", "multi_head_attention/key", "multi_head_attention/value",
            "multi_head_attention/attention_output"
        ]
    );
    assert_eq!(weight(&model, "multi_head_attention/query", "kernel"), [128, 4, 32]);
    assert_eq!(weight(&model, "multi_head_attention/query", "bias"), [4, 32]);
    assert_eq!(weight(&model, "multi_head_attention/attention_output", "kernel"), [4, 32, 128]);
    let core = model.ops.iter().find_map(|op| match &op.kind {
        OpKind::Attention(core) => Some((core, op)),
        _ => None,
    });
    let (core, op) = core.unwrap();
    assert_eq!((core.heads, core.query_positions, core.key_positions, core.key_size), (4, 128, 128, 32));
    assert_eq!(model.tensor(op.outputs[0]).shape, Shape::batched(&[128, 4, 32]));
}

#[test]
fn masks_travel_from_the_embedding_to_the_recurrent_layers() {
    let model = model("keras_extra/recurrent.json");
    let masked: Vec<bool> = model
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Rnn(rnn) => Some(rnn.masked),
            _ => None,
        })
        .collect();
    assert_eq!(masked, [true; 7]);
    let fusable: Vec<(bool, bool, bool)> = model
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Rnn(rnn) => Some((rnn.fusable, rnn.dropout, rnn.recurrent_dropout)),
            _ => None,
        })
        .take(2)
        .collect();
    // cuDNN runs the LSTM with dropout on its inputs, but not a GRU that resets before, nor recurrent dropout.
    assert_eq!(fusable, [(true, true, false), (false, false, true)]);
    let in_one_loop: Vec<(bool, bool)> = model
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Rnn(rnn) => Some((rnn.on_cell, rnn.under_cell)),
            _ => None,
        })
        .collect();
    let alone = (false, false);
    assert_eq!(in_one_loop, [alone, alone, alone, (false, true), (true, false), alone, alone]);
}

#[test]
fn frozen_layers_are_frozen_all_the_way_down() {
    let model = model("keras_extra/frozen.json");
    let trainable: Vec<&str> = model
        .weights
        .iter()
        .filter(|weight| weight.trainable)
        .map(|weight| model.layer(weight.layer).path.as_str())
        .collect();
    assert_eq!(trainable, ["dense", "dense"]);
    let norms: Vec<bool> = model
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Norm(norm) if norm.kind == NormKind::Batch => Some(norm.trainable),
            _ => None,
        })
        .collect();
    assert_eq!(norms, [false]);
}

#[test]
fn regularizers_are_marked() {
    let model = model("keras_extra/regularized.json");
    let marked: Vec<(&str, Option<Penalty>)> =
        model.weights.iter().map(|weight| (weight.name.as_str(), weight.penalty)).collect();
    let penalty = |sizes, squares| Some(Penalty { sizes, squares, right_angles: None });
    let (l1, l2, both) = (penalty(true, false), penalty(false, true), penalty(true, true));
    assert_eq!(marked, [("kernel", l2), ("bias", l1), ("kernel", both), ("bias", None)]);
    assert_eq!(model.ops.iter().filter(|op| matches!(op.kind, OpKind::ActivityRegularization(_))).count(), 2);
}

#[test]
fn constraints_and_right_angles_are_marked() {
    let model = model("keras_measured/held_weights.keras");
    let constrained: Vec<(&str, &str)> = model
        .weights
        .iter()
        .filter(|weight| weight.constrained)
        .map(|weight| (model.layer(weight.layer).path.as_str(), weight.name.as_str()))
        .collect();
    assert_eq!(constrained, [("dense", "kernel"), ("dense", "bias"), ("dense_1", "kernel"), ("dense_3", "kernel")]);
    let penalties: Vec<Penalty> = model.weights.iter().filter_map(|weight| weight.penalty).collect();
    let pairs = Penalty { sizes: false, squares: false, right_angles: Some(Pairs::Rows) };
    assert_eq!(penalties, [pairs, Penalty { sizes: true, squares: false, right_angles: None }]);
}

#[test]
fn keras_2_files_are_read_with_a_note() {
    let model = model("keras_extra/keras2.json");
    let codes: Vec<&str> = model.notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, ["keras2"]);
    assert_eq!(model.tensor(model.outputs[0]).shape, Shape::batched(&[3]));
    assert_eq!(weight(&model, "multi_head_attention/query", "kernel"), [8, 2, 4]);
    assert!(!model.ops.iter().any(|op| matches!(op.kind, OpKind::Reduce { kind: Reduction::Index })));
}

#[test]
fn functions_of_whole_numbers_are_computed_once() {
    let bonds = model("keras_measured/bonds.keras");
    let count = |wanted: fn(&OpKind) -> bool| bonds.ops.iter().filter(|op| wanted(&op.kind)).count();
    assert_eq!(count(|kind| *kind == OpKind::TakeAlong { axis: 1 }), 3);
    // The numbers of the first atoms, three times the same; those of the second atoms.
    assert_eq!(count(|kind| *kind == OpKind::Repeat), 1);
    assert_eq!(count(|kind| *kind == OpKind::Slice), 2);
    assert!(bonds.notes.is_empty());
}

#[test]
fn fourier_transforms_and_functions_of_their_input_are_known() {
    let transformed = model("keras_measured/fourier.keras");
    let count = |model: &Model, kind: &OpKind| model.ops.iter().filter(|op| op.kind == *kind).count();
    assert!(transformed.notes.is_empty());
    assert_eq!(count(&transformed, &OpKind::Fourier), 4);
    assert_eq!(count(&transformed, &OpKind::Filled), 4);
    let filtered = model("keras_measured/frequency_filters.keras");
    assert!(filtered.notes.is_empty());
    for inverse in [false, true] {
        assert_eq!(count(&filtered, &OpKind::RealFourier { inverse }), 3);
    }
    let sines = model("keras_measured/tent.keras");
    assert_eq!(count(&sines, &OpKind::Activation(Activation::Curve)), 4);
}

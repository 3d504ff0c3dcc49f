//! What a job was doing when it failed.
//!
//! In: the frames above an error. Out: a [`Phase`] and the frame that shows it. The innermost frame that says something decides; for the passes
//! through the model the outer ones say whether it was training. What no frame shows stays unknown.

use super::sizes::{has, has_any};
use super::traceback::Frame;

/// What a job was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the model, reading its weights or moving it to the device.
    LoadModel,
    /// Moving data to the device.
    MoveData,
    /// Reading or preparing data on the host.
    LoadData,
    /// In the model or the loss.
    Forward,
    /// Computing gradients.
    Backward,
    /// In the optimizer.
    Update,
    /// Measuring or predicting beside training.
    Evaluate,
    /// Writing or gathering the model's state.
    Checkpoint,
    /// Compiling.
    Compile,
}

impl Phase {
    /// As a sentence says it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::LoadModel => "while the model was made or moved to the device",
            Phase::MoveData => "while data was moved to the device",
            Phase::LoadData => "while data was read or prepared",
            Phase::Forward => "in the forward pass",
            Phase::Backward => "in the backward pass",
            Phase::Update => "in the optimizer",
            Phase::Evaluate => "in evaluation or prediction",
            Phase::Checkpoint => "while the state was saved or gathered",
            Phase::Compile => "while the step was compiled",
        }
    }
}

/// Where a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it was doing.
    pub phase: Phase,
    /// The frame that shows it, in one line.
    pub shown_by: String,
    /// Whether an outer frame belongs to training.
    pub training: bool,
}

/// Words in a file's path, a function's name or a line of code.
struct Rule {
    phase: Phase,
    file: &'static [&'static str],
    function: &'static [&'static str],
    code: &'static [&'static str],
}

/// The first that holds for a frame decides it.
const RULES: &[Rule] = &[
    Rule {
        phase: Phase::Checkpoint,
        file: &["torch/serialization", "torch\\serialization", "/checkpoint/state_dict", "checkpointing.py", "saving_lib", "model_checkpoint", "save_load"],
        function: &[
            "save_checkpoint", "_save_checkpoint", "save_pretrained", "save_model", "_save", "save_weights", "save_state", "full_state_dict",
            "_gather_state_dict", "dump_checkpoint", "get_state_dict", "deepcopy", "__deepcopy__", "consolidate_state_dict", "_zero3_consolidated_16bit_state_dict",
        ],
        code: &["torch.save(", "torch.load(", "deepcopy(", ".save_checkpoint(", ".save_pretrained(", "save_weights(", "model.save(", "np.save(", "pickle.dump("],
    },
    Rule {
        phase: Phase::Update,
        file: &["/torch/optim/", "\\torch\\optim\\", "/optimizers/", "\\optimizers\\", "ops/adam", "bitsandbytes/optim", "fused_adam", "stage_1_and_2", "zero/stage", "optax", "/optimizer.py", "galore", "adafactor.py"],
        function: &["apply_gradients", "_create_slots", "_init_group", "init_state", "initialize_optimizer_states", "_init_state", "update_step", "add_variable_from_reference", "apply_updates", "_resource_apply_dense"],
        code: &["optimizer.step(", "opt.step(", "optim.step(", "apply_gradients(", "optimizer.update(", "tx.update(", "exp_avg", "scaler.step(", "optimizer.build("],
    },
    Rule {
        phase: Phase::Backward,
        file: &["/autograd/", "\\autograd\\", "backprop.py", "imperative_grad"],
        function: &["backward", "run_backward", "_engine_run_backward", "gradient", "_gradient_function", "value_and_grad", "compute_gradients", "backward_pass"],
        code: &[".backward(", "tape.gradient(", "value_and_grad", "jax.grad(", "compute_gradients("],
    },
    Rule {
        phase: Phase::LoadModel,
        file: &["modeling_utils.py", "model_loader", "checkpoint_loader", "load_checkpoint", "accelerate/utils/modeling", "safetensors", "weight_utils", "initializers", "core_model_loading"],
        function: &[
            "from_pretrained", "load_state_dict", "load_model", "load_weights", "_load_from_state_dict", "load_checkpoint", "set_module_tensor_to_device", "init_weights", "setup",
            "_load_state_dict_into_meta_model", "create_weights", "add_weight", "_apply", "convert", "add_variable", "load_pretrained_model", "_materialize_copy",
            "_load_checkpoint", "load_checkpoint_and_dispatch", "dispatch_model", "load_lora_adapter", "reset_parameters", "batch_set_value", "from_preset", "weighs_to_device", "init_xmap", "initialize_variables", "build", "build_wrapper", "_maybe_rebuild", "__init__",
        ],
        code: &[
            "model.to(", "model.cuda(", "net.to(", "net.cuda(", ".from_pretrained(", "load_state_dict(", "model = model", "module.to(", "pipe.to(", "pipeline.to(",
            "nn.Parameter(", "self.weight = ", "generator.to(", "encoder.to(", "unet.to(", "vae.to(", "model.half(", "model.float(", "pipe = ",
            "init_params", "model.init(", "load_model(", "DistributedDataParallel(", "self.model.to(", "self.model.cuda(", "transformer.to(", "from_preset(", ".weight.data.to(", "variables_initializer(", "load_weights(", "init_xmap(", "initialize_variables(",
        ],
    },
    Rule {
        phase: Phase::LoadData,
        file: &[
            "pandas/", "pandas\\", "sklearn/preprocessing", "sklearn/feature", "/parsers/", "datasets/arrow", "io/parsers", "dataloader.py", "collate.py", "fetch.py",
            "scipy/sparse", "sklearn/utils/validation", "shape_base.py", "npyio.py", "data_adapter", "pyarrow", "csv.py", "dataset_ops.py", "numpy_utils.py", "h5py",
        ],
        function: &[
            "read_csv", "read_table", "read_parquet", "read_json", "read_excel", "load_data", "load_dataset", "toarray", "todense", "to_categorical", "get_dummies",
            "default_collate", "vstack", "hstack", "concatenate", "stack", "__getitem__", "fit_transform", "transform", "astype", "load_images", "prepare_data",
            "read_data", "preprocess", "merge", "concat", "pivot", "_collate_fn", "collate_fn", "load_training_data", "get_data", "make_dataset", "create_dataset",
        ],
        code: &[
            "read_csv(", "np.load(", "np.array(", "np.zeros(", "np.concatenate(", "np.stack(", "np.vstack(", "np.hstack(", ".astype(", "to_categorical(", "pd.concat(",
            "get_dummies(", ".toarray(", ".todense(", "np.empty(", "np.ones(", "np.asarray(", "np.append(", "np.repeat(", "np.tile(", "np.random.", "json.load(",
            "pickle.load(", "joblib.load(", ".reshape(", "cdist(", "pdist(", "pairwise_distances(", "fit_transform(", "read_parquet(", "from_tensor_slices(",
            ".to_numpy(", ".copy()", "img_to_array(", "cv2.imread(", "Image.open(", "imread(",  ".read(", ".readlines(", "np.full(", "np.ndarray(", "read_table(", "np.dot(", ".values", "to_pandas(", "DMatrix(", "lgb.Dataset(",
        ],
    },
    Rule {
        phase: Phase::MoveData,
        file: &["data_parallel.py", "/comm.py", "scatter_gather.py", "pin_memory.py", "constant_op.py", "ops/convert_to_tensor", "apply_func.py", "send_to_device"],
        function: &["scatter", "pin_memory", "convert_to_eager_tensor", "constant", "send_to_device", "move_data_to_device", "batch_to_device", "device_put", "_prepare_input", "_prepare_inputs", "transfer_batch_to_device"],
        code: &[".cuda(", ".to(device", ".to(self.device", ".to('cuda", ".to(\"cuda", "tf.constant(", "device_put(", "jnp.array(", "jnp.asarray(", "tf.convert_to_tensor(", ".pin_memory(", "data.copy_(", ".data.resize_(", "device=device", "device='cuda", "device=\"cuda"],
    },
    Rule {
        phase: Phase::Forward,
        file: &[
            "/nn/modules/", "\\nn\\modules\\", "mmdet", "detectron2/modeling", "/heads/", "/nn/functional", "\\nn\\functional", "torch/functional", "/layers/", "\\layers\\", "modeling_", "xformers", "flash_attn", "attention",
            "diffusers/models", "/models/", "/losses", "transformer", "timm/", "loss.py", "nn_ops.py", "gen_nn_ops", "linen/",
        ],
        function: &["forward", "_call_impl", "__call__", "call", "compute_loss", "training_step", "loss", "encode", "decode", "sample", "apply_model", "attention", "_conv_forward", "conv2d", "linear", "generate", "train_step", "execute_model", "profile_run"],
        code: &["F.", "torch.matmul(", "torch.bmm(", "torch.cat(", "torch.einsum(", "model(", "self.model(", "net(", "self.conv", "self.attn", "criterion(", "loss_fn(", "loss = ", "logits", "output = ", "outputs = ", "torch.baddbmm(", "softmax", "zeros_like(", "train_step(", "update_step(", "loss_and_grad"],
    },
    Rule {
        phase: Phase::Compile,
        file: &["pxla.py", "compiler.py", "mlir.py", "_inductor", "triton/"],
        function: &["backend_compile", "compile_or_get_cached", "cached_compile", "_compile_and_write_cache"],
        code: &[],
    },
];

const EVALUATE: &[&str] = &[
    "evaluate", "evaluation", "validate", "validation", "_validate", "eval_step", "prediction_step", "prediction_loop", "test_step", "val_step",
    "validation_step", "run_validation", "do_validation", "val_epoch", "evaluation_loop", "valid_step", "eval_epoch", "test_epoch", "run_evaluation", "val_one_epoch",
    "evaluate_model", "_maybe_log_save_evaluate", "on_validation", "compute_metrics",
];
const PREDICT: &[&str] = &["predict", "predict_step", "predict_on_batch", "predict_generator", "evaluate_generator", "test_on_batch"];
const TRAIN: &[&str] = &["train", "fit", "training_step", "train_step", "train_epoch", "training_loop", "do_train", "fit_generator", "train_on_batch", "_train", "_inner_training_loop", "train_one_epoch", "run_train", "train_model"];

/// Lines of a log that tell what is being done, in the words of common programs.
const TOLD: &[(Phase, &[&str])] = &[
    (Phase::Evaluate, &["Evaluation [", "Starting evaluation", "Running evaluation", "Running Evaluation", "Running validation", "Validating", "Evaluating", "Valid (", "Validation:", "Running executor for Evaluator", "Running Prediction", "begin validation"]),
    (Phase::Checkpoint, &["Saving checkpoint", "Saving model", "saving model to", "Saving the model", "Restoring checkpoint", "Writing checkpoint"]),
    (Phase::LoadModel, &["Creating the model", "Creating model", "Loading checkpoint shards", "Loading model", "Building model", "Loading weights", "Loading pipeline components", "Loading safetensors", "Building the model", "Loading the model", "load model", "Initializing model"]),
    (Phase::LoadData, &["Loading data", "Reading data", "Loading images", "Preprocessing data", "Loading training data", "Loading the data", "Generating train split", "Loading dataset", "Filling up shuffle buffer", "Creating features from dataset", "Caching images"]),
];
/// Only what is told in the last lines counts.
const TOLD_WITHIN: usize = 8;

/// What the job itself said that it was doing, where no frame shows it.
pub fn told(lines: &[&str]) -> Option<Place> {
    let last = lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with("File ") && line.len() < 300).take(TOLD_WITHIN);
    for line in last {
        if let Some((phase, _)) = TOLD.iter().find(|(_, words)| words.iter().any(|word| has(line, word))) {
            return Some(Place { phase: *phase, shown_by: line.chars().take(160).collect(), training: false });
        }
    }
    None
}

/// Where the frames say a job failed. Reading data is no reason for a full device: it counts on the host only.
pub fn place(frames: &[Frame], on_host: bool) -> Option<Place> {
    let training = trained(frames);
    let (phase, at) = frames.iter().rev().find_map(|frame| rule(frame, on_host).map(|phase| (phase, frame)))?;
    // What reads a checkpoint may be making a model of it.
    let making = |frame: &&Frame| named(frame, &["from_pretrained", "load_model", "load_pretrained_model", "load_checkpoint_and_dispatch"]) || has(&frame.code, ".from_pretrained(");
    if let Some(frame) = frames.iter().find(making).filter(|_| matches!(phase, Phase::Checkpoint | Phase::Forward | Phase::Compile | Phase::MoveData)) {
        return Some(Place { phase: Phase::LoadModel, shown_by: shown(frame), training });
    }
    let restoring = |frame: &&Frame| named(frame, &["restore", "resume", "restore_checkpoint", "resume_from_checkpoint", "_load_from_checkpoint", "resume_training"]);
    if let Some(frame) = frames.iter().find(restoring).filter(|_| matches!(phase, Phase::LoadModel | Phase::Update)) {
        return Some(Place { phase: Phase::Checkpoint, shown_by: shown(frame), training });
    }
    let inside_model = matches!(phase, Phase::Forward | Phase::MoveData | Phase::Compile | Phase::LoadData);
    let evaluating = frames.iter().find(|frame| inside_model && (evaluation(frame) || named(frame, PREDICT) || evaluates(&frame.code)));
    if let Some(frame) = evaluating.filter(|_| phase != Phase::LoadData || training) {
        return Some(Place { phase: Phase::Evaluate, shown_by: shown(frame), training });
    }
    // The code around the optimizer calls the model again (closures), so that what lies inside decides; a model that is
    // called while it is made is being made.
    Some(Place { phase, shown_by: shown(at), training })
}

/// Whether a frame belongs to training.
pub fn trained(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| named(frame, TRAIN) || has_any(&frame.code, &["train(", ".fit(", "train_step("]) || has(&frame.file, "train"))
}

fn rule(frame: &Frame, on_host: bool) -> Option<Phase> {
    let function = frame.function.rsplit('.').next().unwrap_or("");
    // PyTorch moves a model through its modules' own methods.
    if has_any(&frame.file, &["nn/modules/module.py", "nn\\modules\\module.py"]) && ["<lambda>", "_apply", "convert", "to", "cuda", "half", "float"].contains(&function) {
        return Some(Phase::LoadModel);
    }
    if on_host && has_any(&frame.file, &["transforms", "xgboost/data.py", "lightgbm/basic.py"]) {
        return Some(Phase::LoadData);
    }
    let rules = || RULES.iter().filter(|rule| on_host || rule.phase != Phase::LoadData);
    let by_name = rules().find(|rule| rule.function.contains(&function) && !(function == "__init__" && !makes_model(frame)));
    let by_code = || rules().find(|rule| rule.code.iter().any(|code| frame.code.contains(code)));
    let by_file = || rules().find(|rule| rule.file.iter().any(|file| has(&frame.file, file)));
    // A line of code says more than the function it stands in; a function of a library more than its file.
    let library = has_any(&frame.file, &["site-packages", "dist-packages", "/lib/python"]);
    let found = if library { by_name.or_else(by_code).or_else(by_file) } else { by_code().or(by_name).or_else(by_file) };
    found.map(|rule| rule.phase)
}

fn makes_model(frame: &Frame) -> bool {
    has_any(&frame.code, &["torch.empty(", "Parameter(", "torch.zeros(", "torch.randn(", "super().__init__", "Linear(", "Conv", "Embedding("])
}

fn named(frame: &Frame, names: &[&str]) -> bool {
    let function = frame.function.rsplit('.').next().unwrap_or("");
    names.contains(&function)
}

/// A name of evaluation: `evaluate`, `eval_step`, `compile_eval`, `validation_epoch_end`, `val_step`; `retrieval` is none.
fn evaluation(frame: &Frame) -> bool {
    let function = frame.function.rsplit('.').next().unwrap_or("");
    let parts: Vec<&str> = function.split('_').collect();
    named(frame, EVALUATE) || parts.iter().any(|part| ["eval", "evaluate", "evaluation", "validate", "validation", "val"].contains(part))
}

fn evaluates(code: &str) -> bool {
    has_any(code, &["evaluate(", "validate(", "validation(", ".eval_step(", "validation_step(", "run_eval(", "eval_loop(", "accuracy.eval(", "eval(test", "x_test", "X_test", "test_images", "test.images", "val_loader", "test_loader"])
}

fn shown(frame: &Frame) -> String {
    let code = if frame.code.is_empty() { String::new() } else { format!(": {}", frame.code) };
    let file = frame.file.rsplit(['/', '\\']).next().unwrap_or(&frame.file);
    let text = format!("{file}, in {}{code}", frame.function);
    text.chars().take(160).collect()
}

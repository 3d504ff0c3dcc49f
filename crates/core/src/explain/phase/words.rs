//! The words by which a frame or a line of a log shows what a job was doing.
//!
//! In: nothing. Out: tables. They come from the frameworks' sources and from users' tracebacks. Only what a name does not say by itself stands
//! here: `_apply`, `_foreach`, the file of a library. `load_checkpoint` and `unet.to(device)` are read as words (`names`, `calls`).

use super::Phase;

/// Words in a file's path, a function's name or a line of code.
pub(super) struct Rule {
    pub(super) phase: Phase,
    pub(super) file: &'static [&'static str],
    pub(super) function: &'static [&'static str],
    pub(super) code: &'static [&'static str],
}

/// The first that holds for a frame decides it.
pub(super) const RULES: &[Rule] = &[
    Rule {
        phase: Phase::Checkpoint,
        file: &[
            "torch/serialization", "torch\\serialization", "/checkpoint/state_dict", "checkpointing.py", "saving_lib",
            "model_checkpoint", "save_load",
        ],
        function: &[
            "full_state_dict", "_gather_state_dict", "get_state_dict", "deepcopy", "__deepcopy__",
            "_zero3_consolidated_16bit_state_dict",
        ],
        code: &["torch.load(", "deepcopy("],
    },
    Rule {
        phase: Phase::Update,
        file: &[
            "/optim/", "\\optim\\", "/optimizers/", "\\optimizers\\", "ops/adam", "fused_adam", "stage_1_and_2",
            "zero/stage", "optax", "/optimizer.py", "galore", "adafactor.py",
        ],
        function: &[
            "apply_gradients", "_create_slots", "_init_group", "init_state", "_init_state", "update_step",
            "_create_fp32_partitions", "initialize_optimizer_states", "add_variable_from_reference", "apply_updates",
            "_resource_apply_dense", "_resource_apply_sparse",
        ],
        code: &[
            "apply_gradients(", "optimizer.update(", "tx.update(", "exp_avg", "optimizer.build(", "optimizer'].step(",
            "optimizer\"].step(", ".step(optimizer", ".step(self.optimizer", ".step(self._optimizer",
        ],
    },
    Rule {
        phase: Phase::Backward,
        file: &["/autograd/", "\\autograd\\", "backprop.py", "imperative_grad"],
        function: &[
            "backward", "run_backward", "_engine_run_backward", "gradient", "_gradient_function", "value_and_grad",
            "compute_gradients", "backward_pass", "clip_grad_norm_", "clip_grad_value_", "updateGradInput",
            "accGradParameters", "getTotalGradOutput",
        ],
        code: &[".backward(", "run_backward(", "tape.gradient(", "value_and_grad", "jax.grad(", "compute_gradients("],
    },
    Rule {
        phase: Phase::LoadModel,
        file: &[
            "modeling_utils.py", "model_loader", "checkpoint_loader", "load_checkpoint", "accelerate/utils/modeling",
            "safetensors", "weight_utils", "initializers", "core_model_loading", "gensim/models/", "gensim\\models\\",
            "fsdp/wrap.py", "fsdp\\wrap.py",
        ],
        function: &[
            "from_pretrained", "load_state_dict", "_load_from_state_dict", "set_module_tensor_to_device", "setup",
            "_apply", "convert", "_materialize_copy", "reset_parameters", "batch_set_value", "from_preset",
            "init_xmap", "build", "build_wrapper", "_ddp_init_helper", "_sync_module_states", "_maybe_rebuild",
            "__init__", "readObject", "replicate", "broadcast_coalesced",
        ],
        code: &[
            ".from_pretrained(", "load_state_dict(", "safe_open(", "safe_load_file(", "model = model", "nn.Parameter(",
            "self.weight = ", "pipe = ", "init_params", "model.init(", "sess.run(init", "session.run(init",
            "global_variables_initializer(", "initialize_all_variables(", "DistributedDataParallel(", "DDP(", "FSDP(",
            "wrapper_cls(", "FullyShardedDataParallel(", "from_preset(", ".weight.data.to(", "init_xmap(",
        ],
    },
    Rule {
        phase: Phase::LoadData,
        file: &[
            "pandas/", "pandas\\", "sklearn/preprocessing", "sklearn/feature", "/parsers/", "datasets/arrow",
            "io/parsers", "dataloader.py", "collate.py", "fetch.py", "scipy/sparse", "sklearn/utils/validation",
            "shape_base.py", "npyio.py", "data_adapter", "pyarrow", "csv.py", "dataset_ops.py", "numpy_utils.py",
            "h5py",
        ],
        function: &[
            "read_parquet", "read_json", "read_excel", "toarray", "todense", "to_categorical", "get_dummies",
            "default_collate", "vstack", "hstack", "concatenate", "stack", "__getitem__", "fit_transform", "transform",
            "astype", "preprocess", "merge", "concat", "pivot", "_collate_fn", "collate_fn",
        ],
        code: &[
            "np.load(", "np.array(", "np.zeros(", "np.concatenate(", "np.stack(", "np.vstack(", "np.hstack(",
            ".astype(", "to_categorical(", "pd.concat(", "get_dummies(", ".toarray(", ".todense(", "np.empty(",
            "np.ones(", "np.asarray(", "np.append(", "np.repeat(", "np.tile(", "np.random.", "json.load(",
            "pickle.load(", "joblib.load(", ".reshape(", "cdist(", "pdist(", "pairwise_distances(", "fit_transform(",
            "read_parquet(", "from_tensor_slices(", ".to_numpy(", ".copy()", "img_to_array(", "cv2.imread(",
            "Image.open(", "imread(", ".read(", ".readlines(", "np.full(", "np.ndarray(", "np.dot(", ".values",
            "to_pandas(", "DMatrix(", "torch.tensor(", "torch.from_numpy(", "torch.FloatTensor(",
        ],
    },
    Rule {
        phase: Phase::MoveData,
        file: &[
            "parallel/data_parallel.py", "/comm.py", "scatter_gather.py", "pin_memory.py", "constant_op.py",
            "ops/convert_to_tensor", "apply_func.py", "send_to_device",
        ],
        function: &[
            "scatter", "pin_memory", "convert_to_eager_tensor", "constant", "send_to_device", "move_data_to_device",
            "batch_to_device", "device_put", "_prepare_input", "_prepare_inputs", "transfer_batch_to_device",
        ],
        code: &[
            "tf.constant(", "device_put(", "jnp.array(", "jnp.asarray(", "tf.convert_to_tensor(", ".pin_memory(",
            "data.copy_(", ".data.resize_(", "device=device", "device='cuda", "device=\"cuda",
        ],
    },
    Rule {
        phase: Phase::Forward,
        file: &[
            "/nn/modules/", "\\nn\\modules\\", "mmdet", "detectron2/modeling", "/heads/", "/nn/functional",
            "\\nn\\functional", "torch/functional", "/layers/", "\\layers\\", "modeling_", "xformers", "flash_attn",
            "attention", "diffusers/models", "/models/", "/losses", "transformer", "timm/", "loss.py", "nn_ops.py",
            "gen_nn_ops", "linen/",
        ],
        function: &[
            "forward", "_call_impl", "__call__", "call", "compute_loss", "training_step", "loss", "encode", "decode",
            "sample", "apply_model", "attention", "_conv_forward", "conv2d", "linear", "generate", "train_step",
            "execute_model", "updateOutput",
        ],
        code: &[
            "F.", "nn.functional.", "torch.matmul(", "torch.bmm(", "torch.cat(", "torch.einsum(", "model(",
            "self.model(", "net(", "self.conv", "self.attn", "criterion(", "loss_fn(", "loss = ", "logits",
            "output = ", "outputs = ", "torch.baddbmm(", "softmax", "zeros_like(", "train_step(", "update_step(",
            "loss_and_grad", "model.generate(",
        ],
    },
    Rule {
        phase: Phase::Compile,
        file: &["pxla.py", "compiler.py", "mlir.py", "_inductor", "triton/"],
        function: &["backend_compile", "compile_or_get_cached", "cached_compile", "_compile_and_write_cache"],
        code: &[],
    },
];

/// Parts of LibTorch's symbols. The first that holds decides.
pub(super) const NATIVE_SYMBOLS: &[(Phase, &[&str])] = &[
    (Phase::Update, &["torch::optim::"]),
    (Phase::Backward, &["autograd::Engine", "autograd::generated::", "backward"]),
    (
        Phase::LoadModel,
        &[
            "torch::jit::load", "torch::jit::import", "jit::Unpickler", "ScriptModuleDeserializer", "nn::Module::to",
            "jit::Module::to", "torch::load",
        ],
    ),
    (
        Phase::Forward,
        &[
            "forward", "conv", "::mm::", "::bmm::", "addmm", "matmul", "linear", "_norm", "relu", "gelu", "silu",
            "softmax", "upsample", "_pool", "attention", "embedding", "lstm", "jit::InterpreterState",
            "jit::GraphFunction",
        ],
    ),
];

pub(super) const TRAIN: &[&str] = &[
    "train", "fit", "training_step", "train_step", "train_epoch", "training_loop", "do_train", "fit_generator",
    "train_on_batch", "_train", "_inner_training_loop", "train_one_epoch", "run_train", "train_model",
];

/// Lines of a log that tell what is being done, in the words of common programs.
pub(super) const TOLD: &[(Phase, &[&str])] = &[
    (
        Phase::Evaluate,
        &[
            "Evaluation [", "(valid)", "Starting evaluation", "Running evaluation", "Running Evaluation",
            "Running validation", "Validating", "Evaluating", "Valid (", "Validation:",
            "Running executor for Evaluator", "Running Prediction", "begin validation", " task/s, elapsed:",
        ],
    ),
    (
        Phase::Checkpoint,
        &[
            "Saving checkpoint", "Saving model", "saving model to", "Saving the model", "Restoring checkpoint",
            "Writing checkpoint",
        ],
    ),
    (
        Phase::LoadModel,
        &[
            "Creating the model", "Creating model", "Loading checkpoint shards", "Loading model", "Building model",
            "Loading weights", "Loading pipeline components", "Loading safetensors", "Building the model",
            "Loading the model", "load model", "Initializing model",
        ],
    ),
    (
        Phase::LoadData,
        &[
            "Loading data", "Reading data", "Loading images", "Preprocessing data", "Loading training data",
            "Loading the data", "Generating train split", "Loading dataset", "Filling up shuffle buffer",
            "Creating features from dataset", "Caching images",
        ],
    ),
];

//! Every remedy that explanations give, with its code.

use std::borrow::Cow;

use super::{Advice, For, Snippet};
use crate::report::SameResult;

const fn advice(id: &'static str, title: &'static str, same_result: SameResult, apply: &'static [Snippet]) -> Advice {
    Advice { id, title, same_result, apply: Cow::Borrowed(apply) }
}

const fn keras(code: &'static str) -> Snippet {
    Snippet { framework: For::Keras, code }
}

const fn torch(code: &'static str) -> Snippet {
    Snippet { framework: For::Torch, code }
}

const fn jax(code: &'static str) -> Snippet {
    Snippet { framework: For::Jax, code }
}

const fn any(code: &'static str) -> Snippet {
    Snippet { framework: For::Any, code }
}

/// Every remedy that explanations give.
pub const REGISTRY: &[Advice] = &[
    advice(
        "micro_batches",
        "Take the batch in parts and update once",
        SameResult::Exact,
        &[
            keras("brimful fit -- python train.py        # Keras, as it stands"),
            torch("step = brimful.torch.Step(model, loss, optimizer)   # PyTorch: step(batch)"),
        ],
    ),
    advice(
        "mixed_precision",
        "Compute in 16 bits, keep weights in 32",
        SameResult::Numerics,
        &[
            keras("keras.mixed_precision.set_global_policy('mixed_float16')"),
            torch("with torch.autocast('cuda', dtype=torch.bfloat16): ..."),
        ],
    ),
    advice(
        "activation_checkpointing",
        "Compute activations again instead of keeping them",
        SameResult::Exact,
        &[
            torch("model.gradient_checkpointing_enable()        # transformers"),
            torch("torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"),
        ],
    ),
    advice(
        "smaller_batch",
        "A smaller batch",
        SameResult::Changed,
        &[keras("model.fit(x, y, batch_size=16)"), torch("DataLoader(dataset, batch_size=16)")],
    ),
    advice(
        "smaller_inputs",
        "Smaller images or shorter sequences",
        SameResult::Changed,
        &[any("tokenizer(text, truncation=True, max_length=512)"), keras("tf.image.resize(image, (128, 128))")],
    ),
    advice(
        "efficient_attention",
        "Attention that does not write out its S×S matrix",
        SameResult::Numerics,
        &[
            torch("torch.nn.functional.scaled_dot_product_attention(q, k, v)"),
            torch("AutoModel.from_pretrained(name, attn_implementation='sdpa')"),
        ],
    ),
    advice(
        "check_shape",
        "Check the shape: is one dimension a mistake?",
        SameResult::Changed,
        &[any("print(x.shape, x.dtype)   # broadcasting (n,) against (n, 1) gives (n, n)")],
    ),
    advice(
        "chunk_computation",
        "Compute in chunks and join the results",
        SameResult::Exact,
        &[torch("out = torch.cat([f(part) for part in x.split(1024)])")],
    ),
    advice(
        "half_precision_weights",
        "Load the weights in 16 bits",
        SameResult::Numerics,
        &[torch("AutoModelForCausalLM.from_pretrained(name, dtype='bfloat16')"), torch("model.half()")],
    ),
    advice(
        "int8_weights",
        "Load the weights in 8 or 4 bits (inference, adapters)",
        SameResult::Changed,
        &[torch(
            "AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))",
        )],
    ),
    advice(
        "shard_model",
        "Spread weights, gradients and state over several devices",
        SameResult::Exact,
        &[
            torch("torchrun --nproc-per-node 4 train.py    # with FSDP: fully_shard(model)"),
            torch("AutoModel.from_pretrained(name, device_map='auto')"),
        ],
    ),
    advice(
        "cpu_offload",
        "Keep what is rarely used on the host",
        SameResult::Exact,
        &[
            torch("pipe.enable_model_cpu_offload()          # diffusers"),
            torch("fully_shard(model, offload_policy=CPUOffloadPolicy())"),
        ],
    ),
    advice(
        "narrower_layers",
        "Fewer or narrower layers",
        SameResult::Changed,
        &[keras("keras.layers.Dense(512)    # instead of 4096")],
    ),
    advice(
        "smaller_embeddings",
        "A smaller vocabulary or embedding",
        SameResult::Changed,
        &[keras("keras.layers.Embedding(20_000, 64)")],
    ),
    advice(
        "eight_bit_optimizer",
        "An optimizer with its state in 8 bits",
        SameResult::Numerics,
        &[torch("optimizer = bitsandbytes.optim.AdamW8bit(model.parameters())")],
    ),
    advice(
        "lighter_optimizer",
        "An optimizer with less state",
        SameResult::Changed,
        &[
            keras("keras.optimizers.SGD(momentum=0.9)"),
            torch("torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"),
        ],
    ),
    advice(
        "freeze_layers",
        "Train fewer weights: freeze, or adapters",
        SameResult::Changed,
        &[torch("for p in model.encoder.parameters(): p.requires_grad_(False)")],
    ),
    advice(
        "float32",
        "Compute in float32 instead of float64",
        SameResult::Numerics,
        &[keras("keras.config.set_floatx('float32')")],
    ),
    advice(
        "bfloat16",
        "Weights and activations in bfloat16",
        SameResult::Changed,
        &[keras("keras.config.set_dtype_policy('bfloat16')")],
    ),
    advice(
        "data_parallel",
        "Split the batch over several devices",
        SameResult::Exact,
        &[
            keras("keras.distribution.set_distribution(keras.distribution.DataParallel())"),
            torch("torchrun --nproc-per-node 2 train.py    # with DistributedDataParallel"),
        ],
    ),
    advice(
        "set_to_none",
        "Free gradients between steps",
        SameResult::Exact,
        &[torch("optimizer.zero_grad(set_to_none=True)")],
    ),
    advice(
        "fused_optimizer",
        "An optimizer that updates in place",
        SameResult::Exact,
        &[torch("torch.optim.AdamW(model.parameters(), fused=True)")],
    ),
    advice(
        "free_memory",
        "End the other processes on the device",
        SameResult::Exact,
        &[any("nvidia-smi            # lists them; kill PID, or shut down the notebook's kernel")],
    ),
    advice("other_device", "Use another device", SameResult::Exact, &[any("CUDA_VISIBLE_DEVICES=1 python train.py")]),
    advice(
        "memory_growth",
        "Do not reserve the whole device at the start",
        SameResult::Exact,
        &[
            keras("tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)"),
            jax("XLA_PYTHON_CLIENT_PREALLOCATE=false python train.py     # JAX"),
        ],
    ),
    advice(
        "limit_per_process",
        "Give each process a share of the device",
        SameResult::Exact,
        &[
            torch("torch.cuda.set_per_process_memory_fraction(0.4)"),
            jax("XLA_CLIENT_MEM_FRACTION=.4 python train.py"),
            torch("vllm serve MODEL --gpu-memory-utilization 0.8"),
        ],
    ),
    advice(
        "expandable_segments",
        "Let PyTorch's pool grow in place",
        SameResult::Exact,
        &[torch("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py")],
    ),
    advice(
        "stable_shapes",
        "Pad batches to a few sizes, the largest first",
        SameResult::Changed,
        &[torch(
            "DataLoader(dataset, collate_fn=collate)   # pads to a multiple of 64: docs/remedies/stable_shapes.md",
        )],
    ),
    advice(
        "async_allocator",
        "CUDA's own pool instead of TensorFlow's",
        SameResult::Exact,
        &[keras("TF_GPU_ALLOCATOR=cuda_malloc_async python train.py")],
    ),
    advice(
        "clear_between_runs",
        "Let go of earlier models and results",
        SameResult::Exact,
        &[
            keras("keras.backend.clear_session(); gc.collect()"),
            torch("del outputs; gc.collect(); torch.cuda.empty_cache()"),
        ],
    ),
    advice(
        "detach_results",
        "Keep numbers, not tensors with their graphs",
        SameResult::Exact,
        &[torch("total += loss.item()        # not: total += loss")],
    ),
    advice(
        "stable_signatures",
        "Call compiled functions with tensors, not with Python numbers",
        SameResult::Exact,
        &[keras("@tf.function(input_signature=[tf.TensorSpec([None, 784])])")],
    ),
    advice(
        "smaller_evaluation_batch",
        "A smaller batch for evaluation",
        SameResult::Exact,
        &[
            keras("model.evaluate(x, y, batch_size=8)"),
            torch("TrainingArguments(per_device_eval_batch_size=4, eval_accumulation_steps=8)"),
        ],
    ),
    advice(
        "inference_mode",
        "No graph in evaluation",
        SameResult::Exact,
        &[torch("with torch.inference_mode(): model.eval(); ...")],
    ),
    advice(
        "move_results_to_host",
        "Move predictions to the host as they come",
        SameResult::Exact,
        &[torch("predictions.append(model(x).cpu())")],
    ),
    advice(
        "save_from_host",
        "Gather and save the state on the host, piece by piece",
        SameResult::Exact,
        &[
            torch("torch.distributed.checkpoint.save(state, checkpoint_id=folder)"),
            torch("torch.load(path, map_location='cpu', mmap=True)"),
        ],
    ),
    advice(
        "batches_to_device",
        "Move a batch at a time to the device",
        SameResult::Exact,
        &[
            torch("for x, y in loader: x, y = x.to(device), y.to(device)"),
            keras("with tf.device('CPU'): dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)"),
        ],
    ),
    advice(
        "stream_data",
        "Read the data as it is needed",
        SameResult::Exact,
        &[
            keras("class Batches(keras.utils.PyDataset): ...   # reads a batch in __getitem__"),
            torch("class Rows(torch.utils.data.IterableDataset): ...   # reads in __iter__"),
            any("pl.scan_csv('big.csv'), pd.read_csv('big.csv', chunksize=100_000)"),
        ],
    ),
    advice(
        "chunked_reading",
        "Read a file in chunks",
        SameResult::Exact,
        &[any("for part in pd.read_csv('big.csv', chunksize=100_000): ...")],
    ),
    advice(
        "memory_map",
        "Map the array instead of reading it",
        SameResult::Exact,
        &[any("x = np.load('x.npy', mmap_mode='r')")],
    ),
    advice(
        "smaller_types",
        "Smaller types: float64 to float32, categories, no dense one-hot",
        SameResult::Numerics,
        &[
            any("x = x.astype('float32')"),
            any("pd.read_csv('big.csv', dtype={'id': 'int32', 'kind': 'category'}, usecols=[...])"),
        ],
    ),
    advice(
        "fewer_workers",
        "Fewer worker processes, less prefetching",
        SameResult::Exact,
        &[torch("DataLoader(dataset, num_workers=2, prefetch_factor=2)")],
    ),
    advice(
        "shm_size",
        "More shared memory for the container",
        SameResult::Exact,
        &[
            any("docker run --shm-size=8g ...     # or --ipc=host"),
            any("# Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm"),
        ],
    ),
    advice(
        "sharing_strategy",
        "Hand batches over another way",
        SameResult::Exact,
        &[
            torch("torch.multiprocessing.set_sharing_strategy('file_system')   # descriptors; needs /dev/shm"),
            torch("DataLoader(dataset, num_workers=0)"),
        ],
    ),
    advice(
        "raise_limit",
        "A higher limit, if the machine has room",
        SameResult::Exact,
        &[any("docker run --memory 32g ...      sbatch --mem 32G      resources.limits.memory: 32Gi")],
    ),
    advice(
        "free_disk",
        "Make room on the disk",
        SameResult::Exact,
        &[any("df -h . ; df -i . ; du -sh ~/.cache/* | sort -h")],
    ),
    advice(
        "other_folder",
        "Write to a disk with room",
        SameResult::Exact,
        &[any("export TMPDIR=/data/tmp HF_HOME=/data/hf")],
    ),
    advice(
        "fewer_checkpoints",
        "Keep fewer checkpoints",
        SameResult::Exact,
        &[
            torch("TrainingArguments(save_total_limit=2)"),
            keras("keras.callbacks.ModelCheckpoint(path, save_best_only=True)"),
        ],
    ),
    advice("raise_nofile", "Allow more open files", SameResult::Exact, &[any("ulimit -n 65535")]),
    advice(
        "fewer_threads",
        "Fewer threads per process",
        SameResult::Exact,
        &[any("OMP_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4 python train.py")],
    ),
    advice(
        "raise_nproc",
        "Allow more processes",
        SameResult::Exact,
        &[any("ulimit -u 65535       # containers: --pids-limit")],
    ),
    advice(
        "raise_message_limit",
        "A higher limit for messages",
        SameResult::Exact,
        &[any(
            "grpc.insecure_channel(address, options=[('grpc.max_receive_message_length', 256 << 20), ('grpc.max_send_message_length', 256 << 20)])",
        )],
    ),
    advice(
        "smaller_messages",
        "Send less at a time",
        SameResult::Exact,
        &[any("# pass a path or a reference instead of the data; save weights beside the graph, not in it")],
    ),
    advice(
        "read_the_error",
        "Look at the first error, not at the last",
        SameResult::Exact,
        &[any("CUDA_LAUNCH_BLOCKING=1 python train.py     # then the traceback shows the call that failed")],
    ),
];

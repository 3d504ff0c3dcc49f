//! What to do about a cause: advice with code.
//!
//! In: causes. Out: advice, the cheapest first. What `plan` can simulate carries the id of its remedy, and its page is the same; the rest is
//! advice about the surroundings of a job, which no simulation sees. Each has a page in `docs/remedies/`.

use serde::Serialize;

use super::causes::{self, Code};
use super::sign::Resource;
use crate::report::SameResult;

/// One remedy, as an explanation gives it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Advice {
    /// A stable id; its page is `docs/remedies/<id>.md`.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// What it does to the result.
    pub same_result: SameResult,
    /// Code or a command.
    pub code: &'static str,
}

const fn advice(id: &'static str, title: &'static str, same_result: SameResult, code: &'static str) -> Advice {
    Advice { id, title, same_result, code }
}

/// Every remedy that explanations give.
pub const REGISTRY: &[Advice] = &[
    advice("micro_batches", "Take the batch in parts and update once", SameResult::Exact, "brimful fit -- python train.py        # Keras, as it stands\nstep = brimful.torch.Step(model, loss, optimizer)   # PyTorch: step(batch)"),
    advice("mixed_precision", "Compute in 16 bits, keep weights in 32", SameResult::Numerics, "keras.mixed_precision.set_global_policy('mixed_float16')\nwith torch.autocast('cuda', dtype=torch.bfloat16): ..."),
    advice("activation_checkpointing", "Compute activations again instead of keeping them", SameResult::Exact, "model.gradient_checkpointing_enable()        # transformers\ntorch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"),
    advice("smaller_batch", "A smaller batch", SameResult::Changed, "model.fit(x, y, batch_size=16)\nDataLoader(dataset, batch_size=16)"),
    advice("smaller_inputs", "Smaller images or shorter sequences", SameResult::Changed, "tokenizer(text, truncation=True, max_length=512)\ntf.image.resize(image, (128, 128))"),
    advice("efficient_attention", "Attention that does not write out its S×S matrix", SameResult::Numerics, "torch.nn.functional.scaled_dot_product_attention(q, k, v)\nAutoModel.from_pretrained(name, attn_implementation='sdpa')"),
    advice("check_shape", "Check the shape: is one dimension a mistake?", SameResult::Changed, "print(x.shape, x.dtype)   # broadcasting (n,) against (n, 1) gives (n, n)"),
    advice("chunk_computation", "Compute in chunks and join the results", SameResult::Exact, "out = torch.cat([f(part) for part in x.split(1024)])"),
    advice("half_precision_weights", "Load the weights in 16 bits", SameResult::Numerics, "AutoModelForCausalLM.from_pretrained(name, dtype='bfloat16')\nmodel.half()"),
    advice("int8_weights", "Load the weights in 8 or 4 bits (inference, adapters)", SameResult::Changed, "AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))"),
    advice("shard_model", "Spread weights, gradients and state over several devices", SameResult::Exact, "torchrun --nproc-per-node 4 train.py    # with FSDP: fully_shard(model)\nAutoModel.from_pretrained(name, device_map='auto')"),
    advice("cpu_offload", "Keep what is rarely used on the host", SameResult::Exact, "pipe.enable_model_cpu_offload()          # diffusers\nfully_shard(model, offload_policy=CPUOffloadPolicy())"),
    advice("narrower_layers", "Fewer or narrower layers", SameResult::Changed, "keras.layers.Dense(512)    # instead of 4096"),
    advice("smaller_embeddings", "A smaller vocabulary or embedding", SameResult::Changed, "keras.layers.Embedding(20_000, 64)"),
    advice("eight_bit_optimizer", "An optimizer with its state in 8 bits", SameResult::Numerics, "optimizer = bitsandbytes.optim.AdamW8bit(model.parameters())"),
    advice("lighter_optimizer", "An optimizer with less state", SameResult::Changed, "keras.optimizers.SGD(momentum=0.9)\ntorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"),
    advice("freeze_layers", "Train fewer weights: freeze, or adapters", SameResult::Changed, "for p in model.encoder.parameters(): p.requires_grad_(False)"),
    advice("free_memory", "End the other processes on the device", SameResult::Exact, "nvidia-smi            # lists them; kill PID, or shut down the notebook's kernel"),
    advice("other_device", "Use another device", SameResult::Exact, "CUDA_VISIBLE_DEVICES=1 python train.py"),
    advice("memory_growth", "Do not reserve the whole device at the start", SameResult::Exact, "tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)\nXLA_PYTHON_CLIENT_PREALLOCATE=false python train.py     # JAX"),
    advice("limit_per_process", "Give each process a share of the device", SameResult::Exact, "torch.cuda.set_per_process_memory_fraction(0.4)\nXLA_PYTHON_CLIENT_MEM_FRACTION=.4 python train.py\nvllm serve MODEL --gpu-memory-utilization 0.8"),
    advice("expandable_segments", "Let PyTorch's pool grow in place", SameResult::Exact, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"),
    advice("stable_shapes", "Pad batches to a few sizes, the largest first", SameResult::Changed, "DataLoader(..., collate_fn=pad_to_multiple_of(64))"),
    advice("async_allocator", "CUDA's own pool instead of TensorFlow's", SameResult::Exact, "TF_GPU_ALLOCATOR=cuda_malloc_async python train.py"),
    advice("clear_between_runs", "Let go of earlier models and results", SameResult::Exact, "keras.backend.clear_session(); gc.collect()\ndel outputs; gc.collect(); torch.cuda.empty_cache()"),
    advice("detach_results", "Keep numbers, not tensors with their graphs", SameResult::Exact, "total += loss.item()        # not: total += loss"),
    advice("stable_signatures", "Call compiled functions with tensors, not with Python numbers", SameResult::Exact, "@tf.function(input_signature=[tf.TensorSpec([None, 784])])"),
    advice("smaller_evaluation_batch", "A smaller batch for evaluation", SameResult::Exact, "model.evaluate(x, y, batch_size=8)\nTrainingArguments(per_device_eval_batch_size=4, eval_accumulation_steps=8)"),
    advice("inference_mode", "No graph in evaluation", SameResult::Exact, "with torch.inference_mode(): model.eval(); ..."),
    advice("move_results_to_host", "Move predictions to the host as they come", SameResult::Exact, "predictions.append(model(x).cpu())"),
    advice("save_from_host", "Gather and save the state on the host, piece by piece", SameResult::Exact, "torch.distributed.checkpoint.save(state, checkpoint_id=folder)\ntorch.load(path, map_location='cpu', mmap=True)"),
    advice("batches_to_device", "Move a batch at a time to the device", SameResult::Exact, "for x, y in loader: x, y = x.to(device), y.to(device)\nwith tf.device('CPU'): dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)"),
    advice("stream_data", "Read the data as it is needed", SameResult::Exact, "keras.utils.PyDataset, tf.data.TextLineDataset, torch IterableDataset: a batch at a time\npl.scan_csv('big.csv'), pd.read_csv('big.csv', chunksize=100_000)"),
    advice("chunked_reading", "Read a file in chunks", SameResult::Exact, "for part in pd.read_csv('big.csv', chunksize=100_000): ..."),
    advice("memory_map", "Map the array instead of reading it", SameResult::Exact, "x = np.load('x.npy', mmap_mode='r')"),
    advice("smaller_types", "Smaller types: float64 to float32, categories, no dense one-hot", SameResult::Numerics, "x = x.astype('float32')\npd.read_csv('big.csv', dtype={'id': 'int32', 'kind': 'category'}, usecols=[...])"),
    advice("fewer_workers", "Fewer worker processes, less prefetching", SameResult::Exact, "DataLoader(dataset, num_workers=2, prefetch_factor=2)"),
    advice("shm_size", "More shared memory for the container", SameResult::Exact, "docker run --shm-size=8g ...     # or --ipc=host\n# Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm"),
    advice("sharing_strategy", "Hand batches over another way", SameResult::Exact, "torch.multiprocessing.set_sharing_strategy('file_system')   # descriptors; needs /dev/shm\nDataLoader(dataset, num_workers=0)"),
    advice("raise_limit", "A higher limit, if the machine has room", SameResult::Exact, "docker run --memory 32g ...      sbatch --mem 32G      resources.limits.memory: 32Gi"),
    advice("free_disk", "Make room on the disk", SameResult::Exact, "df -h . ; df -i . ; du -sh ~/.cache/* | sort -h"),
    advice("other_folder", "Write to a disk with room", SameResult::Exact, "export TMPDIR=/data/tmp HF_HOME=/data/hf"),
    advice("fewer_checkpoints", "Keep fewer checkpoints", SameResult::Exact, "TrainingArguments(save_total_limit=2)\nkeras.callbacks.ModelCheckpoint(path, save_best_only=True)"),
    advice("raise_nofile", "Allow more open files", SameResult::Exact, "ulimit -n 65535"),
    advice("fewer_threads", "Fewer threads per process", SameResult::Exact, "OMP_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4 python train.py"),
    advice("raise_nproc", "Allow more processes", SameResult::Exact, "ulimit -u 65535       # containers: --pids-limit"),
    advice("raise_message_limit", "A higher limit for messages", SameResult::Exact, "grpc.insecure_channel(address, options=[('grpc.max_receive_message_length', 256 << 20), ('grpc.max_send_message_length', 256 << 20)])"),
    advice("smaller_messages", "Send less at a time", SameResult::Exact, "# pass a path or a reference instead of the data; save weights beside the graph, not in it"),
    advice("read_the_error", "Look at the first error, not at the last", SameResult::Exact, "CUDA_LAUNCH_BLOCKING=1 python train.py     # then the traceback shows the call that failed"),
];

/// Remedies of a cause; without one, those of what is possible, one each; at least those of what ran out.
pub(super) fn advise(cause: Option<Code>, possible: &[Code], resource: Option<Resource>) -> Vec<Advice> {
    let of = |code: Code| causes::by_code(code).remedies.iter().filter_map(|id| by_id(id));
    if let Some(code) = cause {
        return of(code).collect();
    }
    let mut found: Vec<Advice> = possible.iter().filter_map(|&code| of(code).next()).collect();
    let usual: &[&str] = match resource {
        Some(Resource::GpuMemory) => &["micro_batches", "mixed_precision", "free_memory"],
        Some(Resource::HostMemory | Resource::ContainerLimit) => &["stream_data", "fewer_workers", "raise_limit"],
        Some(Resource::SharedMemory) => &["shm_size"],
        _ => &[],
    };
    for advice in usual.iter().filter_map(|id| by_id(id)) {
        if !found.iter().any(|known| known.id == advice.id) {
            found.push(advice);
        }
    }
    found
}

/// A remedy by its id.
pub fn by_id(id: &str) -> Option<Advice> {
    REGISTRY.iter().find(|advice| advice.id == id).copied()
}

//! Who has how much of a device, and how its pool is kept.

use super::super::code::{CUDA, GPUS, HOST, MPS, NPU, ROCM, TPU, XPU, any, jax, keras, torch};
use super::super::{Advice, advice};
use crate::report::SameResult;

pub(super) const ADVICE: &[Advice] = &[
    advice(
        "free_memory",
        "End the other processes on the device",
        SameResult::Exact,
        &[
            any("nvidia-smi            # lists them; kill PID, or shut down the notebook's kernel").on(CUDA),
            any("rocm-smi --showpids   # lists them; kill PID, or shut down the notebook's kernel").on(ROCM),
            any("top -o mem            # Macs share one memory: end what holds most of it").on(MPS),
            any("xpu-smi ps            # lists them; kill PID, or shut down the notebook's kernel").on(XPU),
            any("npu-smi info          # lists them; kill PID, or shut down the notebook's kernel").on(NPU),
            any("sudo lsof -w /dev/accel* /dev/vfio/*     # lists them; kill PID, or shut down the notebook's kernel")
                .on(TPU),
        ],
    ),
    advice(
        "other_device",
        "Use another device",
        SameResult::Exact,
        &[
            any("CUDA_VISIBLE_DEVICES=1 python train.py").on(CUDA),
            any("HIP_VISIBLE_DEVICES=1 python train.py").on(ROCM),
            any("ZE_AFFINITY_MASK=1 python train.py").on(XPU),
            any("ASCEND_RT_VISIBLE_DEVICES=1 python train.py").on(NPU),
        ],
    ),
    advice(
        "memory_growth",
        "Do not reserve the whole device at the start",
        SameResult::Exact,
        &[
            keras("tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)"),
            jax("XLA_PYTHON_CLIENT_PREALLOCATE=false python train.py     # JAX").on(GPUS),
        ],
    ),
    advice(
        "limit_per_process",
        "Give each process a share of the device",
        SameResult::Exact,
        &[
            torch("torch.cuda.set_per_process_memory_fraction(0.4)").on(GPUS),
            torch("torch.mps.set_per_process_memory_fraction(0.4)").on(MPS),
            jax("XLA_CLIENT_MEM_FRACTION=.4 python train.py").on(GPUS),
            torch("vllm serve MODEL --gpu-memory-utilization 0.8"),
        ],
    ),
    advice(
        "larger_share",
        "Let JAX's pool have more of the device",
        SameResult::Exact,
        &[jax("XLA_PYTHON_CLIENT_MEM_FRACTION=.95 python train.py      # three quarters, if nothing is said").on(GPUS)],
    ),
    advice(
        "expandable_segments",
        "Let PyTorch's pool grow in place",
        SameResult::Exact,
        &[
            torch("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py").on(CUDA),
            torch("PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512 python train.py")
                .on(ROCM),
        ],
    ),
    advice(
        "async_allocator",
        "CUDA's own pool instead of the framework's",
        SameResult::Exact,
        &[
            keras("TF_GPU_ALLOCATOR=cuda_malloc_async python train.py").on(CUDA),
            jax("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async python train.py").on(CUDA),
        ],
    ),
    advice(
        "clear_between_runs",
        "Let go of earlier models and results",
        SameResult::Exact,
        &[
            keras("keras.backend.clear_session(); gc.collect()"),
            torch("del outputs; gc.collect(); torch.cuda.empty_cache()").on(GPUS),
            torch("del outputs; gc.collect()").on(HOST),
            torch("del outputs; gc.collect(); torch.mps.empty_cache()").on(MPS),
            torch("del outputs; gc.collect(); torch.xpu.empty_cache()").on(XPU),
            torch("del outputs; gc.collect(); torch.npu.empty_cache()").on(NPU),
            jax("del state; gc.collect(); jax.clear_caches()"),
        ],
    ),
];

//! Whoever else says that memory ran out: Paddle, MXNet, Chainer and CuPy, Theano, Caffe, Darknet, ONNX Runtime, TensorRT, RAPIDS, llama.cpp, and
//! programs that nobody knows.
//!
//! These wordings are general, so that they give way to any sign that knows its program.

use super::super::excerpt::Excerpt;
use super::super::phase::has_model;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{
    after, bytes_after, find, has, has_any, has_word_of, number_after, quantity, size_after, size_before,
};
use super::super::traceback::Frame;
use super::quoted::MANUALS;
use super::talk::{is_own, is_sentence};
use crate::bytes::MIB;

/// Words that say the memory is an accelerator's.
const DEVICE: &[&str] = &[
    "gpu", "cuda", "device", "vram", "cudnn", "tensorrt", "[trt]", "hip", "opencl", "metal", "onnxruntime", "cupy",
    "allocated so far", "cudamalloc", "cumemalloc", "cudaerrormemoryallocation", "ncudalib",
    // Thrust's algorithms, which XGBoost and RAPIDS run.
    "thrust", "parallel_for",
];

/// Words of those who say it in signs of their own.
const OTHERS: &[&str] = &[
    "gpu", "cuda", "device", "vram", "hbm", "tpu", "xpu", "mps", "hip", "trt", "oom", "cgroup", "worker",
    "onnxruntime", "java", "spark", "killed", "cudamalloc", "cumemalloc", "cudaerrormemoryallocation", "ncudalib",
    "thrust", "parallel_for",
];

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::GpuMemory),
        read: figures,
        check: |text| has_word_of(text, DEVICE) && says_so(text),
        ..Sign::new(
            "anybody.device",
            &[
                "out of memory", "out-of-memory", "outofmemory", "Error allocating", "Failed to allocate memory",
                "Cannot allocate", "allocation failed", "User allocator error", "memory allocation failure",
                "allocating <= available failed", "not enough VRAM", "not enough GPU memory", "insufficient VRAM",
                "insufficient GPU memory", "out of VRAM", "insufficient memory", "GPU memory is overflow",
            ],
            Weight::Failure,
        )
    },
    // As people call it, in a title or a sentence.
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &["avoid", "prevent", "no CUDA OOM", "without", "?", "CUDA OOMs:"],
        ..Sign::new("anybody.oom", &["CUDA OOM", "GPU OOM", "hbm OOM"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::HostMemory),
        unless: &["avoid", "prevent", "without", "?", "no CPU OOM", "fix", "Fix", "should"],
        ..Sign::new("anybody.host_oom", &["CPU OOM", "RAM OOM", "host OOM"], Weight::Failure)
    },
    // The same without the device, which the words or the frames around have to name (`on_device`).
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &[
            "avoid", "prevent", "without", "?", "CUDA OOM", "GPU OOM", "CPU OOM", "OOM-kill", "OOM kill", "OOMKill",
            "no OOM", "should", "handle", "Handle", "detect", "Detect", "Fix", "fix",
        ],
        check: reports_oom,
        ..Sign::new(ANYBODYS_OOM, &[" OOM", "遇到OOM", "出现OOM", "发生OOM", "报OOM"], Weight::Failure)
    },
    // ONNX Runtime lays channels out in blocks (`Conv_7_nchwc`) on a processor only.
    Sign {
        resource: Some(Resource::HostMemory),
        read: figures,
        also: &["_nchwc"],
        ..Sign::new("onnx.host", &["Failed to allocate memory for requested buffer of size"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: figures,
        check: |text| !has(text, "_nchwc"),
        ..Sign::new(
            "cupy.oom",
            &[
                "bytes (allocated so far", "cupy.cuda.memory.OutOfMemoryError", "cuMemAlloc results in",
                "cudaMalloc failed", "allocating <= available failed", "cudaSuccess (2 vs. 0)",
                "CudaNdarray_ZEROS: allocation failed", "Failed to allocate memory for requested buffer of size",
                "error allocating", "out of memory to allocate",
            ],
            Weight::Failure,
        )
        .on_allocating()
    },
    // PhysX, below Isaac Gym; OpenCL, below LightGBM.
    Sign {
        resource: Some(Resource::GpuMemory),
        read: |text, numbers| {
            let asked = bytes_after(text, "fail to allocate memory");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        ..Sign::new(
            "physx.device",
            &[
                "CudaDeviceMemoryAllocator fail to allocate memory", "Memory Object Allocation Failure",
                "CL_MEM_OBJECT_ALLOCATION_FAILURE",
            ],
            Weight::Failure,
        )
    },
    // XGBoost: `Memory allocation error on worker 0: Caching allocator`, and its figures below. MXNet, before it said why.
    Sign {
        resource: Some(Resource::GpuMemory),
        read: |text, numbers| {
            numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "- Requested memory:"));
            numbers.free_bytes = numbers.free_bytes.or_else(|| bytes_after(text, "- Free memory:"));
        },
        also: &["on worker", "pooled_storage_manager.h"],
        ..Sign::new(
            "xgboost.device",
            &["Memory allocation error on worker", "Memory allocation failed"],
            Weight::Failure,
        )
    },
    // Caffe, of its host memory: `host allocation of size 8589934592 failed`.
    Sign {
        resource: Some(Resource::HostMemory),
        read: |text, numbers| {
            let asked = number_after(text, "host allocation of size ");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        also: &["fail"],
        ..Sign::new("caffe.host", &["host allocation of size "], Weight::Failure)
    },
    // llama.cpp and what is built on it name the backend: `failed to allocate CPU buffer of size 437944320`.
    Sign {
        resource: Some(Resource::HostMemory),
        read: figures,
        also: &["failed to allocate"],
        check: ggml_host,
        ..Sign::new("ggml.host_buffer", &["buffer of size "], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: |text, numbers| {
            let asked = size_after(text, "insufficient memory (attempted to allocate");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        ..Sign::new("ggml.host", &["insufficient memory (attempted to allocate"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: figures,
        also: &["alloc_tensor_range: failed to allocate", "ggml_gallocr_reserve_n: failed to allocate"],
        check: |text| !ggml_host(text),
        ..Sign::new("ggml.device_buffer", &["buffer of size "], Weight::Failure)
    },
    // What it was for, below the buffer.
    Sign { ..Sign::new("ggml.kv_cache", &["failed to allocate buffer for kv cache"], Weight::Context) },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: |text, numbers| {
            let asked = bytes_after(text, "Device memory allocation of size");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        check: |text| !has(text, "Device memory allocation of size") || has(text, "fail"),
        ..Sign::new(
            "vulkan.oom",
            &["Device memory allocation of size", "ErrorOutOfDeviceMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY"],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        check: |text| !has_word_of(text, OTHERS) && says_so(text),
        read: figures,
        ..Sign::new(
            "anybody.host",
            &[
                "out of memory", "out-of-memory", "Out of Memory Error", "memory exhausted",
                "Could not allocate bytes object", "insufficient memory", "not enough memory", "ran out of memory",
                "failed to allocate the memory", "did not complete successfully: cannot allocate memory",
                "Array buffer allocation failed",
            ],
            Weight::Failure,
        )
    },
];

/// Whoever says that it was out of memory, in three letters.
pub const ANYBODYS_OOM: &str = "anybody.oom_told";

/// What people do with an `OOM` that they had.
const HAD: &[&str] = &[
    "got", "get", "gets", "getting", "hit", "hits", "hitting", "face", "facing", "faced", "encounter", "encountered",
    "encountering", "met", "meet", "crashes", "crashed", "fails", "failed", "goes", "went", "going", "leads", "throws",
];

/// Words between the two: `we hit the well known OOM`.
const BETWEEN: usize = 3;

/// Whether somebody says that he had it, or names a report so.
fn reports_oom(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let had = |at: usize| words[at.saturating_sub(BETWEEN + 1)..at].iter().any(|word| HAD.contains(&word.as_str()));
    let title = text.starts_with("# ");
    words.iter().enumerate().any(|(at, word)| word == "oom" && (title || (is_own(text) && had(at))))
}

/// Whether the words of a person, what he says next, or the frames that stand around them, show that a device is meant.
pub fn on_device(excerpt: &Excerpt, frames: &[Frame]) -> bool {
    let next = excerpt.after.iter().take(SAID_NEXT);
    let mut lines = std::iter::once(&excerpt.line).chain(next);
    lines.any(|line| has_word_of(&line.text, DEVICE)) || has_model(frames)
}

/// Lines in which somebody says what he meant.
const SAID_NEXT: usize = 2;

/// Whether ggml speaks of a buffer on the host: the CPU's own, or pinned for a device (`CUDA_Host`).
fn ggml_host(text: &str) -> bool {
    let named = after(text, "failed to allocate ").and_then(|tail| tail.split(" buffer").next()).unwrap_or("");
    has(text, "ggml_backend_cpu_buffer_type") || named.starts_with("CPU") || named.ends_with("_Host")
}

impl Sign {
    const fn on_allocating(self) -> Sign {
        Sign { also: &["alloc", "OutOfMemory", "cudaSuccess", "failed"], ..self }
    }
}

/// Calls for memory of a device, as programs that check each call print them above what it returned.
const DEVICE_CALLS: &[&str] = &["cudaMalloc(", "cudaMallocAsync(", "cudaMallocPitch(", "cuMemAlloc(", "hipMalloc("];

/// Lines above a sentence in which its title stands.
const BELOW_TITLE: usize = 6;

/// What a person calls out of memory without a device is the device's, where the title above names one or the frames around it are of a model.
pub fn told_of_device(sign: &'static Sign, excerpt: &Excerpt, frames: &[Frame]) -> &'static Sign {
    let named = |text: &str| text.starts_with("# ") && has(text, "out of memory") && has_word_of(text, DEVICE);
    let titled = || excerpt.before.iter().rev().take(BELOW_TITLE).any(|line| named(&line.text));
    let told = sign.id == "anybody.host" && is_sentence(&excerpt.line.text);
    if told && (has_model(frames) || titled()) { &SIGNS[0] } else { sign }
}

/// A line that goes on with a word of the line above it says what that one spoke of: `cudaMalloc fail` and `ed: out of memory`. So does one below
/// the call that failed.
pub fn continued(sign: &'static Sign, above: Option<&str>, line: &str) -> &'static Sign {
    let goes_on = line.starts_with(|c: char| c.is_ascii_lowercase());
    let of_device = above.is_some_and(|above| above.len() >= 60 && has_word_of(above, DEVICE));
    let called = above.is_some_and(|above| has_any(above, DEVICE_CALLS));
    if sign.id == "anybody.host" && (called || (goes_on && of_device)) { &SIGNS[0] } else { sign }
}

/// Where a title that begins with it has it: `# GPU out of memory`.
const LEADS: usize = 24;

/// A statement, and not advice, a question, a test's name or a log of what was set.
fn says_so(text: &str) -> bool {
    let advice = [
        "if you", "to avoid", "may ", "might", "could be", "hint:", "try ", "possible", "prevent", "? ", "in case",
        "consider", "helps", "issue", "... ok", "handler", "is not a failure", "when memory", "perhaps", "see ",
        "http",
    ];
    let failed = [
        "error", "fail", "exception", "fatal", "check failed", "abort", "exit", "cannot allocate", "could not allocate",
    ];
    let short = text.trim().len() < 60 || has(text.trim_start().get(..13).unwrap_or(""), "out of memory");
    if has_any(
        text,
        &[
            "is not a failure", "... ok", "out of resource:", ": I tensorflow", "of pinned memory", ": I external",
            ", using CPU", "... skipping", "memory errors", "nodes are available", "if out", "SKIPPED",
            "no out of memory", "not out of memory", "register memory", "not run out of memory", "memory error occurs",
            "memory error may", "memory error can", "memory error might",
        ],
    ) {
        return false;
    }
    // A sentence of a manual names an error, too; an allocator's own message has its figure.
    let asked = text.trim_end().ends_with('?') && !(is_own(text) && has(text, "error"));
    let told = (asked || has_any(text, MANUALS)) && !has(text, "allocat");
    // Whoever had it says so in the past.
    let ran = ["ran out of memory", "came out of memory", "went out of memory", "got out of memory"];
    let had = is_own(text) && has_any(text, &ran);
    // And so does whoever begins or ends a title with it.
    let ends = ["yielding out", "yields out", "leading to out", "leads to out", "results in out", "resulting in out"];
    let leads =
        text.starts_with("# ") && (find(text, "out of memory").is_some_and(|at| at <= LEADS) || has_any(text, &ends));
    !told && (has_any(text, &failed) || ((short || had || leads) && !has_any(text, &advice)))
}

fn figures(text: &str, numbers: &mut Numbers) {
    let requested = [
        "Error allocating", "Cannot allocate", "Out of memory allocating", "requested buffer of size",
        "error allocating", "available failed,", "failed to allocate", "Failed to allocate", "tried to allocate",
        "memory to allocate", "buffer of size", "allocating", "memory. Requested", "Failed on request of size",
    ];
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| requested.iter().find_map(|phrase| bytes_after(text, phrase).filter(|&bytes| bytes > 0)));
    // CatBoost, before 0.10, left out that it counts in MiB: `Out of memory. Requested 1795.5; Free 595.1`.
    let counted = has(text, "stack_like_memory_pool.h") && size_after(text, "memory. Requested").is_none();
    if let Some(mebibytes) = after(text, "memory. Requested").and_then(quantity).filter(|_| counted) {
        numbers.requested_bytes = Some((mebibytes.value * MIB as f64).round() as u64);
    }
    // FAISS: `alloc fail type FlatData dev 0 space Device stream 0x55 size 12884901888 bytes (cudaMalloc error …`
    let faiss = after(text, "alloc fail type").and_then(|tail| bytes_after(tail, " size"));
    numbers.requested_bytes = numbers.requested_bytes.or(faiss);
    numbers.capacity_bytes =
        numbers.capacity_bytes.or_else(|| size_before(text, "total").filter(|_| has(text, "Driver report")));
    numbers.free_bytes = numbers
        .free_bytes
        .or_else(|| size_after(text, "available memory is only"))
        .or_else(|| size_after(text, "Driver report"))
        // CatBoost: `Out of memory. Requested 1795 MB; Free 595.1 MB`
        .or_else(|| after(text, "memory. Requested").and_then(|tail| size_after(tail, "Free")));
    numbers.allocated_bytes = numbers
        .allocated_bytes
        .or_else(|| size_before(text, "memory has been allocated"))
        .or_else(|| size_after(text, "allocated so far:"));
    // ONNX Runtime: `while running Conv node. Name:'347'`
    if let Some((kind, name)) = after(text, "while running ").and_then(|tail| tail.split_once(" node. Name:")) {
        let name = name.trim_start_matches(['\\', '\'']).split(['\\', '\'']).next().unwrap_or("");
        numbers.op = numbers.op.take().or_else(|| (kind.len() < 40).then(|| format!("{kind} {name}")));
    }
    if let Some(index) = number_after(text, "on GPU ").or_else(|| number_after(text, "GPU=")) {
        numbers.device.get_or_insert_with(|| format!("GPU {index}"));
    }
}

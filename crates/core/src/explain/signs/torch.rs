//! What PyTorch says, from 0.4 to 2.x, and the libraries around it.
//!
//! Origin of the wordings: c10's CUDA, HIP, XPU and MPS allocators and `alloc_cpu.cpp` of the versions named, DataLoader's
//! `_utils/signal_handling.py`, vLLM's and DeepSpeed's own messages.

use super::super::causes::Code;
use super::super::sign::{Numbers, OtherProcess, Resource, Sign, Weight};
use super::super::sizes::{
    Quantity, after, bytes_after, has, has_any, number_after, quantity, size_after, size_before,
};
use super::quoted::is_quoted;

/// How a worker ends that the kernel, or whoever sends signal 9, killed.
const KILLED: &[&str] = &["signal: Killed", "SIGKILL", "signal 9", "by signal Killed"];
/// Those, and one that found no shared memory.
const NOT_ONLY_GONE: &[&str] = &["Bus error", "signal: Killed", "SIGKILL", "signal 9", "by signal Killed"];

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::GpuMemory),
        check: |text| !is_advice(text),
        unless: &[
            "is not a failure", "will retry", "java.", "ray.exceptions.OutOfMemoryError", "If you encounter CUDA",
            "... ok", "CPU out of memory", "DefaultCPUAllocator", "would exceed allowed memory",
        ],
        read: device,
        ..Sign::new(
            "torch.device_oom",
            &[
                "CUDA out of memory", "HIP out of memory", "XPU out of memory", "NPU out of memory",
                "cuda runtime error (2)", "MPS backend out of memory", "torch.cuda.OutOfMemoryErr",
                "torch.OutOfMemoryErr", "OutOfMemoryError   ", "error=2 : out of memory",
                "failed with error 2 out of memory", "Allocation on device", "MUSA out of memory", "MLU out of memory",
            ],
            Weight::Failure,
        )
    },
    // Cut off before it says so, or in somebody's own words: nothing else has these figures.
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &["out of memory", "OutOfMemoryError"],
        read: device,
        ..Sign::new(
            "torch.cut_start",
            &["reserved by PyTorch but unallocated", "reserved in total by PyTorch)", "total capacity; "],
            Weight::Symptom,
        )
    },
    // Cut off in the middle of these words.
    Sign {
        resource: Some(Resource::GpuMemory),
        also: &["Error"],
        check: |text| ["CUDA out", "CUDA out of"].iter().any(|start| text.trim_end().ends_with(start)),
        ..Sign::new("torch.cut_off", &["CUDA out"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        check: |text| text.trim().eq_ignore_ascii_case("out of memory"),
        ..Sign::new("cuda.bare", &["out of memory"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::BatchTooLarge),
        read: device,
        ..Sign::new(
            "fairseq.skipped",
            &[
                "ran out of memory with exception", "ran out of memory, retrying batch",
                "ran out of memory, skipping batch", "ran out of memory on GPU #", "OOM in batch",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: device,
        ..Sign::new("torch.allowed_memory", &["would exceed allowed memory"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::TensorTooLarge),
        also: &["CUDA out of memory", "HIP out of memory", "XPU out of memory"],
        ..Sign::new("torch.too_big", &["more than 1EB memory"], Weight::Failure)
    },
    Sign {
        read: device,
        ..Sign::new(
            "torch.figures",
            &["Tried to allocate", "total capacity of", "MPS allocated:", "reserved by PyTorch", "already allocated"],
            Weight::Context,
        )
    },
    // PyTorch's own summary counts how often its pool was refused: `|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |`
    Sign {
        resource: Some(Resource::GpuMemory),
        check: |text| number_after(text, "CUDA OOMs:").is_some_and(|count| count > 0),
        ..Sign::new("torch.summary", &["CUDA OOMs:"], Weight::Symptom)
    },
    // Accelerate halves a batch as long as memory runs out.
    Sign {
        resource: Some(Resource::GpuMemory),
        ..Sign::new("accelerate.zero", &["No executable batch size found, reached zero"], Weight::Failure)
    },
    // What vLLM and Ultralytics say of the device before they begin.
    Sign {
        read: |text, numbers| {
            let total = size_after(text, "total_gpu_memory").or_else(|| size_before(text, "total,"));
            numbers.capacity_bytes = numbers.capacity_bytes.or(total);
        },
        ..Sign::new("torch.device_total", &["total_gpu_memory (", "G total, "], Weight::Context)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: device,
        ..Sign::new(
            "torch.unified_oom",
            &[
                "Invalid buffer size", "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                "PI_ERROR_OUT_OF_RESOURCES", "UR_RESULT_ERROR_OUT_OF_RESOURCES",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: host,
        ..Sign::new(
            "torch.host_oom",
            &[
                "DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory",
                "CPUAllocator.cpp", "alloc_cpu.cpp", "posix_memalign", "$ Torch: not enough memory",
                "not enough memory: you tried to allocate",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: pinned,
        ..Sign::new(
            "torch.pinned_oom",
            &[
                "bytes on host: CUDA_ERROR_OUT_OF_MEMORY", "could not allocate pinned host memory",
                "failed to alloc pinned",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::EvaluationOrCheckpoint),
        ..Sign::new("torch.fsdp_clone", &["Failed to clone() tensor with name"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::SharedMemory),
        cause: Some(Code::WorkerSharedMemory),
        read: shared,
        ..Sign::new(
            "torch.shared_memory",
            &[
                "insufficient shared memory",
                "unable to allocate shared memory(shm)",
                "unable to mmap memory: you tried to mmap",
                "from file </torch_",
                // The same by a descriptor, whose file has no name.
                "from file <filename not specified>",
                "unable to write to file </torch_",
                "unable to resize file </torch",
                "It is possible that dataloader's workers are out of shared memory",
                "might be caused by insufficient shared memory",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::SharedMemory),
        ..Sign::new("torch.shared_object", &["unable to open shared memory object </torch_"], Weight::Symptom)
    },
    // The end of the message, where its beginning was cut off.
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &["out of memory", "OutOfMemory"],
        check: |text| has(text, "See documentation") && !is_quoted(text),
        ..Sign::new("torch.oom_end", &["to avoid fragmentation. "], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        ..Sign::new("ray.task_oom", &["RayTaskError(OutOfMemoryError)"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: worker,
        // Workers that crash or are told to stop are `killed by signal`, too.
        also: KILLED,
        ..Sign::new("torch.worker_killed", &["DataLoader worker (pid"], Weight::Symptom)
    },
    Sign {
        read: worker,
        unless: NOT_ONLY_GONE,
        ..Sign::new("torch.worker_gone", &["DataLoader worker (pid"], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::SharedMemory),
        cause: Some(Code::WorkerSharedMemory),
        also: &["Bus error"],
        read: worker,
        ..Sign::new("torch.worker_bus_error", &["DataLoader worker (pid"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: worker,
        also: &["exitcode: -9", "exitcode  : -9", "Signal 9", "SIGKILL", "-9 (pid"],
        ..Sign::new("torch.elastic_killed", &["exitcode: -9", "exitcode  : -9", "Signal 9 (SIGKILL)"], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: vllm,
        ..Sign::new("vllm.free_at_start", &["is less than desired GPU memory utilization"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::ReservedAtStart),
        read: vllm,
        ..Sign::new(
            "vllm.no_blocks",
            &[
                "No available memory for the cache blocks",
                "maximum number of tokens that can be stored in KV cache",
                "is larger than the available KV cache memory",
                "larger than the maximum number of tokens that can be stored",
                "To serve at least one request with the model",
                "Capture cuda graph failed: CUDA out of memory",
                "Not enough memory. Please try to increase --mem-fraction-static",
                "leave no GPU memory for the KV cache",
            ],
            Weight::Failure,
        )
    },
    // text-generation-inference rehearses the largest batch that it would take.
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::BatchTooLarge),
        also: &["prefill tokens"],
        ..Sign::new("tgi.prefill", &["Not enough memory to handle"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::BatchTooLarge),
        also: &["out of memory"],
        read: device,
        ..Sign::new("tgi.warmup", &["\"name\":\"warmup\"", "Warmup(Generation("], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::ModelTooLarge),
        ..Sign::new("transformers.offload", &["Some modules are dispatched on the CPU or the disk"], Weight::Failure)
    },
    Sign {
        cause: Some(Code::NotMemory),
        ..Sign::new("triton.resources", &["out of resource: shared memory", "out of resource: triton"], Weight::Denial)
    },
];

/// Whether a line speaks of running out of memory and does not report it: `If you see CUDA out of memory, use fewer images`.
fn is_advice(text: &str) -> bool {
    let reports = has_any(text, &["Tried to allocate", "Error:", "Error(", "OutOfMemoryErr", "what()"]);
    let denied = ["no CUDA out of memory", "not CUDA out of memory", "without CUDA out of memory"];
    !reports && has_any(text, &["if you ", "to avoid ", "in case of ", "might ", "when you "]) || has_any(text, &denied)
}

/// The figures of a failed allocation on a device, in every generation of the message.
fn device(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| size_after(text, "Tried to allocate"))
        .or_else(|| size_after(text, "Invalid buffer size:"));
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| size_after(text, "total capacity of"))
        .or_else(|| size_after(text, "total capacty of"))
        .or_else(|| size_before(text, "total ca"))
        .or_else(|| size_after(text, "total capacity is"))
        .or_else(|| size_after(text, "max allowed:"))
        .or_else(|| size_after(text, "Total device memory"))
        .or_else(|| size_before(text, "total,"));
    // A share that was set for this process counts, and not what the card has, what of it is free and who holds the rest.
    let allowed = size_before(text, "allowed;");
    numbers.allowed_bytes = numbers.allowed_bytes.or(allowed);
    // Cut off behind the figure.
    numbers.capacity_bytes =
        numbers.capacity_bytes.or_else(|| after(text, "(GPU ").and_then(|tail| size_after(tail, ";")));
    numbers.allocated_bytes = numbers
        .allocated_bytes
        .or_else(|| size_before(text, "already allocated"))
        .or_else(|| size_after(text, "Of the allocated memory"))
        .or_else(|| size_before(text, "is allocated by PyTorch"))
        .or_else(|| size_after(text, "MPS allocated:"))
        .or_else(|| size_before(text, "allocated;"));
    // In a list below: `Requested : 256.00 MiB`, `Device limit : 2.00 GiB`.
    if has(text, "would exceed allowed memory") {
        let listed = |name: &str| {
            after(text, name).and_then(quantity).filter(|found| found.unit_bytes.is_some()).map(Quantity::bytes)
        };
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| listed("Requested"));
        numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| listed("Currently allocated"));
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| listed("Device limit"));
        numbers.free_bytes = numbers.free_bytes.or_else(|| listed("(according to CUDA)"));
    }
    let unallocated =
        size_before(text, "is reserved by PyTorch but unallocated").or_else(|| size_before(text, "cached)"));
    numbers.reserved_bytes = numbers
        .reserved_bytes
        .or_else(|| size_before(text, "reserved in total"))
        .or_else(|| size_before(text, "reserved by PyTorch in total"))
        .or_else(|| Some(numbers.allocated_bytes?.saturating_add(unallocated?)));
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "this process has"));
    if allowed.is_none() {
        numbers.free_bytes = numbers
            .free_bytes
            .or_else(|| size_before(text, "is free"))
            .or_else(|| size_before(text, "free;"))
            .or_else(|| size_before(text, "free)"));
    }
    if allowed.is_none() && numbers.others.is_empty() {
        numbers.others = others(text);
    }
    if numbers.device.is_none() {
        numbers.device =
            number_after(text, "(GPU ").or_else(|| number_after(text, ". GPU ")).map(|index| format!("GPU {index}"));
    }
}

fn pinned(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| bytes_after(text, "failed to alloc"))
        .or_else(|| bytes_after(text, "memory of size"));
}

/// Processes listed at most.
const MOST_PROCESSES: usize = 64;

/// `Process 3746 has 23.62 GiB memory in use.` In a container the numbers are the host's, and this process may be among them.
fn others(text: &str) -> Vec<OtherProcess> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(tail) = after(rest, "Process ").filter(|_| found.len() < MOST_PROCESSES) {
        // The number and what it holds stand close by.
        let end = tail.char_indices().nth(60).map_or(tail.len(), |(at, _)| at);
        let near = &tail[..end];
        if let (Some(pid), Some(bytes)) = (quantity(near), size_after(near, " has")) {
            found.push(OtherProcess { pid: pid.value as u64, bytes });
        }
        rest = tail;
    }
    found
}

fn host(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| bytes_after(text, "you tried to allocate"))
        .or_else(|| size_after(text, "Buy new RAM! "))
        .or_else(|| size_after(text, "not enough memory: you tried to allocate"));
    numbers.device.get_or_insert_with(|| "CPU".to_owned());
}

fn shared(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| bytes_after(text, "you tried to mmap"))
        .or_else(|| bytes_after(text, "unable to mmap"))
        .or_else(|| bytes_after(text, "tried to allocate"));
}

fn worker(text: &str, numbers: &mut Numbers) {
    numbers.pid = numbers.pid.or_else(|| number_after(text, "(pid")).or_else(|| number_after(text, "pid:"));
    if text.contains("Killed") || text.contains("-9") || text.contains("SIGKILL") {
        numbers.exit_code = Some(-9);
    }
    numbers.rank = numbers.rank.or_else(|| number_after(text, "local_rank:").and_then(|rank| u32::try_from(rank).ok()));
}

fn vllm(text: &str, numbers: &mut Numbers) {
    if let Some(figures) = after(text, "Free memory on device") {
        // (12.3/23.65 GiB)
        let inner = after(figures, "(").unwrap_or(figures).trim_start_matches(|c: char| !c.is_ascii_digit());
        let both = inner.split_once('/').map(|(free, total)| (quantity(free), quantity(total)));
        if let Some((Some(free), Some(total))) = both {
            let unit = total.unit_bytes.unwrap_or(1 << 30);
            numbers.free_bytes = Some((free.value * unit as f64) as u64);
            numbers.capacity_bytes = Some((total.value * unit as f64) as u64);
        }
        numbers.requested_bytes =
            numbers.requested_bytes.or_else(|| after(figures, "utilization (").and_then(|tail| size_after(tail, ",")));
    }
    // (4.26 GiB KV cache is needed, which is larger than the available KV cache memory (4.25 GiB)
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_before(text, "KV cache is needed"));
    numbers.free_bytes = numbers.free_bytes.or_else(|| size_after(text, "available KV cache memory"));
}

//! What JAX and XLA say, on GPUs, TPUs and CPUs.
//!
//! Origin of the wordings: XLA's `status_macros`, `bfc_allocator.cc`, `tfrt_cpu_pjrt_client.cc`, the TPU compiler's reports, cuDNN and GEMM autotuners.

use super::super::causes::Code;
use super::super::shapes;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{after, bytes_after, has, has_any, number_after, quantity, size_after, size_before};

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &["Received message larger", "quota", "429", "Out of memory allocating"],
        read: exhausted,
        ..Sign::new(
            "xla.exhausted",
            &[
                "RESOURCE_EXHAUSTED: Out of memory", "Out of memory while trying to allocate",
                "Resource exhausted: Out of memory", "RESOURCE_EXHAUSTED: Failed to allocate",
                "bytes for new constant",
            ],
            Weight::Failure,
        )
    },
    // Only XLA's client for CPUs says it this way.
    Sign {
        resource: Some(Resource::HostMemory),
        read: exhausted,
        unless: &["allocated so far"],
        ..Sign::new("xla.exhausted_host", &["Out of memory allocating"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: hbm,
        check: |text| {
            !has(text, "Attempting to")
                || size_after(text, "Attempting to allocate")
                    .or_else(|| size_after(text, "Attempting to reserve"))
                    .is_some()
        },
        ..Sign::new(
            "xla.hbm",
            &[
                "Ran out of memory in memory space", "Exceeded hbm capacity", "Attempting to allocate",
                "Attempting to reserve", "unlikely to have enough memory. Requires",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &[
            "quota", "429", "Received message larger", "Out of memory", "OOM when allocating", "Too Many Requests",
            "Too many requests", "grpc",
        ],
        read: exhausted,
        ..Sign::new("xla.exhausted_other", &["RESOURCE_EXHAUSTED"], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: device_failed,
        ..Sign::new(
            "xla.device_alloc",
            &["CUDA_ERROR_OUT_OF_MEMORY", "failed to alloc", "failed to allocate"],
            Weight::Failure,
        )
        .on_device()
    },
    Sign {
        read: breakdown,
        ..Sign::new(
            "xla.breakdown",
            &[
                "Peak buffers:", "Largest program allocations", "BufferAssignment OOM Debugging", "Total hbm usage",
                "HLO temp", "Total bytes used:", "hbm requirement", "parameter allocation:",
                "preallocated temp allocation:", "    arguments  ", "    program  ",
            ],
            Weight::Context,
        )
    },
    // The compiler lists them only when the program did not fit, even if the line that says so was cut off.
    Sign {
        resource: Some(Resource::GpuMemory),
        read: breakdown,
        ..Sign::new("xla.report", &["Largest program allocations in hbm", "Total hbm usage >="], Weight::Symptom)
    },
    Sign {
        read: largest,
        ..Sign::new("xla.largest", &["Shape: ", "Size: ", "op_name=\"", "largest contiguous region"], Weight::Context)
            .in_breakdown()
    },
    // XLA tries kernels out on copies of their operands, beside the program's own memory.
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        ..Sign::new(
            "xla.autotuner",
            &[
                "Failed to get configs for", "Could not get config for HLO", "Autotuning failed for HLO",
                "Failed to determine best cudnn convolution algorithm",
            ],
            Weight::Symptom,
        )
    },
    // The part of it that picks a convolution, by the name of its file.
    Sign {
        resource: Some(Resource::GpuMemory),
        check: |text| has_any(text, &["exhausted", "allocate"]),
        ..Sign::new("xla.picker", &["conv_algorithm_picker.cc"], Weight::Symptom)
    },
    Sign {
        check: |text| text.trim_start().starts_with("HBM capacity"),
        read: |text, numbers| {
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "HBM capacity"));
        },
        ..Sign::new("xla.capacity", &["HBM capacity"], Weight::Context)
    },
    Sign { read: hbm, ..Sign::new("xla.base_limit", &["exceeds the base limit"], Weight::Context) },
    Sign {
        resource: Some(Resource::HostMemory),
        ..Sign::new("xla.ynnpack", &["YNNPACK operation failed"], Weight::Symptom)
    },
    Sign {
        ..Sign::new(
            "jax.preallocation",
            &["XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"],
            Weight::Context,
        )
    },
    Sign {
        ..Sign::new(
            "xla.slow_compile",
            &["can be a performance problem: constant folding", "Constant folding an instruction is taking"],
            Weight::Warning,
        )
    },
];

impl Sign {
    /// Only where the line speaks of a device: `failed to allocate` is said of many things.
    const fn on_device(self) -> Sign {
        Sign {
            also: &[
                "CUDA_ERROR_OUT_OF_MEMORY", "from device", "on device", "device memory", "HBM", "cuda_driver",
                "cuda_executor", "GPU",
            ],
            unless: &["host memory", "pinned", "on host", ": I ", "is not a failure"],
            // A whole device may be allocated, too: to a job.
            check: |text| !has(text, "allocate GPU") || has(text, "memory"),
            ..self
        }
    }

    /// The lines of a report of the compiler.
    const fn in_breakdown(self) -> Sign {
        Sign { check: of_compiler, ..self }
    }
}

fn exhausted(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| bytes_after(text, "trying to allocate"))
        .or_else(|| bytes_after(text, "Out of memory allocating"))
        .or_else(|| bytes_after(text, "Failed to allocate request for"))
        .or_else(|| bytes_after(text, "Failed to allocate"));
    if numbers.shape.is_none() {
        if let Some((shape, dtype)) = shapes::xla_shape(text) {
            // The instruction that is named may be given, or give, other tensors than the one that did not fit.
            let asked = numbers.requested_bytes.unwrap_or(0);
            let named = Numbers { shape: Some(shape), dtype: Some(dtype.to_owned()), ..Numbers::default() };
            if asked == 0 || named.may_come_to(asked) {
                numbers.shape = named.shape;
                numbers.dtype = named.dtype;
            }
        } else if let Some(shape) = shapes::shape(text) {
            numbers.shape = Some(shape);
            numbers.dtype = shapes::dtype(text).map(str::to_owned);
        }
    }
    if let Some(ordinal) = number_after(text, "on device ordinal").or_else(|| number_after(text, "device ordinal")) {
        numbers.device.get_or_insert_with(|| format!("device {ordinal}"));
    }
    super::tensorflow::op(text, numbers);
    hbm(text, numbers);
}

/// `Used 18.00G of 15.48G hbm. Exceeded hbm capacity by 2.52G.` `Attempting to allocate 2.00G. That was not possible. There are 1.2G free.`
fn hbm(text: &str, numbers: &mut Numbers) {
    // A core's own scratch memory is counted the same way: `Used 32.42M of 16.00M vmem.`
    let space = |tail: &&str| has(tail, " of ") && has_any(tail, &["hbm", "vmem", "smem"]);
    if let Some(tail) = after(text, "Used ").filter(space) {
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| quantity(tail).map(|found| found.bytes()));
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(tail, " of "));
    }
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| size_after(text, "Attempting to allocate"))
        .or_else(|| size_after(text, "Attempting to reserve"))
        .or_else(|| size_after(text, "hbm requirement"));
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| size_after(text, "memory. Requires"))
        .or_else(|| bytes_after(text, "input/output arguments"));
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| after(text, "memory. Requires").and_then(|tail| size_after(tail, "has")))
        .or_else(|| bytes_after(text, "exceeds the base limit"));
    numbers.largest_free_bytes = numbers
        .largest_free_bytes
        .or_else(|| size_after(text, "largest contiguous region of free memory is"))
        .or_else(|| size_before(text, "reservable"));
    numbers.free_bytes = numbers
        .free_bytes
        .or_else(|| size_after(text, "There are"))
        .or_else(|| size_after(text, "only"))
        .or_else(|| size_after(text, "; there are"));
    if has(text, "hbm") || text.contains("TPU") {
        numbers.device.get_or_insert_with(|| "TPU".to_owned());
    }
}

/// `failed to allocate 2.20G (2362232064 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY`
fn device_failed(text: &str, numbers: &mut Numbers) {
    let tail = after(text, "failed to alloc").unwrap_or(text);
    let exact =
        after(tail, "(").and_then(quantity).filter(|found| found.unit_bytes == Some(1)).map(|found| found.bytes());
    numbers.requested_bytes = numbers
        .requested_bytes
        .or(exact)
        .or_else(|| size_after(tail, "ate"))
        .or_else(|| quantity(tail).filter(|found| found.unit_bytes.is_some()).map(|found| found.bytes()));
}

fn of_compiler(text: &str) -> bool {
    let text = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    ["Shape: ", "Size: ", "Operator: ", "op_name"].iter().any(|start| text.starts_with(start))
}

/// The entries of `Largest program allocations`, the largest first: the first of each kind is kept.
fn largest(text: &str, numbers: &mut Numbers) {
    if let Some((shape, dtype)) = after(text, "Shape: ").and_then(shapes::xla_shape) {
        numbers.shape = numbers.shape.take().or(Some(shape));
        numbers.dtype = numbers.dtype.take().or(Some(dtype.to_owned()));
    }
    if text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').starts_with("Size:") {
        numbers.tensor_bytes = numbers.tensor_bytes.or_else(|| size_after(text, "Size:"));
    }
    numbers.op = numbers
        .op
        .take()
        .or_else(|| after(text, "op_name=\"").and_then(|tail| tail.split('"').next()).map(str::to_owned));
}

fn breakdown(text: &str, numbers: &mut Numbers) {
    numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| size_after(text, "Total hbm usage >="));
    numbers.argument_bytes = numbers
        .argument_bytes
        .or_else(|| size_after(text, "parameter allocation:"))
        .or_else(|| size_after(text, "    arguments  "))
        .filter(|&bytes| bytes > 0);
    numbers.temporary_bytes = numbers
        .temporary_bytes
        .or_else(|| size_after(text, "preallocated temp allocation:"))
        .or_else(|| size_after(text, "HLO temp"))
        // What the compiler lays out for a program, of which nearly all is that; the list below has it alone, where it was not cut off.
        .or_else(|| size_after(text, "    program  ").filter(|&bytes| bytes > 0));
}

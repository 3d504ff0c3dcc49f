//! What programs outside Python say: R, Julia, MATLAB, .NET, Node, DuckDB, ollama, llama.cpp on Metal, and the options that limit a heap.
//!
//! Origin of the wordings: R's `memory.c`, CUDA.jl's `pool.jl`, DuckDB's `buffer_manager`, ollama's `server.go`, ggml's Metal backend, and
//! MathWorks' and Oracle's manuals.

use super::super::causes::Code;
use super::super::shapes;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{after, has, number_after, quantity, size_after, size_before};
use crate::bytes::MIB;

const HOST: Option<Resource> = Some(Resource::HostMemory);
const LIMIT: Option<Resource> = Some(Resource::ContainerLimit);

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: HOST,
        read: |text, numbers| {
            let asked = size_after(text, "cannot allocate vector of size");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        ..Sign::new("r.vector", &["cannot allocate vector of size", "vector memory exhausted"], Weight::Failure)
    },
    Sign { resource: HOST, ..Sign::new("julia.oom", &["OutOfMemoryError()"], Weight::Failure) },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: |text, numbers| {
            let asked = size_after(text, "Out of GPU memory trying to allocate");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        ..Sign::new("julia.cuda", &["Out of GPU memory trying to allocate"], Weight::Failure)
    },
    // Below it, when the pool is full.
    Sign {
        resource: Some(Resource::GpuMemory),
        read: julia_pool,
        ..Sign::new("julia.figures", &["Effective GPU memory usage:", "Memory pool usage:"], Weight::Context)
    },
    Sign {
        resource: HOST,
        cause: Some(Code::TensorTooLarge),
        read: matlab,
        ..Sign::new("matlab.preference", &["exceeds maximum array size preference"], Weight::Failure)
    },
    Sign { resource: HOST, ..Sign::new("dotnet.oom", &["System.OutOfMemoryException"], Weight::Failure) },
    // OpenCL's and Vulkan's, of the host's side: LightGBM, llama.cpp.
    Sign {
        resource: HOST,
        ..Sign::new(
            "opencl.host",
            &["Out of Host Memory", "CL_OUT_OF_HOST_MEMORY", "ERROR_OUT_OF_HOST_MEMORY", "ErrorOutOfHostMemory"],
            Weight::Failure,
        )
    },
    Sign { resource: HOST, ..Sign::new("node.heap", &["JavaScript heap out of memory"], Weight::Failure) },
    Sign {
        resource: HOST,
        read: |text, numbers| {
            let limit = number_after(text, "max-old-space-size=").and_then(|count| count.checked_mul(MIB));
            numbers.capacity_bytes = numbers.capacity_bytes.or(limit);
        },
        ..Sign::new("node.option", &["max-old-space-size="], Weight::Context)
    },
    // Of the heap that Java is given; the last of several options holds, and the first that is seen is kept.
    Sign {
        resource: HOST,
        read: |text, numbers| {
            let limit = after(text, "-Xmx").filter(|tail| tail.starts_with(|c: char| c.is_ascii_digit()));
            numbers.capacity_bytes =
                numbers.capacity_bytes.or_else(|| limit.and_then(quantity).map(|found| found.bytes()));
        },
        ..Sign::new("java.option", &["-Xmx"], Weight::Context)
    },
    // Its memory_limit is eight tenths of the machine, or what was set.
    Sign {
        resource: LIMIT,
        cause: Some(Code::ContainerOrSchedulerLimit),
        read: duckdb,
        also: &["used)"],
        ..Sign::new(
            "duckdb.limit",
            &[
                "could not allocate block of size", "failed to pin block of size", "failed to allocate data of size",
                "failed to offload data block of size",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: HOST,
        cause: Some(Code::ModelTooLarge),
        read: |text, numbers| {
            let asked = size_after(text, "requires more system memory");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
            numbers.free_bytes = numbers.free_bytes.or_else(|| size_after(text, "than is available"));
        },
        ..Sign::new("ollama.system", &["model requires more system memory"], Weight::Failure)
    },
    Sign {
        resource: HOST,
        read: |text, numbers| {
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "total=\""));
        },
        ..Sign::new("ollama.figures", &["model request too large for system"], Weight::Context)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        ..Sign::new("metal.oom", &["kIOGPUCommandBufferCallbackErrorOutOfMemory"], Weight::Failure)
    },
    // `allocated buffer, size = 5120.00 MiB, (13022.31 / 12288.00)`: all of the process, and what Metal recommends at most.
    Sign {
        resource: Some(Resource::GpuMemory),
        read: metal,
        ..Sign::new(
            "metal.working_set",
            &["recommended max working set size", "allocated buffer, size ="],
            Weight::Context,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: |text, numbers| {
            let limit = size_after(text, "recommendedMaxWorkingSetSize  =");
            numbers.capacity_bytes =
                numbers.capacity_bytes.or(limit).or_else(|| size_after(text, "recommendedMaxWorkingSetSize ="));
        },
        ..Sign::new("metal.device", &["recommendedMaxWorkingSetSize"], Weight::Context)
    },
];

/// `Effective GPU memory usage: 99.17% (11.658 GiB/11.756 GiB)` and `Memory pool usage: 10.441 GiB (11.094 GiB reserved)`
fn julia_pool(text: &str, numbers: &mut Numbers) {
    let device = after(text, "Effective GPU memory usage:").and_then(|tail| tail.split_once('('));
    if let Some((used, all)) = device.and_then(|(_, pair)| pair.split_once('/')) {
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| quantity(all).map(|found| found.bytes()));
        numbers.process_bytes = numbers.process_bytes.or_else(|| quantity(used).map(|found| found.bytes()));
    }
    numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| size_after(text, "Memory pool usage:"));
    numbers.reserved_bytes = numbers.reserved_bytes.or_else(|| size_before(text, "reserved)"));
}

/// `Requested 1200000x20000 (178.8GB) array exceeds maximum array size preference (63.9GB).` Its numbers are doubles unless something else was said:
/// where they come to the rounded size, the product is the exact one.
fn matlab(text: &str, numbers: &mut Numbers) {
    let in_brackets = |tail: &str| after(tail, "(").and_then(quantity).map(|found| found.bytes());
    let limit = after(text, "array size preference").and_then(in_brackets);
    numbers.capacity_bytes = numbers.capacity_bytes.or(limit);
    let Some(asked) = after(text, "Requested ") else { return };
    let rounded = in_brackets(asked);
    let sizes = asked.split([' ', '(']).next().unwrap_or("").split('x').map(|size| size.parse().ok());
    let shape: Option<Vec<u64>> = sizes.collect::<Option<_>>().filter(|shape: &Vec<u64>| shape.len() >= 2);
    let doubles = shape.as_deref().and_then(|shape| shapes::tensor_bytes(shape, "float64"));
    let exact = doubles.zip(rounded).filter(|(exact, rounded)| exact.abs_diff(*rounded) <= rounded / 50);
    numbers.requested_bytes = numbers.requested_bytes.or(exact.map(|(exact, _)| exact)).or(rounded);
    numbers.dtype = numbers.dtype.take().or_else(|| exact.map(|_| "float64".to_owned()));
    numbers.shape = numbers.shape.take().or(shape);
}

/// `could not allocate block of size 256.0 KiB (9.3 GiB/9.3 GiB used)`
fn duckdb(text: &str, numbers: &mut Numbers) {
    let size = ["block of size", "data of size"].iter().find_map(|phrase| size_after(text, phrase));
    numbers.requested_bytes = numbers.requested_bytes.or(size);
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_before(text, "used)"));
}

fn metal(text: &str, numbers: &mut Numbers) {
    let pair = after(text, "MiB, (").and_then(|tail| tail.split_once('/'));
    if let Some((used, all)) = pair.filter(|_| has(text, "allocated")) {
        let mebibytes = |text: &str| quantity(text).map(|found| (found.value * MIB as f64) as u64);
        numbers.process_bytes = numbers.process_bytes.or_else(|| mebibytes(used));
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| mebibytes(all));
    }
}

//! What TensorFlow 1.x–2.x and Keras say.
//!
//! Origin of the wordings: `op_kernel.h`, `bfc_allocator.cc`, `cpu_allocator_impl.cc`, `cuda_blas.cc`, `cuda_dnn.cc`, `tensor_util.py`.

use super::super::causes::Code;
use super::super::shapes;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{after, bytes_after, find, has, size_after};

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign { resource: Some(Resource::GpuMemory), read: tensor, ..Sign::new("tensorflow.oom", &["OOM when allocating tensor", "OOM when allocating tensor with shape"], Weight::Failure) },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: pool,
        unless: &["is not a failure", "not a failure, but"],
        also: &["Allocator ("],
        ..Sign::new("tensorflow.pool", &["ran out of memory trying to allocate"], Weight::Failure)
    },
    Sign { ..Sign::new("tensorflow.not_a_failure", &["The caller indicates that this is not a failure"], Weight::Warning) },
    Sign { read: dump, ..Sign::new("tensorflow.dump", &["Limit:  ", "InUse:  ", "MaxInUse:  ", "memory_limit_: ", "Sum Total of in-use chunks", "total_region_allocated_bytes_"], Weight::Context) },
    Sign { read: free_chunk, ..Sign::new("tensorflow.free_chunk", &["Free  at ", "Free at 0x"], Weight::Context) },
    Sign { ..Sign::new("tensorflow.tenth", &["exceeds 10% of free system memory", "exceeds 10% of system memory"], Weight::Warning) },
    Sign { resource: Some(Resource::GpuMemory), read: op, ..Sign::new("tensorflow.destination", &["Dst tensor is not initialized"], Weight::Failure) },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: op,
        unless: &["OOM when allocating", "quota", "429", "grpc", "Received message larger"],
        also: &["ResourceExhausted", "Resource exhausted"],
        ..Sign::new("tensorflow.exhausted", &["ResourceExhaustedError", "Resource exhausted:"], Weight::Symptom)
    },
    Sign { resource: Some(Resource::GpuMemory), read: op, ..Sign::new("tensorflow.rnn", &["Failed to call ThenRnnForward", "Failed to call ThenRnnBackward", "Failed to call DoRnnForward"], Weight::Symptom) },
    Sign {
        resource: Some(Resource::MessageSize),
        cause: Some(Code::MessageSize),
        ..Sign::new("tensorflow.proto", &["Cannot create a tensor proto whose content is larger than 2GB", "cannot be larger than 2GB", "exceeded maximum protobuf size of 2GB", "exceeds maximum protobuf size of 2GB", "GraphDef cannot be larger than 2GB"], Weight::Failure)
    },
    Sign { ..Sign::new("tensorflow.retracing", &["triggered tf.function retracing"], Weight::Warning) },
    Sign { ..Sign::new("tensorflow.cache", &["The calling iterator did not fully read the dataset being cached"], Weight::Warning) },
    Sign { ..Sign::new("tensorflow.shuffle", &["Filling up shuffle buffer"], Weight::Context) },
];

/// `OOM when allocating tensor with shape[…] and type float on /job:…/device:GPU:0 by allocator GPU_0_bfc`
fn tensor(text: &str, numbers: &mut Numbers) {
    if numbers.shape.is_none() {
        let tail = after(text, "OOM when allocating tensor").unwrap_or(text);
        numbers.shape = shapes::shape(tail);
        numbers.dtype = shapes::dtype(tail).map(str::to_owned);
    }
    op(text, numbers);
}

/// The device and the op that a message names.
pub fn op(text: &str, numbers: &mut Numbers) {
    if numbers.device.is_none() {
        let named = ["device:GPU:", "device:CPU:", "device:TPU:", "/gpu:", "/cpu:"].iter().find_map(|kind| find(text, kind).map(|at| (at, kind.len())));
        numbers.device = named.map(|(at, length)| {
            let digits = text[at + length..].chars().take_while(char::is_ascii_digit).count();
            text[at..at + length + digits].trim_start_matches('/').trim_start_matches("device:").to_owned()
        });
        if numbers.device.is_none() && (has(text, "allocator cpu") || has(text, "allocator mklcpu") || has(text, "cpu_bfc")) {
            numbers.device = Some("CPU".to_owned());
        }
    }
    if numbers.op.is_none() {
        let node = after(text, "{{node ").and_then(|tail| tail.split(['}', ' ']).next()).or_else(|| after(text, "[[node ").and_then(|tail| tail.split([' ', ']']).next()));
        let eager = || after(text, "[Op:").and_then(|tail| tail.split([']', ' ']).next());
        let old = || after(text, "[[Node: ").and_then(|tail| tail.split(" =").next());
        numbers.op = node.or_else(eager).or_else(old).filter(|name| !name.is_empty() && name.len() < 300).map(str::to_owned);
    }
}

/// `Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.25GiB (rounded to …)requested by op …`
fn pool(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_after(text, "trying to allocate"));
    if let Some(op) = after(text, "requested by op ") {
        numbers.op = numbers.op.take().or_else(|| op.split_whitespace().next().map(str::to_owned));
    }
    if numbers.device.is_none() {
        numbers.device = after(text, "Allocator (").and_then(|tail| tail.split(')').next()).map(|name| {
            let lower = name.to_ascii_lowercase();
            if lower.contains("cpu") { "CPU".to_owned() } else { name.replace("_bfc", "").replace('_', ":") }
        });
    }
}

fn dump(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| bytes_after(text, "] Limit:")).or_else(|| starts(text, "Limit:")).or_else(|| bytes_after(text, "memory_limit_:"));
    if !has(text, "MaxInUse:") {
        numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| bytes_after(text, "InUse:"));
    }
    numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| size_after(text, "Sum Total of in-use chunks:"));
    numbers.reserved_bytes = numbers.reserved_bytes.or_else(|| bytes_after(text, "total_region_allocated_bytes_:"));
}

/// Newer versions print the statistics on lines of their own, without the logger's prefix.
fn starts(text: &str, name: &str) -> Option<u64> {
    text.trim_start().starts_with(name).then(|| bytes_after(text, name)).flatten()
}

fn free_chunk(text: &str, numbers: &mut Numbers) {
    numbers.largest_free_bytes = numbers.largest_free_bytes.max(bytes_after(text, " of size"));
}

//! What runtimes and serving engines say of a device's memory where it is not CUDA's own: DirectML, OpenVINO, MLX, Gaudi, MindSpore, sglang, ExLlama,
//! Stable Diffusion's web UI.
//!
//! Origin of the wordings: torch-directml, OpenVINO's `intel_gpu/runtime/engine.cpp`, MLX's `metal/allocator.cpp`, vLLM's pages on Gaudi, MindSpore's
//! runtime actors, sglang's `schedule_batch.py` and `mem_cache`, ExLlamaV2's `model.py`.

use super::super::causes::Code;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{after, bytes_after, has, size_after};

const GPU: Option<Resource> = Some(Resource::GpuMemory);

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: GPU,
        read: |text, numbers| {
            let asked = bytes_after(text, "Could not allocate tensor with");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        ..Sign::new("directml.oom", &["not enough GPU video memory"], Weight::Failure)
    },
    // `requested 25600122880 bytes, but max alloc size supported by device is 4294959104 bytes`; before 2023 `Requested … but max alloc size is …`.
    Sign {
        resource: GPU,
        read: |text, numbers| {
            let tail = after(text, "memory object allocation").unwrap_or("");
            numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(tail, "requested"));
            let limit = after(tail, "max alloc size").and_then(|tail| bytes_after(tail, " is"));
            numbers.capacity_bytes = numbers.capacity_bytes.or(limit);
        },
        ..Sign::new("openvino.limit", &["Exceeded max size of memory object allocation"], Weight::Failure)
    },
    // Metal has a size that no buffer may exceed, whatever is free.
    Sign {
        resource: GPU,
        read: |text, numbers| {
            numbers.requested_bytes =
                numbers.requested_bytes.or_else(|| bytes_after(text, "[metal::malloc] Attempting to allocate"));
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| bytes_after(text, "allowed buffer size of"));
        },
        also: &["greater than the maximum allowed buffer size"],
        ..Sign::new("mlx.buffer", &["[metal::malloc]"], Weight::Failure)
    },
    // Gaudi: `FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::939524096 (896)MB`
    Sign {
        resource: GPU,
        read: |text, numbers| {
            numbers.requested_bytes =
                numbers.requested_bytes.or_else(|| bytes_after(text, "Allocation failed for size"));
        },
        ..Sign::new("habana.oom", &["PT_DEVMEM Allocation failed"], Weight::Failure)
    },
    // MindSpore: `Device(id:0) memory isn't enough and alloc failed, kernel name: …, alloc size: 1073741824B.`; of a host without the device.
    Sign {
        resource: GPU,
        check: |text| has(text, "Device"),
        read: mindspore,
        ..Sign::new("mindspore.device", &["memory isn't enough and alloc failed"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::HostMemory),
        check: |text| !has(text, "Device"),
        read: mindspore,
        ..Sign::new("mindspore.host", &["memory isn't enough and alloc failed"], Weight::Failure)
    },
    // The web UI of Stable Diffusion counts what attention needs before it asks: `Need: 2.5GB free, Have:1.1GB free`.
    Sign {
        resource: GPU,
        cause: Some(Code::BatchTooLarge),
        read: |text, numbers| {
            numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_after(text, "Need:"));
            numbers.free_bytes = numbers.free_bytes.or_else(|| size_after(text, "Have:"));
        },
        ..Sign::new("webui.resolution", &["Not enough memory, use lower resolution"], Weight::Failure)
    },
    // The cache has no room for the tokens of the requests that run together.
    Sign {
        resource: GPU,
        cause: Some(Code::BatchTooLarge),
        ..Sign::new(
            "sglang.tokens",
            &[
                "Prefill out of memory. Try to lower", "Decode out of memory. Try to lower",
                "alloc_req_slots runs out of memory",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: GPU,
        cause: Some(Code::ModelTooLarge),
        ..Sign::new("exllama.vram", &["Insufficient VRAM for model"], Weight::Failure)
    },
];

fn mindspore(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "alloc size:"));
    let kernel = after(text, "kernel name: ").and_then(|tail| tail.split([',', ' ']).next());
    numbers.op = numbers.op.take().or_else(|| kernel.filter(|name| !name.is_empty()).map(str::to_owned));
}

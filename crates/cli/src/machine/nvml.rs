//! The GPUs of this machine as devices of the catalogue.
//!
//! In: a GPU, as the monitor reads it. Out: the [`Device`] that it is, with the memory read here; or a device of its own.

use brimful_core::device::{CapacityFrom, Device};
use brimful_monitor::gpu::Gpu;

/// The device that a GPU is; none where the driver does not tell its memory.
pub fn device(gpu: &Gpu) -> Option<Device> {
    let total = gpu.memory?.total_bytes();
    let mut device = match Device::matching(&gpu.name, total) {
        Some(known) => known.clone(),
        None => Device::custom(&gpu.name, total, gpu.compute_capability),
    };
    device.capacity_bytes = Some(total);
    device.capacity_from = CapacityFrom::Driver;
    device.capacity_source = "the driver of this machine".to_owned();
    Some(device)
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::MIB;
    use brimful_core::device::ComputeCapability;
    use brimful_monitor::gpu::GpuMemory;

    use super::*;

    fn gpu(name: &str, installed_mib: u64, reserved_mib: u64) -> Gpu {
        let memory = GpuMemory {
            installed_bytes: installed_mib * MIB,
            reserved_bytes: reserved_mib * MIB,
            free_bytes: 0,
            used_bytes: 0,
        };
        let compute_capability = Some(ComputeCapability { major: 8, minor: 9 });
        Gpu { index: 0, name: name.to_owned(), memory: Some(memory), compute_capability, processes: Vec::new() }
    }

    #[test]
    fn the_total_is_the_one_that_cuda_reports() {
        let device = device(&gpu("NVIDIA H200", 143_771, 615)).unwrap();
        assert_eq!((device.id.as_str(), device.capacity_bytes), ("h200", Some(143_156 * MIB)));
    }

    #[test]
    fn an_unlisted_gpu_is_a_device_of_its_own() {
        let unlisted = device(&gpu("NVIDIA GeForce RTX 4090", 49_140, 500)).unwrap();
        assert_eq!((unlisted.name.as_str(), unlisted.capacity_bytes), ("NVIDIA GeForce RTX 4090", Some(48_640 * MIB)));
        assert!(unlisted.context.is_some());
        assert_eq!(device(&Gpu { memory: None, ..gpu("NVIDIA GB10", 1, 0) }), None);
    }
}

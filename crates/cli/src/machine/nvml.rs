//! The NVIDIA GPUs of this machine, through the driver's own library.
//!
//! In: NVML, loaded when asked for. Out: [`Gpus`]. Without the library, or on a machine where it fails, the list is empty
//! and says why. Not counted: memory that processes on other machines or in other containers hide from the driver's list.

use brimful_core::device::{CapacityFrom, ComputeCapability, Device};
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;

/// The GPUs that the driver lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpus {
    /// In the driver's order.
    pub list: Vec<Gpu>,
    /// The version of the driver, such as `580.159.04`.
    pub driver_version: Option<String>,
    /// Why there are none, if there are none.
    pub reason: Option<String>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its place in the driver's order, which `CUDA_VISIBLE_DEVICES` may change.
    pub index: u32,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Its memory; none where the driver does not say, as on chips that share the host's.
    pub memory: Option<GpuMemory>,
    /// Its generation.
    pub compute_capability: Option<ComputeCapability>,
    /// The processes on it.
    pub processes: Vec<GpuProcess>,
}

/// The memory of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// All of it, as `nvidia-smi` shows it.
    pub installed_bytes: u64,
    /// What the driver keeps for itself.
    pub reserved_bytes: u64,
    /// What nobody holds.
    pub free_bytes: u64,
    /// What processes hold.
    pub used_bytes: u64,
}

impl GpuMemory {
    /// What CUDA, and with it every framework, calls the total.
    pub fn total_bytes(&self) -> u64 {
        self.installed_bytes.saturating_sub(self.reserved_bytes)
    }
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its number, as the host counts them.
    pub pid: u32,
    /// What it holds; none where the driver does not say.
    pub used_bytes: Option<u64>,
}

impl Gpus {
    /// Asks the driver.
    pub fn read() -> Gpus {
        match open().and_then(|nvml| list(&nvml)) {
            Ok(gpus) => gpus,
            Err(error) => Gpus { reason: Some(reason(&error)), ..Gpus::default() },
        }
    }
}

impl Gpu {
    /// The device of the catalogue that this is, with the memory read here; or a device of its own.
    pub fn device(&self) -> Option<Device> {
        let total = self.memory?.total_bytes();
        let mut device = match Device::matching(&self.name, total) {
            Some(known) => known.clone(),
            None => Device::custom(&self.name, total, self.compute_capability),
        };
        device.capacity_bytes = Some(total);
        device.capacity_from = CapacityFrom::Driver;
        device.capacity_source = "the driver of this machine".to_owned();
        Some(device)
    }
}

/// Loads the library under its usual name, then where WSL has it.
fn open() -> Result<Nvml, NvmlError> {
    Nvml::init().or_else(|error| {
        Nvml::builder().lib_path("/usr/lib/wsl/lib/libnvidia-ml.so.1".as_ref()).init().map_err(|_| error)
    })
}

fn list(nvml: &Nvml) -> Result<Gpus, NvmlError> {
    let list: Vec<Gpu> = (0..nvml.device_count()?).filter_map(|index| gpu(nvml, index).ok()).collect();
    let reason = list.is_empty().then(|| "the NVIDIA driver lists no GPU".to_owned());
    Ok(Gpus { list, driver_version: nvml.sys_driver_version().ok(), reason })
}

fn gpu(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let memory = device.memory_info().ok().map(|m| GpuMemory {
        installed_bytes: m.total,
        reserved_bytes: m.reserved,
        free_bytes: m.free,
        used_bytes: m.used,
    });
    let compute_capability = device.cuda_compute_capability().ok().and_then(|c| {
        Some(ComputeCapability { major: u32::try_from(c.major).ok()?, minor: u32::try_from(c.minor).ok()? })
    });
    let mut processes: Vec<GpuProcess> = [device.running_compute_processes(), device.running_graphics_processes()]
        .into_iter()
        .flat_map(Result::unwrap_or_default)
        .map(|p| GpuProcess {
            pid: p.pid,
            used_bytes: match p.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            },
        })
        .collect();
    processes.sort_by_key(|p| (p.pid, std::cmp::Reverse(p.used_bytes)));
    processes.dedup_by_key(|p| p.pid);
    Ok(Gpu { index, name: device.name()?, memory, compute_capability, processes })
}

fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => "no NVIDIA driver (libnvidia-ml.so.1 was not found)".to_owned(),
        NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded => "the NVIDIA driver is not loaded".to_owned(),
        other => format!("the NVIDIA driver does not answer: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::MIB;

    use super::*;

    #[test]
    fn a_machine_without_gpus_says_why() {
        let gpus = Gpus::read();
        assert_eq!(gpus.list.is_empty(), gpus.reason.is_some(), "{gpus:?}");
    }

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
        let device = gpu("NVIDIA H200", 143_771, 615).device().unwrap();
        assert_eq!((device.id.as_str(), device.capacity_bytes), ("h200", Some(143_156 * MIB)));
    }

    #[test]
    fn an_unlisted_gpu_is_a_device_of_its_own() {
        let device = gpu("NVIDIA GeForce RTX 4090", 49_140, 500).device().unwrap();
        assert_eq!((device.name.as_str(), device.capacity_bytes), ("NVIDIA GeForce RTX 4090", Some(48_640 * MIB)));
        assert!(device.context.is_some());
        assert_eq!(Gpu { memory: None, ..gpu("NVIDIA GB10", 1, 0) }.device(), None);
    }
}

//! The GPUs of this machine, at one moment.
//!
//! In: NVML. Out: [`Gpus`]. Without the library, or on a machine where it fails, the list is empty and says why. A GPU that is split (MIG) has
//! the memory of those of its parts that are visible. Not counted: memory that processes on other machines or in other containers hide from
//! the driver's list.

use brimful_core::device::ComputeCapability;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Of two parts of one GPU.
    fn and(self, other: GpuMemory) -> GpuMemory {
        GpuMemory {
            installed_bytes: self.installed_bytes.saturating_add(other.installed_bytes),
            reserved_bytes: self.reserved_bytes.saturating_add(other.reserved_bytes),
            free_bytes: self.free_bytes.saturating_add(other.free_bytes),
            used_bytes: self.used_bytes.saturating_add(other.used_bytes),
        }
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

/// Loads the library under its usual name, then where WSL has it.
pub(super) fn open() -> Result<Nvml, NvmlError> {
    Nvml::init().or_else(|error| {
        Nvml::builder().lib_path("/usr/lib/wsl/lib/libnvidia-ml.so.1".as_ref()).init().map_err(|_| error)
    })
}

/// Why there are no GPUs, for people.
pub(super) fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => "no NVIDIA driver (libnvidia-ml.so.1 was not found)".to_owned(),
        NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded => "the NVIDIA driver is not loaded".to_owned(),
        other => format!("the NVIDIA driver does not answer: {other}"),
    }
}

/// What is said where the driver answers and has nothing to list.
pub(super) const NO_GPU: &str = "the NVIDIA driver lists no GPU";

fn list(nvml: &Nvml) -> Result<Gpus, NvmlError> {
    let list: Vec<Gpu> = (0..nvml.device_count()?).filter_map(|index| gpu(nvml, index).ok()).collect();
    let reason = list.is_empty().then(|| NO_GPU.to_owned());
    Ok(Gpus { list, driver_version: nvml.sys_driver_version().ok(), reason })
}

fn gpu(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let compute_capability = device.cuda_compute_capability().ok().and_then(|c| {
        Some(ComputeCapability { major: u32::try_from(c.major).ok()?, minor: u32::try_from(c.minor).ok()? })
    });
    let processes = processes(&device).unwrap_or_default();
    Ok(Gpu { index, name: device.name()?, memory: memory(&device), compute_capability, processes })
}

/// Its memory; of one that is split, that of the parts that are visible, which may be all that one may ask for.
pub(super) fn memory(device: &Device) -> Option<GpuMemory> {
    let parts = (0..device.mig_device_count().unwrap_or(0)).filter_map(|index| device.mig_device_by_index(index).ok());
    parts.filter_map(|part| memory_of(&part)).reduce(GpuMemory::and).or_else(|| memory_of(device))
}

fn memory_of(device: &Device) -> Option<GpuMemory> {
    let memory = device.memory_info().ok()?;
    Some(GpuMemory {
        installed_bytes: memory.total,
        reserved_bytes: memory.reserved,
        free_bytes: memory.free,
        used_bytes: memory.used,
    })
}

/// The processes on it, each once; none if the driver does not list them.
pub(super) fn processes(device: &Device) -> Option<Vec<GpuProcess>> {
    let lists = [device.running_compute_processes(), device.running_graphics_processes()];
    if lists.iter().all(Result::is_err) {
        return None;
    }
    let used_bytes = |memory| match memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let mut processes: Vec<GpuProcess> = lists
        .into_iter()
        .flat_map(Result::unwrap_or_default)
        .map(|process| GpuProcess { pid: process.pid, used_bytes: used_bytes(process.used_gpu_memory) })
        .collect();
    processes.sort_by_key(|process| (process.pid, std::cmp::Reverse(process.used_bytes)));
    processes.dedup_by_key(|process| process.pid);
    Some(processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_gpus_says_why() {
        let gpus = Gpus::read();
        assert_eq!(gpus.list.is_empty(), gpus.reason.is_some(), "{gpus:?}");
    }

    #[test]
    fn parts_are_summed() {
        let part = GpuMemory { installed_bytes: 10, reserved_bytes: 1, free_bytes: 6, used_bytes: 3 };
        assert_eq!((part.and(part).total_bytes(), part.and(part).used_bytes), (18, 6));
    }
}

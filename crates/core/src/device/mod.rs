//! The devices people have, and how much of each a job can use.
//!
//! In: a name, or what a driver reports. Out: a [`Device`] with its capacity, and what is left of it under a
//! [`Framework`]: `capacity = context + reserve + usable`. The figures are data with their sources, in `devices.json`;
//! the capacity is the total that CUDA reports, which is less than `nvidia-smi` shows and less than the box says.
//!
//! Not counted: what other processes, a desktop included, hold on the device; and on a CPU, the memory of the system and
//! of the Python process itself.

mod data;
mod names;

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::bytes::{GIB, MIB};
use crate::framework::Framework;

use self::data::{DATA, mib};
pub use self::names::UnknownDevice;
use self::names::key;

/// A kind of device, as lists group them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// GPUs for servers.
    DataCentre,
    /// GPUs for workstations.
    Workstation,
    /// GPUs for games, which also train.
    Geforce,
    /// Notebook services: a GPU or none, with a known amount of host memory.
    Notebook,
    /// The processor and its memory.
    Cpu,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Group::DataCentre => "data-centre",
            Group::Workstation => "workstation",
            Group::Geforce => "geforce",
            Group::Notebook => "notebook",
            Group::Cpu => "cpu",
        })
    }
}

/// How good the figure for the capacity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapacityFrom {
    /// A driver or framework reported it on such a device.
    Driver,
    /// Taken over from a device that is sold with the same memory.
    Sibling,
    /// The size it is sold with.
    Marketing,
    /// The memory of the host.
    Host,
}

impl fmt::Display for CapacityFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CapacityFrom::Driver => "driver",
            CapacityFrom::Sibling => "sibling",
            CapacityFrom::Marketing => "marketing",
            CapacityFrom::Host => "host",
        })
    }
}

/// The generation of an NVIDIA GPU, such as 7.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeCapability {
    /// Before the point.
    pub major: u32,
    /// After the point.
    pub minor: u32,
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ComputeCapability {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<ComputeCapability, Self::Err> {
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Ok(ComputeCapability { major: major.parse()?, minor: minor.parse()? })
    }
}

/// What a CUDA process holds on a device beyond its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The bare context: what CUDA takes before the first kernel is loaded.
    pub bare_bytes: u64,
    /// The kernels that a training job loads on top, libraries included.
    pub kernels_bytes: u64,
    /// Whether both were measured on this generation.
    pub measured: bool,
    /// Where `bare_bytes` comes from.
    pub source: String,
}

impl Context {
    /// What was measured on the machine itself, the kernels of a training job included.
    pub fn measured(bytes: u64) -> Context {
        Context { bare_bytes: bytes, kernels_bytes: 0, measured: true, source: "brimful calibrate".to_owned() }
    }

    /// The figures for one generation: those of the exact one where they are known, else of its major number, else of
    /// the newest one known.
    fn of(capability: ComputeCapability) -> Context {
        let (exact, major) = (capability.to_string(), capability.major.to_string());
        let contexts = &DATA.contexts;
        let figures = contexts
            .iter()
            .find(|c| c.compute_capability == exact)
            .or_else(|| contexts.iter().find(|c| c.compute_capability == major))
            .or(contexts.last());
        match figures {
            Some(c) => Context {
                bare_bytes: mib(c.context_mib),
                kernels_bytes: mib(DATA.kernels.kernels_mib),
                measured: c.measured,
                source: c.source.clone(),
            },
            None => Context { bare_bytes: 0, kernels_bytes: 0, measured: false, source: String::new() },
        }
    }
}

/// Where `Context::kernels_bytes` comes from.
pub fn kernels_source() -> &'static str {
    &DATA.kernels.source
}

/// A device, or a notebook service with its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The name to ask for: `rtx-4090`.
    pub id: String,
    /// The name to show.
    pub name: String,
    /// Where lists put it.
    pub group: Group,
    /// Other names to ask for. Case, spaces and dashes never matter.
    pub aliases: Vec<String>,
    /// The generation of the GPU; none for a CPU.
    pub compute_capability: Option<ComputeCapability>,
    /// What it is sold as.
    pub marketed_gb: Option<u32>,
    /// How many GPUs there are. The capacity is that of one.
    pub gpus: u32,
    /// All of its memory, as CUDA reports it; for a CPU all of the host's. None where only the machine itself can say.
    pub capacity_bytes: Option<u64>,
    /// How good that figure is.
    pub capacity_from: CapacityFrom,
    /// Where it comes from.
    pub capacity_source: String,
    /// The memory of the host, for notebook services.
    pub host_ram_bytes: Option<u64>,
    /// Where that comes from.
    pub host_ram_source: Option<String>,
    /// What a CUDA process holds beyond its tensors; none on a CPU.
    pub context: Option<Context>,
    /// What else to know.
    pub notes: Option<String>,
    /// The frameworks whose predictions were measured on it.
    measured: Vec<Framework>,
}

impl Device {
    /// The device of that name, whatever the case, the spaces, the dashes and the vendor in front.
    pub fn find(name: &str) -> Result<&'static Device, UnknownDevice> {
        let key = key(name);
        all().iter().find(|d| d.keys().any(|k| k == key)).ok_or_else(|| UnknownDevice::of(name))
    }

    /// The device that a driver reports: by name, and among those of one name by memory. None if it is not in the
    /// catalogue, or has an amount of memory that none of that name has.
    pub fn matching(driver_name: &str, capacity_bytes: u64) -> Option<&'static Device> {
        let named = Device::find(driver_name).ok()?;
        let distance = |d: &Device| d.capacity_bytes.unwrap_or(0).abs_diff(capacity_bytes);
        all()
            .iter()
            .filter(|d| d.is_gpu() && d.family() == named.family())
            .min_by_key(|d| distance(d))
            // Drivers differ by 3 % (the T4 in `devices.json`), sizes on sale by 20 % and more.
            .filter(|d| distance(d) <= capacity_bytes / 10)
    }

    /// A device that is not in the catalogue: a GPU with its generation, or a CPU.
    pub fn custom(name: &str, capacity_bytes: u64, capability: Option<ComputeCapability>) -> Device {
        Device {
            id: name.to_owned(),
            name: name.to_owned(),
            group: if capability.is_some() { Group::Workstation } else { Group::Cpu },
            aliases: Vec::new(),
            compute_capability: capability,
            marketed_gb: None,
            gpus: u32::from(capability.is_some()),
            capacity_bytes: Some(capacity_bytes),
            capacity_from: if capability.is_some() { CapacityFrom::Driver } else { CapacityFrom::Host },
            capacity_source: "given".to_owned(),
            host_ram_bytes: None,
            host_ram_source: None,
            context: capability.map(Context::of),
            notes: None,
            measured: Vec::new(),
        }
    }

    /// Whether it is a GPU itself: not a notebook service, not a CPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self.group, Group::DataCentre | Group::Workstation | Group::Geforce)
    }

    /// Whether predictions for that framework were compared with runs on this device.
    pub fn measured(&self, framework: Framework) -> bool {
        self.measured.contains(&framework)
    }

    /// What the process holds beyond its tensors and outside of any reserve.
    ///
    /// TensorFlow sets its limit from what is free once the bare context stands; the kernels it loads later come out of
    /// its own reserve (`SingleVirtualDeviceMemoryLimit` in tensorflow/core/common_runtime/gpu/gpu_device.cc).
    pub fn context_bytes(&self, framework: Framework) -> u64 {
        match (&self.context, framework) {
            (None, _) => 0,
            (Some(context), Framework::TensorFlow) => context.bare_bytes,
            (Some(context), Framework::Torch | Framework::Jax) => context.bare_bytes + context.kernels_bytes,
        }
    }

    /// What the allocator of a process that is alone on the device can hold at most, with the framework's defaults.
    /// None where only the machine itself can say.
    pub fn usable_bytes(&self, framework: Framework) -> Option<u64> {
        let capacity = self.capacity_bytes?;
        let Some(capability) = self.compute_capability else { return Some(capacity) };
        let free = capacity.saturating_sub(self.context_bytes(framework));
        Some(match framework {
            Framework::Torch => free,
            Framework::TensorFlow => {
                let reserve = tensorflow_reserve_bytes(free, capability);
                if reserve < free { free - reserve } else { free }
            }
            Framework::Jax => jax_limit_bytes(capacity).min(free),
        })
    }

    /// What the framework leaves alone by its own rules: `capacity - context - usable`.
    pub fn reserve_bytes(&self, framework: Framework) -> Option<u64> {
        let usable = self.usable_bytes(framework)?;
        Some(self.capacity_bytes?.saturating_sub(self.context_bytes(framework)).saturating_sub(usable))
    }

    fn keys(&self) -> impl Iterator<Item = String> {
        [&self.id, &self.name].into_iter().chain(&self.aliases).map(|name| key(name))
    }

    /// The id without the memory that tells cards of one name apart: `rtx-3080` for `rtx-3080-12gb`.
    fn family(&self) -> &str {
        match self.id.rsplit_once('-') {
            Some((family, size)) if size.strip_suffix("gb").is_some_and(|n| n.parse::<u32>().is_ok()) => family,
            _ => &self.id,
        }
    }
}

/// All devices, in the order of the groups and, within each, roughly from old to new. `cpu` is the last.
pub fn all() -> &'static [Device] {
    static ALL: LazyLock<Vec<Device>> = LazyLock::new(|| DATA.devices());
    &ALL
}

/// The GPUs on which an allocator could hold that many bytes, the smallest first. Notebook services are left out.
pub fn smallest_that_fit(bytes: u64, framework: Framework) -> Vec<&'static Device> {
    let usable = |d: &Device| d.usable_bytes(framework).unwrap_or(0);
    let mut fitting: Vec<_> = all().iter().filter(|d| d.is_gpu() && usable(d) >= bytes).collect();
    fitting.sort_by_key(|d| usable(d));
    fitting
}

/// What TensorFlow leaves to the system of the memory that is free once its context stands.
///
/// `MinSystemMemory` in tensorflow/core/common_runtime/gpu/gpu_device.cc, optimised builds on anything but Tegra (others
/// double it, or keep 1 GiB). Read in copies of that file; the step to 1800 MiB in one of them only.
pub fn tensorflow_reserve_bytes(free_bytes: u64, capability: ComputeCapability) -> u64 {
    if free_bytes < 2 * GIB {
        return 225 * MIB;
    }
    match capability.major {
        0..=6 => 500 * MIB,
        7 => 1050 * MIB,
        8 => 1536 * MIB,
        _ => 1800 * MIB,
    }
}

/// What JAX takes by default: three quarters of the total, up to the next 2 MiB. Measured with JAX 0.11.2 on an H200:
/// `bytes_limit` is 112583507968 of 150109880320.
fn jax_limit_bytes(total_bytes: u64) -> u64 {
    (total_bytes / 4 * 3).div_ceil(2 * MIB) * 2 * MIB
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_catalogue_is_sound() {
        let mut owner: BTreeMap<String, &str> = BTreeMap::new();
        for d in all() {
            for k in d.keys() {
                let other = owner.insert(k.clone(), &d.id);
                assert!(other.is_none_or(|o| o == d.id), "'{k}' is both {} and {}", other.unwrap_or(""), d.id);
            }
            assert!(!d.capacity_source.is_empty(), "{}", d.id);
            if d.is_gpu() {
                let (sold, capacity) = (u64::from(d.marketed_gb.unwrap()) * GIB, d.capacity_bytes.unwrap());
                assert!(d.compute_capability.is_some_and(|c| (6..=12).contains(&c.major)), "{}", d.id);
                assert!(capacity <= sold + GIB && capacity * 10 > sold * 8, "{}: {capacity}", d.id);
                assert_eq!(d.gpus, 1);
            }
            if d.group == Group::Notebook {
                assert!(d.host_ram_bytes.unwrap() > 8 * GIB, "{}", d.id);
                assert_eq!(d.gpus > 0, d.compute_capability.is_some(), "{}", d.id);
            }
        }
        for notebook in &DATA.notebooks {
            assert!(notebook.gpu.as_ref().is_none_or(|gpu| DATA.gpus.iter().any(|g| g.id == *gpu)), "{}", notebook.id);
        }
    }

    #[test]
    fn names_are_found_as_people_write_them() {
        let id = |name: &str| Device::find(name).unwrap().id.clone();
        assert_eq!(id("T4"), "t4");
        assert_eq!(id("Tesla T4"), "t4");
        assert_eq!(id("RTX 4090"), "rtx-4090");
        assert_eq!(id("NVIDIA GeForce RTX 4090"), "rtx-4090");
        assert_eq!(id("rtx_3080 12GB"), "rtx-3080-12gb");
        assert_eq!(id("NVIDIA A100-SXM4-40GB"), "a100-40gb");
        assert_eq!(id("NVIDIA A100 80GB PCIe"), "a100-80gb");
        assert_eq!(id("NVIDIA H100 80GB HBM3"), "h100");
        assert_eq!(id("NVIDIA GeForce RTX 4060 Laptop GPU"), "rtx-4060");
        assert_eq!(id("Tesla V100-SXM2-16GB"), "v100-16gb");
        assert_eq!(id("colab"), "colab-t4");
        assert_eq!(id("CPU"), "cpu");
    }

    #[test]
    fn an_unknown_name_gets_suggestions() {
        let close = |name: &str| Device::find(name).unwrap_err().close;
        assert_eq!(close("rtx4900")[0], "rtx-4090");
        assert!(close("kaggle").contains(&"kaggle-p100"));
        assert!(close("h100x").contains(&"h100"));
        assert_eq!(close("toaster"), Vec::<&str>::new());
        assert_eq!(close(""), Vec::<&str>::new());
        let text = Device::find("rtx 4900").unwrap_err().to_string();
        assert!(text.contains("'rtx 4900'") && text.contains("rtx-4090"), "{text}");
    }

    #[test]
    fn a_driver_name_with_two_sizes_is_told_by_its_memory() {
        let id = |name: &str, mib: u64| Device::matching(name, mib * MIB).map(|d| d.id.as_str());
        assert_eq!(id("NVIDIA GeForce RTX 3080", 10240), Some("rtx-3080-10gb"));
        assert_eq!(id("NVIDIA GeForce RTX 3080", 12288), Some("rtx-3080-12gb"));
        assert_eq!(id("NVIDIA GeForce RTX 3080 Laptop GPU", 16110), Some("rtx-3080-laptop-16gb"));
        assert_eq!(id("Tesla T4", 15360), Some("t4"));
        assert_eq!(id("NVIDIA H200", 143156), Some("h200"));
        // A 4090 with 48 GB is no 4090 of the catalogue.
        assert_eq!(id("NVIDIA GeForce RTX 4090", 48507), None);
        assert_eq!(id("Radeon", 16384), None);
    }

    #[test]
    fn the_parts_add_up() {
        for d in all() {
            for framework in Framework::ALL {
                let Some(capacity) = d.capacity_bytes else { continue };
                let (usable, reserve) = (d.usable_bytes(framework).unwrap(), d.reserve_bytes(framework).unwrap());
                assert_eq!(d.context_bytes(framework) + reserve + usable, capacity, "{} {framework}", d.id);
                assert!(usable > capacity / 2, "{} {framework}", d.id);
            }
        }
        assert_eq!(Device::find("cpu").unwrap().usable_bytes(Framework::Torch), None);
    }

    /// "Created device … with N MB memory" in public logs, N being the limit in MiB.
    ///
    /// Most of the contexts in `devices.json` were taken from these very logs, so this guards the arithmetic and the
    /// agreement between driver versions; it is no independent proof. Logs with lower limits exist, from machines on
    /// which other things may have been running: 138533 on an H200, 29177 on an RTX 5090, 21286 on an RTX 4090.
    #[test]
    fn tensorflow_limits_are_those_of_public_logs() {
        for (id, logged) in [
            ("p100", 15511),
            ("t4", 13584),
            ("t4", 13840),
            ("a100-40gb", 38477),
            ("a100-80gb", 78945),
            ("l4", 20967),
            ("rtx-3090", 22446),
            ("rtx-4090", 22288),
            ("h100", 78763),
        ] {
            let usable = Device::find(id).unwrap().usable_bytes(Framework::TensorFlow).unwrap() / MIB;
            assert!(usable.abs_diff(logged) * 100 <= logged * 2, "{id}: {usable} MiB, logged {logged}");
        }
    }

    #[test]
    fn small_cards_keep_less_for_the_system() {
        let turing = ComputeCapability { major: 7, minor: 5 };
        assert_eq!(tensorflow_reserve_bytes(2 * GIB - 1, turing), 225 * MIB);
        assert_eq!(tensorflow_reserve_bytes(2 * GIB, turing), 1050 * MIB);
        let tiny = Device::custom("tiny", 300 * MIB, Some(turing));
        assert_eq!(tiny.usable_bytes(Framework::TensorFlow), Some(21 * MIB));
    }

    #[test]
    fn the_h200_is_as_measured() {
        let h200 = Device::find("h200").unwrap();
        assert_eq!(h200.capacity_bytes, Some(150_109_880_320));
        assert_eq!(h200.context_bytes(Framework::Torch), 758 * MIB);
        assert_eq!(h200.usable_bytes(Framework::Jax), Some(112_583_507_968));
        assert!(h200.measured(Framework::Torch) && h200.measured(Framework::Jax));
        assert!(!h200.measured(Framework::TensorFlow));
        let measured = |f| all().iter().filter(|d| d.measured(f)).map(|d| d.id.as_str()).collect::<Vec<_>>();
        assert_eq!(measured(Framework::TensorFlow), ["cpu"]);
        assert_eq!(measured(Framework::Torch), ["h200"]);
    }

    #[test]
    fn the_smallest_that_fits_comes_first() {
        let fitting = smallest_that_fit(15 * GIB, Framework::Torch);
        assert!(fitting.windows(2).all(|w| w[0].usable_bytes(Framework::Torch) <= w[1].usable_bytes(Framework::Torch)));
        assert!(fitting.iter().all(|d| d.is_gpu() && d.usable_bytes(Framework::Torch) >= Some(15 * GIB)));
        assert_eq!(fitting[0].marketed_gb, Some(16));
        assert!(smallest_that_fit(1 << 40, Framework::Torch).is_empty());
    }
}

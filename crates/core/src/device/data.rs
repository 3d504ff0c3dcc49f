//! `devices.json` as it is written, and the devices that it makes.
//!
//! In: the file, which is part of the program. Out: [`Device`]s with the sources of their figures.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{CapacityFrom, Device, Group};
use crate::bytes::{GIB, MIB};
use crate::framework::Framework;

pub(super) fn mib(value: f64) -> u64 {
    (value * MIB as f64) as u64
}

pub(super) static DATA: LazyLock<Data> = LazyLock::new(|| {
    serde_json::from_str(include_str!("devices.json")).expect("devices.json is part of the program, and tested")
});

/// `devices.json`, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    pub(super) kernels: KernelsData,
    pub(super) contexts: Vec<ContextData>,
    pub(super) gpus: Vec<GpuData>,
    pub(super) notebooks: Vec<NotebookData>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelsData {
    pub(super) kernels_mib: f64,
    pub(super) source: String,
}

/// `compute_capability` is `8.6`, or `8` for all of them that have no line of their own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextData {
    pub(super) compute_capability: String,
    pub(super) context_mib: f64,
    pub(super) measured: bool,
    pub(super) source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuData {
    pub(super) id: String,
    name: String,
    group: Group,
    aliases: Vec<String>,
    pub(super) compute_capability: String,
    marketed_gb: u32,
    capacity_mib: f64,
    capacity_from: CapacityFrom,
    capacity_source: String,
    #[serde(default)]
    pub(super) measured: Vec<Framework>,
    notes: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotebookData {
    pub(super) id: String,
    name: String,
    aliases: Vec<String>,
    pub(super) gpu: Option<String>,
    pub(super) gpus: u32,
    host_ram_gib: f64,
    host_ram_source: String,
    notes: Option<String>,
}

impl Data {
    pub(super) fn devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> = self.gpus.iter().map(GpuData::device).collect();
        let notebooks: Vec<Device> = self
            .notebooks
            .iter()
            .map(|n| n.device(devices.iter().find(|d| n.gpu.as_ref().is_some_and(|gpu| *gpu == d.id))))
            .collect();
        devices.extend(notebooks);
        devices.push(Device {
            aliases: vec!["host".to_owned()],
            capacity_bytes: None,
            capacity_source: "the memory that this machine allows".to_owned(),
            // TensorFlow 2.21 with its BFC allocator on a CPU, 54 jobs.
            measured: vec![Framework::TensorFlow],
            ..Device::custom("cpu", 0, None)
        });
        devices
    }
}

impl GpuData {
    fn device(&self) -> Device {
        let capability = self.compute_capability.parse().ok();
        Device {
            id: self.id.clone(),
            group: self.group,
            aliases: self.aliases.clone(),
            marketed_gb: Some(self.marketed_gb),
            capacity_from: self.capacity_from,
            capacity_source: self.capacity_source.clone(),
            notes: self.notes.clone(),
            measured: self.measured.clone(),
            ..Device::custom(&self.name, mib(self.capacity_mib), capability)
        }
    }
}

impl NotebookData {
    fn device(&self, gpu: Option<&Device>) -> Device {
        let ram = (self.host_ram_gib * GIB as f64) as u64;
        let mut device = match gpu {
            Some(gpu) => Device { measured: Vec::new(), notes: None, ..gpu.clone() },
            None => Device { capacity_source: self.host_ram_source.clone(), ..Device::custom(&self.name, ram, None) },
        };
        device.id.clone_from(&self.id);
        device.name.clone_from(&self.name);
        device.aliases.clone_from(&self.aliases);
        device.notes.clone_from(&self.notes);
        device.group = Group::Notebook;
        device.gpus = self.gpus;
        device.host_ram_bytes = Some(ram);
        device.host_ram_source = Some(self.host_ram_source.clone());
        device
    }
}

//! What becomes of devices' memory: growth, memory that a framework keeps and never used, and other processes.
//!
//! In: readings of GPUs, figures of frameworks' allocators, and steps. Out: findings. Where a framework says what its tensors hold, that is what
//! growth is judged by: the driver only sees what the framework keeps. The driver's number of a device is found through
//! `CUDA_VISIBLE_DEVICES` if that lists numbers. Not known: devices that are named otherwise.

use std::collections::BTreeMap;

use brimful_core::bytes::{GIB, MIB, human};

use super::finding;
use super::growth::Growth;
use super::leak::{Subject, says};
use super::once::{Lasting, Once};
use crate::gpu::GpuSample;
use crate::judge::Level;
use crate::recording::{Finding, FrameworkMemory, Start, StepMark};

/// Memory that is kept for nothing: as much at least, and this share of the device, for so long.
const UNUSED_BYTES: u64 = GIB;
const UNUSED_SHARE: f64 = 0.2;
const UNUSED_MS: u64 = 3 * 60_000;
/// Others hold as much at least, and this share: a desktop does with less.
const OTHERS_BYTES: u64 = 256 * MIB;
const OTHERS_SHARE: f64 = 0.02;
/// As many allocators and GPUs are followed.
const MOST: usize = 64;

/// All devices.
#[derive(Debug, Default)]
pub struct Devices {
    /// Numbers of the driver, by the number that frameworks use.
    visible: Option<Vec<u32>>,
    gpus: BTreeMap<u32, Gpu>,
    /// By process, framework and device.
    allocators: BTreeMap<(u32, String, String), Allocator>,
}

#[derive(Debug, Default)]
struct Gpu {
    last: GpuSample,
    growth: Growth,
    others: Once,
}

#[derive(Debug, Default)]
struct Allocator {
    last: FrameworkMemory,
    gpu: Option<u32>,
    growth: Growth,
    most_allocated_bytes: u64,
    unused: Lasting,
}

impl Devices {
    pub fn start(&mut self, start: &Start) {
        let listed = start.environment.get("CUDA_VISIBLE_DEVICES");
        self.visible = listed.and_then(|list| list.split(',').map(|number| number.trim().parse().ok()).collect());
    }

    /// Gives how busy it is, if the job is on it.
    pub fn gpu(&mut self, sample: &GpuSample, trains: bool, findings: &mut Vec<Finding>) -> Option<u64> {
        if self.gpus.len() >= MOST && !self.gpus.contains_key(&sample.index) {
            return None;
        }
        let has_allocator = self.allocators.values().any(|allocator| allocator.gpu == Some(sample.index));
        let is_ours = has_allocator || sample.job_bytes.is_some_and(|bytes| bytes > 0);
        let gpu = self.gpus.entry(sample.index).or_default();
        gpu.last = *sample;
        // Asked only then: what is said once must not be used up before the job comes to the GPU.
        if is_ours {
            findings.extend(gpu.others());
        }
        if let Some(bytes) = gpu.job_bytes().filter(|_| trains && !has_allocator) {
            let left_bytes = gpu.left_bytes();
            let news = gpu.growth.size(sample.at_ms, bytes, left_bytes);
            findings.extend(news.map(|news| says(sample.at_ms, &news, gpu.growth.pace(), &gpu.subject())));
        }
        sample.busy_percent.filter(|_| is_ours)
    }

    pub fn framework(&mut self, memory: &FrameworkMemory, trains: bool, findings: &mut Vec<Finding>) {
        let key = (memory.pid, memory.framework.clone(), memory.device.clone());
        if self.allocators.len() >= MOST && !self.allocators.contains_key(&key) {
            return;
        }
        let gpu = self.index_of(&memory.device);
        let limit_bytes = self.limit_bytes(memory, gpu);
        let allocator = self.allocators.entry(key).or_default();
        (allocator.last, allocator.gpu) = (memory.clone(), gpu);
        findings.extend(allocator.unused(limit_bytes));
        if let Some(bytes) = memory.allocated_bytes.filter(|_| trains) {
            let left_bytes = limit_bytes.map(|limit_bytes| limit_bytes.saturating_sub(bytes));
            let news = allocator.growth.size(memory.at_ms, bytes, left_bytes);
            findings.extend(news.map(|news| allocator.says(memory.at_ms, &news, limit_bytes)));
        }
    }

    pub fn step(&mut self, mark: &StepMark, findings: &mut Vec<Finding>) {
        for gpu in self.gpus.values_mut() {
            let left_bytes = gpu.left_bytes();
            let news = gpu.growth.step(mark, left_bytes);
            findings.extend(news.map(|news| says(mark.at_ms, &news, gpu.growth.pace(), &gpu.subject())));
        }
        let limits: Vec<Option<u64>> =
            self.allocators.values().map(|allocator| self.limit_bytes(&allocator.last, allocator.gpu)).collect();
        for (allocator, limit_bytes) in self.allocators.values_mut().zip(limits) {
            let allocated_bytes = allocator.last.allocated_bytes.unwrap_or(0);
            let left_bytes = limit_bytes.map(|limit_bytes| limit_bytes.saturating_sub(allocated_bytes));
            let news = allocator.growth.step(mark, left_bytes);
            findings.extend(news.map(|news| allocator.says(mark.at_ms, &news, limit_bytes)));
        }
    }

    /// The driver's number of a device, such as `cuda:0`; none for a CPU.
    fn index_of(&self, device: &str) -> Option<u32> {
        let name = device.to_ascii_lowercase();
        let number: usize = match name.rsplit_once(':') {
            _ if name.contains("cpu") => return None,
            Some((_, number)) => number.parse().ok()?,
            None => 0,
        };
        match &self.visible {
            Some(visible) => visible.get(number).copied(),
            None => u32::try_from(number).ok(),
        }
    }

    /// What an allocator can come to hold: its own limit, or what is left of the device together with what it has.
    fn limit_bytes(&self, memory: &FrameworkMemory, gpu: Option<u32>) -> Option<u64> {
        let device = gpu.and_then(|index| self.gpus.get(&index)).and_then(|gpu| {
            let has_bytes = memory.reserved_bytes.or(memory.allocated_bytes)?;
            let elsewhere_bytes = gpu.last.used_bytes?.saturating_sub(has_bytes);
            Some(gpu.last.total_bytes?.saturating_sub(elsewhere_bytes))
        });
        memory.limit_bytes.into_iter().chain(device).min()
    }
}

impl Gpu {
    /// What the job holds, or all if the driver does not tell processes apart.
    fn job_bytes(&self) -> Option<u64> {
        self.last.job_bytes.or(self.last.used_bytes).filter(|bytes| *bytes > 0)
    }

    fn left_bytes(&self) -> Option<u64> {
        Some(self.last.total_bytes?.saturating_sub(self.last.used_bytes?))
    }

    fn subject(&self) -> Subject<'static> {
        let limit_bytes = self.last.total_bytes;
        Subject {
            code: "leak_device",
            name: "GPU memory",
            limit_name: limit_bytes.map(|bytes| format!("the end of the {} of GPU {}", human(bytes), self.last.index)),
            limit_bytes,
            device: Some(self.last.index),
        }
    }

    fn others(&mut self) -> Option<Finding> {
        let (others_bytes, total_bytes) = (self.last.others_bytes.unwrap_or(0), self.last.total_bytes?);
        let is_much = others_bytes >= OTHERS_BYTES && others_bytes as f64 >= OTHERS_SHARE * total_bytes as f64;
        if !self.others.is_news(is_much.then_some(Level::High), self.last.at_ms) {
            return None;
        }
        let text = format!(
            "other processes hold {} of the {} of GPU {}",
            human(others_bytes),
            human(total_bytes),
            self.last.index
        );
        let figures = [
            ("others_bytes", others_bytes as f64),
            ("total_bytes", total_bytes as f64),
            ("device", f64::from(self.last.index)),
        ];
        Some(finding(self.last.at_ms, "other_process_on_gpu", text, figures))
    }
}

impl Allocator {
    fn says(&self, at_ms: u64, news: &super::growth::News, limit_bytes: Option<u64>) -> Finding {
        let name = format!("memory of {} in {}", self.last.device, self.last.framework);
        let subject = Subject {
            code: "leak_device",
            name: &name,
            limit_name: limit_bytes.map(|bytes| format!("the limit of {}", human(bytes))),
            limit_bytes,
            device: self.gpu,
        };
        says(at_ms, news, self.growth.pace(), &subject)
    }

    /// Memory that was taken and never filled: what tensors hold between steps is not all that they need, so their peak counts.
    fn unused(&mut self, limit_bytes: Option<u64>) -> Option<Finding> {
        let last = &self.last;
        let needed = last.allocated_bytes.max(last.peak_allocated_bytes).unwrap_or(0);
        self.most_allocated_bytes = self.most_allocated_bytes.max(needed);
        let reserved_bytes = last.reserved_bytes?;
        let unused_bytes = reserved_bytes.saturating_sub(self.most_allocated_bytes);
        let share = limit_bytes.map_or(1.0, |limit_bytes| unused_bytes as f64 / limit_bytes.max(1) as f64);
        let is_much = unused_bytes >= UNUSED_BYTES && share >= UNUSED_SHARE;
        if !self.unused.is_news(is_much, last.at_ms, UNUSED_MS) {
            return None;
        }
        // JAX takes its share when it starts, whatever it will need; the others take what they need, and it comes to be in pieces.
        let why = match last.framework.as_str() {
            "jax" => {
                "taken when it started, and not there for other processes (XLA_PYTHON_CLIENT_PREALLOCATE=false takes it as needed)"
            }
            _ => "kept for nothing, most likely in pieces",
        };
        let text = format!(
            "{} keeps {} of {}, of which tensors never held more than {}: {} are {why}",
            last.framework,
            human(reserved_bytes),
            last.device,
            human(self.most_allocated_bytes),
            human(unused_bytes)
        );
        let figures = [("reserved_bytes", reserved_bytes as f64), ("unused_bytes", unused_bytes as f64)];
        let device = self.gpu.map(|device| ("device", f64::from(device)));
        Some(finding(last.at_ms, "reserved_unused", text, figures.into_iter().chain(device)))
    }
}

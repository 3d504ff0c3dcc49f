//! The latest of each kind of frame. In: frames. Out: themselves, in bounded memory.

use std::collections::BTreeMap;

use crate::gpu::GpuSample;
use crate::recording::{Frame, FrameworkMemory, StepMark};
use crate::sample::Sample;

/// As many allocators, GPUs and codes are kept apart.
const MOST: usize = 256;

/// What is known of a job by now.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    pub(super) sample: Option<Sample>,
    pub(super) step: Option<StepMark>,
    pub(super) gpus: BTreeMap<u32, GpuSample>,
    /// By process, framework and device.
    pub(super) allocators: BTreeMap<(u32, String, String), FrameworkMemory>,
    /// How often each was found.
    pub(super) findings: BTreeMap<String, u64>,
    pub(super) has_ended: bool,
}

impl Latest {
    /// Takes a frame.
    pub fn take(&mut self, frame: &Frame) {
        match frame {
            Frame::Sample(sample) => self.sample = Some(*sample),
            Frame::Step(mark) => self.step = Some(*mark),
            Frame::Gpu(sample) => put(&mut self.gpus, sample.index, *sample),
            Frame::Framework(memory) => {
                let key = (memory.pid, memory.framework.clone(), memory.device.clone());
                put(&mut self.allocators, key, memory.clone());
            }
            Frame::Finding(finding) => {
                let count = self.findings.get(&finding.code).copied().unwrap_or(0);
                put(&mut self.findings, finding.code.clone(), count + 1);
            }
            Frame::End(_) => self.has_ended = true,
            Frame::Start(_) | Frame::Holders(_) | Frame::Line(_) | Frame::Other { .. } => {}
        }
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) {
    if map.len() < MOST || map.contains_key(&key) {
        map.insert(key, value);
    }
}

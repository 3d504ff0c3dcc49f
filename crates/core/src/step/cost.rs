//! What the kernels of a step cost, as numbers that do not need the kernels any more.
//!
//! In: the nodes of a graph. Out: [`StepCost`]: kernels, operations and bytes of the network and of the update, linear in the batch.
//! A CPU's rates stand here, because the executor orders kernels by them and a plan compares times with them.

use super::graph::{Node, ValueId};
use crate::bytes::Size;
use crate::model::DType;
use crate::trace::Phase;

/// Nanoseconds to start a kernel, or to queue it on a GPU. This and the rates below were read off the time stamps of
/// TensorFlow's own log on a two-core machine.
pub const START_NS: u64 = 5_000;
/// Operations a nanosecond on a CPU.
pub const CPU_OPERATIONS_PER_NS: u64 = 150;
/// Bytes that a CPU reads or writes in a nanosecond.
pub const CPU_BYTES_PER_NS: u64 = 40;
/// A kernel that touches no more than this runs on one thread, on what the core's cache has. This and the next two were read off TensorFlow's profiler
/// (`tools/measure_kernel_pace.py`).
pub const CACHED_BYTES: u64 = 1_200_000;
/// Nanoseconds that such a kernel takes at least.
pub const CACHED_START_NS: u64 = 1_000;
/// Bytes that it reads or writes in a nanosecond.
pub const CACHED_BYTES_PER_NS: u64 = 100;

/// `fixed + per_sample × batch`, as a real number: it is added up over thousands of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Linear {
    fixed: f64,
    per_sample: f64,
}

impl Linear {
    /// The value at one batch size.
    pub fn at(self, batch: u64) -> f64 {
        self.fixed + self.per_sample * batch as f64
    }

    fn add(&mut self, size: Size) {
        // Nearly all sizes have but one of the two, and to add nothing is worth a look for tens of thousands of them.
        if size.fixed != 0 {
            self.fixed += size.fixed as f64;
        }
        if size.per_sample != 0 {
            self.per_sample += size.per_sample as f64;
        }
    }
}

/// What one part of a step costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelCost {
    /// Kernels that are started.
    pub kernels: u64,
    /// Operations, slow memory traffic included as operations.
    pub operations: Linear,
    /// Bytes read and written.
    pub bytes: Linear,
    /// Of which in half precision.
    pub half_bytes: Linear,
}

/// What a step costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepCost {
    /// Forward and backward.
    pub network: KernelCost,
    /// The optimizer.
    pub update: KernelCost,
}

impl StepCost {
    /// Adds a node; `value` gives size and type of a value.
    pub fn add(&mut self, node: &Node, value: impl Fn(ValueId) -> (Size, DType)) {
        if node.free {
            return;
        }
        let part = if node.phase == Phase::Optimizer { &mut self.update } else { &mut self.network };
        part.kernels += 1;
        part.operations.add(node.work);
        for &id in node.inputs.iter().chain(&node.outputs) {
            let (size, dtype) = value(id);
            part.bytes.add(size);
            if matches!(dtype, DType::Float16 | DType::BFloat16) {
                part.half_bytes.add(size);
            }
        }
    }
}

//! How long a step takes, for comparing a job with the same job after a remedy.
//!
//! In: the kernels of one device's step. Out: nanoseconds, of which only the ratio of two means anything. A kernel takes
//! some time to start, then its arithmetic and its memory traffic, one after the other. Not counted: the input pipeline,
//! and what kernels of lower precision gain in arithmetic (their smaller traffic is): a ratio errs on the slow side.

use super::setup::Setup;
use crate::model::Model;
use crate::step::cost::{CPU_BYTES_PER_NS, CPU_OPERATIONS_PER_NS, KernelCost, START_NS, StepCost};
use crate::step::{Mode, Processor};

/// Operations and bytes per nanosecond on a CPU: those that the executor orders kernels by.
const CPU_RATES: (f64, f64) = (CPU_OPERATIONS_PER_NS as f64, CPU_BYTES_PER_NS as f64);

/// The same on a GPU: 8.1 TFLOP/s in float32 and 320 GB/s, from the data sheet of the NVIDIA T4. Their ratio, 25 operations
/// a byte, is near that of other cards (V100 17, RTX 3090 38, A100 10).
const GPU_RATES: (f64, f64) = (8_100.0, 320.0);

/// Bytes per nanosecond between two devices: PCIe 3.0 with 16 lanes, 15.75 GB/s by its specification.
const LINK_RATE: f64 = 15.75;

/// Nanoseconds of one whole step: all micro-batches, one update.
pub(super) fn step_ns(setup: &Setup, model: &Model, cost: &StepCost) -> f64 {
    let at_once = setup.at_once();
    let network = kernels_ns(&cost.network, at_once, setup.job.processor);
    let update = kernels_ns(&cost.update, at_once, setup.job.processor);
    if setup.job.mode == Mode::Inference {
        return network;
    }
    let micro_batches = setup.job.micro_batches.max(1) as f64;
    let trained = || model.weights.iter().filter(|weight| weight.trainable);
    let gradient_bytes: f64 = trained().map(|weight| weight.bytes() as f64).sum();
    let mut total = network * micro_batches + update;
    if setup.job.micro_batches > 1 {
        // Each micro-batch reads its gradients and the sum so far, and writes the new sum.
        let sums = trained().count() as f64 * START_NS as f64 + 3.0 * gradient_bytes / rates(setup.job.processor).1;
        total += sums * micro_batches;
    }
    if setup.devices > 1 {
        // A ring passes each gradient on twice, less the share that is already there.
        let devices = setup.devices as f64;
        total += 2.0 * (devices - 1.0) / devices * gradient_bytes / LINK_RATE;
    }
    total
}

/// Nanoseconds for one sample.
pub(super) fn sample_ns(setup: &Setup, model: &Model, cost: &StepCost) -> f64 {
    step_ns(setup, model, cost) / setup.job.batch.max(1) as f64
}

fn rates(processor: Processor) -> (f64, f64) {
    match processor {
        Processor::Cpu { .. } => CPU_RATES,
        Processor::Gpu => GPU_RATES,
    }
}

fn kernels_ns(cost: &KernelCost, batch: u64, processor: Processor) -> f64 {
    let (operations, bytes) = rates(processor);
    let mut touched = cost.bytes.at(batch);
    if matches!(processor, Processor::Cpu { .. }) {
        // A CPU without such instructions widens half-precision numbers to float32 and narrows the results.
        touched += cost.half_bytes.at(batch);
    }
    cost.kernels as f64 * START_NS as f64 + cost.operations.at(batch) / operations + touched / bytes
}

//! How long a recorded step takes, for comparing a job with the same job after a remedy.
//!
//! In: recorded steps. Out: nanoseconds, of which only the ratio of two means anything. Each request stands for a kernel
//! that starts, writes the buffer and is read twice; products of matrices and convolutions take longer by a typical amount of
//! arithmetic. Not counted: kernels that write in place, and the input pipeline.

use super::setup::Setup;
use crate::capture::{Event, Recording};
use crate::step::cost::START_NS;
use crate::trace::{Phase, Role};

/// Bytes per nanosecond of a GPU's memory: 320 GB/s, from the data sheet of the NVIDIA T4.
const MEMORY_RATE: f64 = 320.0;
/// Bytes per nanosecond to another device or the host: PCIe 3.0 with 16 lanes, by its specification.
const LINK_RATE: f64 = 15.75;
/// Times that a buffer is written or read.
const TOUCHES: f64 = 3.0;
/// The same for results of products, arithmetic included: a sum of some 600 products in each number of 4 bytes is 300
/// operations a byte, and a T4 does 25 in the time it moves one.
const PRODUCT_TOUCHES: f64 = TOUCHES + 12.0;
/// Parts of the names of ops that multiply matrices.
const PRODUCTS: [&str; 6] = ["convolution", "mm", "linear", "attention", "lstm", "gru"];

/// Nanoseconds for one sample of the batch that all devices share.
pub fn sample_ns(setup: &Setup) -> f64 {
    let work = last_step(&setup.steps.recording, setup.at_once());
    let network = work.network_ns / setup.repeats.max(1) as f64 * setup.micro_batches.max(1) as f64;
    let moved = setup.moved_bytes as f64 / LINK_RATE;
    let step = network + work.update_ns + moved;
    step / setup.batch.max(1) as f64
}

#[derive(Default)]
struct Work {
    network_ns: f64,
    update_ns: f64,
}

fn last_step(recording: &Recording, at_once: u64) -> Work {
    let begin = recording.events.iter().rposition(|event| *event == Event::Step).unwrap_or(0);
    let is_product = |op: &str| PRODUCTS.iter().any(|part| op.contains(part));
    let products: Vec<bool> = recording.strings.iter().map(|op| is_product(op)).collect();
    let mut work = Work::default();
    let mut phase = Phase::Setup;
    for event in &recording.events[begin..] {
        match *event {
            Event::Mark(next) => phase = next,
            Event::Alloc(index) => {
                let Some(buffer) = recording.buffers.get(index as usize) else { continue };
                let touches = match buffer.role {
                    Role::Workspace => 0.0,
                    _ if products[buffer.op as usize] => PRODUCT_TOUCHES,
                    _ => TOUCHES,
                };
                let ns = START_NS as f64 + touches * buffer.bytes(at_once, recording.batch) as f64 / MEMORY_RATE;
                match phase {
                    Phase::Optimizer => work.update_ns += ns,
                    Phase::Setup | Phase::Forward | Phase::Backward => work.network_ns += ns,
                }
            }
            Event::Free(_) | Event::Relabel(..) | Event::Step => {}
        }
    }
    work
}

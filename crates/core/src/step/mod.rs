//! How a framework executes one training step: which kernels, in which order, what each keeps, frees and needs as scratch.
//!
//! In: a [`Model`](crate::model::Model) and a [`Job`]. Out: a [`Trace`](crate::trace::Trace). A framework is one module
//! that lowers the model to a [`graph::Graph`]; the executor turns that into a trace. Nothing here knows an allocator.

pub mod cost;
pub mod executor;
pub mod graph;
pub mod tensorflow;

use crate::model::{Loss, Metric, OptimizerConfig};

/// What is asked of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forward, backward and an optimizer step.
    Training,
    /// Forward only.
    Inference,
}

/// Where kernels run, as far as their scratch and order depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// A CPU with this many worker threads.
    Cpu {
        /// Threads of the framework's pools.
        threads: u64,
        /// The last-level cache as the framework reads it off the processor: that of the whole chip, of which a virtual machine may have a part.
        cache_bytes: u64,
    },
    /// A GPU.
    Gpu,
}

/// A training or inference job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Samples per step.
    pub batch: u64,
    /// The optimizer; its settings decide slots and temporaries.
    pub optimizer: OptimizerConfig,
    /// The loss of each output; the last one stands for further outputs. Empty: chosen from the output's shape.
    pub losses: Vec<Loss>,
    /// What is measured of each output beside the loss.
    pub metrics: Vec<Vec<Metric>>,
    /// Training or inference.
    pub mode: Mode,
    /// Where it runs.
    pub processor: Processor,
    /// The batch is taken in this many micro-batches whose gradients are accumulated.
    pub micro_batches: u64,
}

impl Job {
    /// Samples that run through the network at once.
    pub fn micro_batch(&self) -> u64 {
        self.batch.div_ceil(self.micro_batches.max(1)).max(1)
    }
}

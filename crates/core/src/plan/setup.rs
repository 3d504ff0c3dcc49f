//! Everything about a job that a remedy can change.
//!
//! In: a request, then remedies that copy and change it. Out: [`Setup`], which the simulator runs. Two equal setups are the
//! same simulation.

use super::Request;
use crate::bytes::Size;
use crate::step::Job;

/// Settings of the model that differ from its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChange {
    /// A dtype policy for all layers that have the model-wide one.
    pub policy: Option<String>,
    /// Layer (name, path, or `input`), setting, new value as text.
    pub overrides: Vec<(String, String, String)>,
    /// The batch that was asked for, where sizes grow with its square.
    pub batch: Option<u64>,
}

impl ModelChange {
    /// The same, with one more setting changed.
    pub fn with(&self, layer: &str, attr: &str, value: String) -> ModelChange {
        let mut change = self.clone();
        change.overrides.push((layer.to_owned(), attr.to_owned(), value));
        change
    }

    /// The same under another dtype policy.
    pub fn with_policy(&self, policy: &str) -> ModelChange {
        ModelChange { policy: Some(policy.to_owned()), ..self.clone() }
    }
}

/// The allocator that serves the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The framework's own.
    Framework,
    /// The CUDA driver's stream-ordered pool (`cudaMallocAsync`).
    CudaAsync,
}

/// A job as it would run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What is changed in the model.
    pub change: ModelChange,
    /// The job; `job.batch` counts the samples of all devices.
    pub job: Job,
    /// The most that the allocator may hold.
    pub limit_bytes: Option<u64>,
    /// Who serves it.
    pub pool: Pool,
    /// Devices that share each batch.
    pub devices: u64,
    /// Weights of dense layers and embeddings are 8-bit integers (inference).
    pub int8_weights: bool,
    /// Held beside what the step asks for, as a bound, as a function of the samples that run at once.
    pub extra: Size,
}

impl Setup {
    /// The job as it was asked for.
    pub fn of(request: &Request<'_>) -> Setup {
        Setup {
            change: request.base.clone(),
            job: request.job.clone(),
            limit_bytes: request.limit_bytes,
            pool: Pool::Framework,
            devices: 1,
            int8_weights: false,
            extra: Size::ZERO,
        }
    }

    /// The job that one device runs.
    pub fn device_job(&self) -> Job {
        Job { batch: self.job.batch.div_ceil(self.devices.max(1)).max(1), ..self.job.clone() }
    }

    /// Samples that run through the network of one device at once.
    pub fn at_once(&self) -> u64 {
        self.device_job().micro_batch()
    }

    /// Samples of one step for each sample that runs at once.
    pub fn parts(&self) -> u64 {
        self.devices.max(1).saturating_mul(self.job.micro_batches.max(1))
    }

    /// The same with another batch.
    pub fn with_batch(&self, batch: u64) -> Setup {
        Setup { job: Job { batch, ..self.job.clone() }, ..self.clone() }
    }
}

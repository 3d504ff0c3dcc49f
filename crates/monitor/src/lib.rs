//! What a running job does to its machine: read, sampled, recorded and judged.
//!
//! The modules are listed in the order in which data flows. In: `/proc` and `/sys/fs/cgroup` (or a folder that looks like
//! them), the driver of NVIDIA's GPUs, what the agent inside a Python job says, and the time, which the caller passes in. Out:
//! [`sample::Sample`]s and other frames, a recording, and findings. Not here: the clock, the terminal, and starting or ending a job.

pub mod error;
pub mod readings;
pub mod sample;
pub mod gpu;
pub mod sampler;
pub mod recording;
pub mod agent;
pub mod judge;
pub mod findings;
pub mod metrics;

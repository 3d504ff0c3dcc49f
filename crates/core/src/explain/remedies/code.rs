//! Code that applies a remedy, and whom it is for: a framework, and where it matters, an accelerator.

use serde::Serialize;

use super::super::accelerator::Accelerator;

/// Whom a line of code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum For {
    /// Keras and TensorFlow.
    Keras,
    /// PyTorch and what stands on it.
    Torch,
    /// JAX.
    Jax,
    /// Everybody: a shell, Python, a container.
    Any,
}

/// Code that applies a remedy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Snippet {
    /// Whom it is for.
    pub framework: For,
    /// The code, or a command.
    pub code: &'static str,
    /// The accelerators that it is for; none where that does not matter.
    #[serde(skip)]
    pub accelerators: &'static [Accelerator],
}

/// NVIDIA's alone.
pub const CUDA: &[Accelerator] = &[Accelerator::Cuda];
/// AMD's.
pub const ROCM: &[Accelerator] = &[Accelerator::Rocm];
/// Those that frameworks drive by CUDA's names and one pool.
pub const GPUS: &[Accelerator] = &[Accelerator::Cuda, Accelerator::Rocm];
/// Apple's.
pub const MPS: &[Accelerator] = &[Accelerator::Mps];
/// Intel's.
pub const XPU: &[Accelerator] = &[Accelerator::Xpu];
/// Huawei's.
pub const NPU: &[Accelerator] = &[Accelerator::Npu];
/// Google's.
pub const TPU: &[Accelerator] = &[Accelerator::Tpu];
/// None of them.
pub const HOST: &[Accelerator] = &[Accelerator::Host];
/// Those for which bitsandbytes has kernels.
pub const BITSANDBYTES: &[Accelerator] = &[Accelerator::Cuda, Accelerator::Rocm, Accelerator::Xpu, Accelerator::Host];
/// Those of which a job may have several.
pub const SEVERAL: &[Accelerator] =
    &[Accelerator::Cuda, Accelerator::Rocm, Accelerator::Xpu, Accelerator::Npu, Accelerator::Tpu, Accelerator::Host];
/// All but GPUs that CUDA or ROCm drives.
pub const OTHERS: &[Accelerator] =
    &[Accelerator::Mps, Accelerator::Xpu, Accelerator::Npu, Accelerator::Tpu, Accelerator::Host];

impl Snippet {
    /// The same, for these accelerators alone.
    pub(super) const fn on(self, accelerators: &'static [Accelerator]) -> Snippet {
        Snippet { accelerators, ..self }
    }

    /// Whether it can be used there. Where a log does not say which accelerator it was, it is taken for NVIDIA's.
    pub(super) fn is_for(&self, accelerator: Option<Accelerator>) -> bool {
        self.accelerators.is_empty() || self.accelerators.contains(&accelerator.unwrap_or(Accelerator::Cuda))
    }

    /// Whether it speaks to TensorFlow, whichever backend Keras has.
    pub(super) fn is_tensorflows(&self) -> bool {
        ["tf.", "TF_"].iter().any(|name| self.code.contains(name))
    }
}

pub(super) const fn keras(code: &'static str) -> Snippet {
    Snippet { framework: For::Keras, code, accelerators: &[] }
}

pub(super) const fn torch(code: &'static str) -> Snippet {
    Snippet { framework: For::Torch, code, accelerators: &[] }
}

pub(super) const fn jax(code: &'static str) -> Snippet {
    Snippet { framework: For::Jax, code, accelerators: &[] }
}

pub(super) const fn any(code: &'static str) -> Snippet {
    Snippet { framework: For::Any, code, accelerators: &[] }
}

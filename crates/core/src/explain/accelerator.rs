//! Whose accelerator it was: commands and names of functions differ.
//!
//! In: lines of a failure and the device that they name. Out: whose it is, where they say so; most logs do not, and are of NVIDIA's.

use super::case::Case;
use super::sign::{Resource, Weight};
use super::sizes::has_any;

/// Whose accelerator it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// NVIDIA's.
    Cuda,
    /// AMD's.
    Rocm,
    /// Apple's.
    Mps,
    /// Intel's.
    Xpu,
    /// Huawei's.
    Npu,
    /// Google's.
    Tpu,
    /// None: the job computed on the host.
    Host,
}

/// What programs say of each.
const WORDS: [(Accelerator, &[&str]); 5] = [
    (Accelerator::Rocm, &["HIP out of memory", "HIP error", "hipError", "hipMalloc", "HIPBLAS_", "MIOpen", "ROCm"]),
    (Accelerator::Mps, &["MPS backend", "MPSNDArray", "MPS allocated", "Invalid buffer size", "kIOGPUCommandBuffer"]),
    (Accelerator::Xpu, &["XPU out of memory", "UR_RESULT_ERROR", "ZE_RESULT_ERROR", "PI_ERROR_OUT_OF"]),
    (Accelerator::Npu, &["NPU out of memory"]),
    (Accelerator::Tpu, &["XLA:TPU", " TPU ", "of hbm", "hbm capacity", "memory space hbm"]),
];

impl Accelerator {
    /// Whose accelerator a job ran on, where its failure says so.
    pub fn of(case: &Case) -> Option<Accelerator> {
        let failure = case.failure()?;
        match case.resource {
            Some(Resource::HostMemory) => return Some(Accelerator::Host),
            Some(Resource::GpuMemory) | None => {}
            Some(_) => return None,
        }
        let said =
            |text: &str| WORDS.iter().find(|(_, words)| has_any(text, words)).map(|(accelerator, _)| *accelerator);
        let of_device = case.numbers.device.as_deref().filter(|device| device.starts_with("TPU"));
        let same = case
            .sightings
            .iter()
            .filter(|seen| seen.sign.weight >= Weight::Symptom && seen.sign.resource == failure.sign.resource);
        let told = said(&failure.text).or_else(|| same.filter_map(|seen| said(&seen.text)).next());
        told.or(of_device.map(|_| Accelerator::Tpu))
    }

    /// How to see who holds its memory.
    pub const fn shown_by(self) -> &'static str {
        match self {
            Accelerator::Cuda => "run nvidia-smi while the job runs, or brimful devices",
            Accelerator::Rocm => "run rocm-smi --showmeminfo vram --showpids while the job runs",
            Accelerator::Mps => "look at the Activity Monitor's memory while the job runs: GPU and programs share it",
            Accelerator::Xpu => "run xpu-smi ps while the job runs",
            Accelerator::Npu => "run npu-smi info while the job runs",
            Accelerator::Tpu => "run tpu-info while the job runs",
            Accelerator::Host => "run free -h while the job runs",
        }
    }
}

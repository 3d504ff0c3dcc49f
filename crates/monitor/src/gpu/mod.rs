//! NVIDIA GPUs, through the driver's own library.
//!
//! In: NVML, loaded when asked for. Out: the list of GPUs ([`Gpus`]), and readings of them as a job goes on ([`GpuReader`], [`GpuSample`]). A
//! machine without a driver has none and says why; a figure that the driver does not give is none. Not here: GPUs of other makers.

pub mod sample;
pub mod list;
pub mod reader;

pub use list::{Gpu, GpuMemory, GpuProcess, Gpus};
pub use reader::GpuReader;
pub use sample::GpuSample;

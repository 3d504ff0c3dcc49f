//! One moment of a GPU, as a flat row of figures.
//!
//! In: readings. Out: [`GpuSample`]. A figure that the driver does not give is none.

/// One moment of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuSample {
    /// Since the recording began.
    pub at_ms: u64,
    /// Its place in the driver's order.
    pub index: u32,
    /// What CUDA calls the total.
    pub total_bytes: Option<u64>,
    /// What all processes hold.
    pub used_bytes: Option<u64>,
    /// What the job's processes hold.
    pub job_bytes: Option<u64>,
    /// What other processes hold.
    pub others_bytes: Option<u64>,
    /// Share of the last moments in which a kernel ran.
    pub busy_percent: Option<u64>,
    /// Degrees Celsius.
    pub temperature_c: Option<u64>,
    /// Power drawn.
    pub power_mw: Option<u64>,
}

impl GpuSample {
    /// The names of the figures, in the order of a row. Later versions add at the end, and take none away.
    pub const NAMES: &[&str] =
        &["total_bytes", "used_bytes", "job_bytes", "others_bytes", "busy_percent", "temperature_c", "power_mw"];

    /// The figures in that order.
    pub fn row(&self) -> [Option<u64>; GpuSample::NAMES.len()] {
        [
            self.total_bytes, self.used_bytes, self.job_bytes, self.others_bytes, self.busy_percent,
            self.temperature_c, self.power_mw,
        ]
    }

    /// The reverse.
    pub fn from_row(at_ms: u64, index: u32, row: [Option<u64>; GpuSample::NAMES.len()]) -> GpuSample {
        let [total_bytes, used_bytes, job_bytes, others_bytes, busy_percent, temperature_c, power_mw] = row;
        GpuSample {
            at_ms,
            index,
            total_bytes,
            used_bytes,
            job_bytes,
            others_bytes,
            busy_percent,
            temperature_c,
            power_mw,
        }
    }
}

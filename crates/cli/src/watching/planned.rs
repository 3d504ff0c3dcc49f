//! What a plan said, beside what the job used.
//!
//! In: the JSON of `brimful plan --format json`, and a [`Summary`]. Out: one line. Like is compared with like: tensors with what the framework's
//! allocator says, else the whole with what the GPU's driver says. Of a job on a CPU whose framework says nothing, nothing can be compared.

use std::fs;
use std::path::Path;

use anyhow::Context;
use brimful_core::bytes::human;
use serde_json::Value;

use crate::summary::Summary;

/// The peaks of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    allocated_bytes: u64,
    device_bytes: u64,
}

impl Planned {
    /// Reads one.
    pub fn read(path: &Path) -> anyhow::Result<Planned> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
        Planned::of(&text)
            .with_context(|| format!("{name} is no plan: write one with 'brimful plan … --format json -o plan.json'"))
    }

    fn of(text: &str) -> Option<Planned> {
        let plan: Value = serde_json::from_str(text).ok()?;
        let bytes = |name: &str| plan.get("peak")?.get(name)?.as_u64();
        Some(Planned { allocated_bytes: bytes("allocated_bytes")?, device_bytes: bytes("device_bytes")? })
    }

    /// How they compare; none where nothing was seen that can be compared.
    pub fn line(&self, used: &Summary) -> Option<String> {
        let tensors = used.frameworks.iter().filter_map(|peak| peak.peak_allocated_bytes).max();
        let gpus = used.gpus.iter().filter_map(|gpu| gpu.peak_job_bytes.or(gpu.peak_used_bytes)).max();
        let in_tensors = tensors.filter(|&bytes| bytes > 0).map(|bytes| (bytes, self.allocated_bytes, "in tensors"));
        let on_device = gpus.map(|bytes| (bytes, self.device_bytes, "on the GPU"));
        let (used_bytes, planned_bytes, what) = in_tensors.or(on_device)?;
        let percent = 100.0 * (used_bytes as f64 / planned_bytes.max(1) as f64 - 1.0);
        let difference = match percent.round() {
            0.0 => "as planned".to_owned(),
            more if more > 0.0 => format!("{more:.0} % more"),
            less => format!("{:.0} % less", -less),
        };
        Some(format!(
            "plan: {} {what} were planned, {} were used: {difference}",
            human(planned_bytes),
            human(used_bytes)
        ))
    }
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::MIB;

    use super::*;
    use crate::summary::FrameworkPeak;

    #[test]
    fn tensors_are_compared_with_tensors() {
        let planned = Planned::of(r#"{"peak": {"allocated_bytes": 104857600, "device_bytes": 209715200}}"#).unwrap();
        let mut used = Summary::default();
        assert_eq!(planned.line(&used), None);
        let peak_allocated_bytes = Some(110 * MIB);
        used.frameworks.push(FrameworkPeak { peak_allocated_bytes, ..FrameworkPeak::default() });
        let line = "plan: 100 MiB in tensors were planned, 110 MiB were used: 10 % more";
        assert_eq!(planned.line(&used).as_deref(), Some(line));
        for text in ["", "{}", "[1]", r#"{"peak": 3}"#] {
            assert_eq!(Planned::of(text), None);
        }
    }
}

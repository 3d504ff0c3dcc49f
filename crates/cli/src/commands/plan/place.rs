//! Which place the options mean: a device of the catalogue, this machine's GPU, or this machine's memory.
//!
//! In: `--device`, `--memory` and, only where neither says enough, the [`Machine`]. Out: a [`Place`]. The size of a peak
//! never depends on the machine that plans it; only the limit does, and only without `--device`.

use std::num::NonZero;

use brimful_core::bytes;
use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::plan::{CPU_THREADS, Place, budget};

use crate::machine::{Machine, nvml};

/// The place that the options name. `machine` is read only if it is needed.
pub fn choose(
    device: Option<&str>,
    memory: Option<&str>,
    framework: Framework,
    machine: impl FnOnce() -> Machine,
) -> anyhow::Result<Place> {
    let memory = match memory {
        Some(text) => Some(budget(text, bytes::parse(text)?)?),
        None => None,
    };
    let mut place = match device {
        Some(name) => Place::of(Device::find(name)?.clone(), framework),
        None => here(&machine(), framework)?,
    };
    place.hold_to(memory)?;
    place.note_limits(std::thread::available_parallelism().map_or(CPU_THREADS, |count| NonZero::get(count) as u64));
    Ok(place)
}

/// This machine: its first GPU that tells its memory, else its CPU with what this process may use.
fn here(machine: &Machine, framework: Framework) -> anyhow::Result<Place> {
    if let Some((gpu, device)) = machine.gpus.list.iter().find_map(|gpu| Some((gpu, nvml::device(gpu)?))) {
        let mut place = Place::of(device, framework);
        let held = gpu.memory.map_or(0, |memory| memory.used_bytes);
        place.limit_bytes = place.limit_bytes.map(|limit| limit.saturating_sub(held));
        place.held_by_others_bytes = held;
        return Ok(place);
    }
    let mut device = Device::find("cpu")?.clone();
    device.name = "this machine's CPU".to_owned();
    device.capacity_bytes = machine.memory.total_bytes;
    let mut place = Place::of(device, framework);
    place.limit_bytes = machine.memory.allowed_bytes();
    Ok(place)
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::{GIB, MIB};
    use brimful_core::device::ComputeCapability;
    use brimful_core::step::Processor;
    use brimful_monitor::gpu::{Gpu, GpuMemory};

    use super::*;

    fn choose(device: Option<&str>, memory: Option<&str>, machine: Machine) -> anyhow::Result<Place> {
        super::choose(device, memory, Framework::TensorFlow, || machine)
    }

    fn with_memory() -> Machine {
        let mut machine = Machine::default();
        machine.memory.total_bytes = Some(16 * GIB);
        machine.memory.limit_bytes = Some(4 * GIB);
        machine
    }

    #[test]
    fn a_named_device_never_looks_at_the_machine() {
        let place = super::choose(Some("T4"), None, Framework::TensorFlow, || panic!("not needed")).unwrap();
        assert_eq!((place.device.id.as_str(), place.processor), ("t4", Processor::Gpu));
        assert_eq!(place.limit_bytes, place.device.usable_bytes(Framework::TensorFlow));
    }

    #[test]
    fn a_cpu_has_no_limit_until_one_is_given() {
        let place = choose(Some("cpu"), None, with_memory()).unwrap();
        let processor = Processor::Cpu { threads: 2, cache_bytes: 320 * MIB };
        assert_eq!((place.limit_bytes, place.processor), (None, processor));
        assert_eq!(place.notes[0].code, "no_limit");
        assert_eq!(choose(Some("cpu"), Some("3GiB"), with_memory()).unwrap().limit_bytes, Some(3 * GIB));
    }

    #[test]
    fn without_a_device_it_is_this_machine() {
        let place = choose(None, None, with_memory()).unwrap();
        assert_eq!((place.limit_bytes, place.device.capacity_bytes), (Some(4 * GIB), Some(16 * GIB)));
        let mut machine = with_memory();
        machine.gpus.list = vec![Gpu {
            index: 0,
            name: "Tesla T4".to_owned(),
            memory: Some(GpuMemory {
                installed_bytes: 15_360 * MIB,
                reserved_bytes: 447 * MIB,
                free_bytes: 0,
                used_bytes: 3 * GIB,
            }),
            compute_capability: Some(ComputeCapability { major: 7, minor: 5 }),
            processes: Vec::new(),
        }];
        let place = choose(None, Some("10GiB"), machine.clone()).unwrap();
        assert_eq!((place.device.id.as_str(), place.limit_bytes), ("t4", Some(10 * GIB)));
        assert_eq!(place.held_by_others_bytes, 0);
        let place = choose(None, None, machine).unwrap();
        let alone = place.device.usable_bytes(Framework::TensorFlow).unwrap();
        assert_eq!((place.limit_bytes, place.held_by_others_bytes), (Some(alone - 3 * GIB), 3 * GIB));
    }

    #[test]
    fn wrong_names_and_sizes_are_errors() {
        let said = |device, memory| choose(device, memory, Machine::default()).unwrap_err().to_string();
        assert!(said(Some("rtx4900"), None).contains("did you mean rtx-4090"));
        assert!(said(Some("t4"), Some("lots")).contains("'lots' is not a size"));
    }
}

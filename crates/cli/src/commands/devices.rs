//! `brimful devices`: this machine, and the devices that `--device` knows.
//!
//! In: a [`Machine`], the catalogue, a part of a name. Out: a table, or JSON with `"schema": 1`. What a framework can use is
//! meant for a process that is alone on the device; what others hold now is only shown under "This machine", which a table
//! by name leaves out.

use std::fmt::Write as _;
use std::io::Write;

use brimful_core::bytes::human;
use brimful_core::device::{self, CapacityFrom, Device, Group};
use brimful_core::framework::Framework;
use brimful_monitor::gpu::Gpu;
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::machine::nvml;

/// The groups of the table, with their headings.
const GROUPS: [(Group, &str); 4] = [
    (Group::DataCentre, "Data centre"),
    (Group::Workstation, "Workstation"),
    (Group::Geforce, "GeForce"),
    (Group::Notebook, "Notebook services (memory and limits of one GPU)"),
];

/// Names are cut to fit, but not below this: enough to tell cards apart.
const NARROWEST_NAME: usize = 12;

/// Writes the list, or what of it has `name` in its id, its name or its other names. `width` is that of the terminal; none
/// where lines may be of any length.
pub fn run(name: Option<&str>, json: bool, width: Option<usize>, out: &mut dyn Write) -> anyhow::Result<()> {
    let devices = called(name)?;
    let machine = Machine::read();
    let text = match (json, name) {
        (true, _) => serde_json::to_string_pretty(&as_json(&machine, &devices))? + "\n",
        (false, None) => this_machine(&machine) + "\n" + &as_text(&devices, width),
        (false, Some(_)) => as_text(&devices, width),
    };
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// The devices with this in their names; if there are none, the error names the closest.
fn called(name: Option<&str>) -> anyhow::Result<Vec<&'static Device>> {
    let Some(name) = name else { return Ok(device::all().iter().collect()) };
    let plain = |text: &str| text.to_lowercase().replace([' ', '_'], "-");
    let wanted = plain(name);
    let has = |d: &&Device| [&d.id, &d.name].into_iter().chain(&d.aliases).any(|text| plain(text).contains(&wanted));
    let found: Vec<&Device> = device::all().iter().filter(has).collect();
    if found.is_empty() {
        return Ok(vec![Device::find(name)?]);
    }
    Ok(found)
}

fn as_text(devices: &[&Device], width: Option<usize>) -> String {
    let mut text = String::new();
    for (group, heading) in GROUPS {
        let rows: Vec<Row> = devices.iter().filter(|d| d.group == group).map(|d| Row::of(d)).collect();
        if rows.is_empty() {
            continue;
        }
        let columns = Columns::fitting(&rows, width);
        let last = if group == Group::Notebook { "host RAM" } else { "" };
        let _ = writeln!(text, "{heading}");
        columns.write(&mut text, ["id", "name", "memory", "TensorFlow", "PyTorch", last]);
        for row in &rows {
            columns.write(&mut text, [&row.id, &row.name, &row.memory, &row.tensorflow, &row.torch, &row.host]);
        }
        text.push('\n');
    }
    text.push_str(
        "\
memory: what CUDA reports; ~ assumed from a similar card or the size on the box.
TensorFlow, PyTorch: what their allocators can hold at most by default, alone on
the device; * compared with real runs there, the others follow from public logs.
cpu is a device too, with the limit that --memory sets. Without --device, a plan
is for this machine: its first GPU, or its CPU and the RAM that it may use.
",
    );
    text
}

fn this_machine(machine: &Machine) -> String {
    let mut text = String::from("This machine\n");
    for gpu in &machine.gpus.list {
        let _ = writeln!(text, "  GPU {}  {}", gpu.index, describe(gpu));
        for process in &gpu.processes {
            let holds = process.used_bytes.map_or("an unknown amount".to_owned(), human);
            let _ = writeln!(text, "         process {} holds {holds}", process.pid);
        }
    }
    if let Some(version) = &machine.gpus.driver_version {
        let _ = writeln!(text, "  NVIDIA driver {version}");
    }
    if let Some(reason) = &machine.gpus.reason {
        let _ = writeln!(text, "  GPU    none: {reason}");
    }
    let memory = &machine.memory;
    let amount = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), human);
    let _ = match (&memory.limit_source, memory.limit_bytes) {
        (Some(source), Some(limit)) => writeln!(
            text,
            "  RAM    {} allowed of {}, {} available\n         limit: {}",
            human(limit),
            amount(memory.total_bytes),
            amount(memory.available_bytes),
            source.display()
        ),
        _ => writeln!(text, "  RAM    {}, {} available", amount(memory.total_bytes), amount(memory.available_bytes)),
    };
    text
}

fn describe(gpu: &Gpu) -> String {
    let mut text = gpu.name.clone();
    if let Some(capability) = gpu.compute_capability {
        let _ = write!(text, ", compute capability {capability}");
    }
    let (Some(memory), Some(device)) = (gpu.memory, nvml::device(gpu)) else {
        return text + ", memory unknown: the driver does not say";
    };
    let _ = write!(text, ": {}, {} free", human(memory.total_bytes()), human(memory.free_bytes));
    match Device::find(&device.id) {
        Ok(known) => text + &format!(" (--device {})", known.id),
        Err(_) => text + " (not in the list below)",
    }
}

/// One device, as text.
struct Row {
    id: String,
    name: String,
    memory: String,
    tensorflow: String,
    torch: String,
    host: String,
}

impl Row {
    fn of(device: &Device) -> Row {
        let assumed = matches!(device.capacity_from, CapacityFrom::Sibling | CapacityFrom::Marketing);
        let usable = |framework| {
            let mark = if device.measured(framework) { "*" } else { " " };
            device.usable_bytes(framework).map_or(String::new(), |bytes| human(bytes) + mark)
        };
        let memory = device.capacity_bytes.map_or(String::new(), human);
        Row {
            id: device.id.clone(),
            name: device.name.strip_prefix("NVIDIA ").unwrap_or(&device.name).to_owned(),
            memory: if assumed { format!("~{memory}") } else { memory },
            tensorflow: usable(Framework::TensorFlow),
            torch: usable(Framework::Torch),
            host: device.host_ram_bytes.map_or(String::new(), human),
        }
    }
}

/// How wide the columns are.
struct Columns {
    id: usize,
    /// Zero: no names.
    name: usize,
    number: usize,
}

impl Columns {
    fn fitting(rows: &[Row], width: Option<usize>) -> Columns {
        let mut columns = Columns { id: 0, name: 0, number: "TensorFlow".len() };
        for row in rows {
            columns.id = columns.id.max(row.id.chars().count());
            columns.name = columns.name.max(row.name.chars().count());
        }
        let numbers = if rows.iter().any(|row| !row.host.is_empty()) { 4 } else { 3 };
        let rest = 2 + columns.id + 2 + numbers * (columns.number + 2);
        let room = width.unwrap_or(usize::MAX).saturating_sub(rest);
        columns.name = if room < NARROWEST_NAME { 0 } else { columns.name.min(room) };
        columns
    }

    fn write(&self, text: &mut String, [id, name, memory, tensorflow, torch, host]: [&str; 6]) {
        let (i, n) = (self.id, self.number);
        let mut line = format!("  {id:i$}");
        if self.name > 0 {
            let _ = write!(line, "  {:1$}", cut(name, self.name), self.name);
        }
        let _ = write!(line, "  {memory:>n$}  {tensorflow:>n$}  {torch:>n$}  {host:>n$}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The text, or as much of it as fits, ending in an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn as_json(machine: &Machine, devices: &[&Device]) -> Value {
    json!({
        "schema": 1,
        "machine": {
            "driver_version": machine.gpus.driver_version,
            "gpus": machine.gpus.list.iter().map(gpu_json).collect::<Vec<_>>(),
            "no_gpu_reason": machine.gpus.reason,
            "memory": {
                "total_bytes": machine.memory.total_bytes,
                "limit_bytes": machine.memory.limit_bytes,
                "limit_source": machine.memory.limit_source,
                "allowed_bytes": machine.memory.allowed_bytes(),
                "available_bytes": machine.memory.available_bytes,
            },
        },
        "devices": devices.iter().map(|d| device_json(d)).collect::<Vec<_>>(),
    })
}

fn gpu_json(gpu: &Gpu) -> Value {
    let device = nvml::device(gpu);
    let known = device.as_ref().and_then(|d| Device::find(&d.id).ok());
    json!({
        "index": gpu.index,
        "name": gpu.name,
        "device": known.map(|d| &d.id),
        "compute_capability": gpu.compute_capability.map(|c| c.to_string()),
        "installed_bytes": gpu.memory.map(|m| m.installed_bytes),
        "total_bytes": gpu.memory.map(|m| m.total_bytes()),
        "free_bytes": gpu.memory.map(|m| m.free_bytes),
        "used_bytes": gpu.memory.map(|m| m.used_bytes),
        "usable_bytes": device.as_ref().map(|d| by_framework(|f| d.usable_bytes(f))),
        "processes": gpu.processes.iter().map(|p| json!({"pid": p.pid, "used_bytes": p.used_bytes})).collect::<Vec<_>>(),
    })
}

fn device_json(device: &Device) -> Value {
    json!({
        "id": device.id,
        "name": device.name,
        "group": device.group.to_string(),
        "aliases": device.aliases,
        "compute_capability": device.compute_capability.map(|c| c.to_string()),
        "marketed_gb": device.marketed_gb,
        "gpus": device.gpus,
        "capacity_bytes": device.capacity_bytes,
        "capacity_from": device.capacity_from.to_string(),
        "capacity_source": device.capacity_source,
        "host_ram_bytes": device.host_ram_bytes,
        "host_ram_source": device.host_ram_source,
        "context_bytes": by_framework(|f| Some(device.context_bytes(f))),
        "context_measured": device.context.as_ref().map(|c| c.measured),
        "context_source": device.context.as_ref().map(|c| &c.source),
        "reserve_bytes": by_framework(|f| device.reserve_bytes(f)),
        "usable_bytes": by_framework(|f| device.usable_bytes(f)),
        "measured": Framework::ALL.into_iter().filter(|f| device.measured(*f)).collect::<Vec<_>>(),
        "notes": device.notes,
    })
}

fn by_framework(value: impl Fn(Framework) -> Option<u64>) -> Value {
    Framework::ALL.into_iter().map(|f| (f.to_string(), json!(value(f)))).collect::<serde_json::Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use brimful_core::bytes::{GIB, MIB};
    use brimful_core::device::ComputeCapability;
    use brimful_monitor::gpu::{GpuMemory, GpuProcess, Gpus};

    use super::*;
    use crate::machine::memory::Memory;

    fn machine() -> Machine {
        let memory = GpuMemory {
            installed_bytes: 15_360 * MIB,
            reserved_bytes: 447 * MIB,
            free_bytes: 11 * GIB,
            used_bytes: 3 * GIB,
        };
        let gpu = Gpu {
            index: 0,
            name: "Tesla T4".to_owned(),
            memory: Some(memory),
            compute_capability: Some(ComputeCapability { major: 7, minor: 5 }),
            processes: vec![
                GpuProcess { pid: 41, used_bytes: Some(3 * GIB) },
                GpuProcess { pid: 42, used_bytes: None },
            ],
        };
        Machine {
            gpus: Gpus { list: vec![gpu], driver_version: Some("580.1".to_owned()), reason: None },
            memory: Memory {
                total_bytes: Some(16 * GIB),
                limit_bytes: Some(4 * GIB),
                limit_source: Some(PathBuf::from("/sys/fs/cgroup/memory.max")),
                available_bytes: Some(2 * GIB),
            },
        }
    }

    #[test]
    fn the_machine_comes_first() {
        let text = this_machine(&machine());
        let expected = "This machine
  GPU 0  Tesla T4, compute capability 7.5: 14.6 GiB, 11.0 GiB free (--device t4)
         process 41 holds 3.00 GiB
         process 42 holds an unknown amount
  NVIDIA driver 580.1
  RAM    4.00 GiB allowed of 16.0 GiB, 2.00 GiB available
         limit: /sys/fs/cgroup/memory.max
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_machine_without_anything_still_gets_the_list() {
        let mut machine = Machine::default();
        machine.gpus.reason = Some("no NVIDIA driver".to_owned());
        let text = this_machine(&machine);
        assert!(text.contains("none: no NVIDIA driver") && text.contains("RAM    unknown"), "{text}");
        let text = as_text(&called(None).unwrap(), None);
        assert!(device::all().iter().filter(|d| d.group != Group::Cpu).all(|d| text.contains(&d.id)));
    }

    #[test]
    fn lines_fit_the_terminal() {
        for width in [80, 100, 120] {
            let text = as_text(&called(None).unwrap(), Some(width));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        assert_eq!(cut("GeForce RTX 4090", 8), "GeForce…");
        assert_eq!(cut("T4", 8), "T4");
    }

    #[test]
    fn measured_and_assumed_figures_are_marked() {
        let text = as_text(&called(None).unwrap(), None);
        let line = |id: &str| text.lines().find(|l| l.trim_start().starts_with(&format!("{id} "))).unwrap();
        assert_eq!(line("h200").matches('*').count(), 1);
        assert_eq!(line("t4").matches('*').count(), 0);
        assert!(line("l40").contains('~') && !line("l4").contains('~'));
    }

    #[test]
    fn json_has_its_schema_and_every_device() {
        let value = as_json(&machine(), &called(None).unwrap());
        assert_eq!(value["schema"], 1);
        assert_eq!(value["machine"]["gpus"][0]["device"], "t4");
        assert_eq!(value["machine"]["gpus"][0]["total_bytes"], 14_913 * MIB);
        assert_eq!(value["machine"]["memory"]["limit_source"], "/sys/fs/cgroup/memory.max");
        let devices = value["devices"].as_array().unwrap();
        assert_eq!(devices.len(), device::all().len());
        let h200 = devices.iter().find(|d| d["id"] == "h200").unwrap();
        assert_eq!(h200["measured"], json!(["torch", "jax"]));
        assert_eq!(h200["usable_bytes"]["jax"], 112_583_507_968_u64);
        assert_eq!(devices.last().unwrap()["capacity_bytes"], Value::Null);
    }

    #[test]
    fn a_part_of_a_name_is_enough() {
        let ids = |name: &str| called(Some(name)).unwrap().iter().map(|d| d.id.as_str()).collect::<Vec<_>>();
        assert!(ids("t4").contains(&"t4"));
        assert!(ids("RTX 40").contains(&"rtx-4090") && !ids("rtx 40").contains(&"rtx-3090"));
        let text = as_text(&called(Some("h200")).unwrap(), None);
        assert!(text.starts_with("Data centre\n") && !text.contains("GeForce"), "{text}");
        assert_eq!(called(Some("t5")).unwrap_err().to_string(), "no device is called 't5'; did you mean t4?");
    }

    #[test]
    fn both_formats_are_written() {
        for json in [false, true] {
            let mut out = Vec::new();
            run(None, json, Some(80), &mut out).unwrap();
            assert!(out.ends_with(b"\n") && out.len() > 1000);
        }
    }
}

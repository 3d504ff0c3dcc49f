//! Which figures there are to show, as rows of a table.
//!
//! In: [`State`]. Out: [`Row`]s, in the order in which they are read, each with a rank by which it is kept where there is little room. Figures
//! that nobody could read have no row.

use brimful_core::bytes::MIB;
use brimful_monitor::recording::FrameworkMemory;

use super::look::Level;
use crate::live::state::{Gpu, State};
use crate::live::words;

/// One figure against its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Of its limit, if there is one.
    pub share: Option<f64>,
    /// The most that it was, likewise.
    pub peak_share: Option<f64>,
    /// How bad that is.
    pub level: Level,
    /// What matters most first; the last ones go where there is no room.
    pub pieces: Vec<String>,
    /// The lowest is kept the longest.
    pub rank: usize,
}

fn share(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    part.zip(whole.filter(|whole| *whole > 0)).map(|(part, whole)| part as f64 / whole as f64)
}

impl Row {
    fn of(name: impl Into<String>, rank: usize, pieces: Vec<String>) -> Row {
        Row { name: name.into(), share: None, peak_share: None, level: Level::Calm, pieces, rank }
    }

    /// Against a limit that must not be met.
    fn against(self, part: Option<u64>, whole: Option<u64>) -> Row {
        let share = share(part, whole);
        Row { share, level: share.map_or(Level::Calm, Level::of), ..self }
    }
}

/// All of them. What flows has one row together with the CPUs, or, if `is_long`, one each.
pub fn rows(state: &State, is_long: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(memory(state));
    rows.extend(swap(state));
    rows.extend(shm(state, is_long));
    rows.extend(gpus(state));
    let frameworks = state.frameworks().into_iter().enumerate();
    rows.extend(frameworks.map(|(place, memory)| framework(memory, 200 + place)));
    rows.extend(flows(state, is_long));
    rows.retain(|row| !row.pieces.is_empty());
    rows
}

fn memory(state: &State) -> Option<Row> {
    let (held_bytes, limit_bytes) = state.held()?;
    let mut pieces = vec![words::of(held_bytes, limit_bytes)];
    if let Some(peak) = state.peak {
        let size = words::like(peak.bytes, limit_bytes.unwrap_or(held_bytes));
        pieces.push(format!("peak {size} at {}", words::clock(peak.at_ms)));
    }
    let stalled = state.change().stall_some_share.filter(|share| *share >= 0.01);
    pieces.extend(stalled.map(|share| format!("{} of the time waiting for memory", words::percent(share))));
    let sample = state.sample.as_ref()?;
    pieces.extend(sample.process_count.filter(|count| *count > 1).map(|count| format!("{count} processes")));
    let peak_share = share(state.peak.map(|peak| peak.bytes), limit_bytes);
    Some(Row { peak_share, ..Row::of("memory", 0, pieces).against(Some(held_bytes), limit_bytes) })
}

fn swap(state: &State) -> Option<Row> {
    let sample = state.sample.as_ref()?;
    let used_bytes = sample.cgroup_swap_bytes.or(sample.machine_swap_used_bytes).filter(|bytes| *bytes >= MIB)?;
    let whose = if sample.cgroup_swap_bytes.is_some() { "of the group" } else { "of the machine" };
    Some(Row::of("swap", 3, vec![words::size(used_bytes), whose.to_owned()]))
}

fn shm(state: &State, is_long: bool) -> Option<Row> {
    let sample = state.sample.as_ref()?;
    let (used, whole) = (sample.shm_used_bytes, sample.shm_size_bytes);
    let is_worth_it = is_long || share(used, whole).is_some_and(|share| share >= 0.5);
    let row = Row::of("/dev/shm", 4, vec![words::of(used?, whole)]);
    is_worth_it.then(|| row.against(used, whole))
}

fn gpus(state: &State) -> Vec<Row> {
    let mut rows: Vec<Row> = state.gpus.iter().map(|(index, gpu)| gpu_row(*index, gpu)).collect();
    // The fullest stay where not all fit.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|one, other| rows[*other].share.unwrap_or(0.0).total_cmp(&rows[*one].share.unwrap_or(0.0)));
    for (rank, place) in order.into_iter().enumerate() {
        rows[place].rank = if rank == 0 { 1 } else { 100 + rank };
    }
    rows
}

fn gpu_row(index: u32, gpu: &Gpu) -> Row {
    let latest = &gpu.latest;
    let mut pieces: Vec<String> =
        latest.used_bytes.map(|used| words::of(used, latest.total_bytes)).into_iter().collect();
    pieces.extend(latest.busy_percent.map(|percent| format!("{percent} % busy")));
    let others = latest.others_bytes.filter(|bytes| *bytes >= 16 * MIB);
    pieces.extend(others.map(|bytes| format!("others {}", words::size(bytes))));
    pieces.extend(latest.temperature_c.map(|degrees| format!("{degrees} °C")));
    pieces.extend(latest.power_mw.map(|milliwatts| format!("{} W", milliwatts / 1000)));
    Row::of(format!("GPU {index}"), 100, pieces).against(latest.used_bytes, latest.total_bytes)
}

fn framework(memory: &FrameworkMemory, rank: usize) -> Row {
    let name = format!("{} {}", memory.framework, memory.device);
    let mut pieces = Vec::new();
    pieces.extend(memory.allocated_bytes.map(|bytes| format!("tensors {}", words::size(bytes))));
    pieces.extend(memory.reserved_bytes.map(|bytes| format!("reserved {}", words::of(bytes, memory.limit_bytes))));
    pieces.extend(memory.peak_allocated_bytes.map(|bytes| format!("peak {}", words::size(bytes))));
    let peak_share = share(memory.peak_allocated_bytes, memory.limit_bytes);
    // What is reserved may be all there is, from the first moment on: that is no alarm.
    let share = share(memory.allocated_bytes.or(memory.reserved_bytes), memory.limit_bytes);
    Row { share, peak_share, ..Row::of(name, rank, pieces) }
}

fn flows(state: &State, is_long: bool) -> Vec<Row> {
    let change = state.change();
    let cpu = change.cpu_cores.map(|cores| words::cores(cores, state.cpus)).into_iter().collect();
    let mut cpu = Row::of("CPU", 2, cpu);
    cpu.share = change.cpu_cores.zip(state.cpus).map(|(cores, cpus)| cores / cpus);
    if is_long {
        let flow = |bytes: Option<f64>, what: &str| bytes.map(|bytes| format!("{} {what}", words::flow(bytes)));
        let both = |one: Option<String>, other: Option<String>| one.into_iter().chain(other).collect();
        let disk = both(flow(change.disk_read_bytes_per_s, "read"), flow(change.disk_written_bytes_per_s, "written"));
        let network = both(flow(change.received_bytes_per_s, "in"), flow(change.sent_bytes_per_s, "out"));
        return vec![cpu, Row::of("disk", 5, disk), Row::of("network", 6, network)];
    }
    let sum = |one: Option<f64>, other: Option<f64>| one.or(other).map(|_| one.unwrap_or(0.0) + other.unwrap_or(0.0));
    let disk = sum(change.disk_read_bytes_per_s, change.disk_written_bytes_per_s);
    let network = sum(change.received_bytes_per_s, change.sent_bytes_per_s);
    for (name, bytes) in [("disk", disk), ("network", network)] {
        cpu.pieces.extend(bytes.map(|bytes| format!("{name} {}", words::flow(bytes))));
    }
    vec![cpu]
}

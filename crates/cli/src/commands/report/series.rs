//! The figures of a recording that are followed over time, and in which plot each stands.
//!
//! In: frames, one after the other. Out: [`Line`]s, thinned. Counters become rates over a second or more, as some of them are read only once a
//! second. Not followed: more devices and processes than [`MOST_LINES`] lines have room for; how many were left out is counted.

use std::collections::BTreeMap;

use brimful_core::page::Unit;
use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{Frame, FrameworkMemory, StepMark};
use brimful_monitor::sample::{Change, Sample};

use super::thin::Thin;

/// Points that are kept of each line.
const MOST_POINTS: usize = 2000;
/// Lines of GPUs and frameworks: a machine with 16 GPUs and a process for each has fewer.
const MOST_LINES: usize = 240;
/// Rates are over this time at least.
const RATE_MS: u64 = 1000;

/// A plot; in the order of the page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plot {
    Memory,
    Gpu(u32),
    Framework(String, String),
    Loss,
    StepRate,
    Waiting,
    Cpu,
    GpuBusy,
    Disk,
    Network,
    Stall,
    Machine,
    Counts,
    Temperature,
    Power,
}

impl Plot {
    /// Its heading.
    pub fn title(&self) -> String {
        match self {
            Plot::Memory => "Memory of the job".to_owned(),
            Plot::Gpu(index) => format!("Memory of GPU {index}"),
            Plot::Framework(framework, device) => format!("Memory of {framework} on {device}"),
            Plot::Loss => "Loss".to_owned(),
            Plot::StepRate => "Steps per second".to_owned(),
            Plot::Waiting => "Time between steps, waiting for data mostly".to_owned(),
            Plot::Cpu => "CPU cores in use".to_owned(),
            Plot::GpuBusy => "GPU in use".to_owned(),
            Plot::Disk => "Disk".to_owned(),
            Plot::Network => "Network of the job's namespace".to_owned(),
            Plot::Stall => "Time in which tasks waited for memory".to_owned(),
            Plot::Machine => "Memory of the machine".to_owned(),
            Plot::Counts => "Processes, threads, open files".to_owned(),
            Plot::Temperature => "Temperature of GPUs".to_owned(),
            Plot::Power => "Power of GPUs".to_owned(),
        }
    }

    /// A short name without blanks, for links and for other programs.
    pub fn id(&self) -> String {
        match self {
            Plot::Memory => "memory".to_owned(),
            Plot::Gpu(index) => format!("gpu{index}"),
            Plot::Framework(framework, device) => format!("{framework}/{device}"),
            Plot::Loss => "train".to_owned(),
            Plot::StepRate => "steps".to_owned(),
            Plot::Waiting => "waiting".to_owned(),
            Plot::Cpu => "cpu".to_owned(),
            Plot::GpuBusy => "gpu_busy".to_owned(),
            Plot::Disk => "disk".to_owned(),
            Plot::Network => "network".to_owned(),
            Plot::Stall => "stall".to_owned(),
            Plot::Machine => "machine".to_owned(),
            Plot::Counts => "counts".to_owned(),
            Plot::Temperature => "temperature".to_owned(),
            Plot::Power => "power".to_owned(),
        }
    }
}

/// One figure over time.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it stands.
    pub plot: Plot,
    /// For people.
    pub name: String,
    /// For programs.
    pub id: String,
    /// Of its values.
    pub unit: Unit,
    /// Whether it is drawn before anybody asks.
    pub shown: bool,
    /// Whether it is a limit of the others.
    pub limit: bool,
    /// Its points.
    pub thin: Thin,
}

type OfSample = fn(&Sample) -> Option<u64>;
type OfChange = fn(&Change) -> Option<f64>;
type OfGpu = fn(&GpuSample) -> Option<f64>;
type OfFramework = fn(&FrameworkMemory) -> Option<u64>;
type GpuFigure = (Option<Plot>, &'static str, &'static str, Unit, Drawn, OfGpu);

/// How a line is drawn: before anybody asks, on demand, or as a limit.
#[derive(Clone, Copy, PartialEq)]
enum Drawn {
    Yes,
    OnDemand,
    Limit,
}
use Drawn::{Limit, OnDemand, Yes};

const OF_SAMPLE: &[(Plot, &str, &str, Unit, Drawn, OfSample)] = &[
    (Plot::Memory, "resident", "rss", Unit::Bytes, Yes, |s| s.rss_bytes),
    (Plot::Memory, "resident, shared parts once", "pss", Unit::Bytes, Yes, |s| s.pss_bytes),
    (Plot::Memory, "highest resident so far", "peak_rss", Unit::Bytes, OnDemand, |s| s.peak_rss_bytes),
    (Plot::Memory, "counted against the limit", "held", Unit::Bytes, Yes, Sample::held_bytes),
    (Plot::Memory, "cgroup: without a file behind it", "anon", Unit::Bytes, Yes, |s| s.cgroup_anon_bytes),
    (Plot::Memory, "cgroup: all, with page cache", "cgroup", Unit::Bytes, OnDemand, |s| s.cgroup_used_bytes),
    (Plot::Memory, "cgroup: cache that can be dropped", "file", Unit::Bytes, OnDemand, |s| {
        s.cgroup_inactive_file_bytes
    }),
    (Plot::Memory, "cgroup: shared memory", "shmem", Unit::Bytes, Yes, |s| s.cgroup_shmem_bytes),
    (Plot::Memory, "cgroup: swapped out", "swap", Unit::Bytes, Yes, |s| s.cgroup_swap_bytes),
    (Plot::Memory, "/dev/shm in use", "dev_shm", Unit::Bytes, OnDemand, |s| s.shm_used_bytes),
    (Plot::Memory, "limit", "limit", Unit::Bytes, Limit, Sample::limit_bytes),
    (Plot::Machine, "in use", "used", Unit::Bytes, Yes, |s| {
        s.machine_total_bytes.zip(s.machine_available_bytes).map(|(total, left)| total.saturating_sub(left))
    }),
    (Plot::Machine, "swap in use", "swap", Unit::Bytes, Yes, |s| s.machine_swap_used_bytes),
    (Plot::Machine, "all there is", "total", Unit::Bytes, Limit, |s| s.machine_total_bytes),
    (Plot::Counts, "processes", "processes", Unit::Count, Yes, |s| s.process_count),
    (Plot::Counts, "threads", "threads", Unit::Count, Yes, |s| s.thread_count),
    (Plot::Counts, "open files", "open_files", Unit::Count, Yes, |s| s.open_file_count),
];

const OF_CHANGE: &[(Plot, &str, &str, Unit, OfChange)] = &[
    (Plot::Cpu, "cores", "cores", Unit::Count, |c| c.cpu_cores),
    (Plot::Disk, "read", "read", Unit::BytesPerSecond, |c| c.disk_read_bytes_per_s),
    (Plot::Disk, "written", "written", Unit::BytesPerSecond, |c| c.disk_written_bytes_per_s),
    (Plot::Network, "received", "received", Unit::BytesPerSecond, |c| c.received_bytes_per_s),
    (Plot::Network, "sent", "sent", Unit::BytesPerSecond, |c| c.sent_bytes_per_s),
    (Plot::Stall, "some tasks", "some", Unit::Percent, |c| c.stall_some_share.map(|share| share * 100.0)),
    (Plot::Stall, "all tasks", "full", Unit::Percent, |c| c.stall_full_share.map(|share| share * 100.0)),
];

/// Of each GPU; the first four in its own plot, the rest beside those of the others.
const OF_GPU: [GpuFigure; 7] = [
    (None, "the job", "job", Unit::Bytes, Yes, |g| g.job_bytes.map(|bytes| bytes as f64)),
    (None, "other processes", "others", Unit::Bytes, Yes, |g| g.others_bytes.map(|bytes| bytes as f64)),
    (None, "all processes", "used", Unit::Bytes, Yes, |g| g.used_bytes.map(|bytes| bytes as f64)),
    (None, "all there is", "total", Unit::Bytes, Limit, |g| g.total_bytes.map(|bytes| bytes as f64)),
    (Some(Plot::GpuBusy), "", "", Unit::Percent, Yes, |g| g.busy_percent.map(|percent| percent as f64)),
    (Some(Plot::Temperature), "", "", Unit::Celsius, Yes, |g| g.temperature_c.map(|degrees| degrees as f64)),
    (Some(Plot::Power), "", "", Unit::Watt, Yes, |g| g.power_mw.map(|mw| mw as f64 / 1000.0)),
];

const OF_FRAMEWORK: [(&str, &str, Drawn, OfFramework); 3] = [
    ("held by tensors", "allocated", Yes, |m| m.allocated_bytes),
    ("reserved", "reserved", Yes, |m| m.reserved_bytes),
    ("may take", "limit", Limit, |m| m.limit_bytes),
];

/// Loss, steps per second, waiting: behind those of the host.
const STEPS: usize = OF_SAMPLE.len() + OF_CHANGE.len();

/// Follows all figures.
#[derive(Clone, Debug)]
pub struct Follower {
    lines: Vec<Line>,
    gpus: BTreeMap<u32, usize>,
    frameworks: BTreeMap<(String, String, u32), usize>,
    before: Option<Sample>,
    step_before: Option<StepMark>,
    left_out: u64,
}

impl Default for Follower {
    fn default() -> Follower {
        let line = |plot: &Plot, name: &str, id: &str, unit, drawn| line(plot.clone(), name, id, unit, drawn);
        let of_sample = OF_SAMPLE.iter().map(|(plot, name, id, unit, drawn, _)| line(plot, name, id, *unit, *drawn));
        let of_change = OF_CHANGE.iter().map(|(plot, name, id, unit, _)| line(plot, name, id, *unit, Yes));
        let mut lines: Vec<Line> = of_sample.chain(of_change).collect();
        lines.push(line(&Plot::Loss, "loss", "loss", Unit::Number, Yes));
        lines.push(line(&Plot::StepRate, "steps per second", "steps_per_second", Unit::Number, Yes));
        lines.push(line(&Plot::Waiting, "share of the time", "share", Unit::Percent, Yes));
        Follower {
            lines,
            gpus: BTreeMap::new(),
            frameworks: BTreeMap::new(),
            before: None,
            step_before: None,
            left_out: 0,
        }
    }
}

fn line(plot: Plot, name: &str, id: &str, unit: Unit, drawn: Drawn) -> Line {
    let (shown, limit) = (drawn != OnDemand, drawn == Limit);
    Line { plot, name: name.to_owned(), id: id.to_owned(), unit, shown, limit, thin: Thin::new(MOST_POINTS) }
}

impl Follower {
    /// Takes what a frame says.
    pub fn take(&mut self, frame: &Frame) {
        match frame {
            Frame::Sample(sample) => self.sample(sample),
            Frame::Gpu(sample) => self.gpu(sample),
            Frame::Framework(memory) => self.framework(memory),
            Frame::Step(mark) => self.step(mark),
            _ => {}
        }
    }

    fn sample(&mut self, sample: &Sample) {
        for (line, (.., read)) in self.lines.iter_mut().zip(OF_SAMPLE) {
            if let Some(value) = read(sample) {
                line.thin.push(sample.at_ms, value as f64);
            }
        }
        let before = *self.before.get_or_insert(*sample);
        let change = sample.since(&before);
        if change.elapsed_ms < RATE_MS {
            return;
        }
        for (line, (.., read)) in self.lines[OF_SAMPLE.len()..].iter_mut().zip(OF_CHANGE) {
            if let Some(value) = read(&change) {
                line.thin.push(sample.at_ms, value);
            }
        }
        self.before = Some(*sample);
    }

    fn gpu(&mut self, sample: &GpuSample) {
        let index = sample.index;
        let begin = match self.gpus.get(&index) {
            Some(begin) => *begin,
            None => {
                let Some(begin) = self.room() else { return };
                for (plot, name, id, unit, drawn, _) in OF_GPU {
                    let of_gpu = format!("GPU {index}");
                    let own = plot.is_none();
                    let (name, id) = if own { (name, id.to_owned()) } else { (of_gpu.as_str(), format!("gpu{index}")) };
                    self.lines.push(line(plot.unwrap_or(Plot::Gpu(index)), name, &id, unit, drawn));
                }
                self.gpus.insert(index, begin);
                begin
            }
        };
        for (line, (.., read)) in self.lines[begin..].iter_mut().zip(OF_GPU) {
            if let Some(value) = read(sample) {
                line.thin.push(sample.at_ms, value);
            }
        }
    }

    fn framework(&mut self, memory: &FrameworkMemory) {
        let key = (memory.framework.clone(), memory.device.clone(), memory.pid);
        let begin = match self.frameworks.get(&key) {
            Some(begin) => *begin,
            None => {
                let Some(begin) = self.room() else { return };
                for (name, id, drawn, _) in OF_FRAMEWORK {
                    let plot = Plot::Framework(memory.framework.clone(), memory.device.clone());
                    let (name, id) = (format!("{name} (process {})", memory.pid), format!("{id}/{}", memory.pid));
                    self.lines.push(line(plot, &name, &id, Unit::Bytes, drawn));
                }
                self.frameworks.insert(key, begin);
                begin
            }
        };
        for (line, (.., read)) in self.lines[begin..].iter_mut().zip(OF_FRAMEWORK) {
            if let Some(value) = read(memory) {
                line.thin.push(memory.at_ms, value as f64);
            }
        }
    }

    fn step(&mut self, mark: &StepMark) {
        if let Some(loss) = mark.loss {
            self.lines[STEPS].thin.push(mark.at_ms, loss);
        }
        let before = *self.step_before.get_or_insert(*mark);
        let elapsed_ms = mark.at_ms.saturating_sub(before.at_ms);
        if elapsed_ms < RATE_MS {
            return;
        }
        let steps = mark.step.saturating_sub(before.step) as f64;
        self.lines[STEPS + 1].thin.push(mark.at_ms, steps * 1000.0 / elapsed_ms as f64);
        if let (Some(now), Some(then)) = (mark.waited_us, before.waited_us) {
            let share = now.saturating_sub(then) as f64 / 10.0 / elapsed_ms as f64;
            self.lines[STEPS + 2].thin.push(mark.at_ms, share.min(100.0));
        }
        self.step_before = Some(*mark);
    }

    /// Where the next lines begin, if there is room for more.
    fn room(&mut self) -> Option<usize> {
        if self.lines.len() >= MOST_LINES {
            self.left_out += 1;
            return None;
        }
        Some(self.lines.len())
    }

    /// The lines that have points, by plot, and how many figures found no room. What was 0 all the time says nothing, memory excepted.
    pub fn finish(mut self) -> (Vec<Line>, u64) {
        self.lines.retain(|line| line.thin.seen() > 0);
        self.lines.retain(|line| line.id == "rss" || line.plot == Plot::Loss || line.thin.highest() > Some(0.0));
        self.lines.sort_by(|a, b| a.plot.cmp(&b.plot));
        (self.lines, self.left_out)
    }
}

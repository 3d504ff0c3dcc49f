//! A job in short: how it ended, its peak, who held it, its steps.
//!
//! In: frames, one after the other. Out: [`Summary`], whose JSON `docs/report.md` describes. Sizes are those of samples; `peak_rss_bytes` also knows
//! what was between them.

pub mod date;
pub mod facts;

use std::collections::BTreeMap;
use std::rc::Rc;

use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{End, Finding, Frame, FrameworkMemory, Good, Holders, Start, StepMark};
use brimful_monitor::sample::Sample;
use serde::Serialize;

/// Signal 9, which cannot be caught: the kernel's, for memory, or somebody's.
const KILL: i32 = 9;
/// Devices and processes that are listed.
const MOST_LISTED: usize = 256;
/// Judgements that are kept, of a job that runs as of a recording; the rest is counted.
pub const MOST_FINDINGS: usize = 500;

/// How a job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With exit code 0.
    EndedWell,
    /// With another one.
    Failed,
    /// By the kernel, which found no memory left within the limit.
    KilledForMemory,
    /// By a signal.
    Killed,
    /// It did, but how is not known: it was watched, not started.
    Ended,
    /// The recording does not have it: brimful was killed, or the job still runs.
    #[default]
    NotRecorded,
}

/// A job in short.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The version of this JSON.
    pub schema: u32,
    /// `run`.
    pub kind: &'static str,
    /// The command, without secrets.
    pub command: Vec<String>,
    /// The date of the beginning, in ISO 8601.
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Up to the end, or to the last entry.
    pub duration_ms: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processes that were killed for memory.
    pub oom_kills: Option<u64>,
    /// The most that counted against the limit.
    pub peak: Option<Peak>,
    /// The most resident memory, also between samples.
    pub peak_rss_bytes: Option<u64>,
    /// The largest processes near the peak.
    pub holders: Option<HoldersThen>,
    /// The GPUs.
    pub gpus: Vec<GpuPeak>,
    /// The frameworks' allocators.
    pub frameworks: Vec<FrameworkPeak>,
    /// The training steps, if they are known.
    pub steps: Option<Steps>,
    /// Judgements, in the order of time.
    pub findings: Vec<Finding>,
    /// How many more there were.
    pub more_findings: u64,
    /// What `brimful explain` says of its end.
    pub explanation: Option<serde_json::Value>,
    /// Names and versions.
    pub versions: BTreeMap<String, String>,
    /// Settings that matter to memory.
    pub environment: BTreeMap<String, String>,
    /// Names and bytes.
    pub limits_bytes: BTreeMap<String, u64>,
    /// How much of the recording could be read, or was written; none where there is none, or it breaks off.
    pub recording: Option<Read>,
}

/// The most that counted against the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Peak {
    /// When.
    pub at_ms: u64,
    /// The group's memory without cache that can be dropped; the job's where no group is limited.
    pub held_bytes: u64,
    /// The limit at that moment.
    pub limit_bytes: Option<u64>,
    /// The step that had ended last.
    pub step: Option<u64>,
}

/// Who held it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HoldersThen {
    /// When they were read: near the peak.
    pub at_ms: u64,
    /// The largest first.
    pub processes: Vec<Process>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Its share of what it shares.
    pub pss_bytes: Option<u64>,
    /// The most it ever had.
    pub peak_rss_bytes: u64,
}

/// The peak of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GpuPeak {
    /// Its place in the driver's order.
    pub index: u32,
    /// When most was in use.
    pub at_ms: u64,
    /// By all processes.
    pub peak_used_bytes: Option<u64>,
    /// The most of the job.
    pub peak_job_bytes: Option<u64>,
    /// All it has.
    pub total_bytes: Option<u64>,
}

/// The peak of a framework's allocator on one device, in one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FrameworkPeak {
    /// `torch`, `tensorflow` or `jax`.
    pub framework: String,
    /// As the framework calls it.
    pub device: String,
    /// The process.
    pub pid: u32,
    /// The most that tensors held.
    pub peak_allocated_bytes: Option<u64>,
    /// The most that was taken from the device.
    pub peak_reserved_bytes: Option<u64>,
    /// What it may take.
    pub limit_bytes: Option<u64>,
}

/// The training steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Steps {
    /// The first that was told of.
    pub first: u64,
    /// The last that ended.
    pub last: u64,
    /// Its epoch.
    pub last_epoch: Option<u64>,
    /// The last loss that is a number.
    pub last_loss: Option<f64>,
    /// The first step whose loss was infinite or no number.
    pub first_bad_loss: Option<u64>,
    /// From the first to the last.
    pub per_second: Option<f64>,
    /// Share of that time between the end of one step and the beginning of the next.
    pub waited_share: Option<f64>,
}

/// How much of a recording could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Read {
    /// Entries.
    pub entries: u64,
    /// Their bytes.
    pub good_bytes: u64,
    /// Bytes behind them that are torn or damaged.
    pub bad_bytes: u64,
}

/// Makes a summary.
#[derive(Clone, Default)]
pub struct Summarizer {
    start: Option<Start>,
    end: Option<End>,
    last_ms: u64,
    summary: Summary,
    last_step: Option<StepMark>,
    first_step: Option<StepMark>,
    last_holders: Option<Rc<Holders>>,
    holders: Option<Rc<Holders>>,
    /// Where each framework's allocator stands in the list.
    listed: BTreeMap<(String, String, u32), usize>,
}

impl Summarizer {
    /// Takes a frame.
    pub fn take(&mut self, frame: &Frame) {
        match frame {
            Frame::Start(start) => drop(self.start.get_or_insert_with(|| start.clone())),
            Frame::Sample(sample) => self.sample(sample),
            Frame::Gpu(sample) => self.gpu(sample),
            Frame::Framework(memory) => self.framework(memory),
            Frame::Step(mark) => self.step(mark),
            Frame::Holders(holders) => self.holders(holders),
            Frame::Finding(finding) => {
                self.see(finding.at_ms);
                self.summary.findings.push(finding.clone());
            }
            Frame::Line(line) => self.see(line.at_ms),
            Frame::End(end) => {
                self.see(end.at_ms);
                self.end = Some(end.clone());
            }
            Frame::Other { .. } => {}
        }
    }

    fn see(&mut self, at_ms: u64) {
        self.last_ms = self.last_ms.max(at_ms);
    }

    fn sample(&mut self, sample: &Sample) {
        self.see(sample.at_ms);
        // No process holds nothing: what is zero was not measured.
        let is_known = |bytes: &u64| *bytes > 0;
        let most_bytes = sample.peak_rss_bytes.max(sample.rss_bytes).filter(is_known);
        self.summary.peak_rss_bytes = self.summary.peak_rss_bytes.max(most_bytes);
        let Some(held_bytes) = sample.held_bytes().filter(is_known) else { return };
        if self.summary.peak.is_none_or(|peak| held_bytes > peak.held_bytes) {
            let step = self.last_step.map(|mark| mark.step);
            let limit_bytes = sample.limit_bytes();
            self.summary.peak = Some(Peak { at_ms: sample.at_ms, held_bytes, limit_bytes, step });
            self.holders = self.last_holders.clone();
        }
    }

    /// Those nearest to the peak are kept, whether they come before it or behind it.
    fn holders(&mut self, holders: &Holders) {
        self.see(holders.at_ms);
        let holders = Rc::new(holders.clone());
        let peak_ms = self.summary.peak.map_or(0, |peak| peak.at_ms);
        let is_nearer = |known: &Rc<Holders>| holders.at_ms.abs_diff(peak_ms) < known.at_ms.abs_diff(peak_ms);
        if self.holders.as_ref().is_none_or(is_nearer) {
            self.holders = Some(holders.clone());
        }
        self.last_holders = Some(holders);
    }

    fn gpu(&mut self, sample: &GpuSample) {
        self.see(sample.at_ms);
        let gpus = &mut self.summary.gpus;
        let place = match gpus.iter().position(|gpu| gpu.index == sample.index) {
            Some(place) => place,
            None if gpus.len() < MOST_LISTED => {
                gpus.push(GpuPeak { index: sample.index, ..GpuPeak::default() });
                gpus.len() - 1
            }
            None => return,
        };
        let gpu = &mut gpus[place];
        gpu.total_bytes = sample.total_bytes.or(gpu.total_bytes);
        gpu.peak_job_bytes = gpu.peak_job_bytes.max(sample.job_bytes);
        if sample.used_bytes > gpu.peak_used_bytes {
            (gpu.peak_used_bytes, gpu.at_ms) = (sample.used_bytes, sample.at_ms);
        }
    }

    fn framework(&mut self, memory: &FrameworkMemory) {
        self.see(memory.at_ms);
        let (list, pid) = (&mut self.summary.frameworks, memory.pid);
        let key = (memory.framework.clone(), memory.device.clone(), pid);
        if list.len() >= MOST_LISTED && !self.listed.contains_key(&key) {
            return;
        }
        let place = *self.listed.entry(key).or_insert_with(|| {
            let (framework, device) = (memory.framework.clone(), memory.device.clone());
            list.push(FrameworkPeak { framework, device, pid, ..FrameworkPeak::default() });
            list.len() - 1
        });
        let peak = &mut list[place];
        peak.peak_allocated_bytes =
            peak.peak_allocated_bytes.max(memory.peak_allocated_bytes).max(memory.allocated_bytes);
        peak.peak_reserved_bytes = peak.peak_reserved_bytes.max(memory.reserved_bytes);
        peak.limit_bytes = memory.limit_bytes.or(peak.limit_bytes);
    }

    fn step(&mut self, mark: &StepMark) {
        self.see(mark.at_ms);
        self.first_step.get_or_insert(*mark);
        let steps = self.summary.steps.get_or_insert(Steps { first: mark.step, ..Steps::default() });
        steps.last = mark.step;
        steps.last_epoch = mark.epoch.or(steps.last_epoch);
        match mark.loss {
            Some(loss) if loss.is_finite() => steps.last_loss = Some(loss),
            Some(_) => drop(steps.first_bad_loss.get_or_insert(mark.step)),
            None => {}
        }
        self.last_step = Some(*mark);
    }

    /// The summary, with so many findings at most.
    pub fn finish(self, good: Option<Good>, most_findings: usize) -> Summary {
        let (start, end) = (self.start.unwrap_or_default(), self.end);
        let mut summary = self.summary;
        summary.schema = 1;
        summary.kind = "run";
        summary.started = date::iso(start.started_unix_ms);
        summary.started_unix_ms = start.started_unix_ms;
        summary.command = start.command;
        summary.versions = start.versions;
        summary.environment = start.environment;
        summary.limits_bytes = start.limits_bytes;
        summary.duration_ms = self.last_ms;
        if let Some(end) = end {
            summary.outcome = outcome(&end);
            (summary.exit_code, summary.signal, summary.oom_kills) = (end.exit_code, end.signal, end.oom_kills);
            summary.explanation = end.explanation;
        }
        summary.holders = self.holders.map(|holders| listed(&holders));
        summary.gpus.sort_by_key(|gpu| gpu.index);
        summary.more_findings = summary.findings.len().saturating_sub(most_findings) as u64;
        summary.findings.truncate(most_findings);
        if let (Some(steps), Some(first), Some(last)) = (&mut summary.steps, self.first_step, self.last_step) {
            let elapsed_ms = last.at_ms.saturating_sub(first.at_ms) as f64;
            if elapsed_ms > 0.0 {
                steps.per_second = Some(last.step.saturating_sub(first.step) as f64 * 1000.0 / elapsed_ms);
                let waited_us = last.waited_us.zip(first.waited_us).map(|(now, then)| now.saturating_sub(then));
                steps.waited_share = waited_us.map(|us| (us as f64 / 1000.0 / elapsed_ms).min(1.0));
            }
        }
        summary.recording =
            good.map(|Good { frames, good_bytes, bad_bytes }| Read { entries: frames, good_bytes, bad_bytes });
        summary
    }
}

fn outcome(end: &End) -> Outcome {
    let was_killed = end.signal == Some(KILL) || end.exit_code == Some(128 + KILL);
    match (end.exit_code, end.signal) {
        _ if was_killed && end.oom_kills.is_some_and(|kills| kills > 0) => Outcome::KilledForMemory,
        (Some(0), None) => Outcome::EndedWell,
        (_, Some(_)) => Outcome::Killed,
        (Some(_), None) => Outcome::Failed,
        // A job that was only watched: how it ended is its parent's to know.
        (None, None) => Outcome::Ended,
    }
}

fn listed(holders: &Holders) -> HoldersThen {
    let process = |holder: &brimful_monitor::recording::Holder| Process {
        pid: holder.pid,
        name: holder.name.clone(),
        rss_bytes: holder.rss_bytes,
        pss_bytes: holder.pss_bytes,
        peak_rss_bytes: holder.peak_rss_bytes,
    };
    HoldersThen { at_ms: holders.at_ms, processes: holders.processes.iter().map(process).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit_code: Option<i32>, signal: Option<i32>, oom_kills: Option<u64>) -> Outcome {
        outcome(&End { exit_code, signal, oom_kills, ..End::default() })
    }

    #[test]
    fn a_kill_for_memory_is_told_from_others() {
        assert_eq!(ended(Some(0), None, Some(0)), Outcome::EndedWell);
        assert_eq!(ended(Some(1), None, Some(1)), Outcome::Failed);
        assert_eq!(ended(None, Some(9), Some(1)), Outcome::KilledForMemory);
        assert_eq!(ended(Some(137), None, Some(2)), Outcome::KilledForMemory);
        assert_eq!(ended(None, Some(9), Some(0)), Outcome::Killed);
        assert_eq!(ended(None, None, None), Outcome::Ended);
    }

    #[test]
    fn what_was_not_measured_is_not_zero() {
        let mut summarizer = Summarizer::default();
        // Of a job that had ended when it was first looked at, as recordings of before have it.
        let (rss_bytes, peak_rss_bytes) = (Some(0), Some(0));
        summarizer.take(&Frame::Sample(Sample { at_ms: 3, rss_bytes, peak_rss_bytes, ..Sample::default() }));
        let summary = summarizer.finish(None, 10);
        assert_eq!((summary.peak, summary.peak_rss_bytes, summary.duration_ms), (None, None, 3));
        assert_eq!(facts::facts(&summary), Vec::<String>::new());
    }

    #[test]
    fn the_holders_nearest_to_the_peak_are_named() {
        let mut summarizer = Summarizer::default();
        let sample = |at_ms, rss| Frame::Sample(Sample { at_ms, rss_bytes: Some(rss), ..Sample::default() });
        let holders = |at_ms| Frame::Holders(Holders { at_ms, processes: Vec::new() });
        for frame in [sample(0, 1), holders(1000), sample(5000, 9), holders(6000), sample(7000, 3), holders(11_000)] {
            summarizer.take(&frame);
        }
        let summary = summarizer.finish(None, 10);
        assert_eq!((summary.peak.unwrap().at_ms, summary.holders.unwrap().at_ms), (5000, 6000));
        assert_eq!((summary.duration_ms, summary.outcome), (11_000, Outcome::NotRecorded));
    }
}

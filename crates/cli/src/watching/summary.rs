//! What a run used, from its frames.
//!
//! In: the frames of a run, as it goes or from its recording. Out: a few lines for people. The peak is the highest that was seen or that the kernel
//! says there was between two samples. Not here: why a job failed.

use brimful_core::bytes::human;
use brimful_monitor::recording::{Frame, Holders};
use brimful_monitor::sample::Sample;

use crate::live::words::{count, percent, several, time};

/// Holders that are named.
const NAMED: usize = 3;

/// The first step that is heard of a job that was watched from its start has at most this number: not every step is told.
const FIRST_HEARD: u64 = 20;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    first: Option<Sample>,
    last: Option<Sample>,
    /// The most that was held, when, and the limit at that moment.
    peak: Option<(u64, u64, Option<u64>)>,
    holders: Option<Holders>,
    /// The first and the last step: when, which.
    steps: Option<[(u64, u64); 2]>,
    waited_us: Option<u64>,
    /// For each GPU the most that was held, and its memory.
    gpus: Vec<(u32, u64, Option<u64>)>,
    /// For each framework and device the most that its tensors held.
    frameworks: Vec<(String, u64)>,
    findings: Vec<String>,
    at_ms: u64,
}

impl Summary {
    /// Takes a frame.
    pub fn take(&mut self, frame: &Frame) {
        match frame {
            Frame::Sample(sample) => self.take_sample(sample),
            Frame::Holders(holders) => {
                // Those at the peak, or the nearest before it.
                if self.peak.is_none_or(|(_, at_ms, _)| holders.at_ms <= at_ms + 1000) && !holders.processes.is_empty()
                {
                    self.holders = Some(holders.clone());
                }
            }
            Frame::Step(mark) => {
                let now = (mark.at_ms, mark.step);
                self.steps = Some([self.steps.map_or(now, |[first, _]| first), now]);
                self.waited_us = mark.waited_us.or(self.waited_us);
            }
            Frame::Gpu(gpu) => {
                let held = gpu.job_bytes.or(gpu.used_bytes).unwrap_or(0);
                match self.gpus.iter_mut().find(|(index, ..)| *index == gpu.index) {
                    Some((_, peak, total)) => (*peak, *total) = ((*peak).max(held), gpu.total_bytes.or(*total)),
                    None => self.gpus.push((gpu.index, held, gpu.total_bytes)),
                }
            }
            Frame::Framework(memory) => {
                let name = format!("{} on {}", memory.framework, memory.device);
                let held = memory.peak_allocated_bytes.or(memory.allocated_bytes).unwrap_or(0);
                match self.frameworks.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, peak)) => *peak = (*peak).max(held),
                    None => self.frameworks.push((name, held)),
                }
            }
            Frame::Finding(finding) => self.findings.push(finding.text.clone()),
            Frame::End(end) => self.at_ms = end.at_ms,
            Frame::Start(_) | Frame::Line(_) | Frame::Other { .. } => {}
        }
    }

    fn take_sample(&mut self, sample: &Sample) {
        self.at_ms = self.at_ms.max(sample.at_ms);
        self.first.get_or_insert(*sample);
        // Between two samples only the sum over processes is known to have been higher.
        let unseen =
            sample.peak_rss_bytes.zip(self.last.and_then(|last| last.peak_rss_bytes)).and_then(|(now, before)| {
                (now > before && sample.rss_bytes.is_some_and(|rss| now > rss))
                    .then(|| now.saturating_sub(sample.shared_bytes.unwrap_or(0)))
            });
        let held = sample
            .held_bytes()
            .max(unseen.filter(|_| sample.cgroup_limit_bytes.is_none_or(|limit| unseen <= Some(limit))));
        if let Some(held) = held.filter(|&held| self.peak.is_none_or(|(peak, ..)| held > peak)) {
            self.peak = Some((held, sample.at_ms, sample.limit_bytes()));
        }
        self.last = Some(*sample);
    }

    /// The most that was held.
    pub fn peak_bytes(&self) -> Option<u64> {
        self.peak.map(|(bytes, ..)| bytes)
    }

    /// The most that tensors of a framework held on one device.
    pub fn tensor_peak_bytes(&self) -> Option<u64> {
        self.frameworks.iter().map(|(_, peak)| *peak).max().filter(|&peak| peak > 0)
    }

    /// The most that was held on one GPU.
    pub fn gpu_peak_bytes(&self) -> Option<u64> {
        self.gpus.iter().map(|(_, peak, _)| *peak).max().filter(|&peak| peak > 0)
    }

    /// The last sample that saw the job.
    pub fn last(&self) -> Option<&Sample> {
        self.last.as_ref()
    }

    /// Processes of the job's cgroup that the kernel killed for memory while it was watched.
    pub fn oom_kills(&self) -> Option<u64> {
        let (first, last) = (self.first?, self.last?);
        Some(last.cgroup_oom_kill_count?.saturating_sub(first.cgroup_oom_kill_count?))
    }

    /// The lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((bytes, at_ms, limit_bytes)) = self.peak {
            let holders = self.holders.as_ref().map(named).filter(|text| !text.is_empty());
            let holders = holders.map(|text| format!(", held by {text}")).unwrap_or_default();
            lines.push(format!("memory: peak {} after {}{holders}", share(bytes, limit_bytes), time(at_ms)));
        }
        for (index, peak, total) in &self.gpus {
            lines.push(format!("GPU {index}: peak {}", share(*peak, *total)));
        }
        for (name, peak) in self.frameworks.iter().filter(|(_, peak)| *peak > 0) {
            lines.push(format!("{name}: peak {} in tensors", human(*peak)));
        }
        if let Some([(first_ms, first), (last_ms, last)]) = self.steps {
            let rate =
                (last_ms > first_ms).then(|| (last - first.min(last)) as f64 * 1e3 / (last_ms - first_ms) as f64);
            let rate = rate.map(|rate| format!(", {rate:.1} a second")).unwrap_or_default();
            let waited = self.waited_us.filter(|_| last_ms > 0).map(|us| us as f64 / 10.0 / last_ms as f64);
            let waited = waited.map(|share| format!("; {share:.0} % of the time waiting for data")).unwrap_or_default();
            // A job that is watched from the middle on has made steps before.
            let steps = if first > FIRST_HEARD {
                format!("{} ({} to {})", count(last + 1 - first.min(last)), count(first), count(last))
            } else {
                count(last)
            };
            lines.push(format!("steps: {steps}{rate}{waited}"));
        }
        lines
    }

    /// What was found while it ran.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }
}

/// `3.42 GiB of 8.00 GiB (43 %)`
fn share(part: u64, whole: Option<u64>) -> String {
    let Some(whole) = whole.filter(|&whole| whole > 0) else { return human(part) };
    format!("{} of {} ({})", human(part), human(whole), percent(part as f64 / whole as f64))
}

/// `python 1234 (3.01 GiB), 4 others (412 MiB)`
fn named(holders: &Holders) -> String {
    let (first, rest) = holders.processes.split_at(holders.processes.len().min(NAMED));
    let mut parts: Vec<String> =
        first.iter().map(|holder| format!("{} {} ({})", holder.name, holder.pid, human(holder.rss_bytes))).collect();
    if !rest.is_empty() {
        let bytes = rest.iter().map(|holder| holder.rss_bytes).fold(0, u64::saturating_add);
        parts.push(format!("{} ({})", several(rest.len() as u64, "other", "others"), human(bytes)));
    }
    parts.join(", ")
}

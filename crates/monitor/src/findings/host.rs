//! What becomes of the host's memory: its growth, limits that are near, time that is lost, swap.
//!
//! In: samples and steps. Out: findings. Strain is judged by what lies ten seconds apart, swap by a minute.

use std::collections::VecDeque;

use brimful_core::bytes::{MIB, human};

use super::finding;
use super::growth::{Growth, News};
use super::leak::{Subject, says};
use super::once::Once;
use super::words::percent;
use crate::judge::{Level, Strain, strains};
use crate::recording::{Finding, StepMark};
use crate::sample::Sample;

/// Between samples that are kept.
const KEEP_EACH_MS: u64 = 1000;
/// How far apart samples are that strain is judged by.
const STRAIN_MS: u64 = 10_000;
/// The same for swap.
const SWAP_MS: u64 = 60_000;
/// As much swapped out in that time is worth a word.
const SWAPPED_BYTES: u64 = 64 * MIB;

/// The host's memory.
#[derive(Debug, Default)]
pub struct Host {
    limit_bytes: Option<u64>,
    growth: Growth,
    /// One a second, of the last minute.
    recent: VecDeque<Sample>,
    last: Sample,
    strains: [Once; 4],
    swaps: Once,
}

impl Host {
    pub fn new(limit_bytes: Option<u64>) -> Host {
        Host { limit_bytes, ..Host::default() }
    }

    pub fn sample(&mut self, sample: &Sample, trains: bool, findings: &mut Vec<Finding>) {
        self.last = match (self.limit_bytes, sample.cgroup_limit_bytes) {
            (Some(limit), known) if known.is_none_or(|known| limit < known) => with_limit(sample, limit),
            _ => *sample,
        };
        if self.recent.back().is_none_or(|last| sample.at_ms >= last.at_ms.saturating_add(KEEP_EACH_MS)) {
            self.recent.push_back(self.last);
            while self.recent.front().is_some_and(|first| sample.at_ms - first.at_ms.min(sample.at_ms) > SWAP_MS) {
                self.recent.pop_front();
            }
            findings.extend(self.swaps());
        }
        self.strain(findings);
        if let Some(bytes) = self.last.own_bytes().filter(|_| trains) {
            let news = self.growth.size(sample.at_ms, bytes, self.left_bytes());
            findings.extend(news.map(|news| self.grows(sample.at_ms, &news)));
        }
    }

    pub fn step(&mut self, mark: &StepMark, findings: &mut Vec<Finding>) {
        let news = self.growth.step(mark, self.left_bytes());
        findings.extend(news.map(|news| self.grows(mark.at_ms, &news)));
    }

    fn left_bytes(&self) -> Option<u64> {
        Some(self.last.limit_bytes()?.saturating_sub(self.last.held_bytes()?))
    }

    fn grows(&self, at_ms: u64, news: &News) -> Finding {
        let limit_bytes = self.last.limit_bytes();
        let limit_name = limit_bytes.map(|limit_bytes| {
            if self.last.cgroup_limit_bytes == Some(limit_bytes) {
                format!("the limit of {}", human(limit_bytes))
            } else {
                "the end of the machine's memory".to_owned()
            }
        });
        let subject = Subject { code: "leak_host", name: "host memory", limit_name, limit_bytes, device: None };
        says(at_ms, news, self.growth.pace(), &subject)
    }

    fn strain(&mut self, findings: &mut Vec<Finding>) {
        let at_ms = self.last.at_ms;
        let long_ago = self.recent.iter().rev().find(|then| at_ms.saturating_sub(then.at_ms) >= STRAIN_MS);
        let found = strains(long_ago.unwrap_or(&self.last), &self.last);
        for (once, strain) in self.strains.iter_mut().zip(found) {
            if once.is_news(strain.as_ref().map(Strain::level), at_ms) {
                findings.extend(strain.map(|strain| strain_finding(at_ms, &strain)));
            }
        }
    }

    fn swaps(&mut self) -> Option<Finding> {
        let (then, now) = (self.recent.front()?, self.recent.back()?);
        let of_group = now.cgroup_swap_bytes.zip(then.cgroup_swap_bytes);
        let (now_bytes, then_bytes) = of_group.or(now.machine_swap_used_bytes.zip(then.machine_swap_used_bytes))?;
        let swapped_bytes = now_bytes.saturating_sub(then_bytes);
        let level = (swapped_bytes >= SWAPPED_BYTES).then_some(Level::High);
        let at_ms = now.at_ms;
        if !self.swaps.is_news(level, at_ms) {
            return None;
        }
        let whose = if of_group.is_some() { "of the job" } else { "of this machine" };
        let text = format!(
            "{} of the memory {whose} went to swap within a minute, {} in all: what needs it again waits for a disk",
            human(swapped_bytes),
            human(now_bytes)
        );
        let figures = [("swapped_bytes", swapped_bytes as f64), ("swap_used_bytes", now_bytes as f64)];
        Some(finding(at_ms, "swapping", text, figures))
    }
}

/// The sample as if its group had this limit; without a group it is the job's own.
fn with_limit(sample: &Sample, limit_bytes: u64) -> Sample {
    let held_bytes = sample.cgroup_limit_bytes.and(sample.cgroup_used_bytes).or(sample.held_bytes());
    let inactive = sample.cgroup_limit_bytes.and(sample.cgroup_inactive_file_bytes);
    Sample {
        cgroup_limit_bytes: Some(limit_bytes),
        cgroup_used_bytes: held_bytes,
        cgroup_inactive_file_bytes: inactive,
        cgroup_shmem_bytes: sample.cgroup_limit_bytes.and(sample.cgroup_shmem_bytes),
        ..*sample
    }
}

fn strain_finding(at_ms: u64, strain: &Strain) -> Finding {
    let is_critical = f64::from(u8::from(strain.level() == Level::Critical));
    let (code, text, figures) = match *strain {
        Strain::Stall { some_share, full_share, .. } => (
            "memory_stall",
            if full_share > 0.05 {
                format!("for {} of the last ten seconds nothing ran, for want of memory", percent(full_share))
            } else {
                format!("for {} of the last ten seconds something waited for memory", percent(some_share))
            },
            [("some_share", some_share), ("full_share", full_share)],
        ),
        Strain::NearLimit { held_bytes, limit_bytes, .. } => (
            "near_limit",
            format!(
                "{} of the limit of {} are held: {} are left",
                human(held_bytes),
                human(limit_bytes),
                human(limit_bytes.saturating_sub(held_bytes))
            ),
            [("held_bytes", held_bytes as f64), ("limit_bytes", limit_bytes as f64)],
        ),
        Strain::MachineShort { available_bytes, total_bytes, .. } => (
            "machine_short",
            format!("the machine has {} left of {}, whoever holds it", human(available_bytes), human(total_bytes)),
            [("available_bytes", available_bytes as f64), ("total_bytes", total_bytes as f64)],
        ),
        Strain::ShmShort { used_bytes, size_bytes, .. } => (
            "shm_short",
            format!(
                "{} of the {} of /dev/shm are taken: workers that share tensors there fail when it is full",
                human(used_bytes),
                human(size_bytes)
            ),
            [("used_bytes", used_bytes as f64), ("size_bytes", size_bytes as f64)],
        ),
    };
    finding(at_ms, code, text, figures.into_iter().chain([("is_critical", is_critical)]))
}

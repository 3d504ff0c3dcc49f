//! All that is known of a running job and worth showing.
//!
//! In: [`Frame`]s, in their order. Out: current figures, rates, histories, the peak, findings. The room is bounded whatever comes and however long it
//! goes on. Pure: time is that of the frames. Not kept: who holds the memory, lines of output.

use std::collections::{BTreeMap, VecDeque};

use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{End, Finding, Frame, FrameworkMemory};
use brimful_monitor::sample::{Change, Sample};

use super::forecast::Growth;
use super::history::{History, Kept};
use super::rates::Rates;
use super::steps::Steps;
use super::words;

/// No more of each are kept: the latest findings, the first GPUs, the frameworks that spoke last.
const MOST_FINDINGS: usize = 64;
const MOST_GPUS: usize = 64;
const MOST_FRAMEWORKS: usize = 64;
/// Longer texts are cut.
const MOST_TEXT_CHARS: usize = 600;
const MOST_NAME_CHARS: usize = 32;

/// What is known of the job.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) command: String,
    /// The time of the latest frame.
    pub(super) now_ms: u64,
    pub(super) cpus: Option<f64>,
    pub(super) sample: Option<Sample>,
    rates: Rates,
    pub(super) peak: Option<Peak>,
    pub(super) held: History,
    pub(super) cpu_cores: History,
    pub(super) disk_bytes_per_s: History,
    pub(super) network_bytes_per_s: History,
    /// By their places in the driver's order.
    pub(super) gpus: BTreeMap<u32, Gpu>,
    frameworks: Vec<FrameworkMemory>,
    pub(super) steps: Steps,
    /// The latest last.
    pub(super) findings: VecDeque<Finding>,
    pub(super) growth: Option<Growth>,
    pub(super) end: Option<End>,
}

/// The most memory that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// How much.
    pub bytes: u64,
    /// When it was seen.
    pub at_ms: u64,
}

/// One GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// What was read last.
    pub latest: GpuSample,
    /// What all processes held.
    pub used: History,
    /// Per cent.
    pub busy: History,
}

impl Gpu {
    fn new() -> Gpu {
        Gpu { latest: GpuSample::default(), used: History::of(Kept::Highest), busy: History::of(Kept::Mean) }
    }
}

impl Default for State {
    fn default() -> State {
        State::new(None)
    }
}

impl State {
    /// Nothing is known yet, but how many CPUs the job may use.
    pub fn new(cpus: Option<f64>) -> State {
        State {
            command: String::new(),
            now_ms: 0,
            cpus: cpus.filter(|cpus| cpus.is_finite() && *cpus > 0.0),
            sample: None,
            rates: Rates::default(),
            peak: None,
            held: History::of(Kept::Highest),
            cpu_cores: History::of(Kept::Mean),
            disk_bytes_per_s: History::of(Kept::Mean),
            network_bytes_per_s: History::of(Kept::Mean),
            gpus: BTreeMap::new(),
            frameworks: Vec::new(),
            steps: Steps::default(),
            findings: VecDeque::new(),
            growth: None,
            end: None,
        }
    }

    /// Takes what became known.
    pub fn take(&mut self, frame: &Frame) {
        match frame {
            Frame::Start(start) => {
                // A command line may have megabytes; its beginning is shown.
                let words = start.command.iter().take(MOST_TEXT_CHARS).map(|word| words::plain(word, MOST_TEXT_CHARS));
                self.command = words::plain(&words.collect::<Vec<_>>().join(" "), MOST_TEXT_CHARS);
            }
            Frame::Sample(sample) => self.take_sample(sample),
            Frame::Step(mark) => {
                self.now_ms = self.now_ms.max(mark.at_ms);
                self.steps.take(mark);
            }
            Frame::Gpu(gpu) => self.take_gpu(gpu),
            Frame::Framework(memory) => self.take_framework(memory),
            Frame::Finding(finding) => self.take_finding(finding),
            Frame::End(end) => {
                self.now_ms = self.now_ms.max(end.at_ms);
                self.end = Some(End { explanation: None, ..end.clone() });
            }
            Frame::Holders(_) | Frame::Line(_) | Frame::Other { .. } => {}
        }
    }

    fn take_sample(&mut self, sample: &Sample) {
        self.now_ms = self.now_ms.max(sample.at_ms);
        self.rates.take(sample);
        let earlier = self.sample.replace(*sample);
        // A spike between two samples shows only in the highest that the kernel saw of each process.
        let spiked = |earlier: Sample| sample.peak_rss_bytes > earlier.peak_rss_bytes.or(sample.peak_rss_bytes);
        let spike = sample.peak_rss_bytes.filter(|_| earlier.is_some_and(spiked));
        let spike = spike.map(|peak| peak.saturating_sub(sample.shared_bytes.unwrap_or(0)));
        if let Some(bytes) = sample.held_bytes().max(spike) {
            self.held.push(sample.at_ms, bytes as f64);
            if self.peak.is_none_or(|peak| bytes > peak.bytes) {
                self.peak = Some(Peak { bytes, at_ms: sample.at_ms });
            }
        }
        let change = *self.rates.change();
        let both =
            |one: Option<f64>, other: Option<f64>| one.or(other).map(|_| one.unwrap_or(0.0) + other.unwrap_or(0.0));
        let flows = [
            (&mut self.cpu_cores, change.cpu_cores),
            (&mut self.disk_bytes_per_s, both(change.disk_read_bytes_per_s, change.disk_written_bytes_per_s)),
            (&mut self.network_bytes_per_s, both(change.received_bytes_per_s, change.sent_bytes_per_s)),
        ];
        for (history, value) in flows {
            value.into_iter().for_each(|value| history.push(sample.at_ms, value));
        }
    }

    fn take_gpu(&mut self, sample: &GpuSample) {
        self.now_ms = self.now_ms.max(sample.at_ms);
        if self.gpus.len() >= MOST_GPUS && !self.gpus.contains_key(&sample.index) {
            return;
        }
        let gpu = self.gpus.entry(sample.index).or_insert_with(Gpu::new);
        gpu.latest = *sample;
        let figures = [(&mut gpu.used, sample.used_bytes), (&mut gpu.busy, sample.busy_percent)];
        for (history, value) in figures {
            value.into_iter().for_each(|value| history.push(sample.at_ms, value as f64));
        }
    }

    fn take_framework(&mut self, memory: &FrameworkMemory) {
        self.now_ms = self.now_ms.max(memory.at_ms);
        let memory = FrameworkMemory {
            framework: words::plain(&memory.framework, MOST_NAME_CHARS),
            device: words::plain(&memory.device, MOST_NAME_CHARS),
            ..memory.clone()
        };
        let is_same = |other: &FrameworkMemory| {
            (other.pid, &other.framework, &other.device) == (memory.pid, &memory.framework, &memory.device)
        };
        self.frameworks.retain(|other| !is_same(other));
        if self.frameworks.len() >= MOST_FRAMEWORKS {
            self.frameworks.remove(0);
        }
        self.frameworks.push(memory);
    }

    fn take_finding(&mut self, finding: &Finding) {
        self.now_ms = self.now_ms.max(finding.at_ms);
        if let Some(growth) = Growth::of(finding) {
            self.growth = growth;
        }
        if self.findings.len() >= MOST_FINDINGS {
            self.findings.pop_front();
        }
        let text = words::plain(&finding.text, MOST_TEXT_CHARS);
        let code = words::plain(&finding.code, MOST_NAME_CHARS);
        self.findings.push_back(Finding { at_ms: finding.at_ms, code, text, figures: BTreeMap::new() });
    }

    /// What the job does each second.
    pub fn change(&self) -> &Change {
        self.rates.change()
    }

    /// Memory that counts against the limit, and the limit.
    pub fn held(&self) -> Option<(u64, Option<u64>)> {
        let sample = self.sample.as_ref()?;
        Some((sample.held_bytes()?, sample.limit_bytes()))
    }

    /// What the frameworks' allocators hold, the fullest device first.
    pub fn frameworks(&self) -> Vec<&FrameworkMemory> {
        let mut list: Vec<_> = self.frameworks.iter().collect();
        let held = |memory: &FrameworkMemory| memory.reserved_bytes.max(memory.allocated_bytes);
        list.sort_by(|one, other| {
            held(other).cmp(&held(one)).then_with(|| (&one.device, one.pid).cmp(&(&other.device, other.pid)))
        });
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, rss_bytes: u64, peak_rss_bytes: u64) -> Frame {
        let peak_rss_bytes = Some(peak_rss_bytes);
        Frame::Sample(Sample { at_ms, rss_bytes: Some(rss_bytes), peak_rss_bytes, ..Sample::default() })
    }

    #[test]
    fn a_spike_between_samples_is_the_peak_and_in_the_history() {
        let mut state = State::default();
        for frame in [sample(0, 100, 120), sample(1000, 100, 120), sample(2000, 110, 900), sample(3000, 105, 900)] {
            state.take(&frame);
        }
        assert_eq!(state.peak, Some(Peak { bytes: 900, at_ms: 2000 }));
        assert_eq!(state.held(), Some((105, None)));
        assert_eq!(state.held.over(0, 4000, 4), [100.0, 100.0, 900.0, 105.0].map(Some));
    }

    #[test]
    fn what_many_processes_say_is_bounded() {
        let mut state = State::default();
        for pid in 0..1000 {
            let memory = FrameworkMemory { pid, reserved_bytes: Some(u64::from(pid)), ..FrameworkMemory::default() };
            state.take(&Frame::Framework(memory));
            state.take(&Frame::Gpu(GpuSample { index: pid, ..GpuSample::default() }));
            state.take(&Frame::Finding(Finding { text: "x".repeat(9999), ..Finding::default() }));
        }
        assert_eq!((state.frameworks.len(), state.gpus.len(), state.findings.len()), (64, 64, 64));
        assert_eq!(state.frameworks()[0].pid, 999);
        assert_eq!(state.findings[0].text.chars().count(), 600);
    }
}

//! Judgements on a running job, each said once, in a sentence and in figures.
//!
//! In: the job's frames, in their order, and what it does at the moment. Out: [`Finding`]s:
//!
//! | code | what |
//! |---|---|
//! | `leak_host`, `leak_device` | memory grows with every step, or minute; `plateau` when it does no longer |
//! | `near_limit`, `machine_short`, `shm_short` | little is left, to the job, to the machine, in `/dev/shm` |
//! | `memory_stall`, `swapping` | time is lost to a lack of memory |
//! | `gpu_waits_for_data`, `gpu_idle` | training waits for its data; GPUs have little to do, for whatever reason |
//! | `reserved_unused` | a framework keeps much that it never used |
//! | `other_process_on_gpu` | somebody else holds a part of the job's GPU |
//!
//! Pure: time is that of the frames. Not here: what is done about it, and why a job has ended.

mod words;
mod once;
mod growth;
mod waiting;
mod leak;
mod host;
mod device;

use std::collections::BTreeMap;

use crate::agent::Phase;
use crate::recording::{Finding, Frame, StepMark};
use device::Devices;
use host::Host;
use once::Once;
use waiting::Waiting;

use crate::judge::Level;

/// Share of training that is waited.
const LONG_WAIT: f64 = 0.3;
/// Waiting for less than this is not for data.
const SHORT_WAIT: f64 = 0.1;
/// A GPU that is busy for less has little to do.
const IDLE: f64 = 0.3;
/// A GPU that is busy for more does not wait, whatever happens between steps: frameworks run ahead of it.
const BUSY: f64 = 0.6;

/// Follows one job.
#[derive(Debug, Default)]
pub struct Judge {
    host: Host,
    devices: Devices,
    waiting: Waiting,
    waits: Once,
    trains: Trains,
}

/// Whether what is read belongs to training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trains {
    /// It does, or nobody says otherwise.
    #[default]
    Yes,
    /// The job evaluates, predicts or saves.
    No,
}

impl Judge {
    /// Begins. `limit_bytes` is a limit on the job's memory that samples do not show, if there is one.
    pub fn new(limit_bytes: Option<u64>) -> Judge {
        Judge { host: Host::new(limit_bytes), ..Judge::default() }
    }

    /// Takes what the job does from now on: evaluation and the like are no part of its growth. See
    /// [`Ranks::phase`](crate::agent::Ranks::phase).
    pub fn set_phase(&mut self, phase: Option<Phase>) {
        let trains = match phase {
            None | Some(Phase::Train) => Trains::Yes,
            Some(Phase::Evaluate | Phase::Predict | Phase::Save) => Trains::No,
        };
        if self.trains == Trains::Yes && trains == Trains::No {
            self.waiting.pause();
        }
        self.trains = trains;
    }

    /// Takes a frame; gives what became true with it.
    pub fn take(&mut self, frame: &Frame) -> Vec<Finding> {
        let mut findings = Vec::new();
        let trains = self.trains == Trains::Yes;
        match frame {
            Frame::Start(start) => self.devices.start(start),
            Frame::Sample(sample) => self.host.sample(sample, trains, &mut findings),
            Frame::Gpu(sample) => {
                let busy_percent = self.devices.gpu(sample, trains, &mut findings);
                if let Some(percent) = busy_percent.filter(|_| trains) {
                    self.waiting.busy(sample.at_ms, percent);
                }
            }
            Frame::Framework(memory) => self.devices.framework(memory, trains, &mut findings),
            Frame::Step(mark) => {
                self.host.step(mark, &mut findings);
                self.devices.step(mark, &mut findings);
                self.waiting.step(mark);
                findings.extend(self.waits(mark));
            }
            Frame::Holders(_) | Frame::Finding(_) | Frame::Line(_) | Frame::End(_) | Frame::Other { .. } => {}
        }
        findings
    }

    fn waits(&mut self, mark: &StepMark) -> Option<Finding> {
        let minute = self.waiting.last_minute()?;
        let (waited, busy) = (minute.waited_share, minute.busy_share);
        let for_data = waited.is_some_and(|share| share > LONG_WAIT) && busy.is_none_or(|share| share < BUSY);
        let is_idle = busy.is_some_and(|share| share < IDLE);
        let level = (for_data || is_idle).then_some(Level::High);
        if !self.waits.is_news(level, mark.at_ms) {
            return None;
        }
        let busy_text =
            busy.map_or(String::new(), |share| format!(", and the GPU is busy for {}", words::percent(share)));
        let (code, text) = match waited {
            Some(share) if for_data => (
                "gpu_waits_for_data",
                format!(
                    "training waits for its data {} of the time{busy_text}: more workers, prefetching or a faster format would help",
                    words::percent(share)
                ),
            ),
            Some(share) if share < SHORT_WAIT => (
                "gpu_idle",
                format!(
                    "the GPU is busy for {} of the time while steps go on, and they hardly wait for data: steps may be too small to fill it, \
                     or wait for the CPU",
                    words::percent(busy.unwrap_or(0.0))
                ),
            ),
            _ => (
                "gpu_waits_for_data",
                format!(
                    "the GPU is busy for {} of the time while steps go on: it waits for data, or for the CPU",
                    words::percent(busy.unwrap_or(0.0))
                ),
            ),
        };
        let figures = [("waited_share", waited), ("busy_share", busy)];
        Some(finding(mark.at_ms, code, text, figures.into_iter().filter_map(|(name, share)| Some((name, share?)))))
    }
}

/// A finding with these figures; what is no number is left out, since JSON has none.
fn finding<'a>(at_ms: u64, code: &str, text: String, figures: impl IntoIterator<Item = (&'a str, f64)>) -> Finding {
    let figures: BTreeMap<String, f64> = figures
        .into_iter()
        .filter(|(_, value)| value.is_finite())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Finding { at_ms, code: code.to_owned(), text, figures }
}

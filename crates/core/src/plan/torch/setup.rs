//! Everything about a recorded job that a remedy can change.
//!
//! In: a recording and a request, then remedies that copy and change it. Out: [`Setup`], which `simulate` replays.

use std::sync::Arc;

use super::request::Request;
use crate::allocator::torch_caching::Options;
use crate::capture::{Capture, Recording};
use crate::trace::Trace;

/// Recorded steps, as they can be changed and as the allocator sees them.
#[derive(Clone, Debug)]
pub struct Steps {
    /// To be changed further.
    pub recording: Recording,
    /// To be replayed with the recorded batch.
    recorded: Trace,
    /// To be replayed with others, where it differs.
    elsewhere: Option<Trace>,
}

impl Steps {
    /// The steps of a recording.
    pub fn new(recording: Recording) -> Arc<Steps> {
        debug_assert!(recording.is_sound(), "a remedy lost or doubled a buffer");
        let recorded = recording.trace(recording.batch);
        let bounded = recording.is_bounded_elsewhere();
        let elsewhere = bounded.then(|| recording.trace(recording.batch.wrapping_add(1)));
        Arc::new(Steps { recording, recorded, elsewhere })
    }

    /// To be replayed with this many samples at once.
    pub fn trace(&self, at_once: u64) -> &Trace {
        match &self.elsewhere {
            Some(elsewhere) if at_once != self.recording.batch => elsewhere,
            _ => &self.recorded,
        }
    }
}

/// A recorded job as it would run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its steps.
    pub steps: Arc<Steps>,
    /// Samples per step, of all devices and micro-batches.
    pub batch: u64,
    /// Parts in which a batch is taken, beyond what was recorded.
    pub micro_batches: u64,
    /// How often the last recorded step goes through the network for one part: twice if it was rewritten to show what a
    /// second part finds.
    pub repeats: u64,
    /// Devices that share each batch.
    pub devices: u64,
    /// The allocator's settings.
    pub options: Options,
    /// The most that the allocator may hold.
    pub limit_bytes: Option<u64>,
    /// Bytes that each step moves between the device and others.
    pub moved_bytes: u64,
    /// The remedies that made it, by id.
    pub applied: Vec<&'static str>,
}

impl Setup {
    /// The job as it was recorded and asked for.
    pub fn of(capture: &Capture, request: &Request) -> Setup {
        Setup {
            steps: Steps::new(capture.recording.clone()),
            batch: request.batch,
            micro_batches: 1,
            repeats: 1,
            devices: 1,
            options: request.options.clone(),
            limit_bytes: request.limit_bytes,
            moved_bytes: 0,
            applied: Vec::new(),
        }
    }

    /// Samples of the batch for each sample that runs at once.
    pub fn parts(&self) -> u64 {
        self.micro_batches.saturating_mul(self.devices).max(1)
    }

    /// The batch to put into the sizes of the steps: samples that one device runs in one part.
    pub fn at_once(&self) -> u64 {
        self.batch.div_ceil(self.parts()).max(1)
    }

    /// The same with other steps.
    pub fn with_recording(&self, recording: Recording) -> Setup {
        Setup { steps: Steps::new(recording), ..self.clone() }
    }
}

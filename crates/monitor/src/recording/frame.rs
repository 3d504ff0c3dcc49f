//! What a recording consists of.
//!
//! In and out: plain values. Times are milliseconds since the recording began; only the start knows the date.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secrets;
use crate::gpu::GpuSample;
use crate::sample::Sample;
use crate::sampler::Member;

/// One entry of a recording.
// Nearly all are samples: a box for each would cost more than the few others waste.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The job begins. The first frame.
    Start(Start),
    /// What was read.
    Sample(Sample),
    /// A training step ended.
    Step(StepMark),
    /// What was read of one GPU.
    Gpu(GpuSample),
    /// What a framework's own allocator holds.
    Framework(FrameworkMemory),
    /// Who held the memory.
    Holders(Holders),
    /// A judgement on the job, when it became true.
    Finding(Finding),
    /// Something that was said: an event, a warning, a line of the job's output.
    Line(Line),
    /// The job ended. The last frame, if brimful lived to see it.
    End(End),
    /// A kind that this version does not know.
    Other {
        /// Its number.
        kind: u8,
    },
}

/// How a job began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Start {
    /// The command and its arguments; secrets are masked when it is written.
    pub command: Vec<String>,
    /// Settings that matter to memory; see [`secrets::settings`], and masked again when they are written.
    pub environment: BTreeMap<String, String>,
    /// The number of its first process.
    pub pid: u32,
    /// The date, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Names and versions: of brimful, Python, frameworks, the kernel.
    pub versions: BTreeMap<String, String>,
    /// Names and bytes: of the machine, the cgroup, what `--limit` set.
    pub limits_bytes: BTreeMap<String, u64>,
    /// Names and times: how often what is sampled.
    pub intervals_ms: BTreeMap<String, u64>,
}

impl Start {
    /// Without secrets.
    pub fn masked(&self) -> Start {
        let environment = self.environment.iter().map(|(name, value)| (name.clone(), secrets::mask_value(name, value)));
        Start { command: secrets::mask_command(&self.command), environment: environment.collect(), ..self.clone() }
    }
}

/// The end of a training step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepMark {
    /// When.
    pub at_ms: u64,
    /// Which, as the job counts them.
    pub step: u64,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// Its loss, which may be infinite or no number.
    pub loss: Option<f64>,
    /// Time since the job began that passed between the end of one step and the beginning of the next: waiting for data, mostly.
    pub waited_us: Option<u64>,
}

/// What a framework's own allocator says, on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameworkMemory {
    /// When.
    pub at_ms: u64,
    /// The process that says so.
    pub pid: u32,
    /// `torch`, `tensorflow` or `jax`.
    pub framework: String,
    /// The device, as the framework calls it, such as `cuda:0`.
    pub device: String,
    /// Held by tensors.
    pub allocated_bytes: Option<u64>,
    /// Taken from the device.
    pub reserved_bytes: Option<u64>,
    /// The most that tensors held.
    pub peak_allocated_bytes: Option<u64>,
    /// What the allocator may take at most.
    pub limit_bytes: Option<u64>,
}

impl FrameworkMemory {
    /// The figures, in the order of the recording.
    pub(super) fn figures(&self) -> [Option<u64>; 4] {
        [self.allocated_bytes, self.reserved_bytes, self.peak_allocated_bytes, self.limit_bytes]
    }
}

/// A judgement, said once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// When.
    pub at_ms: u64,
    /// What it is, for programs: `leak`, `near_limit` and the like.
    pub code: String,
    /// What it is, for people.
    pub text: String,
    /// Names and figures: `bytes_per_step`, `limit_bytes` and the like.
    pub figures: BTreeMap<String, f64>,
}

/// The largest processes of the job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// When.
    pub at_ms: u64,
    /// The largest first, [`Holders::MOST`] of them at most.
    pub processes: Vec<Holder>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel has it: 15 bytes at most.
    pub name: String,
    /// Resident memory.
    pub rss_bytes: u64,
    /// The most it ever had.
    pub peak_rss_bytes: u64,
    /// Its share of what it shares, if that may be read.
    pub pss_bytes: Option<u64>,
}

impl Holders {
    /// As many are kept.
    pub const MOST: usize = 32;

    /// The largest of a job's processes.
    pub fn of(at_ms: u64, members: &[Member]) -> Holders {
        let mut processes: Vec<Holder> = members.iter().filter(|member| member.is_here()).map(Holder::of).collect();
        processes.sort_by_key(|holder| (std::cmp::Reverse(holder.rss_bytes), holder.pid));
        processes.truncate(Holders::MOST);
        Holders { at_ms, processes }
    }
}

impl Holder {
    fn of(member: &Member) -> Holder {
        Holder {
            pid: member.id.pid,
            name: member.name.clone(),
            rss_bytes: member.rss_bytes,
            peak_rss_bytes: member.peak_rss_bytes,
            pss_bytes: member.pss_bytes,
        }
    }
}

/// Something that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// When.
    pub at_ms: u64,
    /// The text; secrets are masked when it is written.
    pub text: String,
}

/// How a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// When.
    pub at_ms: u64,
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processes of its cgroup that were killed for memory while it ran.
    pub oom_kills: Option<u64>,
    /// Why it failed, if it did: what `brimful explain` gives as JSON.
    pub explanation: Option<Value>,
}

impl End {
    /// Without secrets: an explanation quotes what the job printed.
    pub fn masked(&self) -> End {
        End { explanation: self.explanation.clone().map(masked), ..self.clone() }
    }
}

fn masked(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(secrets::mask_text(&text)),
        Value::Array(values) => values.into_iter().map(masked).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, masked(value))).collect(),
        other => other,
    }
}

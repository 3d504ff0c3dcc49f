//! What a memory snapshot says, as data; `text/snapshot.rs` renders it for people, serde for programs.
//!
//! In: the analysis of a snapshot. Out: [`SnapshotReport`], whose JSON is documented in `docs/json.md`. The bytes of the
//! holders add up to `peak.requested_bytes`, or to what is in use now if no history was recorded.

use serde::Serialize;

use super::NoteReport;

/// Everything `brimful plan` says about a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotReport {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// `torch_snapshot`: tells it apart from the report on a model.
    pub kind: String,
    /// `PYTORCH_CUDA_ALLOC_CONF` of the run; empty for the default.
    pub recorded_conf: String,
    /// The devices with anything on them.
    pub devices: Vec<DeviceReport>,
    /// What to know about the answer.
    pub notes: Vec<NoteReport>,
}

impl SnapshotReport {
    /// Whether some device ran out of memory, or would with the limit that was asked about.
    pub fn does_not_fit(&self) -> bool {
        self.devices.iter().any(|device| device.fits == Some(false))
    }
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Its name, such as `cuda:0`.
    pub device: String,
    /// The history; none if it was not recorded.
    pub recording: Option<RecordingReport>,
    /// The moment with most bytes allocated.
    pub peak: Option<PeakReport>,
    /// Who held the memory then; when the snapshot was taken, if no history was recorded. Most bytes first.
    pub holders: Vec<HolderReport>,
    /// What was reserved at the peak and not used.
    pub fragmentation: Option<FragmentationReport>,
    /// The state when the snapshot was taken.
    pub now: NowReport,
    /// What was allocated before the recording began.
    pub before_recording: Option<BeforeReport>,
    /// Requests that failed.
    pub out_of_memory: Vec<FailureReport>,
    /// What the allocator may reserve: as asked, else what it could have had when a request failed.
    pub limit_bytes: Option<u64>,
    /// Whether the recorded run keeps within it; false if it ran out of memory.
    pub fits: Option<bool>,
    /// What each setting of the allocator would have reserved, least first.
    pub settings: Vec<SettingReport>,
    /// The best of them, if it is worth a change.
    pub advice: Option<AdviceReport>,
    /// How exactly the replay of the recorded settings reproduces the recording.
    pub self_check: Option<CheckReport>,
}

/// The history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordingReport {
    /// Its events.
    pub events: u64,
    /// Of which allocations.
    pub allocations: u64,
    /// From the first event to the last.
    pub seconds: Option<f64>,
    /// Whether an earlier part is known to be missing: it was full (`max_entries`) or was cleared.
    pub cut: bool,
}

/// The moment with most bytes allocated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeakReport {
    /// Handed out, with rounding: `torch.cuda.max_memory_allocated()`.
    pub allocated_bytes: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// Taken from the device at that moment.
    pub reserved_bytes: u64,
    /// Taken from the device at any moment: `torch.cuda.max_memory_reserved()`.
    pub most_reserved_bytes: u64,
    /// The event that made it, from 0; none if it was before the first.
    pub event: Option<u64>,
    /// When, after the first event.
    pub seconds: Option<f64>,
    /// The line that asked for the last buffer.
    pub source: Option<String>,
}

/// How a holder is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// By a line of the user's code.
    UserLine,
    /// By a line of a library: no line of the user's is on the stack.
    LibraryLine,
    /// The backward pass, on threads of its own.
    Backward,
    /// There before the recording, without a stack.
    BeforeRecording,
    /// No stack was recorded.
    NoStack,
}

/// Buffers of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderReport {
    /// How it is known.
    pub kind: HolderKind,
    /// File and line.
    pub source: Option<String>,
    /// The function; in the backward pass the gradient, such as `AddmmBackward0`.
    pub function: Option<String>,
    /// The innermost line of a library under which most of it was asked for.
    pub library: Option<String>,
    /// What was asked for.
    pub bytes: u64,
    /// In how many buffers.
    pub buffers: u64,
}

/// What was reserved at the peak and not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FragmentationReport {
    /// Reserved less allocated.
    pub unused_bytes: u64,
    /// Of which in segments that also hold buffers: it cannot go back to the device.
    pub beside_buffers_bytes: u64,
    /// The largest free block: no larger request can be served without new memory.
    pub largest_free_bytes: u64,
}

/// The state when the snapshot was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NowReport {
    /// Taken from the device.
    pub reserved_bytes: u64,
    /// Handed out, with rounding.
    pub allocated_bytes: u64,
    /// Asked for.
    pub requested_bytes: u64,
    /// Given up, but still in use by another stream.
    pub pending_free_bytes: u64,
    /// Free, in segments that also hold buffers.
    pub beside_buffers_bytes: u64,
    /// The largest free block.
    pub largest_free_bytes: u64,
    /// The number of segments.
    pub segments: u64,
}

/// What was allocated before the recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BeforeReport {
    /// What was asked for.
    pub bytes: u64,
    /// In how many buffers.
    pub buffers: u64,
    /// Of which buffers with a stack: they were recorded, but their events are gone.
    pub with_stack: u64,
    /// Of which freed during the recording.
    pub freed_bytes: u64,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureReport {
    /// What was asked for.
    pub requested_bytes: u64,
    /// What the device had free.
    pub device_free_bytes: u64,
    /// What was allocated then.
    pub allocated_bytes: u64,
    /// What was reserved then.
    pub reserved_bytes: u64,
    /// Whether the device had enough: then the process has a limit of its own (`set_per_process_memory_fraction`).
    pub own_limit: bool,
    /// The event, from 0.
    pub event: u64,
    /// When, after the first event.
    pub seconds: Option<f64>,
    /// The line that asked.
    pub source: Option<String>,
}

/// What a setting of the allocator would have reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingReport {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`; empty for the default.
    pub conf: String,
    /// Whether it is the one that was recorded.
    pub recorded: bool,
    /// Most bytes taken from the device.
    pub peak_reserved_bytes: u64,
    /// Most bytes handed out, with rounding.
    pub peak_allocated_bytes: u64,
    /// Whether that keeps within the limit.
    pub fits: Option<bool>,
}

/// A setting that is worth a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdviceReport {
    /// The setting.
    pub conf: String,
    /// How much less it reserves.
    pub saves_bytes: u64,
    /// The line that sets it.
    pub environment: String,
}

/// How exactly the replay of the recorded settings reproduces the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Recorded movements of memory between the device and the allocator.
    pub segment_events: u64,
    /// Of which the replay made the same ones at the same moment.
    pub reproduced: u64,
    /// What the replay moved and the recording did not.
    pub invented: u64,
    /// Recorded allocations.
    pub allocations: u64,
    /// Of which the replay placed at the same address.
    pub at_recorded_address: u64,
    /// Most bytes reserved, by the recording.
    pub recorded_peak_reserved_bytes: u64,
    /// The same, by the replay.
    pub replayed_peak_reserved_bytes: u64,
}

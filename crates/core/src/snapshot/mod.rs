//! A memory snapshot of a PyTorch process: what was recorded, what it says, and what other settings would have needed.
//!
//! In: a [`Snapshot`] (from an importer). Out: a [`SnapshotReport`](crate::report::snapshot::SnapshotReport). The events
//! are replayed through the same allocator that plans use; how well that reproduces the recording is part of the answer.
//! Not counted: memory that does not come from PyTorch's CUDA allocator (contexts, libraries, other processes).

mod analyse;
mod holders;
mod recorded;
mod settings;
mod start;
#[cfg(test)]
mod tests;
mod timeline;

use crate::allocator::torch_caching::Options;

pub use analyse::{Question, analyse};

/// Everything that a snapshot file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The devices with anything on them, by index.
    pub devices: Vec<Device>,
    /// Places in source code; [`SiteId`] is an index. The first one stands for "no stack was recorded".
    pub sites: Vec<Site>,
    /// Streams and pools; [`LaneId`] is an index.
    pub lanes: Vec<Lane>,
    /// The allocator's settings when the snapshot was taken.
    pub settings: RecordedSettings,
}

/// What was recorded of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Its number, as in `cuda:0`.
    pub index: u32,
    /// The history, oldest first; empty if none was recorded.
    pub events: Vec<Event>,
    /// The memory that the allocator held when the snapshot was taken.
    pub segments: Vec<Segment>,
}

/// One event of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Who belongs together: buffers are never shared between lanes.
    pub lane: LaneId,
    /// Which code asked for it.
    pub site: SiteId,
    /// Where; for [`Action::OutOfMemory`] the bytes that the device had free.
    pub address: u64,
    /// How much was asked for, before rounding.
    pub bytes: u64,
    /// When, in microseconds of the system's clock; 0 if the recording does not say.
    pub time_us: u64,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A buffer was handed out.
    Alloc,
    /// A buffer was given up; another stream may still use it.
    FreeRequested,
    /// A buffer can be used again.
    FreeCompleted,
    /// A segment was taken from the device.
    SegmentAlloc,
    /// A segment was given back to the device.
    SegmentFree,
    /// Pages were put behind a part of an expandable segment.
    SegmentMap,
    /// Pages were taken from a part of an expandable segment.
    SegmentUnmap,
    /// A request failed.
    OutOfMemory,
    /// A snapshot was taken.
    Snapshot,
}

/// An index into [`Snapshot::sites`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);

/// An index into [`Snapshot::lanes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u16);

/// A stream and a pool: memory of one lane never serves another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The handle of the CUDA stream; 0 is the default one.
    pub stream: u64,
    /// The private pool, such as that of a CUDA graph; (0, 0) is the shared one.
    pub pool: (u64, u64),
}

/// Where in the source code memory was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// The innermost line of the user's own code.
    pub user: Option<Line>,
    /// The innermost line of a library.
    pub library: Option<Line>,
    /// On a thread of the backward pass, which has no Python stack: the gradient, such as `AddmmBackward0`; empty if
    /// unknown.
    pub backward: Option<String>,
}

/// A line of source code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The file, as the interpreter knows it.
    pub file: String,
    /// The line, from 1; 0 if unknown.
    pub line: u64,
    /// The function.
    pub function: String,
}

/// Memory that the allocator holds, as one range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it starts.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Its stream and pool.
    pub lane: LaneId,
    /// Whether it serves requests of at most 1 MiB.
    pub small: bool,
    /// Whether it is a part of an expandable segment.
    pub expandable: bool,
    /// Its blocks, in the order of addresses.
    pub blocks: Vec<Block>,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it starts.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// Whether it is in use.
    pub state: BlockState,
    /// Which code asked for it, if that was recorded.
    pub site: SiteId,
}

/// Whether a block is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// A tensor lies there.
    Allocated,
    /// It was given up, but another stream still uses it.
    PendingFree,
    /// It is free.
    Free,
}

/// The allocator's settings, as recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedSettings {
    /// The text of `PYTORCH_CUDA_ALLOC_CONF`; empty for the default.
    pub conf: String,
    /// The settings that the replay uses.
    pub options: Options,
    /// What of the text could not be used, if anything.
    pub not_understood: Option<String>,
}

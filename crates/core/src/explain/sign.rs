//! What a line of a log can tell: the vocabulary that signs, causes and the answer share.
//!
//! In: nothing. Out: types. A [`Sign`] is one wording of one program; all of them stand in `signs/`, one file for each program.

use serde::Serialize;

use super::causes::Code;
use super::shapes;

/// Allocators round what they are asked for up to this: PyTorch's kMinBlockSize; TensorFlow's BFC to half of it.
const ROUNDED_REQUEST_BYTES: u64 = 512;

/// What ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Memory of a GPU, a TPU or another accelerator.
    GpuMemory,
    /// The machine's memory.
    HostMemory,
    /// The memory limit of a container, a scheduler or a worker.
    ContainerLimit,
    /// `/dev/shm`.
    SharedMemory,
    /// Room on a disk, or a quota.
    Disk,
    /// Files that a process may have open.
    FileDescriptors,
    /// Threads and processes that a user may start.
    Threads,
    /// The size of one message.
    MessageSize,
}

impl Resource {
    /// As a sentence says it.
    pub fn name(self) -> &'static str {
        match self {
            Resource::GpuMemory => "GPU memory",
            Resource::HostMemory => "host memory",
            Resource::ContainerLimit => "a memory limit (container, scheduler or worker)",
            Resource::SharedMemory => "shared memory (/dev/shm)",
            Resource::Disk => "disk space",
            Resource::FileDescriptors => "file descriptors",
            Resource::Threads => "threads or processes",
            Resource::MessageSize => "the size of a message",
        }
    }
}

/// How much a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Figures or circumstances; no failure by itself.
    Context,
    /// Something that is not a failure, though it may sound like one.
    Warning,
    /// A failure that memory may have caused, among other things.
    Symptom,
    /// A failure that something else than memory caused.
    Denial,
    /// Something ran out.
    Failure,
}

/// One wording.
pub struct Sign {
    /// A stable name: program and wording.
    pub id: &'static str,
    /// A line with one of these phrases, whatever their case, may be the sign. Signs are found by these alone: choose rare ones.
    pub phrases: &'static [&'static str],
    /// One of these must stand in the line, too, unless there are none.
    pub also: &'static [&'static str],
    /// None of these may.
    pub unless: &'static [&'static str],
    /// What else must hold of the line.
    pub check: fn(&str) -> bool,
    /// How much it says.
    pub weight: Weight,
    /// What ran out.
    pub resource: Option<Resource>,
    /// The cause, where the wording alone gives it.
    pub cause: Option<Code>,
    /// Takes the figures out of a message.
    pub read: fn(&str, &mut Numbers),
}

impl Sign {
    /// A sign that says only this; the rest with `..`.
    pub const fn new(id: &'static str, phrases: &'static [&'static str], weight: Weight) -> Sign {
        Sign { id, phrases, also: &[], unless: &[], check: always, weight, resource: None, cause: None, read: nothing }
    }
}

/// No further condition.
pub fn always(_: &str) -> bool {
    true
}

/// Reads no figures.
pub fn nothing(_: &str, _: &mut Numbers) {}

/// A process that holds memory of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherProcess {
    /// Its number.
    pub pid: u64,
    /// What it holds.
    pub bytes: u64,
}

/// Figures of a failure; what a log does not say stays out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// What the failed allocation asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// The shape of the tensor that did not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    /// Its element type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// What shape and element type come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_bytes: Option<u64>,
    /// All that the device, the pool or the limit has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// What a process is allowed to have of it, where a share was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_bytes: Option<u64>,
    /// In live tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Taken from the device by the framework's allocator, live tensors included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Not taken by anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// What the framework found free on the device when it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_at_start_bytes: Option<u64>,
    /// The largest free piece of the allocator's pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_free_bytes: Option<u64>,
    /// The largest single tensor that the allocator's pool holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_in_use_bytes: Option<u64>,
    /// What a compiled program is given: weights, the optimizer's state, a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_bytes: Option<u64>,
    /// What it needs beside that while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temporary_bytes: Option<u64>,
    /// Held by this process, with what lies outside the allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
    /// Processes that are listed as on the device: others, and in a container perhaps this one, if `process_bytes` is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherProcess>,
    /// `GPU 0`, `/device:GPU:0`, `hbm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The operation or node that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The killed process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// The step it came to, as the log counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The epoch it came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The rank that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// How the process ended: 137, -9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

impl Numbers {
    /// Fills what is missing from other figures of the same failure.
    pub fn fill(&mut self, other: &Numbers) {
        macro_rules! fill {
            ($($field:ident),*) => { $( if self.$field.is_none() { self.$field.clone_from(&other.$field); } )* };
        }
        // A shape belongs to its request: figures of two allocations are not mixed. Where one has no request, its shape must come to the other's.
        let same = match (self.requested_bytes, other.requested_bytes) {
            (Some(own), Some(others)) => own == others,
            (Some(own), None) => other.may_come_to(own),
            (None, Some(others)) => self.may_come_to(others),
            (None, None) => true,
        };
        if same {
            fill!(requested_bytes, shape, dtype, tensor_bytes, op);
        }
        fill!(
            capacity_bytes, allowed_bytes, allocated_bytes, reserved_bytes, free_bytes, free_at_start_bytes,
            largest_free_bytes, argument_bytes, temporary_bytes, process_bytes, device, process, pid, step, epoch,
            rank, exit_code
        );
        self.largest_in_use_bytes = self.largest_in_use_bytes.max(other.largest_in_use_bytes);
        if self.others.is_empty() {
            self.others.clone_from(&other.others);
        }
    }

    /// Whether shape and type come to so many bytes, as far as they are known. Messages write two digits of a figure or more: a fiftieth is less.
    pub fn may_come_to(&self, requested_bytes: u64) -> bool {
        let known = self.shape.as_deref().zip(self.dtype.as_deref());
        let bytes = known.and_then(|(shape, dtype)| shapes::tensor_bytes(shape, dtype));
        bytes.is_none_or(|bytes| bytes.abs_diff(requested_bytes) <= requested_bytes / 50 + ROUNDED_REQUEST_BYTES)
    }

    /// How many of them there are.
    pub fn count(&self) -> usize {
        let given = [
            self.requested_bytes, self.capacity_bytes, self.allocated_bytes, self.reserved_bytes, self.free_bytes,
            self.process_bytes,
        ];
        given.iter().flatten().count()
            + usize::from(self.shape.is_some())
            + usize::from(self.op.is_some())
            + usize::from(self.pid.is_some())
    }

    /// What there is for this process: its share, or all.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.allowed_bytes.or(self.capacity_bytes)
    }

    /// What was asked for, or what shape and type come to.
    pub fn wanted_bytes(&self) -> Option<u64> {
        self.requested_bytes.or(self.tensor_bytes)
    }
}

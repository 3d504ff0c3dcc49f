//! Where the bytes of a trace are placed: how much is allocated, how much is reserved, when the peak is and who holds it.
//!
//! In: a [`Trace`](crate::trace::Trace). Out: a [`Placement`]. An allocator is one file that implements [`Allocator`]; it
//! sees sizes only, never a model. Not counted: the context of the process on the device.

pub mod bfc;
pub mod floor;
pub mod timeline;
pub mod torch_caching;

/// A placed buffer, as its allocator knows it. Handles may be used again after a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u32);

/// What an allocator holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out, in the allocator's own units (rounded, unsplit tails included).
    pub allocated_bytes: u64,
    /// Bytes taken from the device.
    pub reserved_bytes: u64,
}

/// The allocator could not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What was asked for, before rounding.
    pub requested_bytes: u64,
}

/// A framework's allocator, driven by requests alone.
pub trait Allocator {
    /// Places a buffer. A request for zero bytes succeeds and takes nothing.
    fn alloc(&mut self, bytes: u64) -> Result<Handle, OutOfMemory>;
    /// Takes a buffer back. The handle must come from `alloc` and not have been freed since.
    fn free(&mut self, handle: Handle);
    /// What is held now.
    fn usage(&self) -> Usage;
}

mod placement;
pub use placement::{CUDNN_WORKSPACE, Failure, Holder, Placement, holders, place};

//! What the allocator takes from the CUDA driver: addresses, and segments of memory.
//!
//! In: sizes. Out: addresses, which decide between free blocks of equal size. A replay of a real run feeds in the
//! addresses that were recorded, and checks the events; a prediction uses [`RisingAddresses`]. Amounts are not counted
//! here.

/// Memory moving between the driver and the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentEvent {
    /// A segment was taken (`cudaMalloc`).
    Alloc {
        /// Where it starts.
        address: u64,
        /// How long it is.
        bytes: u64,
    },
    /// A segment was given back (`cudaFree`).
    Free {
        /// Where it started.
        address: u64,
        /// How long it was.
        bytes: u64,
    },
    /// Pages were put behind a part of an expandable segment.
    Map {
        /// Where the part starts.
        address: u64,
        /// How long it is.
        bytes: u64,
    },
    /// Pages were taken away from a part of an expandable segment.
    Unmap {
        /// Where the part starts.
        address: u64,
        /// How long it is.
        bytes: u64,
    },
}

/// Where segments come from.
pub trait Driver {
    /// An unused range of addresses: a new segment, or the range in which an expandable segment may grow.
    fn reserve(&mut self, bytes: u64) -> u64;
    /// Told of every segment event. Does nothing unless a driver wants to know, and then costs nothing.
    fn observe(&mut self, _event: SegmentEvent) {}
}

/// Each range lies after all ranges before it.
#[derive(Clone, Copy, Debug)]
pub struct RisingAddresses {
    next_address: u64,
}

impl Default for RisingAddresses {
    fn default() -> RisingAddresses {
        // Near where the recorded expandable runs begin; any start gives the same placement.
        RisingAddresses { next_address: 0x3_0000_0000 }
    }
}

impl Driver for RisingAddresses {
    fn reserve(&mut self, bytes: u64) -> u64 {
        let address = self.next_address;
        self.next_address += bytes;
        address
    }
}

//! Where the pool's regions lie.
//!
//! In: sizes of regions, in the order in which the pool takes them. Out: their addresses, from a rule or from a log. Not counted: what the device itself
//! adds around a region.

use std::collections::VecDeque;

use super::UNIT_BYTES;

/// Where a new region lies relative to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionOrder {
    /// Each above the one before.
    Ascending,
    /// Each below the one before.
    Descending,
}

/// Where regions come from: the device under the pool.
///
/// It matters for placement only through the order of addresses, which decides between free chunks of equal size.
pub trait RegionSource {
    /// The address of a new region of this size, or `None` if the device has no room for it.
    fn take(&mut self, bytes: u64) -> Option<u64>;

    /// A region goes back to the device (garbage collection only).
    fn give_back(&mut self, address: u64, bytes: u64);

    /// Whether a region that begins where another ends becomes one with it. False for TensorFlow's CPU and CUDA memory;
    /// true for its virtual-memory GPU allocator.
    fn coalesces(&self) -> bool {
        false
    }
}

/// The source for predictions: regions lie in one order, and no two touch.
#[derive(Clone, Debug)]
pub struct SpacedRegions {
    order: RegionOrder,
    /// The end nearest to the next region.
    edge_address: u64,
    free_bytes: u64,
}

impl SpacedRegions {
    /// A device that never refuses.
    pub fn unlimited(order: RegionOrder) -> SpacedRegions {
        SpacedRegions::with_capacity(order, u64::MAX)
    }

    /// A device with this much memory for all regions together; less than the limit, if others use the device.
    pub fn with_capacity(order: RegionOrder, capacity_bytes: u64) -> SpacedRegions {
        // The middle of the address space leaves room either way.
        SpacedRegions { order, edge_address: 1 << 63, free_bytes: capacity_bytes }
    }
}

impl RegionSource for SpacedRegions {
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let free_bytes = self.free_bytes.checked_sub(bytes)?;
        let (address, edge_address) = match self.order {
            RegionOrder::Ascending => {
                let address = self.edge_address.checked_add(UNIT_BYTES)?;
                (address, address.checked_add(bytes)?)
            }
            RegionOrder::Descending => {
                let address = self.edge_address.checked_sub(UNIT_BYTES)?.checked_sub(bytes)?;
                (address, address)
            }
        };
        self.free_bytes = free_bytes;
        self.edge_address = edge_address;
        Some(address)
    }

    fn give_back(&mut self, _address: u64, bytes: u64) {
        self.free_bytes = self.free_bytes.saturating_add(bytes);
    }
}

/// The source for replays: regions lie where a log says, in the log's order; after the last one the device refuses.
#[derive(Clone, Debug)]
pub struct RecordedRegions {
    addresses: VecDeque<u64>,
    coalesces: bool,
}

impl RecordedRegions {
    /// Regions at these addresses. `coalesces` is what [`RegionSource::coalesces`] answers.
    pub fn new(addresses: impl IntoIterator<Item = u64>, coalesces: bool) -> RecordedRegions {
        RecordedRegions { addresses: addresses.into_iter().collect(), coalesces }
    }
}

impl RegionSource for RecordedRegions {
    fn take(&mut self, _bytes: u64) -> Option<u64> {
        self.addresses.pop_front()
    }

    fn give_back(&mut self, _address: u64, _bytes: u64) {}

    fn coalesces(&self) -> bool {
        self.coalesces
    }
}

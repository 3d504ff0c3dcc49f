//! The floor: what a trace needs if placement cost nothing.
//!
//! In: requests. Out: the sum of the live requests, as allocated and as reserved bytes alike. Not counted: rounding,
//! fragmentation, any limit. It runs beside a real allocator; the difference between the two is that allocator's slack.

use super::{Allocator, Handle, OutOfMemory, Usage};

/// An allocator without rounding, fragmentation or limit.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    /// The bytes of each handle ever given out; zero once freed.
    requests_bytes: Vec<u64>,
    /// Handles that can be given out again.
    unused: Vec<Handle>,
    live_bytes: u64,
    peak_bytes: u64,
}

impl Floor {
    /// An empty floor.
    pub fn new() -> Floor {
        Floor::default()
    }

    /// The largest sum of live requests so far.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }
}

impl Allocator for Floor {
    /// Fails only when the sum of live requests would not fit a `u64`.
    fn alloc(&mut self, bytes: u64) -> Result<Handle, OutOfMemory> {
        self.live_bytes = self.live_bytes.checked_add(bytes).ok_or(OutOfMemory { requested_bytes: bytes })?;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        match self.unused.pop() {
            Some(handle) => {
                self.requests_bytes[handle.0 as usize] = bytes;
                Ok(handle)
            }
            None => {
                let handle = Handle(u32::try_from(self.requests_bytes.len()).expect("fewer than 2^32 live buffers"));
                self.requests_bytes.push(bytes);
                Ok(handle)
            }
        }
    }

    fn free(&mut self, handle: Handle) {
        self.live_bytes -= std::mem::take(&mut self.requests_bytes[handle.0 as usize]);
        self.unused.push(handle);
    }

    fn usage(&self) -> Usage {
        Usage { allocated_bytes: self.live_bytes, reserved_bytes: self.live_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_sum_of_live_requests() {
        let mut floor = Floor::new();
        let a = floor.alloc(1).unwrap();
        let b = floor.alloc(1000).unwrap();
        let nothing = floor.alloc(0).unwrap();
        assert_eq!(floor.usage(), Usage { allocated_bytes: 1001, reserved_bytes: 1001 });
        floor.free(b);
        floor.free(nothing);
        let c = floor.alloc(7).unwrap();
        assert_eq!(floor.usage().allocated_bytes, 8);
        floor.free(a);
        floor.free(c);
        assert_eq!((floor.usage(), floor.peak_bytes()), (Usage::default(), 1001));
    }

    #[test]
    fn a_sum_beyond_u64_is_refused_and_changes_nothing() {
        let mut floor = Floor::new();
        floor.alloc(10).unwrap();
        assert_eq!(floor.alloc(u64::MAX), Err(OutOfMemory { requested_bytes: u64::MAX }));
        assert_eq!(floor.usage().allocated_bytes, 10);
    }
}

//! How memory goes back to the driver: on demand, past a threshold, or to make room for a request.
//!
//! In: the free blocks of both pools. Out: fewer of them, and [`SegmentEvent`]s. Only what is wholly free can go:
//! segments, or pages of expandable segments.

use super::{Block, Driver, SegmentEvent, TorchCaching, free_set::Key};

impl<D: Driver> TorchCaching<D> {
    /// Gives every wholly free segment or page back to the driver (`torch.cuda.empty_cache`).
    pub fn empty_cache(&mut self) {
        for small in [false, true] {
            let free: Vec<u32> = self.pool(small).free.iter().map(Key::block).collect();
            for id in free {
                if self.options.expandable_segments {
                    self.unmap(id);
                } else if !self.blocks[id as usize].is_split() {
                    self.release(id);
                }
            }
        }
    }

    /// Gives back whole segments that have been free for longer than the mean, until under the threshold.
    pub(super) fn collect_garbage(&mut self) {
        let threshold_bytes = (self.options.garbage_collection_threshold * self.limit_bytes as f64) as u64;
        // Pages of expandable segments are never collected.
        if self.usage.reserved_bytes <= threshold_bytes || self.options.expandable_segments {
            return;
        }
        let target_bytes = self.usage.reserved_bytes - threshold_bytes;
        let searches = self.large.searches;
        let whole = self.large.free.iter().map(Key::block).filter(|&id| !self.blocks[id as usize].is_split());
        let mut left: Vec<(u32, u64)> = whole.map(|id| (id, searches - self.blocks[id as usize].free_since)).collect();
        let mut released_bytes = 0;
        while released_bytes < target_bytes && !left.is_empty() {
            let mean_age = left.iter().map(|(_, age)| age).sum::<u64>() as f64 / left.len() as f64;
            // The oldest is never younger than the mean: every round releases something. A round is not cut short at
            // the target, so that the next one comes later.
            left.retain(|&(id, age)| {
                let old = age as f64 >= mean_age;
                if old {
                    released_bytes += self.blocks[id as usize].size_bytes;
                    self.release(id);
                }
                !old
            });
        }
    }

    /// With a split limit, gives back uncuttable segments that could make room for the request. False if they cannot.
    pub(super) fn release_oversize(&mut self, small: bool, size_bytes: u64) -> bool {
        let max_split_bytes = self.options.max_split_size_bytes;
        if max_split_bytes == u64::MAX || self.options.expandable_segments || small {
            return false;
        }
        let wanted_bytes = size_bytes.max(max_split_bytes);
        if let Some((_, key)) = self.large.free.lower_bound(Key::smallest_of(wanted_bytes)) {
            self.release(key.block());
            return true;
        }
        // None is large enough alone: several, the largest first.
        let mut released_bytes = 0;
        while released_bytes < wanted_bytes
            && let Some(key) = self.large.free.last()
        {
            let block_bytes = self.blocks[key.block() as usize].size_bytes;
            if block_bytes < max_split_bytes {
                return false;
            }
            released_bytes += block_bytes;
            self.release(key.block());
        }
        released_bytes >= wanted_bytes
    }

    /// Gives a free segment back to the driver.
    pub(super) fn release(&mut self, id: u32) {
        let Block { address, size_bytes: bytes, .. } = self.blocks[id as usize];
        debug_assert!(!self.blocks[id as usize].is_split());
        self.remove_free(id);
        self.usage.reserved_bytes -= bytes;
        self.driver.observe(SegmentEvent::Free { address, bytes });
        self.spare.push(id);
    }
}

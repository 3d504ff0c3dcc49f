//! The allocator had enough, but in pieces that were too small.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::Fragmentation,
    name: "fragmentation",
    title: "The free memory lies in pieces that are too small",
    remedies: &["expandable_segments", "stable_shapes", "async_allocator", "clear_between_runs"],
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() {
        return None;
    }
    let numbers = &case.numbers;
    let wanted = numbers.wanted_bytes()?;
    if let (Some(largest), Some(limit), Some(in_use)) = (numbers.largest_free_bytes, numbers.capacity_bytes, numbers.allocated_bytes) {
        // TensorFlow's pool lists its free pieces.
        let free = limit.saturating_sub(in_use);
        return (free >= wanted && largest < wanted && free >= limit / 10).then(|| {
            Claim::certain(format!("{} of the pool were free, enough for the {} asked for, but the largest piece had {}", human(free), human(wanted), human(largest)))
        })?;
    }
    let (reserved, allocated) = (numbers.reserved_bytes?, numbers.allocated_bytes?);
    let idle = reserved.saturating_sub(allocated);
    let worth_it = numbers.capacity_bytes.is_none_or(|capacity| idle >= capacity / 10) && idle >= reserved / 10;
    (idle >= wanted && worth_it).then(|| {
        Claim::certain(format!("{} were reserved and not in use, enough for the {} asked for, but in pieces that were too small", human(idle), human(wanted)))
    })?
}

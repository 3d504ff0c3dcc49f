//! The allocator had enough, but in pieces that were too small.

use super::super::case::Case;
use super::super::phase::Phase;
use super::super::sign::Resource;
use super::other_process::OUTSIDE_ALLOCATOR_BYTES;
use super::{Cause, Claim, Code, Confidence};
use crate::bytes::{GIB, MIB, human};

pub(super) const CAUSE: Cause = Cause {
    code: Code::Fragmentation,
    name: "fragmentation",
    title: "The free memory lies in pieces that are too small",
    remedies: &["expandable_segments", "stable_shapes", "async_allocator", "clear_between_runs"],
    page: include_str!("../../../../../docs/causes/fragmentation.md"),
    judge,
};

const SMALL_SEGMENT_BYTES: u64 = 2 * MIB;

/// PyTorch takes at least this much from the device for anything but what is small.
const LARGE_SEGMENT_BYTES: u64 = 20 * MIB;

/// PyTorch writes two places of a GiB: a difference of two figures is known to this much.
const ROUNDED_BYTES: u64 = GIB / 100;

fn judge(case: &Case) -> Option<Claim> {
    if !case.of_memory() {
        return None;
    }
    let numbers = &case.numbers;
    let wanted = numbers.wanted_bytes()?;
    if let (Some(largest), Some(limit), Some(in_use)) =
        (numbers.largest_free_bytes, numbers.limit_bytes(), numbers.allocated_bytes)
    {
        // TensorFlow's pool lists its free pieces.
        let free = numbers.reserved_bytes.unwrap_or(limit).min(limit).saturating_sub(in_use);
        return (free >= wanted && largest < wanted && free >= limit / 10).then(|| {
            Claim::certain(format!(
                "{} of the pool were free, enough for the {} asked for, but the largest piece had {}",
                human(free),
                human(wanted),
                human(largest)
            ))
        })?;
    }
    if let (Some(largest), Some(free)) = (numbers.largest_free_bytes, numbers.free_bytes) {
        return (free >= wanted && largest < wanted).then(|| {
            Claim::certain(format!(
                "{} were free, enough for the {} asked for, but the largest piece had {}",
                human(free),
                human(wanted),
                human(largest)
            ))
        })?;
    }
    let (reserved, allocated) = (numbers.reserved_bytes?, numbers.allocated_bytes?);
    let idle = reserved.saturating_sub(allocated);
    // A pool always has a little that is not in use: below a fiftieth of what it reserved, it says nothing.
    // A model that is being loaded leaves more.
    let share = if case.phase() == Some(Phase::LoadModel) { 10 } else { 50 };
    let rounded = if wanted >= GIB { ROUNDED_BYTES } else { 0 };
    // What lies beside the pool would do together with what is idle in it, if that were not in pieces.
    let beside = numbers.free_bytes.filter(|&free| free < wanted && idle >= reserved / 8).unwrap_or(0);
    if idle.saturating_add(rounded.max(beside)) < wanted || idle < reserved / share {
        return None;
    }
    if idle < wanted {
        // Where the place has a reason of its own, a pool that would not do alone is none.
        let placed = idle.saturating_add(rounded) < wanted && case.place.is_some();
        let confidence = if placed { Confidence::Possible } else { Confidence::Likely };
        return Claim::new(
            confidence,
            format!(
                "{} were reserved and not in use, about as much as was asked for, but in pieces that were too small",
                human(idle)
            ),
        );
    }
    let because = format!(
        "{} were reserved and not in use, enough for the {} asked for, but in pieces that were too small",
        human(idle),
        human(wanted)
    );
    // A pool that is in pieces takes another segment. Where the device has room for it, the pieces did not matter.
    let room = numbers.free_bytes.is_some_and(|free| free / 2 >= wanted.max(LARGE_SEGMENT_BYTES));
    if room && numbers.allowed_bytes.is_none() && case.of(Resource::GpuMemory) {
        return Claim::possible(because);
    }
    // PyTorch serves what is small from a pool of its own, in segments of this size: what is idle elsewhere is of no use to it. Where this job has
    // filled the device, it is the last straw.
    // Beside the pool lie the context and what a desktop takes: on a small card that is more than a tenth.
    let own = reserved.saturating_add(OUTSIDE_ALLOCATOR_BYTES / 2);
    let filled = numbers.limit_bytes().is_some_and(|limit| own >= limit / 10 * 9);
    if wanted <= SMALL_SEGMENT_BYTES && filled && idle < reserved / 10 {
        return Claim::possible(because);
    }
    // Pools that were in pieces had much more of them idle; with less, a full device is the simpler reason.
    if idle < reserved / 12 {
        return Claim::possible(because);
    }
    if idle >= reserved / 10 { Claim::certain(because) } else { Claim::likely(because) }
}

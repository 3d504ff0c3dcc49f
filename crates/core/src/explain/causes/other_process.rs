//! Another process, or another framework in the same one, holds the device's memory.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, said};
use crate::bytes::{GIB, human};

/// What a process has outside the allocator: the context and loaded kernels, rarely more.
pub(super) const OUTSIDE_ALLOCATOR_BYTES: u64 = 2 * GIB;

/// TensorFlow takes what it finds: a pool as small as this was left over by somebody.
const SMALL_POOL_BYTES: u64 = GIB;

pub(super) const CAUSE: Cause = Cause {
    code: Code::OtherProcess,
    name: "other_process",
    title: "Another process holds the memory",
    remedies: &["free_memory", "other_device", "memory_growth", "limit_per_process"],
    page: include_str!("../../../../../docs/causes/other_process.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    if let Some(claim) = said(
        case,
        Code::OtherProcess,
        "not even a context could be made on the device: it was full before this job began",
    ) {
        return Some(claim);
    }
    let numbers = &case.numbers;
    let small = |limit: &u64| {
        (*limit <= SMALL_POOL_BYTES && case.saw("tensorflow.at_start"))
            || (*limit <= SMALL_POOL_BYTES / 2 && case.saw("tensorflow.dump"))
    };
    if let Some(limit) = numbers.limit_bytes().filter(small) {
        return Claim::likely(format!("when this job began, TensorFlow got only {} of the device", human(limit)));
    }
    let at_start = case.failure().is_some_and(|failure| failure.sign.id == "vllm.free_at_start");
    if let Some((free, capacity)) =
        numbers.free_bytes.zip(numbers.limit_bytes()).filter(|(free, all)| at_start && *free < all / 2)
    {
        return Claim::likely(format!("when this job began, only {} of {} were free", human(free), human(capacity)));
    }
    let capacity = numbers.limit_bytes()?;
    if let Some(free) = numbers.free_at_start_bytes.filter(|&free| free < capacity / 2) {
        return Claim::likely(format!("when this job began, only {} of {} were free", human(free), human(capacity)));
    }
    let own = numbers.reserved_bytes.or(numbers.allocated_bytes).or(numbers.process_bytes);
    let (count, others) = others(case);
    let needed = numbers.requested_bytes.unwrap_or(0).saturating_sub(numbers.free_bytes.unwrap_or(0));
    if others >= capacity / 8 && others >= needed {
        let of_most = own.is_some_and(|own| others >= own) || others >= capacity / 4;
        let because = format!(
            "{} of {} are held by {count} other process{}; the request needed {} more",
            human(others),
            human(capacity),
            if count == 1 { "" } else { "es" },
            human(needed)
        );
        return if of_most { Claim::certain(because) } else { Claim::possible(because) };
    }
    let (own, free) = (own?, numbers.free_bytes?);
    if !numbers.others.is_empty() || numbers.process_bytes.is_some() {
        return None;
    }
    let unaccounted = capacity.saturating_sub(own).saturating_sub(free).saturating_sub(OUTSIDE_ALLOCATOR_BYTES / 2);
    (unaccounted >= capacity / 5 && unaccounted >= needed).then(|| {
        Claim::likely(format!(
            "of {} this job holds {} and {} are free: about {} belong to somebody else",
            human(capacity),
            human(own),
            human(free),
            human(unaccounted)
        ))
    })?
}

/// How many other processes there are, and what they hold. In a container PyTorch cannot tell which one is itself: the one that holds what this job reserved is.
fn others(case: &Case) -> (usize, u64) {
    let numbers = &case.numbers;
    let own = numbers.reserved_bytes.or(numbers.allocated_bytes).unwrap_or(0);
    let is_self =
        |bytes: u64| numbers.process_bytes.is_none() && bytes >= own && bytes - own <= OUTSIDE_ALLOCATOR_BYTES;
    let own_entry = numbers.others.iter().position(|process| is_self(process.bytes));
    let others = numbers.others.iter().enumerate().filter(|(index, _)| Some(*index) != own_entry);
    others.fold((0, 0), |(count, sum), (_, process)| (count + 1, process.bytes.saturating_add(sum)))
}

//! One tensor alone is larger than everything there is.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code};
use crate::bytes::{GIB, human};

/// No accelerator has this much: asked for at once, it is a mistake in a shape.
const ABSURD_BYTES: u64 = 300 * GIB;

pub(super) const CAUSE: Cause = Cause {
    code: Code::TensorTooLarge,
    name: "tensor_too_large",
    title: "One tensor alone does not fit",
    remedies: &["check_shape", "chunk_computation", "smaller_types", "efficient_attention", "stream_data"],
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let wanted = case.numbers.wanted_bytes()?;
    if !case.of_memory() {
        return None;
    }
    if let Some(capacity) = case.numbers.capacity_bytes.filter(|&capacity| wanted > capacity) {
        // A TPU's compiler asks for the whole program at once.
        if case.numbers.device.as_deref() == Some("TPU") {
            return None;
        }
        return Claim::certain(format!("{} were asked for at once, and all there is is {}", human(wanted), human(capacity)));
    }
    if wanted >= ABSURD_BYTES {
        return Claim::certain(format!("{} were asked for at once: more than any single device has", human(wanted)));
    }
    let free = case.numbers.free_bytes.zip(case.numbers.allocated_bytes).zip(case.numbers.capacity_bytes);
    if let Some(((_, allocated), capacity)) = free.filter(|((_, allocated), capacity)| wanted > capacity / 2 && *allocated < wanted) {
        return Claim::likely(format!("{} were asked for at once, more than half of all {} and more than the {} in use", human(wanted), human(capacity), human(allocated)));
    }
    let huge_on_host = case.of(Resource::HostMemory) && wanted >= 64 * GIB;
    huge_on_host.then(|| Claim::likely(format!("{} were asked for at once: few machines have that", human(wanted))))?
}

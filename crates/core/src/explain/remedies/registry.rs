//! Every remedy that explanations give, with its code: by what it changes.

mod device;
mod host;
mod model;
mod step;

use super::Advice;

/// Every remedy that explanations give.
const REGISTRY: [&[Advice]; 4] = [step::ADVICE, model::ADVICE, device::ADVICE, host::ADVICE];

/// All of them, in the registry's order.
pub fn all() -> impl Iterator<Item = &'static Advice> {
    REGISTRY.iter().flat_map(|advice| advice.iter())
}

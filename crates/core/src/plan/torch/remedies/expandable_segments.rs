//! Let the allocator's segments grow instead of taking new ones: fewer gaps that nothing fits into.
//!
//! Simulated by the replica of the allocator with that option.

use super::{Change, Context, Effect, Remedy};
use crate::allocator::torch_caching::Options;
use crate::plan::torch::setup::Setup;

/// `expandable_segments`.
pub struct ExpandableSegments;

impl Remedy for ExpandableSegments {
    fn id(&self) -> &'static str {
        "expandable_segments"
    }

    fn options(&self, _: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if setup.options.expandable_segments {
            return Vec::new();
        }
        let options = Options { expandable_segments: true, ..setup.options.clone() };
        let changed = Setup { options, ..setup.clone() };
        let code = "# in the shell, before Python starts (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF)\n\
                    export PYTORCH_ALLOC_CONF=expandable_segments:True";
        vec![Change::new("Let the allocator's segments grow (expandable_segments)", changed, Effect::Exact, code)]
    }
}

//! Let the CUDA driver's pool serve the job in place of TensorFlow's.
//!
//! TensorFlow's allocator hands out chunks of up to twice the request and cannot move them; the driver's pool maps memory in
//! pieces. Time: none is counted; freeing and allocating within the pool stays on the stream.

use super::{Change, Context, Effect, Remedy};
use crate::plan::setup::{Pool, Setup};

/// `async_allocator`.
pub struct AsyncAllocator;

impl Remedy for AsyncAllocator {
    fn id(&self) -> &'static str {
        "async_allocator"
    }

    fn keeps_kernels(&self) -> bool {
        true
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        if !context.gpu() || setup.pool == Pool::CudaAsync {
            return Vec::new();
        }
        let title = "Use the CUDA driver's memory pool in place of TensorFlow's allocator".to_owned();
        let code =
            "import os\nos.environ[\"TF_GPU_ALLOCATOR\"] = \"cuda_malloc_async\"  # before TensorFlow is imported";
        let torch = "import os\n\
                     os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\"  # before torch is imported";
        let changed = Setup { pool: Pool::CudaAsync, ..setup.clone() };
        vec![Change::new(title, changed, Effect::Exact, code.to_owned(), Some(torch))]
    }
}

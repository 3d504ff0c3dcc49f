//! Batches for those to whom their size does not matter.

use super::{BatchOptions, Plan};
use crate::DataError;
use crate::layout::Layout;
use crate::source::Source;

impl BatchOptions {
    /// The same with smaller batches, where these do not fit the budget. Those of one row may not fit either: the plan says so.
    pub fn fitting(mut self, source: &dyn Source, layout: &Layout) -> BatchOptions {
        while self.batch_rows > 1 && matches!(Plan::new(source, layout, &self), Err(DataError::BelowFloor { .. })) {
            self.batch_rows /= 2;
        }
        self
    }
}

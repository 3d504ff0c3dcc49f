//! A batch, until the last one who looks at it lets go.

use crate::layout::Rows;

/// Rows of one batch. Its memory goes back to the budget when it is dropped.
pub struct Batch {
    pub(super) rows: Rows,
}

impl Batch {
    /// The rows.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// A field's bytes, without those of rows that are not there.
    pub fn field(&self, field: usize) -> &[u8] {
        let bytes = self.rows.layout().fields[field].row_bytes() * self.rows.len();
        &self.rows.field(field)[..bytes]
    }
}

//! Rows that were found bad while columns were read one after the other.
//!
//! In: rows of a piece with reasons, in any order, a row several times. Out: what was asked for: an error for the first of them, the
//! others moved together, or only the count. A bit per row is held, and the first reasons.

use std::collections::BTreeMap;
use std::path::Path;

use super::{BAD_ROWS_KEPT, BadRow, BadRows, ReadReport};
use crate::DataError;
use crate::layout::Rows;

/// Bad rows of one piece. Nothing is allocated before the first.
#[derive(Default)]
pub(crate) struct BadMarks {
    bits: Vec<u64>,
    first: BTreeMap<usize, String>,
    count: u64,
}

impl BadMarks {
    /// Bytes that marks for so many rows take at most.
    pub(crate) fn bytes(rows: u64) -> u64 {
        rows.div_ceil(8) + (BAD_ROWS_KEPT as u64 + 1) * 1536
    }

    /// Marks a row, of `rows` in all.
    pub(crate) fn add(&mut self, row: usize, rows: usize, reason: impl FnOnce() -> String) {
        if self.bits.is_empty() {
            self.bits = vec![0; rows.div_ceil(64)];
        }
        let (word, bit) = (row / 64, 1 << (row % 64));
        if self.bits[word] & bit != 0 {
            return;
        }
        self.bits[word] |= bit;
        self.count += 1;
        let last = self.first.last_key_value().map(|(row, _)| *row);
        if self.first.len() < BAD_ROWS_KEPT || last.is_some_and(|last| row < last) {
            let mut reason = reason();
            // Names of columns come from the file, and may be of any length.
            if let Some((end, _)) = reason.char_indices().nth(300) {
                reason.truncate(end);
            }
            self.first.insert(row, reason);
            if self.first.len() > BAD_ROWS_KEPT {
                self.first.pop_last();
            }
        }
    }

    /// Does with the bad rows what was asked for, and says how many rows there are. `first` is the number of the first row in the
    /// file.
    pub(crate) fn finish(
        self,
        told: BadRows,
        path: &Path,
        first: u64,
        rows: usize,
        into: &mut Rows,
    ) -> Result<ReadReport, DataError> {
        let mut report = ReadReport { bad_rows: self.count, first_bad: Vec::new() };
        if told == BadRows::Fail
            && let Some((row, reason)) = self.first.iter().next()
        {
            return Err(DataError::corrupt(path, format!(", row {}", first + *row as u64), reason.clone()));
        }
        for (row, reason) in self.first {
            let place = format!("row {}", first + row as u64);
            report.first_bad.push(BadRow { file: path.to_owned(), place, reason });
        }
        let mut kept = rows;
        if told == BadRows::Skip && self.count > 0 {
            for field in 0..into.layout().fields.len() {
                let bytes = into.layout().fields[field].row_bytes();
                let memory = into.field_mut(field);
                kept = 0;
                for row in (0..rows).filter(|row| self.bits[row / 64] >> (row % 64) & 1 == 0) {
                    memory.copy_within(row * bytes..(row + 1) * bytes, kept * bytes);
                    kept += 1;
                }
            }
        }
        into.set_len(kept);
        Ok(report)
    }
}

//! The source of every format that is lines of text.
//!
//! In: files with their units, what the records of a format are ([`Records`]). Out: a [`Source`]. Not here: what is in a record.

use std::sync::Arc;

use super::{TextFiles, UnitText};
use crate::DataError;
use crate::layout::{Column, Layout};
use crate::source::{BadRows, Reader, Source};

/// The records of a format.
pub trait Records: Send + Sync {
    /// The format's name.
    const FORMAT: &'static str;

    /// The columns.
    fn columns(&self) -> &[Column];

    /// What this holds, besides the places of units.
    fn bytes(&self) -> u64;

    /// What a reader holds, with the text of a unit, which takes so many bytes.
    fn reader_bytes(&self, text_bytes: u64, layout: &Layout) -> u64;

    /// A reader for one thread.
    fn reader(
        &self,
        text: UnitText,
        files: &Arc<TextFiles>,
        layout: &Arc<Layout>,
        bad_rows: BadRows,
    ) -> Box<dyn Reader>;
}

/// Files of records.
pub struct TextSource<R> {
    /// The files, with their units.
    pub files: Arc<TextFiles>,
    /// What is in them.
    pub records: R,
}

impl<R: Records> Source for TextSource<R> {
    fn format(&self) -> &'static str {
        R::FORMAT
    }

    fn columns(&self) -> &[Column] {
        self.records.columns()
    }

    fn units(&self) -> usize {
        self.files.units().len()
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        u64::from(self.files.units()[unit].rows)
    }

    fn file_bytes(&self) -> u64 {
        self.files.file_bytes()
    }

    fn index_bytes(&self) -> u64 {
        self.files.index_bytes() + self.records.bytes()
    }

    fn reader_bytes(&self, layout: &Layout) -> (u64, String) {
        let (text_bytes, what) = self.files.unit_text_bytes();
        (self.records.reader_bytes(text_bytes, layout), what)
    }

    fn reader_fix(&self) -> &'static str {
        self.files.unit_text_fix()
    }

    fn fingerprint(&self) -> u64 {
        self.files.fingerprint()
    }

    fn reader(&self, layout: &Arc<Layout>, bad_rows: BadRows) -> Result<Box<dyn Reader>, DataError> {
        Ok(self.records.reader(UnitText::new(&self.files), &self.files, layout, bad_rows))
    }
}

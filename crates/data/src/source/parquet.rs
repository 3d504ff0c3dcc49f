//! Parquet files.
//!
//! In: files with the same columns. Out: columns of numbers and text, units, rows. Read: every physical type, all encodings but one
//! that was given up in 2013, Snappy, Zstandard, LZ4, gzip and Brotli. Dates and times are whole numbers as the file has them;
//! decimal numbers are `float64`. Lists and maps are left out (see `notes`), values inside structures are called `a.b`.
//!
//! Decoding is our own: a damaged file must not end the process, a length in a file must not take memory before it is checked, and
//! what a reader holds must be known to the byte. `parquet` 59 does none of these (it has `expect` on what a file says, and reserves
//! lists by their declared length), and decodes into columns that would be copied once more.
//!
//! # Units
//!
//! A page is unpacked as a whole, whatever is wanted of it. So a unit ends where pages end, as far as the columns agree on that:
//! pyarrow's have 20,000 rows each, in all columns. Small pages are put together up to 512 KiB of decoded `float32`; where a page of
//! every column would be more than 16 MiB, it is cut into a few units, and is then unpacked as often. Smaller units would mix better
//! but cost more; measured on 2.2 million rows × 90 numbers in one thread, CPU seconds and what a reader holds:
//!
//! | file | rows of a unit | CPU s | reader |
//! | --- | --- | --- | --- |
//! | pyarrow 26, Snappy, 20,000-row pages | 20,000 | 1.7 | 3.8 MiB |
//! | DuckDB 2.0, Snappy, a page per row group of 122,880 | 40,960 | 1.8 | 4.0 MiB |
//! | Polars 2.1, Zstandard, a page or two per row group | 38,836 | 4.7 | 4.3 MiB |
//!
//! (units in scattered order, on a machine that others used too). Parts of a unit cost as much as the whole: a block of memory
//! should take whole units.

mod codec;
mod delta;
mod footer;
mod hybrid;
mod index;
mod pages;
mod reader;
mod schema;
mod thrift;
mod values;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_core::bytes::human;

use self::codec::unpacker_bytes;
use self::index::Index;
use self::pages::{Chunk, Encoding};
use self::reader::{ParquetReader, stage_numbers};
use self::schema::Physical;
use super::bad::BadMarks;
use super::columnar::{Columnar, Shared, Tables};
use super::{BadRows, Format, OpenOptions, Reader, Source};
use crate::DataError;
use crate::layout::{DType, Layout};

/// How Parquet files are opened.
pub const FORMAT: Format = Format { name: "parquet", extensions: &["parquet", "pq"], open };

fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    Ok(Arc::new(Shared(Arc::new(Parquet { index: Index::new(paths, &options.stop)? }))))
}

/// Files, and where everything lies in them.
pub struct Parquet {
    index: Index,
}

/// What a reader of a layout needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    packed_bytes: usize,
    page_bytes: usize,
    rows: usize,
    all_bytes: u64,
    reason: String,
}

impl Parquet {
    fn physical(&self, column: usize) -> Physical {
        self.index.physical[column]
    }

    fn name(&self, column: usize) -> &str {
        &self.index.tables.columns[column].name
    }

    fn group_path(&self, group: usize) -> &Path {
        &self.index.tables.files[self.index.groups[group].file as usize].path
    }

    /// The pages of a column, and the level of a value that is there.
    fn chunk(&self, group: usize, column: usize) -> (&Chunk, u8) {
        let group = &self.index.groups[group];
        (&group.chunks[column], self.index.max_definition[group.file as usize][column])
    }

    /// The row group, the rows in it, and the number of the first in its file.
    fn place(&self, unit: usize, rows: &Range<u64>) -> Result<(usize, Range<u32>, u64), DataError> {
        let (group, range) = self.index.tables.place(unit, rows)?;
        let first_row = self.index.groups[group].first_row + range.start;
        Ok((group, range.start as u32..range.end as u32, first_row))
    }

    fn wrong(&self, group: usize, column: usize, byte: u64, reason: &str) -> DataError {
        let number = self.index.groups[group].number;
        let place = format!(", row group {number}, column '{}', page at byte {byte}", self.name(column));
        DataError::corrupt(self.group_path(group), place, reason)
    }

    fn needs(&self, layout: &Layout) -> Needs {
        let mut needs = Needs { rows: self.index.tables.most_unit_rows as usize, ..Needs::default() };
        let (mut entries, mut unpacker, mut largest) = ([0u32; 3], 0, (0, String::new()));
        let mut shared_text = false;
        for (number, group) in self.index.groups.iter().enumerate() {
            for slot in &layout.slots {
                let chunk = &group.chunks[slot.column];
                let mine = &mut entries[stage_of(layout.fields[slot.field].dtype)];
                *mine = (*mine).max(chunk.dictionary.as_ref().map_or(0, |page| page.rows));
                for page in chunk.pages.iter().chain(&chunk.dictionary) {
                    needs.packed_bytes = needs.packed_bytes.max(page.packed_bytes as usize);
                    needs.page_bytes = needs.page_bytes.max(page.bytes as usize);
                    unpacker = unpacker.max(unpacker_bytes(page.codec));
                    shared_text |= page.encoding == Encoding::DeltaBytes;
                    if page.bytes > largest.0 {
                        let path = self.group_path(number).display();
                        let (group, name) = (group.number, self.name(slot.column));
                        let size = human(u64::from(page.bytes));
                        largest =
                            (page.bytes, format!("row group {group} of {path}: a page of {size} in column '{name}'"));
                    }
                }
            }
        }
        // A stage and a dictionary for each of the three types that values become first.
        let mut staged = 0;
        for (stage, bytes) in [4, 8, 8].into_iter().enumerate() {
            let columns = layout.slots.iter().filter(|slot| stage_of(layout.fields[slot.field].dtype) == stage).count();
            staged += (stage_numbers(needs.rows, columns) as u64 + u64::from(entries[stage])) * bytes;
        }
        // Text that shares its beginning with the one before is kept once more.
        needs.all_bytes = needs.packed_bytes as u64
            + needs.page_bytes as u64 * if shared_text { 2 } else { 1 }
            + staged
            + unpacker
            + needs.rows as u64
            + BadMarks::bytes(needs.rows as u64)
            + (layout.slots.len() * 64) as u64
            + (16 << 10);
        needs.reason = largest.1;
        needs
    }
}

fn stage_of(dtype: DType) -> usize {
    match dtype {
        DType::F32 => 0,
        dtype if dtype.is_float() => 1,
        _ => 2,
    }
}

impl Columnar for Parquet {
    const FORMAT: &'static str = "parquet";

    fn tables(&self) -> &Tables {
        &self.index.tables
    }

    fn notes(&self) -> Vec<String> {
        self.index.tables.note_of_left_out().into_iter().collect()
    }

    fn index_bytes(&self) -> u64 {
        self.index.bytes()
    }

    fn reader_bytes(&self, layout: &Layout) -> (u64, String) {
        let needs = self.needs(layout);
        (needs.all_bytes, needs.reason)
    }

    fn reader(self: Arc<Self>, layout: Arc<Layout>, bad_rows: BadRows) -> Box<dyn Reader> {
        let needs = self.needs(&layout);
        Box::new(ParquetReader::new(self, layout, bad_rows, &needs))
    }
}

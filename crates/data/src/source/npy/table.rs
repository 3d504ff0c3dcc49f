//! Arrays of rows of one size, somewhere in files: what `.npy` and `.npz` have in common.
//!
//! In: [`Block`]s, each an array with its headers in one or more files, all with the same rows. Out: a [`Source`]. The arrays of
//! several files lie one after the other. Nothing of the data stays in memory.

use std::sync::Arc;

use super::files::Files;
use super::header::{Header, Part};
use super::reader::{ArrayReader, READ_BYTES};
use crate::DataError;
use crate::layout::{Column, Kind, Layout};
use crate::source::{Access, BadRows, Reader, Source};

/// Rows that are read at once where they are mixed: small, so that blocks of many units mix well; large enough for one read.
const UNIT_BYTES: u64 = 256 << 10;
/// With more units their order would itself take memory: units grow instead.
const MOST_UNITS: u64 = 1 << 16;
/// Arrays by columns need one read for each number of a row.
const MOST_BY_COLUMNS: usize = 4096;

/// One array, continued from file to file.
pub(crate) struct Block {
    pub(crate) row_bytes: usize,
    pub(crate) parts: Vec<Part>,
    /// The column of the first part.
    pub(crate) first_column: usize,
    pub(crate) by_columns: bool,
    /// The file of each segment, and where its data begins there.
    pub(crate) starts: Vec<(usize, u64)>,
}

impl Block {
    /// An array without its files yet. `first_column` is the number of columns before it.
    pub(crate) fn new(header: &Header, first_column: usize) -> Result<Block, String> {
        let row_bytes = usize::try_from(header.row_bytes).map_err(|_| "a row is too large".to_owned())?;
        if header.by_columns {
            let elements: usize = header.parts[0].shape.iter().product();
            if header.parts.len() > 1 || elements > MOST_BY_COLUMNS {
                return Err(format!(
                    "the array is stored by columns (fortran_order) with {elements} numbers in a row, which would need as many \
                     reads: save it by rows (`np.save(path, np.ascontiguousarray(array))`)"
                ));
            }
        }
        let by_columns = header.by_columns;
        Ok(Block { row_bytes, parts: header.parts.clone(), first_column, by_columns, starts: Vec::new() })
    }

    /// Its columns; `name` where the parts have none.
    pub(crate) fn columns(&self, name: &str) -> impl Iterator<Item = Column> {
        self.parts.iter().map(move |part| Column {
            name: if part.name.is_empty() { name.to_owned() } else { part.name.clone() },
            kind: Kind::Number(part.dtype),
            shape: part.shape.clone(),
        })
    }

    /// Whether another array can continue it, or how it differs.
    pub(crate) fn fits(&self, header: &Header) -> Result<(), String> {
        if self.parts == header.parts && self.by_columns == header.by_columns {
            return Ok(());
        }
        let words = |parts: &[Part], by_columns: bool| {
            let part = |part: &Part| {
                let order = if part.swapped { "big-endian " } else { "" };
                let name = if part.name.is_empty() { String::new() } else { format!("'{}' ", part.name) };
                format!("{name}{order}{} of shape {:?}", part.dtype.name(), part.shape)
            };
            let order = if by_columns { ", by columns" } else { "" };
            format!("{}{order}", parts.iter().map(part).collect::<Vec<_>>().join(", "))
        };
        let (mine, other) = (words(&self.parts, self.by_columns), words(&header.parts, header.by_columns));
        Err(format!("a row is {other} here, but {mine} in the first file: files given together must agree"))
    }
}

/// Rows in one file.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) first_row: u64,
    pub(crate) rows: u64,
    first_unit: usize,
}

/// Arrays of the same rows.
pub(crate) struct Table {
    format: &'static str,
    columns: Vec<Column>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) files: Files,
    pub(crate) segments: Vec<Segment>,
    unit_rows: u64,
    units: usize,
}

impl Table {
    /// The source of them. `rows` of each segment, in the order of the blocks' starts.
    pub(crate) fn source(
        format: &'static str,
        columns: Vec<Column>,
        blocks: Vec<Block>,
        files: Files,
        rows: &[u64],
    ) -> Result<ArraySource, DataError> {
        let row_bytes: u64 = blocks.iter().map(|block| block.row_bytes as u64).sum();
        let all =
            rows.iter().try_fold(0u64, |sum, rows| sum.checked_add(*rows)).and_then(|all| all.checked_mul(row_bytes));
        let all = all.ok_or_else(|| DataError::Request("the files together claim too many rows".to_owned()))?;
        let unit_rows = (UNIT_BYTES.max(all / MOST_UNITS) / row_bytes).max(1);
        let (mut segments, mut first_row, mut first_unit) = (Vec::new(), 0, 0);
        for &rows in rows {
            segments.push(Segment { first_row, rows, first_unit });
            first_row += rows;
            first_unit += rows.div_ceil(unit_rows) as usize;
        }
        Ok(ArraySource(Arc::new(Table { format, columns, blocks, files, segments, unit_rows, units: first_unit })))
    }

    /// The segment of a row, by its number in the whole source.
    pub(crate) fn segment_of_row(&self, row: u64) -> usize {
        self.segments.partition_point(|segment| segment.first_row <= row) - 1
    }

    /// The segment of a unit, and the unit's first row within it.
    pub(crate) fn place_of_unit(&self, unit: usize) -> (usize, u64) {
        let segment = self.segments.partition_point(|segment| segment.first_unit <= unit) - 1;
        (segment, (unit - self.segments[segment].first_unit) as u64 * self.unit_rows)
    }
}

/// The source of them.
pub(crate) struct ArraySource(Arc<Table>);

impl Source for ArraySource {
    fn format(&self) -> &'static str {
        self.0.format
    }

    fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    fn units(&self) -> usize {
        self.0.units
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        let (segment, first) = self.0.place_of_unit(unit);
        (self.0.segments[segment].rows - first).min(self.0.unit_rows)
    }

    fn rows(&self) -> u64 {
        self.0.segments.last().map_or(0, |last| last.first_row + last.rows)
    }

    fn access(&self) -> Access {
        if self.0.blocks.iter().any(|block| block.by_columns) { Access::Units } else { Access::Rows }
    }

    fn file_bytes(&self) -> u64 {
        self.0.files.bytes()
    }

    fn index_bytes(&self) -> u64 {
        let parts = |block: &Block| block.parts.len() * (size_of::<Part>() + 2 * size_of::<Column>() + 64);
        let blocks: usize = self.0.blocks.iter().map(|block| parts(block) + block.starts.len() * 16).sum();
        self.0.files.index_bytes() + (blocks + self.0.segments.len() * size_of::<Segment>()) as u64
    }

    fn reader_bytes(&self, layout: &Layout) -> (u64, String) {
        let bytes = READ_BYTES + 4096 + layout.slots.len() * 128 + self.0.blocks.len() * 128;
        (bytes as u64, format!("a buffer of {} KiB for what is read", READ_BYTES >> 10))
    }

    fn fingerprint(&self) -> u64 {
        self.0.files.fingerprint()
    }

    fn reader(&self, layout: &Arc<Layout>, _: BadRows) -> Result<Box<dyn Reader>, DataError> {
        Ok(Box::new(ArrayReader::new(self.0.clone(), layout)))
    }
}

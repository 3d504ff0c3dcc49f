//! Rows on the disk, for orders that the files themselves do not allow.
//!
//! In: a source that is read unit by unit. Out: a source of the same rows, decoded, each of the same size, that can be read in any
//! order. The file has no name: it is gone when the last reader is. Not counted by the budget: the disk.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::DataError;
use crate::layout::{Column, Conversion, Kind, Layout, Rows, Slot};
use crate::loader::Loader;
use crate::order::{Shard, Shuffle};
use crate::plan::{BatchOptions, SPILL_BYTES};
use crate::source::{Access, BadRows, ReadReport, Reader, Source};

/// How often the one who waits is asked whether to go on.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The layout of rows that were written with another one: the same fields, each a column of its own.
pub(super) fn layout(layout: &Layout) -> Layout {
    let slot = |field: usize| Slot {
        column: field,
        field,
        first: 0,
        elements: layout.fields[field].elements(),
        conversion: Conversion::Number,
    };
    Layout { slots: (0..layout.fields.len()).map(slot).collect(), ..layout.clone() }
}

/// Writes all rows, in the order of the files.
pub(super) fn rows_file(
    source: &Arc<dyn Source>,
    layout: &Arc<Layout>,
    options: &BatchOptions,
    stop: &dyn Fn() -> bool,
) -> Result<(RowsFile, ReadReport), DataError> {
    let folder = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let full = |error: std::io::Error| DataError::Io {
        path: folder.clone(),
        reason: format!(
            "the rows of a global shuffle cannot be kept there: {error}; name a folder with more room (scratch)"
        ),
    };
    let file = tempfile::tempfile_in(&folder).map_err(full)?;
    let memory_bytes = options.memory_bytes - SPILL_BYTES;
    let plain = BatchOptions {
        memory_bytes,
        shuffle: Shuffle::None,
        shard: Shard::default(),
        drop_last: false,
        ..options.clone()
    };
    let loader = Loader::new(source.clone(), (**layout).clone(), plain)?;
    let mut batches = loader.epoch(0)?;
    let mut out = BufWriter::with_capacity(SPILL_BYTES as usize, &file);
    let mut count = 0;
    let mut asked = Instant::now();
    while let Some(batch) = batches.next(stop)? {
        if asked.elapsed() >= ASK_AGAIN {
            asked = Instant::now();
            if stop() {
                return Err(DataError::Interrupted);
            }
        }
        for row in 0..batch.rows().len() {
            for (field, shape) in layout.fields.iter().enumerate() {
                let bytes = shape.row_bytes();
                out.write_all(&batch.field(field)[row * bytes..(row + 1) * bytes]).map_err(full)?;
            }
        }
        count += batch.rows().len() as u64;
    }
    out.flush().map_err(full)?;
    drop(out);
    let column = |field: &crate::layout::Field| Column {
        name: field.name.clone(),
        kind: Kind::Number(field.dtype),
        shape: field.shape.clone(),
    };
    let columns = layout.fields.iter().map(column).collect();
    let row_bytes = layout.row_bytes();
    let figures = loader.figures();
    let report = ReadReport { bad_rows: figures.bad_rows, first_bad: figures.first_bad };
    let fingerprint = source.fingerprint();
    let path = folder.join("rows of a global shuffle");
    Ok((RowsFile { file: Arc::new(file), path, columns, rows: count, row_bytes, fingerprint }, report))
}

/// Decoded rows of one size, one after the other.
pub(super) struct RowsFile {
    file: Arc<File>,
    path: PathBuf,
    columns: Vec<Column>,
    rows: u64,
    row_bytes: usize,
    fingerprint: u64,
}

impl RowsFile {
    fn rows_at_once(&self) -> u64 {
        (SPILL_BYTES as usize / self.row_bytes.max(1)).max(1) as u64
    }
}

impl Source for RowsFile {
    fn format(&self) -> &'static str {
        "rows"
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn units(&self) -> usize {
        self.rows.div_ceil(self.rows_at_once()) as usize
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        (self.rows - unit as u64 * self.rows_at_once()).min(self.rows_at_once())
    }

    fn access(&self) -> Access {
        Access::Rows
    }

    fn file_bytes(&self) -> u64 {
        self.rows * self.row_bytes as u64
    }

    fn index_bytes(&self) -> u64 {
        0
    }

    fn reader_bytes(&self, _layout: &Layout) -> (u64, String) {
        (((SPILL_BYTES as usize).max(self.row_bytes)) as u64, "rows from the disk".to_owned())
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn reader(&self, _layout: &Arc<Layout>, _bad_rows: BadRows) -> Result<Box<dyn Reader>, DataError> {
        Ok(Box::new(RowsReader {
            file: self.file.clone(),
            path: self.path.clone(),
            row_bytes: self.row_bytes,
            rows_at_once: self.rows_at_once(),
            buffer: Vec::new(),
        }))
    }
}

struct RowsReader {
    file: Arc<File>,
    path: PathBuf,
    row_bytes: usize,
    rows_at_once: u64,
    buffer: Vec<u8>,
}

impl RowsReader {
    fn fetch(&mut self, first: u64, count: usize) -> Result<(), DataError> {
        self.buffer.resize(count * self.row_bytes, 0);
        let read = self.file.read_exact_at(&mut self.buffer, first * self.row_bytes as u64);
        read.map_err(|error| DataError::io(&self.path, &error))
    }

    fn put(&self, at: usize, to: usize, into: &mut Rows) {
        let mut from = at * self.row_bytes;
        for field in 0..into.layout().fields.len() {
            let bytes = into.layout().fields[field].row_bytes();
            into.field_mut(field)[to * bytes..(to + 1) * bytes].copy_from_slice(&self.buffer[from..from + bytes]);
            from += bytes;
        }
    }
}

impl Reader for RowsReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        let count = (rows.end - rows.start) as usize;
        self.fetch(unit as u64 * self.rows_at_once + rows.start, count)?;
        (0..count).for_each(|row| self.put(row, row, into));
        into.set_len(count);
        Ok(ReadReport::default())
    }

    fn read_rows(&mut self, rows: &[(u64, u32)], into: &mut Rows) -> Result<ReadReport, DataError> {
        let mut left = rows;
        while let Some((first, _)) = left.first() {
            // Neighbours in the file are fetched together.
            let together =
                |(at, row): (usize, &(u64, u32))| row.0 == first + at as u64 && (at as u64) < self.rows_at_once;
            let count = left.iter().enumerate().take_while(|(at, row)| together((*at, row))).count();
            self.fetch(*first, count)?;
            for (at, (_, to)) in left[..count].iter().enumerate() {
                self.put(at, *to as usize, into);
            }
            left = &left[count..];
        }
        into.set_len(rows.len());
        Ok(ReadReport::default())
    }
}

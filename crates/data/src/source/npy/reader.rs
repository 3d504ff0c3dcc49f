//! Rows of arrays into memory.
//!
//! In: a [`Table`], which rows. Out: the rows' numbers in their fields. Where an array fills a field as it is, bytes go from the file
//! to their place; elsewhere through one buffer of [`READ_BYTES`], whatever a row's size.

use std::ops::Range;
use std::sync::Arc;

use super::files::Cursor;
use super::header::Part;
use super::table::{Block, Table};
use crate::DataError;
use crate::layout::{DType, Layout, Rows, Slot, convert};
use crate::source::{ReadReport, Reader};

/// The buffer of a reader: small enough to stay in the processor's cache between reading and conversion.
pub(super) const READ_BYTES: usize = 256 << 10;
/// Single rows with no more than this between them are read at once: it costs less than a call to the system.
const GAP_BYTES: u64 = 2 << 10;

/// What to do with one block of the table.
struct Work {
    block: usize,
    /// The part of the block's rows, and where it goes.
    slots: Vec<(usize, Slot)>,
    /// The field that the block fills as it is.
    direct: Option<usize>,
}

/// One thread's reader.
pub(super) struct ArrayReader {
    table: Arc<Table>,
    work: Vec<Work>,
    cursor: Cursor,
    buffer: Vec<u8>,
}

impl ArrayReader {
    pub(super) fn new(table: Arc<Table>, layout: &Arc<Layout>) -> ArrayReader {
        let mut work = Vec::new();
        for (number, block) in table.blocks.iter().enumerate() {
            let columns = block.first_column..block.first_column + block.parts.len();
            let slots = layout.slots.iter().filter(|slot| columns.contains(&slot.column));
            let slots: Vec<(usize, Slot)> =
                slots.map(|slot| (slot.column - block.first_column, slot.clone())).collect();
            if slots.is_empty() {
                continue;
            }
            let whole = |(part, slot): &(usize, Slot)| {
                let (part, field) = (&block.parts[*part], &layout.fields[slot.field]);
                let as_it_is =
                    !part.swapped && part.dtype == field.dtype && block.parts.len() == 1 && !block.by_columns;
                (as_it_is && slot.elements == field.elements()).then_some(slot.field)
            };
            let direct = if slots.len() == 1 { whole(&slots[0]) } else { None };
            work.push(Work { block: number, slots, direct });
        }
        ArrayReader { table, work, cursor: Cursor::default(), buffer: vec![0; READ_BYTES] }
    }

    /// Rows of a segment, one after the other, to `to` and the places after it.
    fn run(
        &mut self,
        work: usize,
        segment: usize,
        rows: Range<u64>,
        to: usize,
        into: &mut Rows,
    ) -> Result<(), DataError> {
        let work = &self.work[work];
        let block = &self.table.blocks[work.block];
        let (file, start) = block.starts[segment];
        if block.by_columns {
            return by_columns(&self.table, work, segment, rows, &mut self.cursor, &mut self.buffer, into);
        }
        let at = |row: u64| start + row * block.row_bytes as u64;
        if let Some(field) = work.direct {
            let first = to * block.row_bytes;
            let place = &mut into.field_mut(field)[first..first + (rows.end - rows.start) as usize * block.row_bytes];
            self.cursor.read(&self.table.files, file, place, at(rows.start), rows.start)?;
            tidy(block, place);
            return Ok(());
        }
        if block.row_bytes > READ_BYTES {
            for row in rows.clone() {
                let to = to + (row - rows.start) as usize;
                for (part, slot) in &work.slots {
                    let part = &block.parts[*part];
                    let piece = READ_BYTES / part.dtype.bytes();
                    for first in (0..slot.elements).step_by(piece) {
                        let count = piece.min(slot.elements - first);
                        let buffer = &mut self.buffer[..count * part.dtype.bytes()];
                        let place = at(row) + (part.offset + first * part.dtype.bytes()) as u64;
                        self.cursor.read(&self.table.files, file, buffer, place, row)?;
                        put(buffer, part, slot, to, first, into);
                    }
                }
            }
            return Ok(());
        }
        let most = (READ_BYTES / block.row_bytes) as u64;
        let mut first = rows.start;
        while first < rows.end {
            let count = most.min(rows.end - first) as usize;
            let buffer = &mut self.buffer[..count * block.row_bytes];
            self.cursor.read(&self.table.files, file, buffer, at(first), first)?;
            put_rows(buffer, block, work, to + (first - rows.start) as usize, into);
            first += count as u64;
        }
        Ok(())
    }

    /// Single rows of one segment that lie near each other, with one read.
    fn near(&mut self, work: usize, segment: usize, rows: &[(u64, u32)], into: &mut Rows) -> Result<(), DataError> {
        let first = rows[0].0 - self.table.segments[segment].first_row;
        let work = &self.work[work];
        let block = &self.table.blocks[work.block];
        let (file, start) = block.starts[segment];
        let span = (rows[rows.len() - 1].0 - rows[0].0 + 1) as usize;
        let buffer = &mut self.buffer[..span * block.row_bytes];
        self.cursor.read(&self.table.files, file, buffer, start + first * block.row_bytes as u64, first)?;
        for (row, to) in rows {
            let from = (row - rows[0].0) as usize * block.row_bytes;
            let bytes = &buffer[from..from + block.row_bytes];
            if let Some(field) = work.direct {
                let to = *to as usize * block.row_bytes;
                let place = &mut into.field_mut(field)[to..to + block.row_bytes];
                place.copy_from_slice(bytes);
                tidy(block, place);
            } else {
                put_rows(bytes, block, work, *to as usize, into);
            }
        }
        Ok(())
    }
}

impl Reader for ArrayReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        let (segment, first) = self.table.place_of_unit(unit);
        for work in 0..self.work.len() {
            self.run(work, segment, first + rows.start..first + rows.end, 0, into)?;
        }
        into.set_len((rows.end - rows.start) as usize);
        Ok(ReadReport::default())
    }

    fn read_rows(&mut self, rows: &[(u64, u32)], into: &mut Rows) -> Result<ReadReport, DataError> {
        for work in 0..self.work.len() {
            let row_bytes = self.table.blocks[self.work[work].block].row_bytes as u64;
            let (gap, most) = (GAP_BYTES / row_bytes + 1, READ_BYTES as u64 / row_bytes);
            let mut rest = rows;
            while let Some((first, to)) = rest.first().copied() {
                let segment = self.table.segment_of_row(first);
                let of = self.table.segments[segment];
                let last = (of.first_row + of.rows).min(first.saturating_add(most));
                let steps = rest.windows(2).take_while(|pair| pair[1].0 < last && pair[1].0 - pair[0].0 <= gap);
                let count = 1 + steps.count();
                if count == 1 {
                    let row = first - of.first_row;
                    self.run(work, segment, row..row + 1, to as usize, into)?;
                } else {
                    self.near(work, segment, &rest[..count], into)?;
                }
                rest = &rest[count..];
            }
        }
        into.set_len(rows.len());
        Ok(ReadReport::default())
    }
}

/// Truth is 0 or 1 for everybody who gets it, whatever the file has.
fn tidy(block: &Block, bytes: &mut [u8]) {
    if block.parts[0].dtype == DType::Bool {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
}

/// Whole rows as the file has them to `to` and the places after it.
fn put_rows(bytes: &[u8], block: &Block, work: &Work, to: usize, into: &mut Rows) {
    for (number, slot) in &work.slots {
        let part = &block.parts[*number];
        let alone = block.parts.len() == 1 && slot.elements == into.layout().fields[slot.field].elements();
        if alone {
            put(bytes, part, slot, to, 0, into);
            continue;
        }
        let end = part.offset + slot.elements * part.dtype.bytes();
        for (row, record) in bytes.chunks_exact(block.row_bytes).enumerate() {
            put(&record[part.offset..end], part, slot, to + row, 0, into);
        }
    }
}

/// Numbers to their place in a row, from element `first` of the slot; on into the following rows where the slot is the whole field.
fn put(bytes: &[u8], part: &Part, slot: &Slot, to: usize, first: usize, into: &mut Rows) {
    let field = &into.layout().fields[slot.field];
    let (dtype, row_bytes) = (field.dtype, field.row_bytes());
    let place = to * row_bytes + (slot.first + first) * dtype.bytes();
    let count = bytes.len() / part.dtype.bytes();
    let end = place + count * dtype.bytes();
    convert(bytes, part.dtype, part.swapped, &mut into.field_mut(slot.field)[place..end], dtype);
}

/// Rows of an array that is stored by columns: one read for each number of a row.
fn by_columns(
    table: &Table,
    work: &Work,
    segment: usize,
    rows: Range<u64>,
    cursor: &mut Cursor,
    buffer: &mut [u8],
    into: &mut Rows,
) -> Result<(), DataError> {
    let block = &table.blocks[work.block];
    let (file, start) = block.starts[segment];
    let (part, slot) = (&block.parts[0], &work.slots[0].1);
    let size = part.dtype.bytes();
    let column_bytes = table.segments[segment].rows * size as u64;
    let most = (buffer.len() / size) as u64;
    for element in 0..slot.elements {
        let column = start + place_by_columns(element, &part.shape) as u64 * column_bytes;
        let mut first = rows.start;
        while first < rows.end {
            let count = most.min(rows.end - first) as usize;
            let buffer = &mut buffer[..count * size];
            cursor.read(&table.files, file, buffer, column + first * size as u64, first)?;
            let to = (first - rows.start) as usize;
            for (row, number) in buffer.chunks_exact(size).enumerate() {
                put(number, part, slot, to + row, element, into);
            }
            first += count as u64;
        }
    }
    Ok(())
}

/// Where an element of a row, counted by rows, is counted by columns.
fn place_by_columns(mut element: usize, shape: &[usize]) -> usize {
    let mut index = vec![0; shape.len()];
    for (axis, size) in shape.iter().enumerate().rev() {
        index[axis] = element % size;
        element /= size;
    }
    shape.iter().zip(index).rev().fold(0, |place, (size, index)| place * size + index)
}

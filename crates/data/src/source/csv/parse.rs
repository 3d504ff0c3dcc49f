//! Records into rows.
//!
//! In: the text of a unit. Out: the chosen columns as numbers, straight from the bytes: a value's own digits say where it ends, so
//! nothing is looked for first. What the short way does not understand (quotes, blanks, "not known", mistakes) takes the long one,
//! value by value. Columns that nobody chose are stepped over.

use std::ops::Range;
use std::sync::Arc;

use super::types::{Type, bool_of};
use super::wrong::{Bad, Wrong, reason};
use super::{Table, field};
use crate::DataError;
use crate::layout::{Cells, Conversion, DType, Layout, Rows};
use crate::source::text::{TextFiles, UnitText, number};
use crate::source::{BadRow, BadRows, ReadReport, Reader};

/// One value of every record.
struct Op {
    /// Fields between the one before and this one; nothing: the same field once more.
    skip: Option<u32>,
    step: Step,
    column: u32,
    field: u32,
    first: u32,
    /// Elements of a row of the field.
    stride: u32,
    slot: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// A number for a field of `float32`.
    Single,
    /// A number for another field.
    Float,
    Int,
    Bool,
    Text,
}

pub(super) struct CsvReader {
    text: UnitText,
    files: Arc<TextFiles>,
    table: Arc<Table>,
    layout: Arc<Layout>,
    bad_rows: BadRows,
    ops: Vec<Op>,
    /// Fields behind the last one that is wanted.
    rest: usize,
    /// The next record of the unit and its place.
    next: (u64, usize),
}

/// What a reader holds besides the text of a unit.
pub(super) fn bytes(layout: &Layout) -> u64 {
    // The rest is for the sentences about bad rows, which are short.
    (layout.slots.len() * size_of::<Op>() + layout.fields.len() * size_of::<Cells>()) as u64 + (16 << 10)
}

/// How a record was read.
enum Read {
    /// Up to here.
    Good(usize),
    /// With values that are not known now.
    Mended(Bad),
}

impl CsvReader {
    pub(super) fn new(
        text: UnitText,
        files: &Arc<TextFiles>,
        table: &Arc<Table>,
        layout: &Arc<Layout>,
        bad_rows: BadRows,
    ) -> CsvReader {
        let mut ops: Vec<Op> = Vec::with_capacity(layout.slots.len());
        let mut column = 0;
        for (slot, wanted) in layout.slots.iter().enumerate() {
            let field = &layout.fields[wanted.field];
            let step = match (&wanted.conversion, table.types[wanted.column].of) {
                (Conversion::Number, Type::Float) if field.dtype == DType::F32 => Step::Single,
                (Conversion::Number, Type::Float) => Step::Float,
                (Conversion::Number, Type::Int) => Step::Int,
                (Conversion::Number, Type::Bool) => Step::Bool,
                _ => Step::Text,
            };
            let skip = (wanted.column + 1).checked_sub(column + 1).map(|skip| skip as u32);
            column = wanted.column + 1;
            let [field_number, first, stride] = [wanted.field, wanted.first, field.elements()].map(|n| n as u32);
            let [slot, wanted] = [slot, wanted.column].map(|n| n as u32);
            ops.push(Op { skip, step, column: wanted, field: field_number, first, stride, slot });
        }
        let rest = table.dialect.names.len() - column;
        let (table, layout, files) = (table.clone(), layout.clone(), files.clone());
        CsvReader { text, files, table, layout, bad_rows, ops, rest, next: (0, 0) }
    }

    /// Reads the record at `at` into a row.
    #[inline]
    fn record(&self, bytes: &[u8], mut at: usize, row: usize, cells: &mut [Cells]) -> Result<Read, Bad> {
        let delimiter = self.table.dialect.delimiter;
        let start = at;
        let mut begin = at;
        // Whether the record's last field was read, and the first byte behind the record.
        let mut ended = None;
        let mut mended = None;
        let few = |first_op: usize, at: usize| Bad { wrong: Wrong::Fields, column: 0, field: at..at, first_op };
        for (number, op) in self.ops.iter().enumerate() {
            match op.skip {
                None => at = begin,
                Some(_) if ended.is_some() => return Err(few(number, at)),
                Some(skip) => {
                    for _ in 0..skip {
                        let end = field::end(bytes, at, delimiter);
                        if bytes[end] != delimiter {
                            return Err(few(number, at));
                        }
                        at = end + 1;
                    }
                }
            }
            begin = at;
            let index = row * op.stride as usize + op.first as usize;
            let cell = &mut cells[op.field as usize];
            let end = match self.short(op, bytes, at, index, cell, delimiter) {
                Some(end) => end,
                None => match self.long(op, number, bytes, at, index, cell) {
                    Ok(end) => end,
                    Err(bad) if self.bad_rows == BadRows::Null => {
                        cell.put_unknown(index);
                        let end = bad.field.end;
                        mended.get_or_insert(bad);
                        end
                    }
                    Err(bad) => return Err(bad),
                },
            };
            at = end + 1;
            ended = match bytes[end] {
                found if found == delimiter => None,
                b'\r' => Some(end + 2),
                _ => Some(end + 1),
            };
        }
        for left in (0..self.rest).rev() {
            if ended.is_some() {
                return Err(few(self.ops.len(), at));
            }
            let end = field::end(bytes, at, delimiter);
            at = end + 1;
            ended = (bytes[end] != delimiter).then_some(at);
            if left > 0 && ended.is_some() {
                return Err(few(self.ops.len(), at));
            }
        }
        match (ended, mended) {
            (None, _) => Err(few(self.ops.len(), start)),
            (Some(behind), None) => Ok(Read::Good(behind)),
            (Some(_), Some(bad)) => Ok(Read::Mended(bad)),
        }
    }

    /// The usual value: its number is put in place, and where it ends is returned.
    #[inline(always)]
    fn short(&self, op: &Op, bytes: &[u8], at: usize, index: usize, cell: &mut Cells, delimiter: u8) -> Option<usize> {
        let ends = |end: usize| {
            let found = bytes[end];
            found == delimiter || found == b'\n' || (found == b'\r' && bytes[end + 1] == b'\n')
        };
        match op.step {
            Step::Single => {
                let (value, end) = number::float32(bytes, at).filter(|(_, end)| ends(*end))?;
                if let Cells::F32(cells) = cell {
                    cells[index] = value;
                }
                Some(end)
            }
            Step::Float => {
                let (value, end) = number::float64(bytes, at).filter(|(_, end)| ends(*end))?;
                cell.put_f64(index, value);
                Some(end)
            }
            Step::Int => {
                let (value, end) = number::int64(bytes, at).filter(|(_, end)| ends(*end))?;
                cell.put_i64(index, value);
                Some(end)
            }
            Step::Bool | Step::Text => None,
        }
    }

    /// Every value, as its column's type says.
    #[cold]
    #[inline(never)]
    fn long(
        &self,
        op: &Op,
        number: usize,
        bytes: &[u8],
        at: usize,
        index: usize,
        cell: &mut Cells,
    ) -> Result<usize, Bad> {
        let end = field::end(bytes, at, self.table.dialect.delimiter);
        let bad = |wrong| Bad { wrong, column: op.column as usize, field: at..end, first_op: number };
        let value = field::value(bytes, at, end);
        let text = value.trim_ascii();
        let typed = self.table.types[op.column as usize];
        let whole = |cell: &mut Cells| number::int_of(text).map(|value| cell.put_i64(index, value));
        let float = |cell: &mut Cells| number::float_of(text).map(|value| cell.put_f64(index, value));
        let conversion = &self.layout.slots[op.slot as usize].conversion;
        let done = match op.step {
            Step::Text => conversion.number(&value).map(|value| cell.put_i64(index, value)),
            Step::Bool => bool_of(text).map(|value| cell.put_i64(index, i64::from(value))),
            Step::Int => match whole(cell) {
                None if !typed.given && cell.is_float() && !self.table.nulls.has(text) => float(cell),
                done => done,
            },
            Step::Single | Step::Float if self.table.nulls.has(text) => None,
            Step::Single | Step::Float => float(cell),
        };
        match done {
            Some(()) => Ok(end),
            None if !self.table.nulls.has(text) => {
                Err(bad(if op.step == Step::Text { Wrong::Category } else { Wrong::Value }))
            }
            None if cell.is_float() => {
                cell.put_unknown(index);
                Ok(end)
            }
            None => Err(bad(Wrong::Unknown)),
        }
    }

    fn file(&self) -> std::path::PathBuf {
        let file = self.text.unit().map_or(0, |unit| self.files.file_of(unit));
        self.files.files()[file].path.clone()
    }

    #[cold]
    fn bad_row(&self, bad: &Bad, start: usize) -> BadRow {
        BadRow {
            file: self.file(),
            place: format!("line {}", self.text.line(start)),
            reason: reason(bad, &self.table, self.text.padded(), start),
        }
    }

    #[cold]
    fn changed(&self) -> DataError {
        let reason = "it was changed while it was being read: open it again once it is complete";
        DataError::corrupt(&self.file(), format!(", line {}", self.text.line(self.next.1)), reason)
    }

    /// The place of a record of the unit that is loaded.
    fn seek(&mut self, record: u64) -> Result<usize, DataError> {
        if self.next.0 > record {
            self.next = (0, 0);
        }
        let bytes = self.text.padded();
        let (mut number, mut at) = self.next;
        let plain = number < record && memchr::memchr(b'"', bytes).is_none();
        while number < record {
            at = field::skip_blank(bytes, at);
            let end = if plain {
                memchr::memchr(b'\n', &bytes[at..]).map(|end| at + end + 1)
            } else {
                field::record_end(bytes, at, self.table.dialect.delimiter)
            };
            at = end.ok_or_else(|| self.changed())?;
            number += 1;
        }
        Ok(at)
    }
}

impl Reader for CsvReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        if self.text.load(unit)? {
            self.next = (0, 0);
        }
        let mut report = ReadReport::default();
        let mut at = self.seek(rows.start)?;
        let mut row = 0;
        let mut cells = into.cells();
        let bytes = self.text.padded();
        for _ in rows.clone() {
            at = field::skip_blank(bytes, at);
            if at >= self.text.length() {
                return Err(self.changed());
            }
            let bad = match self.record(bytes, at, row, &mut cells) {
                Ok(Read::Good(end)) => {
                    (at, row) = (end, row + 1);
                    continue;
                }
                Ok(Read::Mended(bad)) | Err(bad) => bad,
            };
            let bad_row = self.bad_row(&bad, at);
            match self.bad_rows {
                BadRows::Fail => {
                    return Err(DataError::corrupt(&bad_row.file, format!(", {}", bad_row.place), bad_row.reason));
                }
                BadRows::Skip => {}
                BadRows::Null => {
                    if bad.wrong == Wrong::Fields {
                        for op in &self.ops[bad.first_op..] {
                            cells[op.field as usize].put_unknown(row * op.stride as usize + op.first as usize);
                        }
                    }
                    row += 1;
                }
            }
            report.add(bad_row);
            at = field::record_end(bytes, at, self.table.dialect.delimiter).ok_or_else(|| self.changed())?;
        }
        let last = rows.end == u64::from(self.files.units()[unit].rows);
        if last && field::skip_blank(bytes, at) < self.text.length() {
            return Err(self.changed());
        }
        drop(cells);
        self.next = (rows.end, at);
        into.set_len(row);
        Ok(report)
    }
}

//! Rows of a Parquet file into memory that is given.
//!
//! In: a unit, a range of it. Out: rows. One column after the other is read: its pages that have rows of the range are unpacked, one
//! at a time, and their values put into a stage for a few columns; a stage full of columns is turned into rows at once, so that a
//! line of the cache is written once and not once per column. What is held: a page as it is and unpacked, a dictionary, the stage.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use half::f16;

use super::codec::{Codec, Unpacker};
use super::hybrid::Hybrid;
use super::pages::{Encoding, Page};
use super::values::{Meaning, Stage};
use super::{Needs, Parquet, Physical};
use crate::DataError;
use crate::layout::{DType, Layout, Rows, Slot};
use crate::source::bad::BadMarks;
use crate::source::columnar::fits;
use crate::source::known::OpenFile;
use crate::source::{BadRows, ReadReport, Reader};

/// One row's values of so many columns fill a line of the cache as `f32`.
const STAGE_COLUMNS: usize = 16;
/// A stage has fewer columns where it would have more numbers than this.
const STAGE_NUMBERS: usize = 512 << 10;

/// A reader of one thread.
pub struct ParquetReader {
    source: Arc<Parquet>,
    layout: Arc<Layout>,
    bad_rows: BadRows,
    file: OpenFile,
    /// Which rows of a range have a value.
    present: Vec<bool>,
    packed: Vec<u8>,
    page: Vec<u8>,
    unpacker: Unpacker,
    floats: Buffers<f32>,
    doubles: Buffers<f64>,
    wholes: Buffers<i64>,
}

#[derive(Default)]
struct Buffers<T> {
    stage: Vec<T>,
    dictionary: Vec<T>,
}

/// What one read of a column needs to know.
struct Task<'a> {
    group: usize,
    range: Range<u32>,
    slot: &'a Slot,
    /// Whether a missing value makes a row bad: where it would be a whole number.
    whole: bool,
}

impl ParquetReader {
    pub fn new(source: Arc<Parquet>, layout: Arc<Layout>, bad_rows: BadRows, needs: &Needs) -> ParquetReader {
        ParquetReader {
            source,
            layout,
            bad_rows,
            file: OpenFile::default(),
            present: Vec::with_capacity(needs.rows),
            packed: vec![0; needs.packed_bytes],
            page: vec![0; needs.page_bytes],
            unpacker: Unpacker::default(),
            floats: Buffers::default(),
            doubles: Buffers::default(),
            wholes: Buffers::default(),
        }
    }

    /// Columns of one field into a stage, one after the other.
    fn columns<'a, T: Stage>(
        &mut self,
        buffers: &mut Buffers<T>,
        tasks: impl ExactSizeIterator<Item = Task<'a>>,
        rows: usize,
        bad: &mut BadMarks,
    ) -> Result<(), DataError> {
        let wanted = rows * tasks.len();
        if buffers.stage.len() < wanted {
            buffers.stage = Vec::new();
            buffers.stage = vec![T::default(); wanted];
        }
        for (task, stage) in tasks.zip(buffers.stage.chunks_exact_mut(rows)) {
            self.column(&mut buffers.dictionary, &task, stage, bad)?;
        }
        Ok(())
    }

    fn column<T: Stage>(
        &mut self,
        dictionary: &mut Vec<T>,
        task: &Task,
        stage: &mut [T],
        bad: &mut BadMarks,
    ) -> Result<(), DataError> {
        let source = self.source.clone();
        let column = task.slot.column;
        let (chunk, definition) = source.chunk(task.group, column);
        let meaning = Meaning { physical: source.physical(column), conversion: &task.slot.conversion };
        let wrong = |page: &Page, reason: String| source.wrong(task.group, column, page.first_byte, &reason);
        let (mut known, count) = (false, task.range.len());
        let first = chunk.pages.partition_point(|page| page.first_row + page.rows <= task.range.start);
        for page in &chunk.pages[first..] {
            let rows = task.range.start.max(page.first_row)..task.range.end.min(page.first_row + page.rows);
            if rows.is_empty() {
                break;
            }
            if let Some(entries) = chunk.dictionary.as_ref().filter(|_| page.encoding == Encoding::Dictionary)
                && !known
            {
                self.load(entries).map_err(|reason| wrong(entries, reason))?;
                let count = entries.rows as usize;
                if dictionary.capacity() < count {
                    *dictionary = Vec::new();
                    dictionary.reserve_exact(count);
                }
                dictionary.clear();
                dictionary.resize(count, T::default());
                let done = meaning.plain(&self.page[..entries.bytes as usize], 0, dictionary);
                done.ok_or_else(|| wrong(entries, "its dictionary ends too early".to_owned()))?;
                known = true;
            }
            self.load(page).map_err(|reason| wrong(page, reason))?;
            let place = (rows.start - task.range.start) as usize;
            let stage = &mut stage[place..place + rows.len()];
            let bytes = &self.page[..page.bytes as usize];
            let skip = (rows.start - page.first_row) as usize;
            let present = &mut self.present;
            let done = values(meaning, page, definition, bytes, dictionary, skip, stage, present, &mut |row| {
                if task.whole {
                    bad.add(place + row, count, || format!("column '{}' has no value", source.name(column)));
                }
            });
            done.map_err(|reason| wrong(page, reason))?;
        }
        if matches!(meaning.physical, Physical::Bytes | Physical::Fixed(_)) {
            for (row, value) in stage.iter_mut().enumerate().filter(|(_, value)| value.is_strange()) {
                *value = T::MISSING;
                bad.add(row, count, || {
                    format!("column '{}' has text that is none of its categories", source.name(column))
                });
            }
        }
        Ok(())
    }

    /// Reads a page and unpacks it.
    fn load(&mut self, page: &Page) -> Result<(), String> {
        let file = self.file.file();
        let levels = page.levels.map_or(0, |(repetition, definition)| (repetition + definition) as usize);
        let into = &mut self.page[..page.bytes as usize];
        let read = |bytes: &mut [u8]| {
            let failed = |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => "the file ends here: it was cut while it was read".to_owned(),
                _ => format!("cannot be read: {error}"),
            };
            file.read_exact_at(bytes, page.first_byte).map_err(failed)
        };
        if page.codec == Codec::None && page.packed_bytes == page.bytes {
            return read(into);
        }
        let packed = &mut self.packed[..page.packed_bytes as usize];
        read(packed)?;
        into[..levels].copy_from_slice(&packed[..levels]);
        // A second version's page without values is not packed at all.
        if levels == into.len() {
            return Ok(());
        }
        self.unpacker.unpack(page.codec, &packed[levels..], &mut into[levels..])
    }
}

const LEVELS: &str = "its levels end too early";

/// Values of a page from row `skip` on; `missing` is told each row of the stage that has none. `present` is memory that is used again
/// and again.
#[allow(clippy::too_many_arguments)]
fn values<T: Stage>(
    meaning: Meaning,
    page: &Page,
    max_definition: u8,
    bytes: &[u8],
    dictionary: &[T],
    skip: usize,
    stage: &mut [T],
    present: &mut Vec<bool>,
    missing: &mut dyn FnMut(usize),
) -> Result<(), String> {
    let (levels, bytes) = match page.levels {
        Some((repetition, definition)) => {
            let (_, rest) = bytes.split_at_checked(repetition as usize).ok_or(LEVELS)?;
            rest.split_at_checked(definition as usize).ok_or(LEVELS)?
        }
        None if max_definition == 0 => (&[][..], bytes),
        None => {
            let (length, rest) = bytes.split_first_chunk::<4>().ok_or(LEVELS)?;
            rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(LEVELS)?
        }
    };
    if max_definition == 0 {
        return meaning.decode(page.encoding, bytes, dictionary, skip, stage);
    }
    let there = u32::from(max_definition);
    let mut levels = Hybrid::new(levels, (u8::BITS - max_definition.leading_zeros()) as u8).ok_or(LEVELS)?;
    if levels.same().is_some_and(|(level, count)| level == there && count >= skip + stage.len()) {
        return meaning.decode(page.encoding, bytes, dictionary, skip, stage);
    }
    let before = count(&mut levels, there, skip)?;
    present.clear();
    let mut batch = [0; 1024];
    for part in stage.chunks(batch.len()) {
        let batch = &mut batch[..part.len()];
        levels.fill(batch).ok_or(LEVELS)?;
        present.extend(batch.iter().map(|level| *level == there));
    }
    // The values that are there come first, and are moved apart from the end on.
    let mut from = present.iter().filter(|there| **there).count();
    meaning.decode(page.encoding, bytes, dictionary, before, &mut stage[..from])?;
    for row in (0..stage.len()).rev() {
        if present[row] {
            from -= 1;
            stage[row] = stage[from];
        } else {
            stage[row] = T::MISSING;
            missing(row);
        }
    }
    Ok(())
}

/// How many of the next `rows` have a value.
fn count(levels: &mut Hybrid, there: u32, mut rows: usize) -> Result<usize, String> {
    let (mut found, mut batch) = (0, [0; 1024]);
    while rows > 0 {
        let now = match levels.same() {
            Some((level, count)) => {
                let now = count.min(rows);
                found += if level == there { now } else { 0 };
                levels.skip(now).ok_or(LEVELS)?;
                now
            }
            None => {
                let now = rows.min(batch.len());
                levels.fill(&mut batch[..now]).ok_or(LEVELS)?;
                found += batch[..now].iter().filter(|level| **level == there).count();
                now
            }
        };
        rows -= now;
    }
    Ok(found)
}

impl Reader for ParquetReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        let source = self.source.clone();
        let layout = self.layout.clone();
        let (group, range, first_row) = source.place(unit, &rows)?;
        self.file.open(&source.index.tables.files, source.index.groups[group].file)?;
        let count = range.len();
        fits(count, into)?;
        let mut bad = BadMarks::default();
        if count > 0 {
            for run in runs(&layout.slots, count, layout.fields.len()) {
                let field = run[0].field;
                let (dtype, first) = (layout.fields[field].dtype, run[0].first);
                let tasks = run.iter().map(|slot| Task { group, range: range.clone(), slot, whole: !dtype.is_float() });
                match dtype {
                    DType::F32 => {
                        let mut buffers = std::mem::take(&mut self.floats);
                        self.columns(&mut buffers, tasks, count, &mut bad)?;
                        let stride = layout.fields[field].elements();
                        turn(&buffers.stage[..count * run.len()], count, into.numbers_mut(field), first, stride);
                        self.floats = buffers;
                    }
                    dtype if dtype.is_float() => {
                        let mut buffers = std::mem::take(&mut self.doubles);
                        self.columns(&mut buffers, tasks, count, &mut bad)?;
                        put_doubles(into, field, first, &buffers.stage, count, run.len());
                        self.doubles = buffers;
                    }
                    _ => {
                        let mut buffers = std::mem::take(&mut self.wholes);
                        self.columns(&mut buffers, tasks, count, &mut bad)?;
                        for (slot, stage) in run.iter().zip(buffers.stage.chunks_exact(count)) {
                            put_wholes(into, slot, stage, source.physical(slot.column) == Physical::UInt64);
                        }
                        self.wholes = buffers;
                    }
                }
            }
        }
        bad.finish(self.bad_rows, source.group_path(group), first_row, count, into)
    }
}

/// How many columns a stage takes for so many rows.
fn stage_columns(rows: usize) -> usize {
    (STAGE_NUMBERS / rows.max(1)).clamp(1, STAGE_COLUMNS)
}

/// How many numbers a stage has at most, for pieces of at most so many rows of so many columns.
pub fn stage_numbers(rows: usize, columns: usize) -> usize {
    rows.saturating_mul(columns.min(STAGE_COLUMNS)).min(STAGE_NUMBERS.max(rows))
}

/// Slots in runs that a stage takes at once: of one field, with places that follow each other.
fn runs(slots: &[Slot], rows: usize, fields: usize) -> Vec<Vec<&Slot>> {
    let most = stage_columns(rows);
    let mut found: Vec<Vec<&Slot>> = Vec::new();
    for field in 0..fields {
        let mut mine: Vec<&Slot> = slots.iter().filter(|slot| slot.field == field).collect();
        mine.sort_by_key(|slot| slot.first);
        found.extend(mine.chunks(most).map(<[&Slot]>::to_vec));
    }
    found
}

/// Columns of `rows` numbers each into rows: from element `first` of every `stride` on.
fn turn(stage: &[f32], rows: usize, into: &mut [f32], first: usize, stride: usize) {
    let columns = stage.len() / rows;
    if columns == STAGE_COLUMNS {
        let column: [&[f32]; STAGE_COLUMNS] = std::array::from_fn(|at| &stage[at * rows..(at + 1) * rows]);
        for row in 0..rows {
            let place = row * stride + first;
            let line: &mut [f32; STAGE_COLUMNS] =
                (&mut into[place..place + STAGE_COLUMNS]).try_into().expect("as many as asked for");
            for (value, column) in line.iter_mut().zip(column) {
                *value = column[row];
            }
        }
        return;
    }
    for (at, column) in stage.chunks_exact(rows).enumerate() {
        for (value, into) in column.iter().zip(into[first + at..].iter_mut().step_by(stride)) {
            *into = *value;
        }
    }
}

fn put_doubles(into: &mut Rows, field: usize, first: usize, stage: &[f64], rows: usize, columns: usize) {
    let stride = into.layout().fields[field].elements();
    let dtype = into.layout().fields[field].dtype;
    for (at, column) in stage.chunks_exact(rows).take(columns).enumerate() {
        let first = first + at;
        if dtype == DType::F64 {
            let places = into.numbers_mut::<f64>(field)[first..].iter_mut().step_by(stride);
            column.iter().zip(places).for_each(|(value, into)| *into = *value);
        } else {
            let places = into.numbers_mut::<f16>(field)[first..].iter_mut().step_by(stride);
            column.iter().zip(places).for_each(|(value, into)| *into = f16::from_f64(*value));
        }
    }
}

/// Whole numbers, cut to the range of the field's type.
fn put_wholes(into: &mut Rows, slot: &Slot, stage: &[i64], unsigned: bool) {
    let field = slot.field;
    let stride = into.layout().fields[field].elements();
    macro_rules! put {
        ($type:ty, $value:expr) => {{
            let places = into.numbers_mut::<$type>(field)[slot.first..].iter_mut().step_by(stride);
            let value = $value;
            stage.iter().zip(places).for_each(|(from, into)| *into = value(*from));
        }};
    }
    // What of a large number without a sign looks negative is the largest there is.
    let signed = move |value: i64| if unsigned && value < 0 { i64::MAX } else { value };
    macro_rules! cut {
        ($type:ty) => {
            put!($type, |value: i64| signed(value).clamp(<$type>::MIN as i64, <$type>::MAX as i64) as $type)
        };
    }
    match into.layout().fields[field].dtype {
        DType::Bool => put!(u8, |value: i64| u8::from(value != 0)),
        DType::U8 => cut!(u8),
        DType::I8 => cut!(i8),
        DType::U16 => cut!(u16),
        DType::I16 => cut!(i16),
        DType::U32 => cut!(u32),
        DType::I32 => cut!(i32),
        DType::U64 if unsigned => put!(u64, |value: i64| value as u64),
        DType::U64 => put!(u64, |value: i64| value.max(0) as u64),
        _ => put!(i64, signed),
    }
}

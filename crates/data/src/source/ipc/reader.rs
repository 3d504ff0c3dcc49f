//! Rows of an Arrow file into memory that is given.
//!
//! In: a unit, a range of it. Out: rows. Columns are taken in groups: those that are compressed are unpacked, as many at once as the
//! memory for that takes; then a block of rows after the other is filled, with all columns of the group, so that a line of the cache
//! is written once and not once per column. What is not compressed is read from the file block by block, and only that.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::codec::{Codec, Unpacker};
use super::message::Buffer;
use super::schema::Leaf;
use super::values::{Fetch, Flag, PIECE, PIECE_BYTES, Place, Scratch, mask, piece_values, plain};
use super::{Ipc, Needs};
use crate::DataError;
use crate::layout::{DType, Layout, Rows, Slot, convert};
use crate::source::bad::BadMarks;
use crate::source::columnar::fits;
use crate::source::known::OpenFile;
use crate::source::{BadRows, ReadReport, Reader};

/// A block of rows stays in the cache while its columns are filled in.
const BLOCK_BYTES: usize = 512 << 10;
const LEAST_BLOCK_ROWS: usize = 256;

/// A reader of one thread.
pub struct IpcReader {
    source: Arc<Ipc>,
    layout: Arc<Layout>,
    bad_rows: BadRows,
    file: OpenFile,
    needs: Needs,
    /// Buffers as they are in the file, and unpacked; taken when the first compressed one is read.
    packed: Vec<u8>,
    memory: Vec<u8>,
    unpacker: Unpacker,
    /// Where the buffers of a group lie.
    places: Vec<Place>,
    scratch: Scratch,
    flags: Box<[Flag]>,
    turned: Box<[u8]>,
    /// For each slot.
    dictionaries: Vec<Entries>,
}

/// A dictionary, decoded.
#[derive(Default)]
struct Entries {
    part: Option<u32>,
    numbers: Vec<u8>,
    flags: Vec<Flag>,
}

/// What a reader holds besides its buffers and dictionaries.
pub const FIXED_BYTES: u64 = Scratch::BYTES + 17 * PIECE as u64;

impl IpcReader {
    pub fn new(source: Arc<Ipc>, layout: Arc<Layout>, bad_rows: BadRows, needs: Needs) -> IpcReader {
        let dictionaries = layout.slots.iter().map(|_| Entries::default()).collect();
        IpcReader {
            source,
            layout,
            bad_rows,
            file: OpenFile::default(),
            places: Vec::with_capacity(needs.places),
            needs,
            packed: Vec::new(),
            memory: Vec::new(),
            unpacker: Unpacker::default(),
            scratch: Scratch::new(),
            flags: vec![Flag::Sound; PIECE].into(),
            turned: vec![0; 16 * PIECE].into(),
            dictionaries,
        }
    }

    /// Puts the places of a column's buffers behind the others; compressed ones are unpacked from `used` on. Says where they end.
    fn load(&mut self, buffers: &[Buffer], mut used: usize) -> Result<usize, String> {
        let file = self.file.file();
        for buffer in buffers {
            if buffer.codec == Codec::None {
                self.places.push(Place::File { first: buffer.first, bytes: buffer.bytes });
                continue;
            }
            let (packed_bytes, bytes) = (buffer.packed as usize, buffer.bytes as usize);
            grow(&mut self.packed, self.needs.packed_bytes)?;
            grow(&mut self.memory, self.needs.memory_bytes)?;
            let packed = &mut self.packed[..packed_bytes];
            let failed = |error: std::io::Error| format!("cannot be read: {error}");
            file.read_exact_at(packed, buffer.first).map_err(failed)?;
            self.unpacker.unpack(buffer.codec, packed, &mut self.memory[used..used + bytes])?;
            self.places.push(Place::Memory { first: used, bytes });
            used += bytes;
        }
        Ok(used)
    }

    /// Decodes the dictionary of a slot, unless it is the one that is known.
    fn dictionary(&mut self, number: usize, slot: &Slot, part: u32) -> Result<(), DataError> {
        let mut known = std::mem::take(&mut self.dictionaries[number]);
        if known.part != Some(part) {
            known.part = None;
            self.entries(&mut known, slot, part)?;
            known.part = Some(part);
        }
        self.dictionaries[number] = known;
        Ok(())
    }

    fn entries(&mut self, into: &mut Entries, slot: &Slot, part: u32) -> Result<(), DataError> {
        let source = self.source.clone();
        let (_, values) = source.index.leaves[slot.column].dictionary.expect("it has one");
        let width = values.plain().bytes();
        let last = &source.index.dictionaries[part as usize];
        let wrong = |number: u32, reason: String| {
            let place =
                format!(", dictionary batch {number}, column '{}'", source.index.tables.columns[slot.column].name);
            DataError::corrupt(source.path(last.file), place, reason)
        };
        let all = last.entries as usize;
        into.numbers.clear();
        into.flags.clear();
        let room = all.checked_mul(width).is_some_and(|bytes| {
            into.numbers.try_reserve_exact(bytes).is_ok() && into.flags.try_reserve_exact(all).is_ok()
        });
        if !room {
            return Err(wrong(last.number, format!("has {all} entries, for which there is no memory")));
        }
        into.numbers.resize(all * width, 0);
        into.flags.resize(all, Flag::Sound);
        let mut next = Some(part);
        while let Some(part) = next {
            let part = &source.index.dictionaries[part as usize];
            let (count, end) = (part.batch.rows, part.entries);
            self.places.clear();
            self.load(part.batch.column(0), 0).map_err(|reason| wrong(part.number, reason))?;
            let file = self.file.file();
            let fetch = Fetch { file, memory: &self.memory };
            let mut first = 0;
            while first < count {
                let range = first..count.min(first + piece_values(values) as u64);
                let target = (end - count + first) as usize;
                let flags = &mut into.flags[target..target + (range.end - range.start) as usize];
                let done = decode(fetch, &self.places, &[1], range.clone(), values, slot, &mut self.scratch, flags);
                let (bytes, _) = done.map_err(|reason| wrong(part.number, reason))?;
                into.numbers[target * width..target * width + bytes.len()].copy_from_slice(bytes);
                first = range.end;
            }
            next = part.before;
        }
        Ok(())
    }

    /// A block of rows of one column. `batch_rows` are numbers within the batch, the first of which has the place `to`.
    fn column(
        &mut self,
        task: &Task,
        batch_rows: Range<u64>,
        to: usize,
        into: &mut Rows,
        bad: &mut BadMarks,
    ) -> Result<(), String> {
        let Task { leaf, slot, number, repeats, .. } = *task;
        let field = &self.layout.fields[slot.field];
        let (dtype, stride, elements) = (field.dtype, field.elements(), slot.elements as u64);
        let file = self.file.file();
        let fetch = Fetch { file, memory: &self.memory };
        let places = &self.places[task.places.clone()];
        let (mut first, end) = (batch_rows.start * elements, batch_rows.end * elements);
        let start = first;
        while first < end {
            let range = first..end.min(first + piece_values(leaf.values) as u64);
            let flags = &mut self.flags[..(range.end - range.start) as usize];
            flags.fill(Flag::Sound);
            let (bytes, mut any) =
                decode(fetch, places, repeats, range.clone(), leaf.values, slot, &mut self.scratch, flags)?;
            let (turned, looked) = self.turned.split_at_mut(8 * PIECE);
            let (bytes, from) = match leaf.dictionary {
                None => (bytes, leaf.values.plain()),
                Some((_, entries)) => {
                    let known = &self.dictionaries[number];
                    any |= look_up(bytes, leaf.values.plain(), known, entries.plain().bytes(), turned, looked, flags)?;
                    (&looked[..flags.len() * entries.plain().bytes()], entries.plain())
                }
            };
            let shape = Shape { first: slot.first, elements: slot.elements, stride };
            let value = to * slot.elements + (first - start) as usize;
            put(bytes, from, into.field_mut(slot.field), dtype, shape, value, turned);
            if any {
                for (flag, value) in flags.iter().zip(value..).filter(|(flag, _)| **flag != Flag::Sound) {
                    into.put_f64(slot.field, shape.place(value), if dtype.is_float() { f64::NAN } else { 0.0 });
                    if *flag == Flag::Missing && dtype.is_float() {
                        continue;
                    }
                    bad.add(value / slot.elements, task.rows, || {
                        let name = &leaf.name;
                        match flag {
                            Flag::Missing | Flag::Sound => format!("column '{name}' has no value"),
                            Flag::Strange => format!("column '{name}' has text that is none of its categories"),
                            Flag::TooLong => {
                                format!("column '{name}' has text of more than the {PIECE_BYTES} bytes that are read")
                            }
                        }
                    });
                }
            }
            first = range.end;
        }
        Ok(())
    }

    /// Tells the system what will be read of a group: each column in one piece, not block by block.
    fn announce(&self, task: &Task, rows: &Range<u64>, batch_rows: u64) {
        let file = self.file.file();
        for place in &self.places[task.places.clone()] {
            if let Place::File { first, bytes } = *place {
                let part = |row: u64| (u128::from(bytes) * u128::from(row) / u128::from(batch_rows.max(1))) as u64;
                // Nothing, as where no value is missing and there is no mask, would mean all up to the end of the file.
                let length = std::num::NonZeroU64::new(part(rows.end) - part(rows.start));
                if length.is_some() {
                    // Only a hint: whether it is taken does not matter.
                    let _ = rustix::fs::fadvise(file, first + part(rows.start), length, rustix::fs::Advice::WillNeed);
                }
            }
        }
    }
}

/// What one column of a read needs to know.
struct Task<'a> {
    leaf: &'a Leaf,
    slot: &'a Slot,
    /// Of the slot.
    number: usize,
    places: Range<usize>,
    /// Values per bit of each mask.
    repeats: &'a [u64],
    /// Of the whole read.
    rows: usize,
}

/// Where a column's values go within a field.
#[derive(Clone, Copy)]
struct Shape {
    first: usize,
    elements: usize,
    stride: usize,
}

impl Shape {
    fn place(self, value: usize) -> usize {
        value / self.elements * self.stride + self.first + value % self.elements
    }
}

fn grow(memory: &mut Vec<u8>, bytes: usize) -> Result<(), String> {
    if memory.len() < bytes {
        memory.try_reserve_exact(bytes).map_err(|_| format!("there is no memory for a buffer of {bytes} bytes"))?;
        memory.resize(bytes, 0);
    }
    Ok(())
}

/// Masks, then values. Says whether a flag was set.
#[allow(clippy::too_many_arguments)]
fn decode<'s>(
    fetch: Fetch<'s>,
    places: &[Place],
    repeats: &[u64],
    range: Range<u64>,
    values: super::schema::Values,
    slot: &Slot,
    scratch: &'s mut Scratch,
    flags: &mut [Flag],
) -> Result<(&'s [u8], bool), String> {
    let (masks, data) = places.split_at_checked(repeats.len()).ok_or("has too few buffers")?;
    let mut any = false;
    for (place, repeat) in masks.iter().zip(repeats) {
        if !matches!(place, Place::File { bytes: 0, .. }) {
            any |= mask(fetch, *place, *repeat, range.clone(), scratch, flags)?;
        }
    }
    let (bytes, more) = plain(fetch, values, &slot.conversion, data, range, scratch, flags)?;
    Ok((bytes, any || more))
}

/// Entries of a dictionary by their places; `wide` is memory for these.
fn look_up(
    bytes: &[u8],
    dtype: DType,
    known: &Entries,
    width: usize,
    wide: &mut [u8],
    into: &mut [u8],
    flags: &mut [Flag],
) -> Result<bool, String> {
    let wide = &mut wide[..flags.len() * 8];
    convert(bytes, dtype, false, wide, DType::I64);
    let mut any = false;
    for ((place, into), flag) in wide.as_chunks::<8>().0.iter().zip(into.chunks_exact_mut(width)).zip(flags) {
        if *flag != Flag::Sound {
            continue;
        }
        let place = i64::from_ne_bytes(*place);
        let found = usize::try_from(place).ok().and_then(|place| Some((place, *known.flags.get(place)?)));
        let (at, told) = found
            .ok_or_else(|| format!("a value is number {place} of its dictionary, which has {}", known.flags.len()))?;
        into.copy_from_slice(&known.numbers[at * width..(at + 1) * width]);
        if told != Flag::Sound {
            *flag = told;
            any = true;
        }
    }
    Ok(any)
}

/// Numbers to their places in a field, from value `value` of the read on.
fn put(from: &[u8], from_dtype: DType, to: &mut [u8], dtype: DType, shape: Shape, value: usize, turned: &mut [u8]) {
    let width = dtype.bytes();
    let count = from.len() / from_dtype.bytes();
    if shape.stride == shape.elements {
        convert(from, from_dtype, false, &mut to[value * width..(value + count) * width], dtype);
        return;
    }
    let same = from_dtype == dtype && dtype != DType::Bool;
    let numbers = if same {
        from
    } else {
        convert(from, from_dtype, false, &mut turned[..count * width], dtype);
        &turned[..count * width]
    };
    if shape.elements == 1 {
        let to = &mut to[shape.place(value) * width..];
        match width {
            1 => spread::<1>(numbers, to, shape.stride),
            2 => spread::<2>(numbers, to, shape.stride),
            4 => spread::<4>(numbers, to, shape.stride),
            _ => spread::<8>(numbers, to, shape.stride),
        }
        return;
    }
    let mut done = 0;
    while done < count {
        let now = (shape.elements - (value + done) % shape.elements).min(count - done);
        let place = shape.place(value + done) * width;
        to[place..place + now * width].copy_from_slice(&numbers[done * width..(done + now) * width]);
        done += now;
    }
}

/// Every `stride`-th number.
fn spread<const N: usize>(from: &[u8], to: &mut [u8], stride: usize) {
    let to = to.as_chunks_mut::<N>().0.iter_mut().step_by(stride);
    for (to, from) in to.zip(from.as_chunks::<N>().0) {
        *to = *from;
    }
}

impl Reader for IpcReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        let source = self.source.clone();
        let layout = self.layout.clone();
        let (found, range) = source.place(unit, &rows)?;
        self.file.open(&source.index.tables.files, found.file)?;
        let count = (range.end - range.start) as usize;
        fits(count, into)?;
        let wrong = |slot: &Slot, reason: String| {
            let place =
                format!(", record batch {}, column '{}'", found.number, source.index.tables.columns[slot.column].name);
            DataError::corrupt(source.path(found.file), place, reason)
        };
        for (number, slot) in layout.slots.iter().enumerate() {
            if let Some(part) = source.part(found, slot.column) {
                self.dictionary(number, slot, part)?;
            }
        }
        let mut bad = BadMarks::default();
        let block_rows = (BLOCK_BYTES / layout.row_bytes().max(1)).clamp(LEAST_BLOCK_ROWS, PIECE);
        let mut next = 0;
        while next < layout.slots.len() && count > 0 {
            let mut tasks = Vec::new();
            let mut used = 0;
            self.places.clear();
            while let Some(slot) = layout.slots.get(next) {
                let buffers = found.batch.column(slot.column);
                if !tasks.is_empty() && used + super::unpacked(buffers) > self.needs.memory_bytes {
                    break;
                }
                let first = self.places.len();
                used = self.load(buffers, used).map_err(|reason| wrong(slot, reason))?;
                let leaf = &source.index.leaves[slot.column];
                let repeats = &source.repeats[slot.column];
                let task = Task { leaf, slot, number: next, places: first..self.places.len(), repeats, rows: count };
                self.announce(&task, &range, found.batch.rows);
                tasks.push(task);
                next += 1;
            }
            let mut to = 0;
            while to < count {
                let now = block_rows.min(count - to);
                let first = range.start + to as u64;
                for task in &tasks {
                    let done = self.column(task, first..first + now as u64, to, into, &mut bad);
                    done.map_err(|reason| wrong(task.slot, reason))?;
                }
                to += now;
            }
        }
        let path = source.path(found.file);
        bad.finish(self.bad_rows, path, found.first_row + range.start, count, into)
    }
}

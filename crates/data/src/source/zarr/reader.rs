//! Rows of chunked arrays into memory.
//!
//! In: which rows. Out: their numbers in their fields. Chunk by chunk: the one unpacked last is kept for each array, since the next
//! rows often lie in it.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_core::bytes::human;

use super::codec::{self, Room, checked, most_packed};
use super::meta::Shard;
use super::{Array, Stores};
use crate::DataError;
use crate::layout::{Layout, Rows, Slot, convert};
use crate::source::{ReadReport, Reader};

/// A chunk that was unpacked.
#[derive(Default)]
struct Kept {
    /// The store, and the chunk's place along each axis.
    place: Option<(usize, Vec<u64>)>,
    bytes: Vec<u8>,
    /// Whether the bytes are those of the file: then they may be swapped.
    from_file: bool,
}

/// The index of a shard, as its file has it.
#[derive(Default)]
struct Index {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// One thread's reader.
pub(super) struct ZarrReader {
    stores: Arc<Stores>,
    layout: Arc<Layout>,
    /// For each slot of the layout.
    kept: Vec<Kept>,
    packed: Vec<u8>,
    /// The index of the shard that was read last.
    index: Index,
    room: Room,
}

impl ZarrReader {
    pub(super) fn new(stores: Arc<Stores>, layout: Arc<Layout>) -> ZarrReader {
        let kept = layout.slots.iter().map(|_| Kept::default()).collect();
        ZarrReader { stores, layout, kept, packed: Vec::new(), index: Index::default(), room: Room::default() }
    }

    /// Makes a chunk the one that is kept for a slot.
    fn load(&mut self, slot: usize, store: usize, array: &Array, chunk: &[u64]) -> Result<(), DataError> {
        let kept = &mut self.kept[slot];
        if kept.place.as_ref().is_some_and(|(in_store, place)| *in_store == store && place == chunk) {
            return Ok(());
        }
        kept.place = None;
        let meta = &array.meta;
        let per_file = |axis: usize| meta.shard.as_ref().map_or(1, |shard| shard.chunks[axis]);
        let path = chunk_path(array, chunk.iter().enumerate().map(|(axis, place)| place / per_file(axis)));
        let wrong = |reason: String| DataError::corrupt(&path, "", format!("this chunk cannot be read: {reason}"));
        let no_memory = |_| wrong(format!("the system gave no memory for its {}", human(array.chunk_bytes as u64)));
        kept.bytes.clear();
        kept.bytes.try_reserve_exact(array.chunk_bytes).map_err(no_memory)?;
        kept.bytes.resize(array.chunk_bytes, 0);
        let place = match open(&path)? {
            None => None,
            Some((file, bytes)) => match &meta.shard {
                None => Some((file, 0, bytes)),
                Some(shard) => {
                    in_shard(&path, &file, bytes, shard, chunk, &mut self.index)?.map(|(at, n)| (file, at, n))
                }
            },
        };
        kept.from_file = place.is_some();
        match place {
            None => {
                let size = meta.dtype.bytes();
                kept.bytes.chunks_exact_mut(size).for_each(|number| number.copy_from_slice(&meta.fill[..size]));
            }
            Some((file, at, bytes)) => {
                if bytes > most_packed(array.chunk_bytes) as u64 {
                    let text =
                        format!("it takes {}, but a chunk has {}", human(bytes), human(array.chunk_bytes as u64));
                    return Err(wrong(text));
                }
                let read = |into: &mut [u8]| file.read_exact_at(into, at).map_err(|error| DataError::io(&path, &error));
                if meta.codecs.is_empty() && bytes == array.chunk_bytes as u64 {
                    read(&mut kept.bytes)?;
                } else {
                    self.packed.clear();
                    self.packed.try_reserve_exact(bytes as usize).map_err(no_memory)?;
                    self.packed.resize(bytes as usize, 0);
                    read(&mut self.packed)?;
                    codec::decode(&self.packed, &meta.codecs, &mut kept.bytes, &mut self.room).map_err(wrong)?;
                }
            }
        }
        kept.place = Some((store, chunk.to_vec()));
        Ok(())
    }

    /// Rows of one array.
    fn read_array(&mut self, slot: usize, store: usize, rows: Range<u64>, into: &mut Rows) -> Result<(), DataError> {
        let stores = self.stores.clone();
        let target = self.layout.slots[slot].clone();
        let array = &stores.stores[store].arrays[target.column];
        let (shape, chunk) = (&array.meta.shape, &array.meta.chunk);
        let counts: Vec<u64> = shape.iter().zip(chunk).map(|(size, chunk)| size.div_ceil(*chunk)).collect();
        let mut place = vec![0; shape.len()];
        for first in rows.start / chunk[0]..rows.end.div_ceil(chunk[0]) {
            place[0] = first;
            let begin = rows.start.max(first * chunk[0]);
            let end = rows.end.min((first + 1) * chunk[0]);
            loop {
                self.load(slot, store, array, &place)?;
                let to = (begin - rows.start) as usize;
                copy(
                    array,
                    &self.kept[slot],
                    &place,
                    begin - first * chunk[0]..end - first * chunk[0],
                    &target,
                    to,
                    into,
                );
                if !step(&mut place[1..], &counts[1..]) {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Reader for ZarrReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        let (store, first) = self.stores.place_of_unit(unit);
        for slot in 0..self.layout.slots.len() {
            self.read_array(slot, store, first + rows.start..first + rows.end, into)?;
        }
        into.set_len((rows.end - rows.start) as usize);
        Ok(ReadReport::default())
    }
}

/// The next of all places, the last axis first; false, and all are 0 again, after the last.
fn step(place: &mut [u64], counts: &[u64]) -> bool {
    for (place, count) in place.iter_mut().zip(counts).rev() {
        *place += 1;
        if *place < *count {
            return true;
        }
        *place = 0;
    }
    false
}

/// Rows of a chunk (numbers within it) to their places.
fn copy(array: &Array, kept: &Kept, place: &[u64], rows: Range<u64>, slot: &Slot, to: usize, into: &mut Rows) {
    let meta = &array.meta;
    let swapped = meta.swapped && kept.from_file;
    let field = &into.layout().fields[slot.field];
    let (dtype, size, elements) = (field.dtype, meta.dtype.bytes(), field.elements());
    let (shape, chunk) = (&meta.shape[1..], &meta.chunk[1..]);
    let chunk_row: u64 = chunk.iter().product();
    let (width, first) = (dtype.bytes(), slot.first);
    let whole = shape == chunk;
    if whole && slot.elements == elements {
        let from = &kept.bytes[(rows.start * chunk_row) as usize * size..(rows.end * chunk_row) as usize * size];
        let count = (rows.end - rows.start) as usize * elements;
        let place = &mut into.field_mut(slot.field)[to * elements * width..(to * elements + count) * width];
        return convert(from, meta.dtype, swapped, place, dtype);
    }
    // Behind this axis a chunk has all of the array: there numbers lie together in both.
    let axis = (0..shape.len()).rev().find(|axis| shape[*axis] != chunk[*axis]).unwrap_or(0);
    let inner: u64 = shape.get(axis + 1..).map_or(1, |sizes| sizes.iter().product());
    let extent: Vec<u64> =
        (0..shape.len()).map(|axis| chunk[axis].min(shape[axis] - place[axis + 1] * chunk[axis])).collect();
    let run = extent.get(axis).map_or(1, |extent| extent * inner) as usize;
    let field_bytes = into.field_mut(slot.field);
    for row in rows.clone() {
        let to = to + (row - rows.start) as usize;
        let mut at = vec![0; axis.min(shape.len())];
        loop {
            let (mut from, mut target) = (row, 0);
            for (number, size) in shape.iter().enumerate() {
                let within = at.get(number).copied().unwrap_or(0);
                from = from * chunk[number] + within;
                target = target * size + place[number + 1] * chunk[number] + within;
            }
            let bytes = &kept.bytes[from as usize * size..(from as usize + run) * size];
            let target = to * elements + first + target as usize;
            convert(bytes, meta.dtype, swapped, &mut field_bytes[target * width..(target + run) * width], dtype);
            if !step(&mut at, &extent[..axis.min(shape.len())]) {
                break;
            }
        }
    }
}

fn chunk_path(array: &Array, places: impl Iterator<Item = u64>) -> PathBuf {
    let mut name = array.meta.prefix.to_owned();
    for place in places {
        if !name.is_empty() {
            name.push(array.meta.separator);
        }
        name.push_str(&place.to_string());
    }
    array.folder.join(name)
}

/// A plain file and its bytes; none where there is none.
fn open(path: &Path) -> Result<Option<(File, u64)>, DataError> {
    let io = |error: std::io::Error| DataError::io(path, &error);
    match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(io(error)),
        Ok(found) if !found.is_file() => return Err(DataError::corrupt(path, "", "a chunk must be a plain file")),
        Ok(_) => {}
    }
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    Ok(Some((file, bytes)))
}

/// Where a chunk lies in a shard, and its bytes; none where it is not there.
fn in_shard(
    path: &Path,
    file: &File,
    bytes: u64,
    shard: &Shard,
    chunk: &[u64],
    index: &mut Index,
) -> Result<Option<(u64, u64)>, DataError> {
    let wrong =
        |reason: String| DataError::corrupt(path, "", format!("the index of this shard cannot be read: {reason}"));
    let length = shard.chunks.iter().product::<u64>() * 16 + if shard.index_checksum { 4 } else { 0 };
    if length > bytes {
        return Err(wrong(format!("it would take {length} bytes, but the file has {bytes}")));
    }
    if index.path != path {
        index.path = PathBuf::new();
        index.bytes.resize(length as usize, 0);
        let at = if shard.index_at_end { bytes - length } else { 0 };
        file.read_exact_at(&mut index.bytes, at).map_err(|error| DataError::io(path, &error))?;
        if shard.index_checksum {
            checked(&index.bytes).map_err(wrong)?;
        }
        path.clone_into(&mut index.path);
    }
    let entries = &index.bytes;
    let number = chunk.iter().zip(&shard.chunks).fold(0, |sum, (place, count)| sum * count + place % count);
    let word = |at: usize| u64::from_le_bytes(entries[at..at + 8].try_into().expect("eight bytes"));
    let (first, count) = (word(number as usize * 16), word(number as usize * 16 + 8));
    if (first, count) == (u64::MAX, u64::MAX) {
        return Ok(None);
    }
    match first.checked_add(count) {
        Some(end) if end <= bytes => Ok(Some((first, count))),
        _ => Err(wrong(format!("it places a chunk of {count} bytes at {first}, beyond the end at {bytes}"))),
    }
}

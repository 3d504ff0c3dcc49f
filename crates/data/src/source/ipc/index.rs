//! Everything that is known about Arrow files before a row is read.
//!
//! In: paths. Out: columns, record batches with the places of their buffers, dictionaries, units. A file has its places at the end; a
//! stream is walked from message to message. All files must have the same columns, in the same order.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::flat::Table;
use super::message::{self, BATCH, Batch, DICTIONARY, SCHEMA};
use super::schema::{Leaf, Schema, Values};
use crate::DataError;
use crate::layout::{Column, Kind};
use crate::source::Stop;
use crate::source::columnar::{Tables, Unit, same_columns};
use crate::source::known::KnownFile;

/// Decoded bytes of a unit: any piece of a batch can be read by itself, unless it is compressed.
const UNIT_BYTES: u64 = 4 << 20;
/// A compressed batch is unpacked for every unit: only those of more bytes are cut, and only into a few.
const PACKED_UNIT_BYTES: u64 = 16 << 20;
const MOST_PACKED_UNITS: u64 = 4;
/// Compressed batches of more bytes are told.
const LARGE_BATCH_BYTES: u64 = 256 << 20;
/// Buffers that are kept of all files: 32 bytes each.
const MOST_BUFFERS: usize = 1 << 21;
const MOST_FOOTER_BYTES: u64 = 128 << 20;
const MAGIC: &[u8] = b"ARROW1";

/// What is known about files.
pub struct Index {
    pub(in crate::source) tables: Tables,
    pub leaves: Vec<Leaf>,
    pub batches: Vec<BatchIndex>,
    pub dictionaries: Vec<Dictionary>,
    large_batch: Option<(usize, u64)>,
    buffers_left: usize,
}

/// A record batch.
pub struct BatchIndex {
    pub file: u32,
    pub number: u32,
    /// The number of its first row in the file.
    pub first_row: u64,
    pub batch: Batch,
    /// For each column with a dictionary, the last part of it.
    pub dictionaries: Box<[u32]>,
}

/// Entries of a dictionary; further ones are added to those of the part before.
pub struct Dictionary {
    pub file: u32,
    pub number: u32,
    pub batch: Batch,
    pub before: Option<u32>,
    /// With those before.
    pub entries: u64,
}

/// What is going on with the file that is looked at.
struct Walk<'a> {
    path: &'a Path,
    file: &'a File,
    size: u64,
    schema: Schema,
    /// The newest part of each dictionary, by its number in the file.
    newest: BTreeMap<i64, u32>,
    /// Dictionaries that are read, with what their entries are.
    entries: BTreeMap<i64, Values>,
    first_row: u64,
    batches: u32,
    parts: u32,
}

impl Index {
    pub fn new(paths: &[PathBuf], stop: &Stop) -> Result<Index, DataError> {
        let mut index = Index {
            tables: Tables::default(),
            leaves: Vec::new(),
            batches: Vec::new(),
            dictionaries: Vec::new(),
            large_batch: None,
            buffers_left: MOST_BUFFERS,
        };
        for path in paths {
            stop.check()?;
            let (known, file) = KnownFile::open(path, "*.arrow")?;
            index.take(path, &file, known.mark.bytes, &paths[0])?;
            index.tables.files.push(known);
        }
        index.tables.has_columns(&paths[0])?;
        index.make_units();
        Ok(index)
    }

    fn take(&mut self, path: &Path, file: &File, size: u64, first_path: &Path) -> Result<(), DataError> {
        let wrong = |reason: &str| DataError::corrupt(path, "", reason);
        let mut start = [0; 8];
        if size < 8 {
            return Err(wrong(&format!("{size} bytes are too few for an Arrow file: it is cut or was never finished")));
        }
        file.read_exact_at(&mut start, 0).map_err(|error| DataError::io(path, &error))?;
        if start.starts_with(b"FEA1") {
            return Err(wrong("is of the first version of Feather: write it again with the second"));
        }
        let mut walk = Walk {
            path,
            file,
            size,
            schema: Schema::default(),
            newest: BTreeMap::new(),
            entries: BTreeMap::new(),
            first_row: 0,
            batches: 0,
            parts: 0,
        };
        match start.starts_with(MAGIC) {
            true => self.take_file(&mut walk, first_path),
            false => self.take_stream(&mut walk, first_path),
        }
    }

    fn take_file(&mut self, walk: &mut Walk, first_path: &Path) -> Result<(), DataError> {
        let (path, file, size) = (walk.path, walk.file, walk.size);
        let wrong = |reason: &str| DataError::corrupt(path, "", reason);
        let io = |error: std::io::Error| DataError::io(path, &error);
        let mut tail = [0; 10];
        if size >= 18 {
            file.read_exact_at(&mut tail, size - 10).map_err(io)?;
        }
        if !tail.ends_with(MAGIC) {
            return Err(wrong("does not end as an Arrow file does: it is cut or was never finished"));
        }
        let length = u64::from(u32::from_le_bytes(tail[..4].try_into().expect("four bytes")));
        if length > size - 18 {
            return Err(wrong(&format!("its footer would have {length} bytes, the file has {size}")));
        }
        if length > MOST_FOOTER_BYTES {
            let reason = format!("a footer of {length} bytes is more than is read here: write larger record batches");
            return Err(wrong(&reason));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, size - 10 - length).map_err(io)?;
        let sense = || wrong("its footer makes no sense: the file is damaged");
        let footer = Table::root(&bytes).ok_or_else(sense)?;
        let parts = || Some((footer.table(1)??, footer.i16(0, 0)? < 4, footer.list(2, 24)?, footer.list(3, 24)?));
        let (schema, old, dictionaries, batches) = parts().ok_or_else(sense)?;
        walk.schema = Schema::new(schema, old).ok_or_else(sense)?;
        self.take_schema(walk, first_path)?;
        let mut memory = Vec::new();
        for (wanted, blocks) in [(DICTIONARY, dictionaries), (BATCH, batches)] {
            for block in blocks.as_chunks::<24>().0 {
                let at = u64::from_le_bytes(*block.first_chunk().expect("eight bytes"));
                let place = || format!(", message at byte {at}");
                let found = message::read(file, at.min(size), size, &mut memory);
                let found = found.map_err(|reason| DataError::corrupt(path, place(), reason))?;
                let Some(found) = found.filter(|found| found.kind == wanted) else {
                    return Err(DataError::corrupt(path, place(), "is not what the footer says: the file is damaged"));
                };
                if wanted == BATCH { self.take_batch(walk, &found)? } else { self.take_dictionary(walk, &found, true)? }
            }
        }
        Ok(())
    }

    fn take_stream(&mut self, walk: &mut Walk, first_path: &Path) -> Result<(), DataError> {
        let (mut at, mut memory, mut first) = (0, Vec::new(), true);
        loop {
            let place = || format!(", message at byte {at}");
            let found = message::read(walk.file, at, walk.size, &mut memory);
            let found = match found {
                // Whatever it is, it does not begin as a stream does.
                Err(_) if first => None,
                found => found.map_err(|reason| DataError::corrupt(walk.path, place(), reason))?,
            };
            if first && found.as_ref().is_none_or(|found| found.kind != SCHEMA) {
                let reason = "does not begin as an Arrow file or stream does: it is damaged or another format";
                return Err(DataError::corrupt(walk.path, "", reason));
            }
            let Some(found) = found else { return Ok(()) };
            match found.kind {
                SCHEMA if first => {
                    let schema = Schema::new(found.header, found.old);
                    walk.schema = schema.ok_or_else(|| {
                        DataError::corrupt(walk.path, "", "its schema makes no sense: the file is damaged")
                    })?;
                    self.take_schema(walk, first_path)?;
                }
                SCHEMA => return Err(DataError::corrupt(walk.path, place(), "is a second schema")),
                DICTIONARY => self.take_dictionary(walk, &found, false)?,
                BATCH => self.take_batch(walk, &found)?,
                _ => {}
            }
            first = false;
            at = found.body.end;
        }
    }

    fn take_schema(&mut self, walk: &mut Walk, first_path: &Path) -> Result<(), DataError> {
        let wrong = |reason: String| DataError::corrupt(walk.path, "", reason);
        if walk.schema.big_endian {
            return Err(wrong("has its numbers with the highest byte first, which is not read here".to_owned()));
        }
        for leaf in &walk.schema.leaves {
            if let Some((id, values)) = leaf.dictionary
                && walk.entries.insert(id, values).is_some_and(|other| other != values)
            {
                return Err(wrong(format!("column '{}' has a dictionary that is used for another type", leaf.name)));
            }
        }
        if self.tables.files.is_empty() {
            let leaves = walk.schema.leaves.iter();
            self.tables.columns = leaves
                .map(|leaf| Column { name: leaf.name.clone(), kind: leaf.kind, shape: leaf.shape.clone() })
                .collect();
            self.leaves.clone_from(&walk.schema.leaves);
            self.tables.left_out = std::mem::take(&mut walk.schema.left_out);
            return Ok(());
        }
        let (mine, first) = ((walk.path, &*walk.schema.leaves), (first_path, &*self.leaves));
        same_columns(mine, first, |leaf| &leaf.name, Leaf::like)
    }

    fn take_batch(&mut self, walk: &mut Walk, found: &message::Message) -> Result<(), DataError> {
        let number = walk.batches;
        let wrong = |reason: String| DataError::corrupt(walk.path, format!(", record batch {number}"), reason);
        let Schema { nodes, leaves, .. } = &walk.schema;
        let batch = message::batch(found.header, &found.body, nodes, leaves, walk.file, &mut self.buffers_left);
        let batch = batch.map_err(wrong)?;
        walk.batches += 1;
        if batch.rows == 0 {
            return Ok(());
        }
        let mut dictionaries = Vec::new();
        for leaf in leaves {
            let Some((id, _)) = leaf.dictionary else { continue };
            let newest = walk.newest.get(&id).copied();
            dictionaries.push(newest.ok_or_else(|| wrong(format!("column '{}' has no dictionary", leaf.name)))?);
        }
        let first_row = walk.first_row;
        walk.first_row = first_row.checked_add(batch.rows).ok_or_else(|| wrong("has too many rows".to_owned()))?;
        let file = self.tables.files.len() as u32;
        self.batches.push(BatchIndex { file, number, first_row, batch, dictionaries: dictionaries.into() });
        Ok(())
    }

    fn take_dictionary(&mut self, walk: &mut Walk, found: &message::Message, once: bool) -> Result<(), DataError> {
        let number = walk.parts;
        walk.parts += 1;
        let wrong = |reason: &str| DataError::corrupt(walk.path, format!(", dictionary batch {number}"), reason);
        let parts = || Some((found.header.i64(0)?, found.header.table(1)??, found.header.u8(2)? != 0));
        let (id, table, more) = parts().ok_or_else(|| wrong("makes no sense: the file is damaged"))?;
        let Some(values) = walk.entries.get(&id) else { return Ok(()) };
        let schema = Schema::entries(*values);
        let left = &mut self.buffers_left;
        let batch = message::batch(table, &found.body, &schema.nodes, &schema.leaves, walk.file, left);
        let batch = batch.map_err(|reason| wrong(&reason))?;
        let newest = walk.newest.get(&id).copied();
        if once && !more && newest.is_some() {
            return Err(wrong("replaces another one, which a file cannot"));
        }
        let before = newest.filter(|_| more);
        let entries = before.map_or(0, |before| self.dictionaries[before as usize].entries).checked_add(batch.rows);
        let entries = entries.ok_or_else(|| wrong("has too many entries"))?;
        walk.newest.insert(id, self.dictionaries.len() as u32);
        let file = self.tables.files.len() as u32;
        self.dictionaries.push(Dictionary { file, number, batch, before, entries });
        Ok(())
    }

    fn make_units(&mut self) {
        let numbers = self.leaves.iter().filter(|leaf| matches!(leaf.kind, Kind::Number(_))).map(Leaf::elements);
        let row_bytes = numbers.fold(0, u64::saturating_add).saturating_mul(4).max(4);
        for (batch, found) in self.batches.iter().enumerate() {
            let rows = found.batch.rows;
            let bytes = rows.saturating_mul(row_bytes);
            let pieces = if found.batch.is_packed() {
                if bytes > LARGE_BATCH_BYTES && self.large_batch.is_none_or(|(_, most)| bytes > most) {
                    self.large_batch = Some((batch, bytes));
                }
                bytes.div_ceil(PACKED_UNIT_BYTES).min(MOST_PACKED_UNITS)
            } else {
                bytes.div_ceil(UNIT_BYTES)
            };
            self.tables.add_units(batch, rows, rows.div_ceil(pieces.clamp(1, rows)));
        }
        self.tables.units.shrink_to_fit();
    }

    /// What the caller should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.tables.note_of_left_out().into_iter().collect();
        if let Some((batch, bytes)) = self.large_batch {
            let BatchIndex { file, number, batch, .. } = &self.batches[batch];
            notes.push(format!(
                "record batch {number} of {} is compressed as a whole, {} rows with {}, and is unpacked again for every \
                 piece of it: written in batches of 65,536 rows it would be read much faster",
                self.tables.files[*file as usize].path.display(),
                batch.rows,
                brimful_core::bytes::human(bytes)
            ));
        }
        notes
    }

    /// What all of this takes.
    pub fn bytes(&self) -> u64 {
        let batches: usize = self
            .batches
            .iter()
            .map(|found| found.batch.index_bytes() + size_of::<BatchIndex>() + found.dictionaries.len() * 4)
            .sum();
        let dictionaries: usize =
            self.dictionaries.iter().map(|found| found.batch.index_bytes() + size_of::<Dictionary>()).sum();
        let leaf = |leaf: &Leaf| 2 * leaf.name.len() + 16 * leaf.masks.len() + 16 * leaf.shape.len() + 192;
        let columns: usize = self.leaves.iter().map(leaf).sum();
        let files: usize = self.tables.files.iter().map(|file| file.path.as_os_str().len() + 64).sum();
        (2 * batches + 2 * dictionaries + columns + files + self.tables.units.capacity() * size_of::<Unit>()) as u64
    }
}

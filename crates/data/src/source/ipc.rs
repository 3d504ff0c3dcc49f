//! Arrow's own files: Feather of the second version, and streams.
//!
//! In: files with the same columns. Out: columns of numbers and text, units, rows. Read: all numbers, booleans, decimal numbers (as
//! `float64`), dates and times (as the whole numbers that the file has), text of every layout, dictionaries, lists of a fixed length
//! (as a shape), values inside structures (called `a.b`); buffers as they are or packed with LZ4 or Zstandard. Others are left out (see
//! `notes`).
//!
//! Decoding is our own, as for Parquet and for the same reasons: a damaged file must not end the process, and what a reader holds
//! must be known to the byte. What is not compressed is read in pieces, straight into rows: the reader's memory does not depend on the
//! file then.
//!
//! # Units
//!
//! A unit is a part of a record batch of 4 MiB as `float32`. A compressed batch is unpacked as a whole for every unit, so that it is one
//! unit up to 16 MiB, and never more than four; written with 65,536 rows per batch, as pyarrow's Feather does, files are read well.

mod codec;
mod flat;
mod index;
mod message;
mod reader;
mod schema;
mod values;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_core::bytes::human;

use self::codec::{Codec, ZSTD_BYTES};
use self::index::{BatchIndex, Index};
use self::message::{Batch, Buffer};
use self::reader::{FIXED_BYTES, IpcReader};
use self::values::Place;
use super::bad::BadMarks;
use super::columnar::{Columnar, Shared, Tables};
use super::{BadRows, Format, OpenOptions, Reader, Source};
use crate::DataError;
use crate::layout::Layout;

/// How Arrow files are opened.
pub const FORMAT: Format = Format { name: "arrow", extensions: &["arrow", "feather", "ipc", "arrows"], open };

fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let index = Index::new(paths, &options.stop)?;
    let repeats = index.leaves.iter().map(|leaf| leaf.masks.iter().map(|(_, repeat)| *repeat).collect()).collect();
    let mut count = 0..;
    let dictionary_of = index.leaves.iter().map(|leaf| leaf.dictionary.and_then(|_| count.next())).collect();
    Ok(Arc::new(Shared(Arc::new(Ipc { index, repeats, dictionary_of }))))
}

/// Columns are unpacked together up to this.
const GROUP_BYTES: u64 = 4 << 20;

/// Files, and where everything lies in them.
struct Ipc {
    index: Index,
    /// Values per bit of each column's masks.
    repeats: Vec<Box<[u64]>>,
    /// Where a column's dictionary stands in a batch.
    dictionary_of: Vec<Option<usize>>,
}

/// What a reader of a layout needs.
#[derive(Clone, Debug, Default)]
struct Needs {
    packed_bytes: usize,
    memory_bytes: usize,
    places: usize,
    all_bytes: u64,
    reason: String,
}

/// Bytes of those buffers that are unpacked.
fn unpacked(buffers: &[Buffer]) -> usize {
    let packed = buffers.iter().filter(|buffer| buffer.codec != Codec::None);
    packed.fold(0, |sum, buffer| usize::try_from(buffer.bytes).map_or(usize::MAX, |bytes| bytes.saturating_add(sum)))
}

impl Ipc {
    /// The batch, and the rows in it.
    fn place(&self, unit: usize, rows: &Range<u64>) -> Result<(&BatchIndex, Range<u64>), DataError> {
        let (batch, range) = self.index.tables.place(unit, rows)?;
        Ok((&self.index.batches[batch], range))
    }

    /// The path of a file, by its number.
    fn path(&self, file: u32) -> &Path {
        &self.index.tables.files[file as usize].path
    }

    /// The last part of a column's dictionary in a batch.
    fn part(&self, found: &BatchIndex, column: usize) -> Option<u32> {
        self.dictionary_of[column].map(|at| found.dictionaries[at])
    }

    fn needs(&self, layout: &Layout) -> Needs {
        let mut needs = Needs { reason: "pieces of columns, 256 KiB each".to_owned(), ..Needs::default() };
        let mut zstd = false;
        let mut look =
            |needs: &mut Needs, batch: &Batch, columns: &mut dyn Iterator<Item = usize>, place: &dyn Fn() -> String| {
                let (mut all, mut largest, mut places) = (0usize, (0, 0), 0);
                for column in columns {
                    let buffers = batch.column(column);
                    for buffer in buffers.iter().filter(|buffer| buffer.codec != Codec::None) {
                        needs.packed_bytes =
                            needs.packed_bytes.max(usize::try_from(buffer.packed).unwrap_or(usize::MAX));
                        zstd |= buffer.codec == Codec::Zstd;
                    }
                    let bytes = unpacked(buffers);
                    all = all.saturating_add(bytes);
                    places += buffers.len();
                    if bytes > largest.0 {
                        largest = (bytes, column);
                    }
                }
                let bytes = all.min(GROUP_BYTES as usize).max(largest.0);
                needs.places = needs.places.max(places);
                if bytes > needs.memory_bytes {
                    needs.memory_bytes = bytes;
                    let size = human(largest.0 as u64);
                    needs.reason = format!("{}: a column of {size} that is unpacked as a whole", place());
                }
            };
        let mut entries = vec![0u64; layout.slots.len()];
        for found in &self.index.batches {
            let place = || format!("record batch {} of {}", found.number, self.path(found.file).display());
            look(&mut needs, &found.batch, &mut layout.slots.iter().map(|slot| slot.column), &place);
            for (slot, most) in layout.slots.iter().zip(&mut entries) {
                let Some(part) = self.part(found, slot.column) else { continue };
                *most = (*most).max(self.index.dictionaries[part as usize].entries);
            }
        }
        for found in &self.index.dictionaries {
            let place = || format!("dictionary batch {} of {}", found.number, self.path(found.file).display());
            look(&mut needs, &found.batch, &mut std::iter::once(0), &place);
        }
        needs.all_bytes = [
            needs.packed_bytes as u64,
            needs.memory_bytes as u64,
            (needs.places * size_of::<Place>()) as u64,
            // Eight bytes and a flag each.
            entries.iter().fold(0u64, |sum, count| sum.saturating_add(*count)).saturating_mul(9),
            if zstd { ZSTD_BYTES } else { 0 },
            BadMarks::bytes(self.index.tables.most_unit_rows),
            FIXED_BYTES,
            (layout.slots.len() * 256) as u64,
            16 << 10,
        ]
        .into_iter()
        .fold(0, u64::saturating_add);
        needs
    }
}

impl Columnar for Ipc {
    const FORMAT: &'static str = "arrow";

    fn tables(&self) -> &Tables {
        &self.index.tables
    }

    fn notes(&self) -> Vec<String> {
        self.index.notes()
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
        Box::new(IpcReader::new(self, layout, bad_rows, needs))
    }
}

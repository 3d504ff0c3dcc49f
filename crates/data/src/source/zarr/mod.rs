//! Zarr arrays and groups, versions 2 and 3, in folders.
//!
//! In: folders with the same arrays, all arrays of one folder with the same number of rows. Out: one column per array (`x` where the
//! folder is itself an array). A unit is one or more rows of chunks along the first axis. Chunks that are not there hold the fill
//! value. Read by hand: the `zarrs` crate needs a newer compiler than the rest of this workspace and 78 crates more. Not read: columns
//! first, records, filters, archives and the net.

mod blosc;
mod codec;
mod meta;
mod reader;

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use brimful_core::bytes::human;
use serde::Deserialize;

use self::codec::Codec;
use self::meta::Meta;
use self::reader::ZarrReader;
use super::known::Fingerprint;
use super::{BadRows, Format, OpenOptions, Reader, Source};
use crate::DataError;
use crate::layout::{Column, Kind, Layout};

/// `.zarr`.
pub const FORMAT: Format = Format { name: "zarr", extensions: &["zarr"], open };

/// The most that an array's description may have.
const MOST_META_BYTES: u64 = 1 << 20;
/// The most that a group's may have: it may repeat those of all its arrays.
const MOST_GROUP_BYTES: u64 = 64 << 20;
/// The most that the index of a shard may have.
const MOST_INDEX_BYTES: u64 = 16 << 20;
/// Small chunks are read several at a time.
const UNIT_BYTES: u64 = 256 << 10;
/// With more units their order would itself take memory.
const MOST_UNITS: u64 = 1 << 16;
/// What the unpackers of gzip and Zstandard hold.
const UNPACKER_BYTES: u64 = 256 << 10;
/// Files whose bytes are counted.
const MOST_COUNTED: usize = 100_000;

/// One array.
struct Array {
    name: String,
    folder: PathBuf,
    meta: Meta,
    chunk_bytes: usize,
}

/// The arrays of one folder.
struct Store {
    arrays: Vec<Array>,
    rows: u64,
    unit_rows: u64,
    first_unit: usize,
}

struct Stores {
    columns: Vec<Column>,
    stores: Vec<Store>,
    units: usize,
    file_bytes: u64,
    fingerprint: u64,
}

struct ZarrSource(Arc<Stores>);

fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let mut print = Fingerprint::default();
    let mut stores: Vec<Store> = Vec::new();
    let mut columns: Vec<Column> = Vec::new();
    let (mut units, mut file_bytes, mut counted) = (0, 0, 0);
    for path in paths {
        options.stop.check()?;
        let arrays = arrays(path, options, &mut print)?;
        let rows = arrays[0].meta.shape[0];
        for array in &arrays {
            let wrong = |reason: String| DataError::corrupt(&array.folder, "", reason);
            if array.meta.shape[0] != rows {
                let (mine, first) = (array.meta.shape[0], &arrays[0].name);
                return Err(wrong(format!(
                    "it has {mine} rows, but '{first}' has {rows}: choose arrays of one length (keys=)"
                )));
            }
            file_bytes += folder_bytes(&array.folder, &mut counted);
        }
        let here: Vec<Column> = arrays.iter().map(column).collect();
        if stores.is_empty() {
            columns.clone_from(&here);
        } else if here != columns {
            let reason =
                "its arrays differ from the first folder's in name, type or shape: files given together must agree";
            return Err(DataError::corrupt(path, "", reason));
        }
        let chunk_rows = arrays.iter().map(|array| array.meta.chunk[0]).max().unwrap_or(1).min(rows.max(1));
        let row_bytes: u64 = here.iter().map(row_bytes).fold(0, u64::saturating_add);
        let wanted = (UNIT_BYTES / row_bytes.max(1)).max(rows / MOST_UNITS);
        let unit_rows = chunk_rows.saturating_mul((wanted / chunk_rows).max(1));
        stores.push(Store { arrays, rows, unit_rows, first_unit: units });
        units += rows.div_ceil(unit_rows) as usize;
    }
    let all = stores.iter().try_fold(0u64, |sum, store| sum.checked_add(store.rows));
    all.ok_or_else(|| DataError::Request("the arrays together claim too many rows".to_owned()))?;
    let fingerprint = print.0;
    Ok(Arc::new(ZarrSource(Arc::new(Stores { columns, stores, units, file_bytes, fingerprint }))))
}

fn column(array: &Array) -> Column {
    let shape = array.meta.shape[1..].iter().map(|size| *size as usize).collect();
    Column { name: array.name.clone(), kind: Kind::Number(array.meta.dtype), shape }
}

fn row_bytes(column: &Column) -> u64 {
    let Kind::Number(dtype) = column.kind else { return 0 };
    column.shape.iter().fold(dtype.bytes() as u64, |product, size| product.saturating_mul(*size as u64))
}

/// The arrays of a folder that were asked for; at least one.
fn arrays(path: &Path, options: &OpenOptions, print: &mut Fingerprint) -> Result<Vec<Array>, DataError> {
    if let Some(array) = array(path, "x", print)? {
        return Ok(vec![array]);
    }
    let names = if options.keys.is_empty() { children(path)? } else { options.keys.clone() };
    let mut found = Vec::new();
    for name in names {
        let outside = !Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
        let inside = if outside { None } else { array(&path.join(&name), &name, print)? };
        match inside {
            Some(array) => found.push(array),
            None if options.keys.is_empty() => {}
            None => {
                let there = children(path)?.join(", ");
                return Err(DataError::corrupt(path, "", format!("there is no array '{name}'; there are {there}")));
            }
        }
    }
    if found.is_empty() {
        return Err(DataError::corrupt(path, "", "there is no Zarr array in this folder (.zarray or zarr.json)"));
    }
    Ok(found)
}

/// The folders in a folder, sorted.
fn children(path: &Path) -> Result<Vec<String>, DataError> {
    let io = |error: std::io::Error| DataError::io(path, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        if let (true, Ok(name)) = (entry.path().is_dir(), entry.file_name().into_string()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// What a node of version 3 is.
#[derive(Deserialize)]
struct Node {
    node_type: String,
}

/// The array in a folder; none where it is a group, or nothing of Zarr's.
fn array(folder: &Path, name: &str, print: &mut Fingerprint) -> Result<Option<Array>, DataError> {
    let newer = folder.join("zarr.json");
    let older = folder.join(".zarray");
    let (file, is_newer) = if newer.is_file() { (newer, true) } else { (older, false) };
    if !file.is_file() {
        return Ok(None);
    }
    let io = |error: std::io::Error| DataError::io(&file, &error);
    let wrong = |reason: String| DataError::corrupt(&file, "", reason);
    let unreadable = |error: serde_json::Error| wrong(format!("it is not the JSON that it should be: {error}"));
    let opened = File::open(&file).map_err(io)?;
    let bytes = opened.metadata().map_err(io)?.len();
    if is_newer {
        let reader = std::io::BufReader::new(opened.try_clone().map_err(io)?.take(MOST_GROUP_BYTES));
        let node: Node = serde_json::from_reader(reader).map_err(unreadable)?;
        if node.node_type != "array" {
            return Ok(None);
        }
    }
    if bytes > MOST_META_BYTES {
        return Err(wrong(format!("it has {}: no array's description is that long", human(bytes))));
    }
    let text = std::fs::read(&file).map_err(io)?;
    print.add(file.as_os_str().as_encoded_bytes());
    print.add(&text);
    let json = serde_json::from_slice(&text).map_err(unreadable)?;
    let meta = if is_newer { meta::version_3(&json) } else { meta::version_2(&json) }.map_err(wrong)?;
    // The description's own check keeps this below i64::MAX.
    let chunk_bytes = meta.chunk.iter().product::<u64>() as usize * meta.dtype.bytes();
    let index_bytes = meta.shard.as_ref().and_then(|shard| {
        shard
            .chunks
            .iter()
            .try_fold(16u64, |product, count| product.checked_mul(*count))
            .filter(|b| *b <= MOST_INDEX_BYTES)
    });
    if meta.shard.is_some() && index_bytes.is_none() {
        return Err(wrong("its shards hold too many chunks to be read".to_owned()));
    }
    Ok(Some(Array { name: name.to_owned(), folder: folder.to_owned(), meta, chunk_bytes }))
}

/// Bytes of the files in a folder, as far as there are not too many.
fn folder_bytes(folder: &Path, counted: &mut usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        *counted += 1;
        if *counted > MOST_COUNTED {
            break;
        }
        // Of a link itself, so that links cannot lead in circles.
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += folder_bytes(&entry.path(), counted),
            Ok(found) => bytes += found.len(),
            Err(_) => {}
        }
    }
    bytes
}

impl Stores {
    /// The folder of a unit, and the unit's first row in it.
    fn place_of_unit(&self, unit: usize) -> (usize, u64) {
        let store = self.stores.partition_point(|store| store.first_unit <= unit) - 1;
        (store, (unit - self.stores[store].first_unit) as u64 * self.stores[store].unit_rows)
    }
}

impl Source for ZarrSource {
    fn format(&self) -> &'static str {
        "zarr"
    }

    fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    fn units(&self) -> usize {
        self.0.units
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        let (store, first) = self.0.place_of_unit(unit);
        (self.0.stores[store].rows - first).min(self.0.stores[store].unit_rows)
    }

    fn rows(&self) -> u64 {
        self.0.stores.iter().map(|store| store.rows).sum()
    }

    fn file_bytes(&self) -> u64 {
        self.0.file_bytes
    }

    fn index_bytes(&self) -> u64 {
        let array = |array: &Array| size_of::<Array>() + 2 * array.name.len() + array.folder.as_os_str().len() + 1024;
        self.0.stores.iter().flat_map(|store| &store.arrays).map(|one| array(one) as u64).sum()
    }

    fn reader_bytes(&self, layout: &Layout) -> (u64, String) {
        let (mut kept, mut passing, mut largest) = (0u64, 0u64, None);
        for slot in &layout.slots {
            let arrays = || self.0.stores.iter().map(|store| &store.arrays[slot.column]);
            let Some(array) = arrays().max_by_key(|array| array.chunk_bytes) else { continue };
            let chunk = array.chunk_bytes as u64;
            kept = kept.saturating_add(chunk);
            let index = |array: &Array| {
                array.meta.shard.as_ref().map_or(0, |shard| shard.chunks.iter().product::<u64>() * 16 + 4)
            };
            let twice = arrays()
                .any(|array| array.meta.codecs.iter().any(|codec| matches!(codec, Codec::Blosc | Codec::Crc32c)));
            let needed = (codec::most_packed(array.chunk_bytes) as u64)
                .saturating_add(if twice { chunk.saturating_add(64) } else { 0 })
                .saturating_add(arrays().map(index).max().unwrap_or(0));
            passing = passing.max(needed);
            if largest.as_ref().is_none_or(|(bytes, _)| chunk > *bytes) {
                largest = Some((chunk, array));
            }
        }
        let why = largest.map_or_else(String::new, |(bytes, array)| {
            format!(
                "chunks of {:?} ({}) of {}, packed and unpacked",
                array.meta.chunk,
                human(bytes),
                array.folder.display()
            )
        });
        (kept.saturating_add(passing).saturating_add(UNPACKER_BYTES), why)
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint
    }

    fn reader(&self, layout: &Arc<Layout>, _: BadRows) -> Result<Box<dyn Reader>, DataError> {
        Ok(Box::new(ZarrReader::new(self.0.clone(), layout.clone())))
    }
}

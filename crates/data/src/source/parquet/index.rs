//! Everything that is known about Parquet files before a row is read.
//!
//! In: paths. Out: columns, row groups with the places of their pages, units. All files must have the same columns, in the same order;
//! whether a value may be missing may differ.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::footer::{Footer, read};
use super::pages::{Chunk, Page, walk};
use super::schema::{Leaf, Physical};
use crate::DataError;
use crate::layout::{Column, Kind};

/// Decoded bytes of a unit: pages are put together up to the first, and cut above the second.
const LEAST_UNIT_BYTES: u64 = 512 << 10;
const MOST_UNIT_BYTES: u64 = 16 << 20;
/// Pages that are kept of one file: 48 bytes each.
const MOST_PAGES: usize = 1 << 21;

/// What is known about files.
#[derive(Default)]
pub struct Index {
    pub columns: Vec<Column>,
    pub physical: Vec<Physical>,
    pub files: Vec<FileIndex>,
    pub groups: Vec<Group>,
    pub units: Vec<Unit>,
    pub most_unit_rows: u32,
    left_out: Vec<String>,
}

/// A file.
pub struct FileIndex {
    pub path: PathBuf,
    /// Its size and when it was changed.
    pub mark: (u64, i64, i64),
    /// By column.
    pub max_definition: Box<[u8]>,
}

/// A row group.
pub struct Group {
    pub file: u32,
    /// In its file.
    pub number: u32,
    pub first_row: u64,
    pub rows: u32,
    /// By column.
    pub chunks: Box<[Chunk]>,
}

/// Rows of a row group.
pub struct Unit {
    pub group: u32,
    pub first: u32,
    pub rows: u32,
}

/// What changes when a file is written again.
pub fn mark(file: &File) -> std::io::Result<(u64, i64, i64)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

impl Index {
    pub fn new(paths: &[PathBuf]) -> Result<Index, DataError> {
        let mut index = Index::default();
        let mut first: Vec<Leaf> = Vec::new();
        for path in paths {
            let io = |error: std::io::Error| DataError::io(path, &error);
            let file = File::open(path).map_err(io)?;
            if file.metadata().map_err(io)?.is_dir() {
                let reason = "is a folder: give its files, as in 'folder/*.parquet'".to_owned();
                return Err(DataError::Path { path: path.display().to_string(), reason });
            }
            let footer = read(&file, path)?;
            if index.files.is_empty() {
                index.take_columns(&footer.leaves);
                first.clone_from(&footer.leaves);
            } else {
                compare(path, &paths[0], &footer.leaves, &first)?;
            }
            index.take_file(path, &file, &footer)?;
        }
        if index.columns.is_empty() {
            return Err(DataError::corrupt(&paths[0], "", "has no column of numbers or text"));
        }
        index.make_units();
        Ok(index)
    }

    fn take_columns(&mut self, leaves: &[Leaf]) {
        for leaf in leaves {
            match leaf.read {
                Some((physical, kind)) => {
                    self.columns.push(Column { name: leaf.name.clone(), kind, shape: Vec::new() });
                    self.physical.push(physical);
                }
                None => self.left_out.push(leaf.name.clone()),
            }
        }
    }

    fn take_file(&mut self, path: &Path, file: &File, footer: &Footer) -> Result<(), DataError> {
        let number = self.files.len() as u32;
        let mut left = MOST_PAGES;
        let mut first_row = 0u64;
        for (group, meta) in footer.groups.iter().enumerate() {
            let wrong = |place: String, reason: String| DataError::corrupt(path, place, reason);
            let rows = u32::try_from(meta.rows)
                .map_err(|_| wrong(format!(", row group {group}"), format!("cannot have {} rows", meta.rows)))?;
            let mut chunks = Vec::new();
            for (leaf, chunk) in footer.leaves.iter().zip(&meta.chunks).filter(|(leaf, _)| leaf.read.is_some()) {
                let place = || format!(", row group {group}, column '{}'", leaf.name);
                if chunk.physical != leaf.raw {
                    return Err(wrong(place(), "has another type here than in the schema".to_owned()));
                }
                let found = walk(file, leaf, chunk, footer.data_bytes, rows, &mut left);
                chunks.push(found.map_err(|reason| wrong(place(), reason))?);
            }
            if rows > 0 {
                let chunks = chunks.into_boxed_slice();
                self.groups.push(Group { file: number, number: group as u32, first_row, rows, chunks });
            }
            first_row += u64::from(rows);
        }
        let readable = footer.leaves.iter().filter(|leaf| leaf.read.is_some());
        let max_definition = readable.map(|leaf| leaf.max_definition).collect();
        let mark = mark(file).map_err(|error| DataError::io(path, &error))?;
        self.files.push(FileIndex { path: path.to_owned(), mark, max_definition });
        Ok(())
    }

    fn make_units(&mut self) {
        let numbers = self.columns.iter().filter(|column| matches!(column.kind, Kind::Number(_))).count().max(1);
        for (group, found) in self.groups.iter().enumerate() {
            let rows = unit_rows(found, numbers as u64 * 4);
            let mut first = 0;
            while first < found.rows {
                let count = rows.min(found.rows - first);
                self.units.push(Unit { group: group as u32, first, rows: count });
                self.most_unit_rows = self.most_unit_rows.max(count);
                first += count;
            }
        }
        self.units.shrink_to_fit();
    }

    /// What the caller should know.
    pub fn notes(&self) -> Vec<String> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let more = if self.left_out.len() > 8 { ", …" } else { "" };
        let names = self.left_out.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
        vec![format!("lists, maps and other values without a fixed place in a row are left out: {names}{more}")]
    }

    /// What all of this takes.
    pub fn bytes(&self) -> u64 {
        let pages: usize = self.groups.iter().flat_map(|group| &group.chunks).map(|chunk| chunk.pages.len()).sum();
        let names: usize = self.columns.iter().map(|column| column.name.len() + size_of::<Column>()).sum();
        let chunks = self.groups.len() * self.columns.len() * size_of::<Chunk>();
        let files: usize = self.files.iter().map(|file| file.path.as_os_str().len() + self.columns.len() + 96).sum();
        let groups = self.groups.capacity() * size_of::<Group>() + self.units.capacity() * size_of::<Unit>();
        (pages * size_of::<Page>() + names + chunks + files + groups) as u64
    }

    /// Changes when a file does.
    pub fn fingerprint(&self) -> u64 {
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |value: u64| state = (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        for file in &self.files {
            file.path.as_os_str().as_encoded_bytes().iter().for_each(|byte| mix((*byte).into()));
            mix(file.mark.0);
            mix(file.mark.1 as u64);
            mix(file.mark.2 as u64);
        }
        state
    }
}

/// Rows of a unit: whole pages of the columns that have most bytes, if that is neither too little nor too much.
fn unit_rows(group: &Group, row_bytes: u64) -> u32 {
    let mut by_rows = std::collections::BTreeMap::<u32, u64>::new();
    for chunk in &group.chunks {
        let Some(first) = chunk.pages.first() else { continue };
        *by_rows.entry(first.rows).or_default() += chunk.pages.iter().map(|page| u64::from(page.bytes)).sum::<u64>();
    }
    let page_rows = by_rows.into_iter().max_by_key(|(_, bytes)| *bytes).map_or(group.rows, |(rows, _)| rows);
    let page_rows = u64::from(page_rows.max(1));
    let bytes = page_rows * row_bytes;
    let rows = match (bytes < LEAST_UNIT_BYTES, bytes > MOST_UNIT_BYTES) {
        (true, _) => page_rows * LEAST_UNIT_BYTES.div_ceil(bytes),
        (_, true) => page_rows.div_ceil(bytes.div_ceil(MOST_UNIT_BYTES)),
        _ => page_rows,
    };
    rows.clamp(1, u64::from(group.rows.max(1))) as u32
}

fn compare(path: &Path, first_path: &Path, leaves: &[Leaf], first: &[Leaf]) -> Result<(), DataError> {
    let differ = |(mine, other): &(&Leaf, &Leaf)| mine.name != other.name || mine.read != other.read;
    let other = first_path.display();
    if let Some((mine, first)) = leaves.iter().zip(first).find(differ) {
        let reason = if mine.name == first.name {
            format!("column '{}' has another type than in {other}", mine.name)
        } else {
            format!("has column '{}' where {other} has '{}'", mine.name, first.name)
        };
        return Err(DataError::corrupt(path, "", format!("{reason}: open files with the same columns together")));
    }
    if leaves.len() != first.len() {
        let reason = format!("has {} columns, {other} has {}", leaves.len(), first.len());
        return Err(DataError::corrupt(path, "", format!("{reason}: open files with the same columns together")));
    }
    Ok(())
}

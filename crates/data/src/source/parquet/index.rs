//! Everything that is known about Parquet files before a row is read.
//!
//! In: paths. Out: columns, row groups with the places of their pages, units. All files must have the same columns, in the same order;
//! whether a value may be missing may differ.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::footer::{Footer, read};
use super::pages::{Chunk, Page, walk};
use super::schema::{Leaf, Physical};
use crate::DataError;
use crate::layout::{Column, Kind};
use crate::source::Stop;
use crate::source::columnar::{Tables, Unit, same_columns};
use crate::source::known::KnownFile;

/// Decoded bytes of a unit: pages are put together up to the first, and cut above the second.
const LEAST_UNIT_BYTES: u64 = 512 << 10;
const MOST_UNIT_BYTES: u64 = 16 << 20;
/// Pages that are kept of one file: 48 bytes each.
const MOST_PAGES: usize = 1 << 21;

/// What is known about files.
#[derive(Default)]
pub struct Index {
    pub(in crate::source) tables: Tables,
    pub physical: Vec<Physical>,
    /// By file, by column.
    pub max_definition: Vec<Box<[u8]>>,
    pub groups: Vec<Group>,
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

impl Index {
    pub fn new(paths: &[PathBuf], stop: &Stop) -> Result<Index, DataError> {
        let mut index = Index::default();
        let mut first: Vec<Leaf> = Vec::new();
        for path in paths {
            stop.check()?;
            let (known, file) = KnownFile::open(path, "*.parquet")?;
            let footer = read(&file, path)?;
            if index.tables.files.is_empty() {
                index.take_columns(&footer.leaves);
                first.clone_from(&footer.leaves);
            } else {
                let (mine, others) = ((&**path, &*footer.leaves), (&*paths[0], &*first));
                same_columns(mine, others, |leaf| &leaf.name, |mine, other| mine.read == other.read)?;
            }
            index.take_file(path, &file, &footer)?;
            index.tables.files.push(known);
        }
        index.tables.has_columns(&paths[0])?;
        index.make_units();
        Ok(index)
    }

    fn take_columns(&mut self, leaves: &[Leaf]) {
        for leaf in leaves {
            match leaf.read {
                Some((physical, kind)) => {
                    self.tables.columns.push(Column { name: leaf.name.clone(), kind, shape: Vec::new() });
                    self.physical.push(physical);
                }
                None => self.tables.left_out.push(leaf.name.clone()),
            }
        }
    }

    fn take_file(&mut self, path: &Path, file: &File, footer: &Footer) -> Result<(), DataError> {
        let number = self.tables.files.len() as u32;
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
        self.max_definition.push(readable.map(|leaf| leaf.max_definition).collect());
        Ok(())
    }

    fn make_units(&mut self) {
        let columns = &self.tables.columns;
        let numbers = columns.iter().filter(|column| matches!(column.kind, Kind::Number(_))).count().max(1);
        for (group, found) in self.groups.iter().enumerate() {
            let rows = unit_rows(found, numbers as u64 * 4);
            self.tables.add_units(group, found.rows.into(), rows.into());
        }
        self.tables.units.shrink_to_fit();
    }

    /// What all of this takes.
    pub fn bytes(&self) -> u64 {
        let Tables { columns, files, units, .. } = &self.tables;
        let pages: usize = self.groups.iter().flat_map(|group| &group.chunks).map(|chunk| chunk.pages.len()).sum();
        let names: usize = columns.iter().map(|column| column.name.len() + size_of::<Column>()).sum();
        let chunks = self.groups.len() * columns.len() * size_of::<Chunk>();
        let files: usize = files.iter().map(|file| file.path.as_os_str().len() + columns.len() + 96).sum();
        let groups = self.groups.capacity() * size_of::<Group>() + units.capacity() * size_of::<Unit>();
        (pages * size_of::<Page>() + names + chunks + files + groups) as u64
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

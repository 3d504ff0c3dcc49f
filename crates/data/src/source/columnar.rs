//! What formats with values column by column share: Parquet and Arrow.
//!
//! In: files with the same columns, each in parts (row groups, record batches). Out: [`Tables`], the columns, files and units; a
//! [`Source`] of everything that has them ([`Columnar`]). Not here: where values lie in a part, and decoding.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::known::{Fingerprint, KnownFile};
use super::{BadRows, Reader, Source};
use crate::DataError;
use crate::layout::{Column, Layout, Rows};

/// How many names a note shows.
const NAMES_SHOWN: usize = 8;

/// Files with the same columns, in units.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) columns: Vec<Column>,
    /// Columns that cannot be read.
    pub(super) left_out: Vec<String>,
    pub(super) files: Vec<KnownFile>,
    pub(super) units: Vec<Unit>,
    pub(super) most_unit_rows: u64,
}

/// Rows of a part.
pub(super) struct Unit {
    part: u32,
    first: u64,
    rows: u64,
}

impl Tables {
    /// Cuts a part into units of at most so many rows.
    pub(super) fn add_units(&mut self, part: usize, rows: u64, most: u64) {
        let mut first = 0;
        while first < rows {
            let count = most.min(rows - first);
            self.units.push(Unit { part: part as u32, first, rows: count });
            self.most_unit_rows = self.most_unit_rows.max(count);
            first += count;
        }
    }

    /// The part of a unit, and the rows in the part.
    pub(super) fn place(&self, unit: usize, rows: &Range<u64>) -> Result<(usize, Range<u64>), DataError> {
        let found = self.units.get(unit).filter(|unit| rows.start <= rows.end && rows.end <= unit.rows);
        let Unit { part, first, .. } = found.ok_or_else(|| {
            DataError::Request(format!("there are no rows {} to {} in unit {unit}", rows.start, rows.end))
        })?;
        Ok((*part as usize, first + rows.start..first + rows.end))
    }

    /// What the caller should know about columns that cannot be read.
    pub(super) fn note_of_left_out(&self) -> Option<String> {
        let more = if self.left_out.len() > NAMES_SHOWN { ", …" } else { "" };
        let names = self.left_out.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        (!self.left_out.is_empty())
            .then(|| format!("lists, maps and other values without a fixed place in a row are left out: {names}{more}"))
    }

    /// An error where there is no column at all.
    pub(super) fn has_columns(&self, first_path: &Path) -> Result<(), DataError> {
        if !self.columns.is_empty() {
            return Ok(());
        }
        let why = self.note_of_left_out().map_or_else(String::new, |note| format!(": {note}"));
        Err(DataError::corrupt(first_path, "", format!("has no column of numbers or text{why}")))
    }
}

/// An error where the columns of a file are not those of the first one, by their names and by `same`.
pub(super) fn same_columns<C>(
    (path, columns): (&Path, &[C]),
    (first_path, first): (&Path, &[C]),
    name: impl Fn(&C) -> &str,
    same: impl Fn(&C, &C) -> bool,
) -> Result<(), DataError> {
    let other = first_path.display();
    let differ = |(mine, first): &(&C, &C)| name(mine) != name(first) || !same(mine, first);
    let reason = match columns.iter().zip(first).find(differ) {
        Some((mine, first)) if name(mine) == name(first) => {
            format!("column '{}' has another type than in {other}", name(mine))
        }
        Some((mine, first)) => format!("has column '{}' where {other} has '{}'", name(mine), name(first)),
        None if columns.len() != first.len() => format!("has {} columns, {other} has {}", columns.len(), first.len()),
        None => return Ok(()),
    };
    Err(DataError::corrupt(path, "", format!("{reason}: open files with the same columns together")))
}

/// An error where rows do not fit into the memory that is given for them.
pub(super) fn fits(rows: usize, into: &Rows) -> Result<(), DataError> {
    if rows > into.capacity() {
        return Err(DataError::Request(format!("{rows} rows do not fit into memory for {}", into.capacity())));
    }
    Ok(())
}

/// Files of such a format, with all that is known about them before a row is read.
pub(super) trait Columnar: Send + Sync + 'static {
    const FORMAT: &'static str;

    fn tables(&self) -> &Tables;

    fn notes(&self) -> Vec<String>;

    fn index_bytes(&self) -> u64;

    fn reader_bytes(&self, layout: &Layout) -> (u64, String);

    fn reader(self: Arc<Self>, layout: Arc<Layout>, bad_rows: BadRows) -> Box<dyn Reader>;
}

/// Readers hold on to what is known as well.
pub(super) struct Shared<T>(pub(super) Arc<T>);

impl<T: Columnar> Source for Shared<T> {
    fn format(&self) -> &'static str {
        T::FORMAT
    }

    fn columns(&self) -> &[Column] {
        &self.0.tables().columns
    }

    fn notes(&self) -> Vec<String> {
        self.0.notes()
    }

    fn left_out(&self) -> &[String] {
        &self.0.tables().left_out
    }

    fn units(&self) -> usize {
        self.0.tables().units.len()
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        self.0.tables().units[unit].rows
    }

    fn file_bytes(&self) -> u64 {
        self.0.tables().files.iter().map(|file| file.mark.bytes).sum()
    }

    fn index_bytes(&self) -> u64 {
        self.0.index_bytes()
    }

    fn reader_bytes(&self, layout: &Layout) -> (u64, String) {
        self.0.reader_bytes(layout)
    }

    fn fingerprint(&self) -> u64 {
        Fingerprint::of(self.0.tables().files.iter().map(|file| (&*file.path, file.mark)))
    }

    fn reader(&self, layout: &Arc<Layout>, bad_rows: BadRows) -> Result<Box<dyn Reader>, DataError> {
        Ok(self.0.clone().reader(layout.clone(), bad_rows))
    }
}

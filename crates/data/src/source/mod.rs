//! Files as rows that can be read piece by piece.
//!
//! In: paths. Out: columns; *units*, pieces that can be read by themselves, each with its number of rows; readers that decode rows
//! into memory that they are given. A new format is one file and one line in [`FORMATS`]. Not here: order, batches, threads.
//!
//! What holds for every source:
//! - opening reads headers and what is needed to count rows, in bounded memory (`index_bytes` says how much stays);
//! - a unit has exactly the rows that [`Source::unit_rows`] says, counted before anything is decoded; a bad row counts;
//! - a reader allocates at most [`Source::reader_bytes`], besides what it is given;
//! - hostile files give an error with the place; nothing in a file is ever executed.

mod bad;
mod columnar;
mod csv;
pub mod images;
mod ipc;
mod jsonl;
mod known;
pub mod npy;
pub mod npz;
mod parquet;
mod paths;
mod stop;
mod text;
mod unpack;
pub mod zarr;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::DataError;
use crate::layout::{Column, Layout, Request, Rows};

pub use paths::expand;
pub use stop::Stop;

/// A format: how to know it, how to open it.
pub struct Format {
    /// As `--format` takes it.
    pub name: &'static str,
    /// Ends of file names, without the dot.
    pub extensions: &'static [&'static str],
    /// Opens files of this format, all with the same columns.
    pub open: Open,
}

/// Opens files.
pub type Open = fn(&[PathBuf], &OpenOptions) -> Result<Arc<dyn Source>, DataError>;

/// Every format that is read.
pub const FORMATS: &[Format] =
    &[csv::FORMAT, jsonl::FORMAT, parquet::FORMAT, ipc::FORMAT, npy::FORMAT, npz::FORMAT, zarr::FORMAT, images::FORMAT];

/// What the caller says about the files. What a format does not know it does not look at.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format, where the names do not tell.
    pub format: Option<String>,
    /// Settings of text tables.
    pub csv: CsvOptions,
    /// Arrays of an archive or a group, by name; all where empty.
    pub keys: Vec<String>,
    /// Height and width of pictures; their own where none, and then they must agree.
    pub image_size: Option<(usize, usize)>,
    /// Colour channels of pictures: 1 or 3 (3 where none).
    pub image_channels: Option<usize>,
    /// Where compressed files are unpacked and rows are kept for a global shuffle; the system's folder for that where none.
    pub scratch: Option<PathBuf>,
    /// Asked while files are looked at, which may take long where they are many or large.
    pub stop: Stop,
}

/// Settings of CSV files.
#[derive(Clone, Debug, Default)]
pub struct CsvOptions {
    /// What separates values; found out where none.
    pub delimiter: Option<u8>,
    /// Whether the first line has names; found out where none.
    pub header: Option<bool>,
    /// Types by column name: `float64`, `int64`, `bool` or `text`; the others are inferred from a sample.
    pub types: Vec<(String, String)>,
    /// Text that means "not known", besides the empty one.
    pub nulls: Vec<String>,
}

/// What to do with a row that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadRows {
    /// Stop, and say where.
    #[default]
    Fail,
    /// Leave the row out, and count it.
    Skip,
    /// Keep the row; what cannot be read is not known (NaN, or 0 in whole numbers), and count it.
    Null,
}

/// Where a bad row is, and why it is bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadRow {
    /// The file.
    pub file: PathBuf,
    /// `line 17`, `row 3`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

/// How many bad rows a report keeps with their places.
pub const BAD_ROWS_KEPT: usize = 20;

/// What reading a piece gave besides rows.
#[derive(Clone, Debug, Default)]
pub struct ReadReport {
    /// How many rows were bad.
    pub bad_rows: u64,
    /// The first of them.
    pub first_bad: Vec<BadRow>,
}

impl ReadReport {
    /// Counts one; keeps its place if it is among the first.
    pub fn add(&mut self, bad: BadRow) {
        self.bad_rows += 1;
        if self.first_bad.len() < BAD_ROWS_KEPT {
            self.first_bad.push(bad);
        }
    }
}

/// How rows can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A unit at a time.
    Units,
    /// Single rows too, at a fair price ([`Reader::read_rows`]).
    Rows,
}

/// Files of one format with the same columns.
pub trait Source: Send + Sync {
    /// The format's name.
    fn format(&self) -> &'static str;

    /// The columns.
    fn columns(&self) -> &[Column];

    /// What the caller should know about the files, each a sentence: columns that cannot be read, …
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Columns that are in the files and are not read, by name; what lies inside one is called `name.…`.
    fn left_out(&self) -> &[String] {
        &[]
    }

    /// How many units there are.
    fn units(&self) -> usize;

    /// Rows of a unit.
    fn unit_rows(&self, unit: usize) -> u64;

    /// All rows.
    fn rows(&self) -> u64 {
        (0..self.units()).map(|unit| self.unit_rows(unit)).sum()
    }

    /// How rows can be reached.
    fn access(&self) -> Access {
        Access::Units
    }

    /// What the numbers of a column `label` mean, where folders name the classes; empty elsewhere.
    fn classes(&self) -> &[String] {
        &[]
    }

    /// Bytes of all files.
    fn file_bytes(&self) -> u64;

    /// What the source itself holds for as long as it lives.
    fn index_bytes(&self) -> u64;

    /// What one reader allocates at most, and what makes it so much (`row group 3 of a.parquet: 90 columns, pages of 1 MiB`).
    fn reader_bytes(&self, layout: &Layout) -> (u64, String);

    /// What to change where that is too much, besides giving more memory.
    fn reader_fix(&self) -> &'static str {
        "choose fewer columns, or write the files in smaller pieces"
    }

    /// A number that changes when the files do: what was read at another time is not continued in other files.
    fn fingerprint(&self) -> u64;

    /// A reader for one thread.
    fn reader(&self, layout: &Arc<Layout>, bad_rows: BadRows) -> Result<Box<dyn Reader>, DataError>;
}

/// Decodes rows, for one thread. It keeps its buffers from one piece to the next.
pub trait Reader: Send {
    /// Rows of a unit (a part of it: numbers within the unit) into memory that holds at least as many; sets how many there are.
    /// Fewer than asked for only where bad rows are left out.
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError>;

    /// Single rows, by their number in the whole source, ascending; each with its place in the memory. Sets how many there are.
    /// Only where the source's access is [`Access::Rows`]. Bad rows cannot be left out here: they fail or are null.
    fn read_rows(&mut self, rows: &[(u64, u32)], into: &mut Rows) -> Result<ReadReport, DataError> {
        let _ = (rows, into);
        Err(DataError::Request("this format cannot be read row by row".to_owned()))
    }
}

/// Opens files, folders and patterns.
pub fn open(given: &[String], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let paths = expand(given, &options.stop)?;
    let format = match &options.format {
        Some(name) => by_name(name)?,
        None => by_path(&paths[0])?,
    };
    (format.open)(&paths, options)
}

/// The fields that a request asks of a source. Where folders name the classes, these are the labels unless others are asked for.
pub fn layout(source: &dyn Source, request: &Request) -> Result<Layout, DataError> {
    let named = !source.classes().is_empty() && request.columns.is_none() && request.labels.is_empty();
    let labels = if named && !request.separate { vec!["label".to_owned()] } else { request.labels.clone() };
    request.columns.iter().flatten().chain(&labels).try_for_each(|name| not_left_out(source, name))?;
    Layout::new(source.columns(), &Request { labels, ..request.clone() })
}

/// An error where a column is asked for that is in the files and is not read.
fn not_left_out(source: &dyn Source, name: &str) -> Result<(), DataError> {
    let is = |other: &str| other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let read = source.columns().iter().any(|column| is(&column.name));
    if read || !source.left_out().iter().any(|other| is(other)) {
        return Ok(());
    }
    Err(DataError::Request(format!(
        "column '{name}' is in the files, but its values have no fixed place in a row (a list, a map or the like), and it is not \
         read: write its numbers as columns of their own, or as lists of a fixed length in an Arrow file"
    )))
}

fn by_name(name: &str) -> Result<&'static Format, DataError> {
    FORMATS
        .iter()
        .find(|format| format.name == name)
        .ok_or_else(|| DataError::Request(format!("there is no format '{name}'; there are {}", names())))
}

fn by_path(path: &Path) -> Result<&'static Format, DataError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let fits = |format: &&Format| format.extensions.iter().any(|end| name.ends_with(&format!(".{end}")));
    let folder = path.is_dir().then(|| FORMATS.iter().find(|format| format.name == "images")).flatten();
    FORMATS.iter().find(fits).or(folder).ok_or_else(|| DataError::Path {
        path: path.display().to_string(),
        reason: format!("the name does not tell the format: give it, one of {}", names()),
    })
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

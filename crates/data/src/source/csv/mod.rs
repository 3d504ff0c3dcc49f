//! Tables as text: CSV and its relatives.
//!
//! In: files with the same columns. Out: a [`Source`] of units of about 256 KiB. One pass over the files when they are opened counts the
//! records; types come from a sample of the begin, the middle and the end of files. Quoted fields may hold line ends. Not here: text
//! other than UTF-8 (or what looks like it: only text that is used is looked at).

mod field;
mod parse;
mod sniff;
mod types;
mod wrong;

use std::path::PathBuf;
use std::sync::Arc;

use super::text::{Records, TextFiles, TextSource, UnitText};
use super::{BadRows, CsvOptions, Format, OpenOptions, Reader, Source};
use crate::DataError;
use crate::layout::{Column, Layout};
use sniff::Dialect;
pub use types::Type;
use types::{Nulls, Seen, Typed};

/// Tables as text.
pub const FORMAT: Format =
    Format { name: "csv", extensions: &["csv", "tsv", "csv.gz", "tsv.gz", "csv.zst", "tsv.zst"], open };

/// The begin of a file that is looked at.
const HEAD_BYTES: u64 = 64 << 10;

struct Csv {
    table: Arc<Table>,
    columns: Vec<Column>,
}

/// How the files are written, for readers.
struct Table {
    dialect: Dialect,
    types: Vec<Typed>,
    nulls: Nulls,
}

/// Opens tables.
fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let nulls = Nulls::new(&options.csv.nulls);
    let mut files = TextFiles::new(paths, options)?;
    // An empty file among others is a table without rows.
    let told = (0..paths.len()).find(|file| files.files()[*file].bytes > 0).unwrap_or(0);
    let head = files.head(told, 1, HEAD_BYTES)?;
    let dialect = match sniff::sniff(&paths[told], &head, &options.csv, &nulls) {
        // Names with line ends in them may need more.
        Err(_) if !head.whole => {
            sniff::sniff(&paths[told], &files.head(told, usize::MAX, u64::MAX)?, &options.csv, &nulls)?
        }
        known => known?,
    };
    let begins = |files: &TextFiles, file| begin(files, file, &dialect, &options.csv, &nulls);
    files.index(Some(dialect.delimiter), &options.stop, begins)?;
    let files = Arc::new(files);
    let seen = sample(&files, &dialect, &nulls)?;
    let types = types::types(&dialect.names, &seen, &options.csv)?;
    let columns = dialect.names.iter().zip(&types).map(|(name, typed)| typed.of.column(name)).collect();
    let records = Csv { table: Arc::new(Table { dialect, types, nulls }), columns };
    Ok(Arc::new(TextSource { files, records }))
}

/// Where records begin in a file, and the line there. The names must be those of the first file.
fn begin(
    files: &TextFiles,
    file: usize,
    dialect: &Dialect,
    options: &CsvOptions,
    nulls: &Nulls,
) -> Result<(u64, u64), DataError> {
    if files.files()[file].bytes == 0 {
        return Ok((0, 1));
    }
    let mut head = files.head(file, 1, 4096)?;
    if !dialect.header {
        return Ok((head.skipped, 1));
    }
    let mut bytes = sniff::padded(&head);
    let ends = |bytes: &[u8]| field::record_end(bytes, field::skip_blank(bytes, 0), dialect.delimiter);
    if ends(&bytes).is_none() && !head.whole {
        // Names with line ends in them.
        head = files.head(file, usize::MAX, u64::MAX)?;
        bytes = sniff::padded(&head);
    }
    let path = &files.files()[file].path;
    let given = CsvOptions { delimiter: Some(dialect.delimiter), header: Some(true), ..options.clone() };
    let here = sniff::sniff(path, &head, &given, nulls)?;
    if here.names != dialect.names {
        let reason = format!("its columns are not those of the first file: {}", difference(&here, dialect));
        return Err(DataError::corrupt(path, ", line 1", reason));
    }
    let end = ends(&bytes).unwrap_or(0);
    Ok((head.skipped + end as u64, 1 + memchr::memchr_iter(b'\n', &bytes[..end]).count() as u64))
}

fn difference(here: &Dialect, first: &Dialect) -> String {
    if here.names.len() != first.names.len() {
        return format!("{} instead of {}", here.names.len(), first.names.len());
    }
    let differ = here.names.iter().zip(&first.names).find(|(here, first)| here != first);
    differ.map_or_else(String::new, |(here, first)| format!("'{here}' instead of '{first}'"))
}

/// What begin, middle and end of files show of each column.
fn sample(files: &TextFiles, dialect: &Dialect, nulls: &Nulls) -> Result<Vec<Seen>, DataError> {
    let mut seen = vec![Seen::default(); dialect.names.len()];
    let count = files.units().len();
    files.sample(|unit, text, most| {
        let skip = (files.units()[unit].rows as usize).saturating_sub(most);
        let mut at = 0;
        for record in 0.. {
            at = field::skip_blank(text, at);
            let Some(end) = field::record_end(text, at, dialect.delimiter) else { break };
            // Of the last unit the last records: what is added to a file later may be written otherwise.
            let wanted = if unit == count - 1 && unit > 0 { record >= skip } else { record < most };
            if wanted && let Some(fields) = field::fields(text, at, dialect.delimiter) {
                fields.iter().zip(&mut seen).for_each(|(value, seen)| seen.add(value, nulls));
            }
            at = end;
        }
    })?;
    Ok(seen)
}

impl Records for Csv {
    const FORMAT: &'static str = "csv";

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn bytes(&self) -> u64 {
        let names: usize = self.columns.iter().map(|column| 2 * column.name.capacity()).sum();
        let columns = self.columns.len() * (size_of::<Column>() + size_of::<String>() + size_of::<Typed>());
        (names + columns) as u64
    }

    fn reader_bytes(&self, text_bytes: u64, layout: &Layout) -> u64 {
        // Twice: a field with doubled quotes is put together anew, and one field may be nearly all of a unit.
        2 * text_bytes + parse::bytes(layout)
    }

    fn reader(
        &self,
        text: UnitText,
        files: &Arc<TextFiles>,
        layout: &Arc<Layout>,
        bad_rows: BadRows,
    ) -> Box<dyn Reader> {
        Box::new(parse::CsvReader::new(text, files, &self.table, layout, bad_rows))
    }
}

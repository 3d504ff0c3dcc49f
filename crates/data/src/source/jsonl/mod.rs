//! JSON lines: an object on each line.
//!
//! In: files of objects. Out: a [`Source`] with a column for each key that a sample showed: numbers, truth values, text, arrays of numbers
//! of one shape. A key that is missing is "not known"; keys that the sample did not show are stepped over, and so are objects and
//! arrays of mixed things. No tree is built.

mod parse;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

use super::text::{TextFiles, UnitText};
use super::{BadRows, Format, OpenOptions, Reader, Source};
use crate::DataError;
use crate::layout::{Column, Layout};

/// JSON lines.
pub const FORMAT: Format = Format {
    name: "jsonl",
    extensions: &["jsonl", "ndjson", "jsonl.gz", "ndjson.gz", "jsonl.zst", "ndjson.zst"],
    open,
};

/// Records of the begin, and of each other place, that types are inferred from.
const FIRST_RECORDS: usize = 1000;
const OTHER_RECORDS: usize = 200;
/// A larger unit is one long record: no sample.
const MOST_SAMPLE_BYTES: u64 = 4 << 20;

struct JsonLines {
    files: Arc<TextFiles>,
    columns: Arc<Vec<Column>>,
}

/// Opens JSON lines.
fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let mut files = TextFiles::new(paths, options)?;
    files.index(None, |files, file| Ok((files.head(file, 1, 4096)?.skipped, 1)))?;
    let files = Arc::new(files);
    let mut sample = types::Sample::default();
    for (place, unit) in files.places().into_iter().enumerate() {
        let Some(text) = files.sample(unit, MOST_SAMPLE_BYTES)? else { continue };
        let most = if place == 0 { FIRST_RECORDS } else { OTHER_RECORDS };
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty() && line[0] != 0);
        for line in lines.take(most) {
            sample.add(line);
        }
    }
    let columns = sample.columns(&options.csv.types)?;
    if columns.is_empty() {
        let reason = match sample.first_error() {
            Some(error) => format!("there is no object on its first lines: {error}; JSON lines have one on each line"),
            None => "no key has numbers, truth values, text or arrays of numbers".to_owned(),
        };
        return Err(DataError::corrupt(&paths[0], "", reason));
    }
    Ok(Arc::new(JsonLines { files, columns: Arc::new(columns) }))
}

impl Source for JsonLines {
    fn format(&self) -> &'static str {
        "jsonl"
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn units(&self) -> usize {
        self.files.units().len()
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        u64::from(self.files.units()[unit].rows)
    }

    fn file_bytes(&self) -> u64 {
        self.files.file_bytes()
    }

    fn index_bytes(&self) -> u64 {
        let columns: usize = self.columns.iter().map(|column| column.name.capacity() + size_of::<Column>()).sum();
        self.files.index_bytes() + columns as u64
    }

    fn reader_bytes(&self, layout: &Layout) -> (u64, String) {
        let (text, what) = self.files.unit_text_bytes();
        // Text with escapes is put together anew, in a buffer that doubles; one text may be nearly all of a unit.
        (3 * text + parse::bytes(layout, &self.columns), what)
    }

    fn fingerprint(&self) -> u64 {
        self.files.fingerprint()
    }

    fn reader(&self, layout: &Arc<Layout>, bad_rows: BadRows) -> Result<Box<dyn Reader>, DataError> {
        let text = UnitText::new(&self.files);
        Ok(Box::new(parse::JsonReader::new(text, &self.files, &self.columns, layout, bad_rows)))
    }
}

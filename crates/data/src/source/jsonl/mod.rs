//! JSON lines: an object on each line.
//!
//! In: files of objects. Out: a [`Source`] with a column for each key that a sample showed: numbers, truth values, text, arrays of numbers
//! of one shape. A key that is missing is "not known"; keys that the sample did not show are stepped over, and so are objects and
//! arrays of mixed things. No tree is built.

mod parse;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

use super::text::{Records, TextFiles, TextSource, UnitText};
use super::{BadRows, Format, OpenOptions, Reader, Source};
use crate::DataError;
use crate::layout::{Column, Layout};

/// JSON lines.
pub const FORMAT: Format = Format {
    name: "jsonl",
    extensions: &["jsonl", "ndjson", "jsonl.gz", "ndjson.gz", "jsonl.zst", "ndjson.zst"],
    open,
};

struct JsonLines {
    columns: Arc<Vec<Column>>,
}

/// Opens JSON lines.
fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let mut files = TextFiles::new(paths, options)?;
    files.index(None, &options.stop, |files, file| Ok((files.head(file, 1, 4096)?.skipped, 1)))?;
    let files = Arc::new(files);
    let mut sample = types::Sample::default();
    files.sample(|_, text, most| {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty() && line[0] != 0);
        lines.take(most).for_each(|line| sample.add(line));
    })?;
    let columns = sample.columns(&options.csv.types)?;
    if columns.is_empty() {
        let reason = match sample.first_error() {
            Some(error) => format!("there is no object on its first lines: {error}; JSON lines have one on each line"),
            None => "no key has numbers, truth values, text or arrays of numbers".to_owned(),
        };
        return Err(DataError::corrupt(&paths[0], "", reason));
    }
    Ok(Arc::new(TextSource { files, records: JsonLines { columns: Arc::new(columns) } }))
}

impl Records for JsonLines {
    const FORMAT: &'static str = "jsonl";

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| (column.name.capacity() + size_of::<Column>()) as u64).sum()
    }

    fn reader_bytes(&self, text_bytes: u64, layout: &Layout) -> u64 {
        // Text with escapes is put together anew, in a buffer that doubles; one text may be nearly all of a unit.
        3 * text_bytes + parse::bytes(layout, &self.columns)
    }

    fn reader(
        &self,
        text: UnitText,
        files: &Arc<TextFiles>,
        layout: &Arc<Layout>,
        bad_rows: BadRows,
    ) -> Box<dyn Reader> {
        Box::new(parse::JsonReader::new(text, files, &self.columns, layout, bad_rows))
    }
}

//! Arrays as NumPy saves them (`.npy`).
//!
//! In: files whose arrays have the same rows. Out: one column `x` of the shape of a row (one column per field for records); rows can
//! be read one by one. The header is read by hand ([`header`]): nothing in it is evaluated, and objects are refused.

pub(crate) mod files;
pub mod header;
mod literal;
mod reader;
pub(crate) mod table;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_core::bytes::human;

use self::files::Files;
use self::header::Header;
use self::table::{Block, Table};
use super::{Format, OpenOptions, Source};
use crate::DataError;

/// `.npy`.
pub const FORMAT: Format = Format { name: "npy", extensions: &["npy"], open };

fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let mut files = Files::default();
    let mut block: Option<Block> = None;
    let mut rows = Vec::new();
    for path in paths {
        options.stop.check()?;
        let (number, file) = files.add(path)?;
        let bytes = file.metadata().map_err(|error| DataError::io(path, &error))?.len();
        let header =
            header::read(&|into, at| file.read_exact_at(into, at)).map_err(|error| header_error(path, "", &error))?;
        whole(path, "", &header, bytes)?;
        let wrong = |reason: String| DataError::corrupt(path, "", reason);
        let block = match &mut block {
            Some(block) => {
                block.fits(&header).map_err(wrong)?;
                block
            }
            none => none.insert(Block::new(&header, 0).map_err(wrong)?),
        };
        block.starts.push((number, header.data_at));
        rows.push(header.rows);
    }
    let block = block.expect("at least one path");
    let columns = block.columns("x").collect();
    Ok(Arc::new(Table::source("npy", columns, vec![block], files, &rows)?))
}

/// What is wrong with a header, in the name of the file (and the member of an archive).
pub(super) fn header_error(path: &Path, place: &str, error: &std::io::Error) -> DataError {
    match error.kind() {
        std::io::ErrorKind::InvalidData => DataError::corrupt(path, place, error.to_string()),
        _ => DataError::io(path, error),
    }
}

/// Whether the bytes that an array says it has are there.
pub(super) fn whole(path: &Path, place: &str, header: &Header, bytes: u64) -> Result<(), DataError> {
    // The header's own limit keeps this below i64::MAX.
    let data = header.rows * header.row_bytes;
    let there = bytes.saturating_sub(header.data_at);
    if data <= there {
        return Ok(());
    }
    Err(DataError::corrupt(
        path,
        place,
        format!(
            "{} rows of {} bytes would be {}, but after the header there are only {}: the file is cut off, write it again",
            header.rows,
            header.row_bytes,
            human(data),
            human(there)
        ),
    ))
}

//! What the tests of text formats share: files, and all that is in them.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_data::DataError;
use brimful_data::budget::{Ledger, Purpose, SlabPool};
use brimful_data::layout::{DType, Layout, Request, Rows};
use brimful_data::source::{BadRows, OpenOptions, ReadReport, Source, open};

/// A folder with one file.
pub fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Opens one file.
pub fn source(path: &Path, options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    open(&[path.display().to_string()], options)
}

/// Memory for rows.
pub fn memory(layout: &Arc<Layout>, capacity: usize) -> Rows {
    let bytes = layout.bytes(capacity);
    let pool = SlabPool::new(&Ledger::new(bytes as u64 + 1), Purpose::Window, bytes, 1);
    Rows::new(pool.try_take().unwrap().unwrap(), layout.clone(), capacity)
}

/// Rows of doubles, in pieces of at most so many rows.
pub fn rows(
    source: &dyn Source,
    request: &Request,
    bad_rows: BadRows,
    piece: u64,
) -> Result<(Vec<Vec<f64>>, ReadReport), DataError> {
    let request = Request { dtype: Some(DType::F64), label_dtype: Some(DType::F64), ..request.clone() };
    let layout = Arc::new(Layout::new(source.columns(), &request)?);
    let mut into = memory(&layout, piece as usize);
    let mut reader = source.reader(&layout, bad_rows)?;
    let (mut all, mut report) = (Vec::new(), ReadReport::default());
    for unit in 0..source.units() {
        let mut first = 0;
        while first < source.unit_rows(unit) {
            let end = source.unit_rows(unit).min(first + piece);
            let part = reader.read(unit, first..end, &mut into)?;
            report.bad_rows += part.bad_rows;
            report.first_bad.extend(part.first_bad);
            for row in 0..into.len() {
                let mut values = Vec::new();
                for (field, about) in layout.fields.iter().enumerate() {
                    let numbers: &[f64] = bytemuck::cast_slice(into.field(field));
                    values.extend_from_slice(&numbers[row * about.elements()..(row + 1) * about.elements()]);
                }
                all.push(values);
            }
            first = end;
        }
    }
    Ok((all, report))
}

/// Everything of one file, with default settings.
pub fn read(name: &str, bytes: &[u8]) -> Result<Vec<Vec<f64>>, DataError> {
    let (_folder, path) = file(name, bytes);
    let source = source(&path, &OpenOptions::default())?;
    Ok(rows(&*source, &Request::default(), BadRows::Fail, 1000)?.0)
}

/// The sentence of an error, without the folder.
pub fn sentence<T>(result: Result<T, DataError>) -> String {
    let text = result.err().expect("an error").to_string();
    match text.find("/t.") {
        Some(at) => text[at + 1..].to_owned(),
        None => text,
    }
}

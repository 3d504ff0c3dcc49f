//! From what the caller wrote to files, in a fixed order.
//!
//! In: paths and patterns. Out: paths that exist, each pattern's in alphabetical order, none twice in a pattern. Not here: what is
//! inside a folder; that is the format's affair.

use std::path::PathBuf;

use crate::DataError;

/// Files and folders, at least one.
pub fn expand(given: &[String]) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = Vec::new();
    for text in given {
        let wrong = |reason: String| DataError::Path { path: text.clone(), reason };
        let path = PathBuf::from(text);
        // A file may have brackets in its name.
        if path.exists() {
            paths.push(path);
            continue;
        }
        if !text.contains(['*', '?', '[']) {
            return Err(wrong("there is no such file".to_owned()));
        }
        let found = glob::glob(text).map_err(|error| wrong(format!("not a pattern: {error}")))?;
        let before = paths.len();
        for path in found {
            paths.push(path.map_err(|error| wrong(format!("cannot be looked at: {error}")))?);
        }
        if paths.len() == before {
            return Err(wrong("no file fits this pattern".to_owned()));
        }
    }
    if paths.is_empty() {
        return Err(DataError::Request("no file was given".to_owned()));
    }
    Ok(paths)
}

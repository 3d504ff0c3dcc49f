//! How many files a process has open: a job that leaks them dies of it.
//!
//! In: the entries of `/proc/PID/fd`. Out: their number. Not counted: files that are only mapped into memory.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::Answer;
use super::process::folder;

/// Open files of a process.
pub fn open_files(root: &Path, pid: u32) -> Answer<u64> {
    match fs::read_dir(folder(root, pid).join("fd")) {
        Ok(entries) => Answer::Known(entries.filter(Result::is_ok).count() as u64),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Answer::Hidden,
        Err(_) => Answer::Gone,
    }
}

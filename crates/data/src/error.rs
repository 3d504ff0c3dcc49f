//! Everything that can go wrong between files and batches, each as one sentence that says what to do.

use std::path::{Path, PathBuf};

use brimful_core::bytes::human;
use thiserror::Error;

/// Why data cannot be read, or not inside the budget.
#[derive(Clone, Debug, Error)]
pub enum DataError {
    /// A file, a folder or a pattern gives nothing.
    #[error("{path}: {reason}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The system refused to read or write.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The bytes of a file are not what they should be.
    #[error("{}{place}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// `, line 17`, `, byte 4096`, `, row group 3`; empty where the whole file is meant.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// What was asked for cannot be had from this data.
    #[error("{0}")]
    Request(String),
    /// Less memory than the least that this job needs.
    #[error(
        "{} is less than the {} that this needs at least: {why}; {fix}",
        human(*memory_bytes),
        human(*floor_bytes)
    )]
    BelowFloor {
        /// The budget.
        memory_bytes: u64,
        /// The least.
        floor_bytes: u64,
        /// What takes most of it.
        why: String,
        /// What to change.
        fix: String,
    },
    /// The caller keeps so many batches that none is left to fill.
    #[error(
        "all {batches} batches that fit into the budget of {} are still held by the caller: let go of each batch before the \
         next (`del batch`), keep copies (`batch.copy()`), or give more memory",
        human(*memory_bytes)
    )]
    HeldByCaller {
        /// How many are held.
        batches: usize,
        /// The budget.
        memory_bytes: u64,
    },
    /// A thread that reads has ended unexpectedly.
    #[error("a reading thread failed: {0}; this is a mistake in brimful, please report it with the file")]
    WorkerDied(String),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl DataError {
    /// What the system said about a file.
    pub fn io(path: &Path, error: &std::io::Error) -> DataError {
        DataError::Io { path: path.to_owned(), reason: error.to_string() }
    }

    /// Something is wrong at one place of a file.
    pub fn corrupt(path: &Path, place: impl Into<String>, reason: impl Into<String>) -> DataError {
        DataError::Corrupt { path: path.to_owned(), place: place.into(), reason: reason.into() }
    }
}

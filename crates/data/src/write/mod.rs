//! Rows into files.
//!
//! In: [`Rows`](crate::layout::Rows), piece by piece. Out: a file under its final name only when all of it is written; before that it
//! has another name in the same folder, and is removed when writing fails or is given up.

pub mod npy;
pub mod parquet;

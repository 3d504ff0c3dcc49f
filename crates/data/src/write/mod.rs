//! Rows to files: written under another name beside the final one, which appears only when all of it is there.

pub mod parquet;

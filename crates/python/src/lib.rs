//! `brimful._native`: conversion between Python and the Rust crates, and nothing else.
//!
//! In: Python's strings, bytes and numbers. Out: the same, and exceptions: `ValueError` for input that cannot be used. The
//! stub `python/brimful/_native.pyi` says what is here; a test compares the two.

mod capture;
mod data;
mod device;
mod explain;
mod keras;

use std::ffi::OsString;

use brimful_cli::BuiltAs;
use pyo3::prelude::*;

/// What the Python package takes from Rust.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::capture::Capture;
    #[pymodule_export]
    use super::data::{DataBatches, DataField, DataLoader, DataSource, data_memory};
    #[pymodule_export]
    use super::device::device;
    #[pymodule_export]
    use super::explain::{Explainer, Explanation};
    #[pymodule_export]
    use super::keras::keras_plan;
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Runs the `brimful` command with these arguments, the program's name first, and returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<OsString>) -> u8 {
    py.detach(|| brimful_cli::main(argv, BuiltAs::PythonExtension))
}

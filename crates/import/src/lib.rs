//! Model files to the core's [`brimful_core::model::Model`].
//!
//! In: the bytes of a file. Out: a [`keras::Document`] (parsed), then a `Model` (translated), or an [`ImportError`] that
//! says what is wrong, where, and what to do. Nothing here opens a file or knows how a framework executes.

mod error;
pub mod keras;
pub mod torch_snapshot;

pub use error::ImportError;
pub use keras::{Document, Options, Override, read};
pub use torch_snapshot::{is_pickle, read_snapshot};

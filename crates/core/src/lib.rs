//! The memory model of a machine-learning job, as pure values: no files, clock, environment, GPU or Python.
//!
//! The modules are listed in the order in which data flows through them. In: a [`model::Model`] (from an importer) and a
//! [`step::Job`]. Out: a [`report::Report`]. Not counted here: what other processes hold, and host memory outside the
//! framework's allocator.

pub mod bytes;
pub mod framework;
pub mod model;
pub mod trace;
pub mod capture;
pub mod step;
pub mod allocator;
pub mod device;
pub mod predict;
pub mod page;
pub mod report;
pub mod plan;
pub mod snapshot;
pub mod explain;

//! From files larger than memory to batches, inside a hard budget.
//!
//! Data flows one way:
//!
//! ```text
//! paths ─► source ─► plan ─► loader ─► batches
//!            │        ▲         ▲
//!          layout   order     budget
//! ```
//!
//! | stage | comes in | goes out |
//! | --- | --- | --- |
//! | [`source`] | files | columns, units that can be read by themselves, rows decoded into memory that is given |
//! | [`layout`] | columns, what the caller wants | the fields of a row, with their bytes |
//! | [`order`] | units, a seed, an epoch, a rank | which rows come when |
//! | [`budget`] | a number of bytes | leases and slabs; never more than that |
//! | [`plan`] | all of these | the least that is needed, the parts, what to expect |
//! | [`loader`] | a plan | batches, in the same order on any number of threads |
//!
//! Not counted by the budget: the program itself, its libraries, and what the caller makes of a batch.

pub mod budget;
pub mod error;
pub mod layout;
pub mod loader;

pub mod order;
pub mod plan;

pub mod source;

pub mod write;

pub use error::DataError;

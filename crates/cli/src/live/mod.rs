//! What a person sees of a job while it runs.
//!
//! In: the [`Frame`](brimful_monitor::recording::Frame)s of the run, as they are made. Out: [`State`], which keeps what is worth showing, and
//! from it the plain line for logs. Nothing here reads the machine or the clock: the same frames from a recording show the same.

pub(crate) mod words;
mod history;
mod rates;
mod steps;
mod forecast;
pub mod state;
mod line;

pub use state::State;

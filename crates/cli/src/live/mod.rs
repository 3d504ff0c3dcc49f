//! What a person sees of a job while it runs.
//!
//! In: the [`Frame`](brimful_monitor::recording::Frame)s of the run, as they are made, and the job's output. Out: [`State`], which keeps what is worth
//! showing, and from it the plain line for logs or the [`Screen`] of a terminal. Nothing but `terminal` touches the machine or the clock:
//! the same frames from a recording show the same.

pub(crate) mod words;
mod history;
mod rates;
mod steps;
mod forecast;
pub mod state;
mod line;
pub mod screen;
mod ansi;
#[cfg(unix)]
mod terminal;
pub mod keys;

pub use keys::{Command, Keys};
pub use screen::panel_size;
pub use state::State;
#[cfg(unix)]
pub use terminal::{Screen, restore};

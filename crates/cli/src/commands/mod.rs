//! The verbs, one module each. In: its arguments and the output. Out: an exit code, or an error of one sentence.

pub mod accuracy;
pub mod calibrate;
pub mod completions;
#[cfg(unix)]
pub mod data;
pub mod devices;
pub mod explain;
pub mod fit;
pub mod man;
pub mod plan;
pub mod report;
#[cfg(unix)]
pub mod run;
#[cfg(unix)]
pub mod watch;

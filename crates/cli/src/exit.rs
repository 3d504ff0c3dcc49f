//! The exit codes: what scripts and CI branch on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: it fits, or the command did what was asked.
    Done,
    /// 1: it does not fit.
    DoesNotFit,
    /// 2: bad usage, or an input that cannot be read.
    Unusable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::DoesNotFit => 1,
            Exit::Unusable => 2,
        })
    }
}

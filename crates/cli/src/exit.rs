//! The exit codes: what scripts and CI branch on.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: it fits, or the command did what was asked.
    Done,
    /// 1: it does not fit.
    DoesNotFit,
    /// 2: bad usage, or an input that cannot be read.
    Unusable,
    /// That of the user's own job.
    Job(u8),
}

impl Exit {
    /// As the system gets it.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::DoesNotFit => 1,
            Exit::Unusable => 2,
            Exit::Job(code) => code,
        }
    }
}

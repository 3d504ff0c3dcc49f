//! Everything that can go wrong while a job is watched or a recording is opened, each as one sentence.

use std::path::PathBuf;

use thiserror::Error;

/// Why a job cannot be watched, or a recording not be written or read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MonitorError {
    /// The process is not there.
    #[error("there is no process {pid}: it has ended, or its number was given to another one")]
    Gone {
        /// Its number.
        pid: u32,
    },
    /// The process may not be seen.
    #[error(
        "process {pid} cannot be seen: it belongs to another user, or /proc is mounted with hidepid; run brimful as the \
         job's user"
    )]
    Hidden {
        /// Its number.
        pid: u32,
    },
    /// The bytes are not a recording.
    #[error("this is not a recording of brimful: its first bytes are not those that brimful run writes")]
    NotARecording,
    /// A recording of a later brimful.
    #[error("this recording is of version {found}, this brimful reads up to {known}: update brimful")]
    TooNew {
        /// The version of the file.
        found: u16,
        /// The latest that is read.
        known: u16,
    },
    /// The recording cannot be written, for now.
    #[error(
        "the recording cannot be written: {reason}; {waiting_bytes} bytes wait, and later ones are dropped when it is too much"
    )]
    Write {
        /// What the system says.
        reason: String,
        /// Bytes that are kept until the next attempt.
        waiting_bytes: usize,
    },
    /// The socket for the job's agents cannot be made.
    #[error("steps and framework figures will be missing: no socket can be made at {}: {reason}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

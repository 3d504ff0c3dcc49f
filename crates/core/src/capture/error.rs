//! Why a recording cannot be used.

/// Everything that can be wrong with a recording. Rows are counted from 0; each message names the recording (`a` is that of
/// the batch asked for) and the row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The bytes end within a row.
    #[error(
        "recording {recording} has {bytes} bytes, which is not a whole number of rows of {row_bytes}: it was cut off"
    )]
    CutOff {
        /// Which recording.
        recording: char,
        /// Its length.
        bytes: usize,
        /// The length of a row.
        row_bytes: usize,
    },
    /// There is nothing in it.
    #[error("recording {0} has no rows: nothing was recorded")]
    Empty(char),
    /// More rows than can be numbered.
    #[error("recording {recording} has {rows} rows; at most {most} can be read: record fewer steps")]
    TooLong {
        /// Which recording.
        recording: char,
        /// Its rows.
        rows: usize,
        /// The limit.
        most: usize,
    },
    /// A column holds a value that it cannot have.
    #[error("recording {recording}, row {row}: {column} is {value}, {expected}")]
    BadValue {
        /// Which recording.
        recording: char,
        /// The row.
        row: usize,
        /// The column's name.
        column: &'static str,
        /// What stands there.
        value: i64,
        /// What would be right.
        expected: &'static str,
    },
    /// An index points behind the end of the strings.
    #[error("recording {recording}, row {row}: {column} is string {value}, but there are {count} strings")]
    NoSuchString {
        /// Which recording.
        recording: char,
        /// The row.
        row: usize,
        /// The column's name.
        column: &'static str,
        /// What stands there.
        value: i64,
        /// How many strings there are.
        count: usize,
    },
    /// A buffer is allocated a second time.
    #[error(
        "recording {recording}, row {row}: buffer {buffer} is allocated again; each buffer needs a number of its own"
    )]
    AllocatedTwice {
        /// Which recording.
        recording: char,
        /// The row.
        row: usize,
        /// The buffer.
        buffer: u32,
    },
    /// A buffer is freed or relabelled that is not alive.
    #[error("recording {recording}, row {row}: buffer {buffer} is {action} but is not alive there")]
    NotAlive {
        /// Which recording.
        recording: char,
        /// The row.
        row: usize,
        /// The buffer.
        buffer: u32,
        /// `freed` or `relabelled`.
        action: &'static str,
    },
    /// A number is left out.
    #[error("recording {recording}: buffer {buffer} is never allocated; buffers are numbered from 0 without gaps")]
    Gap {
        /// Which recording.
        recording: char,
        /// The missing buffer.
        buffer: u32,
    },
    /// Nothing ran.
    #[error("recording {0} has no step: a forward pass must be recorded after the set-up")]
    NoStep(char),
    /// String 0 must be the empty one.
    #[error("string 0 must be empty: it stands for 'no module' and 'no source'")]
    NoEmptyString,
    /// A batch without samples, or an absurd one.
    #[error("batch {0} cannot be recorded: it must be between 1 and {MAX_RECORDED_BATCH}")]
    BadBatch(u64),
    /// Sizes cannot be told apart.
    #[error("both recordings have batch {0}: record the second with another batch")]
    SameBatch(u64),
}

/// No batch above this is read.
pub const MAX_RECORDED_BATCH: u64 = 1 << 30;

//! The bytes of a recording, read and checked row by row.
//!
//! In: little-endian 64-bit integers, [`COLUMNS`] a row. Out: [`Row`]s that refer to strings and live buffers only, or the
//! first mistake. What rows mean together is for `pair` and `recording`.

use super::error::CaptureError;
use super::recording::Dtype;
use crate::allocator::torch_caching::MAX_REQUEST_BYTES;
use crate::trace::{Phase, Role};

/// Integers in a row: kind, buffer, bytes, op, module, source, role, call, dtype.
pub const COLUMNS: usize = 9;
const ROW_BYTES: usize = COLUMNS * 8;
/// More events than a few steps have; it keeps numbers of buffers within 32 bits.
const MAX_ROWS: usize = 1 << 26;

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A buffer is asked for, with this role.
    Alloc(Role),
    /// A buffer is given back.
    Free,
    /// A buffer serves this purpose from here on.
    Relabel(Role),
    /// A phase begins.
    Mark(Phase),
    /// A step begins.
    Step,
}

/// One row. Fields that its kind does not use are as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What happens.
    pub kind: Kind,
    /// The buffer, or the number of the step.
    pub buffer: u32,
    /// Bytes asked for, before rounding.
    pub bytes: u64,
    /// The op, as an index into the strings.
    pub op: u32,
    /// The module's path, as an index into the strings.
    pub module: u32,
    /// The line of source, as an index into the strings.
    pub source: u32,
    /// The number of the op's call; -1 for none.
    pub call: i64,
    /// The type of the elements.
    pub dtype: Dtype,
}

/// Reads and checks a recording; `name` is what errors call it.
pub fn read(name: char, bytes: &[u8], strings: usize) -> Result<Vec<Row>, CaptureError> {
    if !bytes.len().is_multiple_of(ROW_BYTES) {
        return Err(CaptureError::CutOff { recording: name, bytes: bytes.len(), row_bytes: ROW_BYTES });
    }
    let count = bytes.len() / ROW_BYTES;
    if count == 0 {
        return Err(CaptureError::Empty(name));
    }
    if count > MAX_ROWS {
        return Err(CaptureError::TooLong { recording: name, rows: count, most: MAX_ROWS });
    }
    let reader = Reader { recording: name, strings, rows: count };
    let mut rows = Vec::with_capacity(count);
    for (index, row) in bytes.chunks_exact(ROW_BYTES).enumerate() {
        let mut columns = [0i64; COLUMNS];
        for (column, bytes) in columns.iter_mut().zip(row.chunks_exact(8)) {
            *column = bytes.try_into().map_or(0, i64::from_le_bytes);
        }
        rows.push(reader.row(index, &columns)?);
    }
    reader.check_lives(&rows)?;
    Ok(rows)
}

struct Reader {
    recording: char,
    strings: usize,
    rows: usize,
}

impl Reader {
    fn row(&self, row: usize, columns: &[i64; COLUMNS]) -> Result<Row, CaptureError> {
        let [kind, buffer, bytes, op, module, source, role, call, dtype] = *columns;
        let bad = |column, value, expected| CaptureError::BadValue {
            recording: self.recording,
            row,
            column,
            value,
            expected,
        };
        let kind = match kind {
            0 => Kind::Alloc(self.role(row, role)?),
            1 => Kind::Free,
            2 => Kind::Relabel(self.role(row, role)?),
            3 => Kind::Mark(self.phase(row, role)?),
            4 => Kind::Step,
            _ => return Err(bad("kind", kind, "not one of 0 to 4")),
        };
        let numbered = !matches!(kind, Kind::Mark(_));
        if numbered && !(0..self.rows as i64).contains(&buffer) {
            return Err(bad("buffer", buffer, "but buffers and steps are numbered from 0, fewer than there are rows"));
        }
        let asked = matches!(kind, Kind::Alloc(_));
        if asked && !(0..=MAX_REQUEST_BYTES as i64).contains(&bytes) {
            return Err(bad(
                "bytes",
                bytes,
                "not between 0 and 64 TiB: is the batch, or a size of the inputs, a slip?",
            ));
        }
        Ok(Row {
            kind,
            buffer: if numbered { buffer as u32 } else { 0 },
            bytes: if asked { bytes as u64 } else { 0 },
            op: self.string(row, "op", op)?,
            module: self.string(row, "module", module)?,
            source: self.string(row, "source", source)?,
            call,
            dtype: Dtype::numbered(dtype).ok_or_else(|| bad("dtype", dtype, "not one of 0 to 7"))?,
        })
    }

    fn string(&self, row: usize, column: &'static str, value: i64) -> Result<u32, CaptureError> {
        let recording = self.recording;
        let known = usize::try_from(value).ok().filter(|&index| index < self.strings);
        let index = known.and_then(|index| u32::try_from(index).ok());
        index.ok_or(CaptureError::NoSuchString { recording, row, column, value, count: self.strings })
    }

    fn role(&self, row: usize, role: i64) -> Result<Role, CaptureError> {
        Ok(match role {
            0 => Role::Parameter,
            1 => Role::Gradient,
            2 => Role::OptimizerState,
            3 => Role::SavedActivation,
            4 => Role::Input,
            5 => Role::Temporary,
            6 => Role::Workspace,
            value => {
                let (recording, column, expected) = (self.recording, "role", "not one of 0 to 6");
                return Err(CaptureError::BadValue { recording, row, column, value, expected });
            }
        })
    }

    fn phase(&self, row: usize, phase: i64) -> Result<Phase, CaptureError> {
        Ok(match phase {
            0 => Phase::Setup,
            1 => Phase::Forward,
            2 => Phase::Backward,
            3 => Phase::Optimizer,
            value => {
                let (recording, column, expected) = (self.recording, "phase", "not one of 0 to 3");
                return Err(CaptureError::BadValue { recording, row, column, value, expected });
            }
        })
    }

    /// Each buffer is allocated once and used only while it is alive; numbers have no gaps; something runs.
    fn check_lives(&self, rows: &[Row]) -> Result<(), CaptureError> {
        let recording = self.recording;
        let allocated = rows.iter().filter(|row| matches!(row.kind, Kind::Alloc(_))).count();
        #[derive(Clone, Copy, PartialEq)]
        enum Life {
            Unborn,
            Alive,
            Freed,
        }
        let mut lives = vec![Life::Unborn; rows.len()];
        let mut steps = 0;
        for (row, &Row { kind, buffer, .. }) in rows.iter().enumerate() {
            let life = &mut lives[buffer as usize];
            match kind {
                Kind::Alloc(_) if *life == Life::Unborn => *life = Life::Alive,
                Kind::Alloc(_) => return Err(CaptureError::AllocatedTwice { recording, row, buffer }),
                Kind::Free if *life == Life::Alive => *life = Life::Freed,
                Kind::Free => return Err(CaptureError::NotAlive { recording, row, buffer, action: "freed" }),
                Kind::Relabel(_) if *life == Life::Alive => {}
                Kind::Relabel(_) => {
                    return Err(CaptureError::NotAlive { recording, row, buffer, action: "relabelled" });
                }
                Kind::Step if buffer == steps => steps += 1,
                Kind::Step => {
                    let (column, expected) = ("step", "but steps are numbered from 0, one after the other");
                    return Err(CaptureError::BadValue { recording, row, column, value: buffer.into(), expected });
                }
                Kind::Mark(_) => {}
            }
        }
        if let Some(gap) = lives[..allocated].iter().position(|life| *life == Life::Unborn) {
            return Err(CaptureError::Gap { recording, buffer: gap as u32 });
        }
        if !rows.iter().any(|row| matches!(row.kind, Kind::Mark(phase) if phase != Phase::Setup)) {
            return Err(CaptureError::NoStep(recording));
        }
        Ok(())
    }
}

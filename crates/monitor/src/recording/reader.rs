//! Reads a recording, up to the first byte that is torn or damaged.
//!
//! In: the bytes of a file. Out: its frames, one at a time, then [`Good`]: how much of the file they are. Nothing in the file is believed
//! before its checksum is right, and nothing is set aside for lengths that it claims: a frame takes a small multiple of its bytes at most. Not done: looking for
//! frames behind the damage, whose differences would mean nothing.

use super::frame::Frame;
use super::payload::State;
use super::{MAGIC, VERSION, varint};
use crate::error::MonitorError;

/// How much of a file could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Good {
    /// Frames.
    pub frames: u64,
    /// Bytes, the header included.
    pub good_bytes: u64,
    /// Bytes behind them that could not be read; none after a clean end.
    pub bad_bytes: u64,
}

/// Gives the frames of a recording.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    state: State,
    checksum: u32,
    good: Good,
}

impl<'a> Reader<'a> {
    /// Looks at the header. A file that was torn before its header was whole has no frames.
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>, MonitorError> {
        let header_bytes = MAGIC.len() + 2;
        let Some((header, rest)) = bytes.split_at_checked(header_bytes) else {
            let whole: Vec<u8> = MAGIC.iter().copied().chain(VERSION.to_le_bytes()).collect();
            if !whole.starts_with(bytes) {
                return Err(MonitorError::NotARecording);
            }
            let good = Good { bad_bytes: bytes.len() as u64, ..Good::default() };
            return Ok(Reader { rest: &[], state: State::default(), checksum: 0, good });
        };
        let version = header.strip_prefix(MAGIC).and_then(|version| version.first_chunk().copied());
        match version.map(u16::from_le_bytes) {
            Some(found) if found > VERSION => Err(MonitorError::TooNew { found, known: VERSION }),
            Some(1..) => {
                let good = Good { good_bytes: header_bytes as u64, bad_bytes: rest.len() as u64, frames: 0 };
                Ok(Reader { rest, state: State::default(), checksum: 0, good })
            }
            _ => Err(MonitorError::NotARecording),
        }
    }

    /// How much was good, so far; after the last frame, of the whole file.
    pub fn good(&self) -> Good {
        self.good
    }

    fn take(&mut self) -> Option<Frame> {
        let whole = self.rest;
        let (&kind, mut rest) = whole.split_first()?;
        let length = usize::try_from(varint::take(&mut rest)?).ok()?;
        let (payload, rest) = rest.split_at_checked(length)?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let checked = whole.get(..whole.len() - rest.len() - checksum.len())?;
        let mut hasher = crc32fast::Hasher::new_with_initial(self.checksum);
        hasher.update(checked);
        let found = hasher.finalize();
        if found != u32::from_le_bytes(*checksum) || kind == 0 {
            return None;
        }
        let frame = self.state.decode(kind, payload)?;
        let taken_bytes = (whole.len() - rest.len()) as u64;
        (self.rest, self.checksum) = (rest, found);
        self.good.frames += 1;
        self.good.good_bytes += taken_bytes;
        self.good.bad_bytes -= taken_bytes;
        Some(frame)
    }
}

impl Iterator for Reader<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let frame = self.take();
        if frame.is_none() {
            self.rest = &[];
        }
        frame
    }
}

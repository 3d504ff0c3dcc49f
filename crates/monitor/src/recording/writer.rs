//! Writes a recording.
//!
//! In: frames, and the time. Out: bytes that go out twice a second and are never touched again: what went out is safe from the end of the
//! job and of brimful. When the disk is full they wait, and are tried again where they stopped, so that no frame is ever torn in
//! the middle of a file; when too much waits, frames are dropped, and a line says how many. Not done: waiting for the disk itself, which only a
//! machine that loses its power would notice.

use std::io::{ErrorKind, Write};

use super::frame::{Frame, Line, Start};
use super::payload::{MOST_GPUS, State};
use super::reader::Good;
use super::{MAGIC, MOST_PAYLOAD_BYTES, VERSION, secrets, varint};
use crate::error::MonitorError;

/// As much waits while the disk is full: an hour or so of samples.
const MOST_WAITING_BYTES: usize = 2 << 20;
/// What is lost at a kill is half a second, and the moment between two calls.
const FLUSH_MS: u64 = 500;

/// Writes frames to a file, or to anything else.
pub struct Writer<W: Write> {
    out: W,
    state: State,
    checksum: u32,
    waiting: Vec<u8>,
    taken: Good,
    dropped: u64,
    next_flush_ms: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording; the header and the start go out at once.
    pub fn new(out: W, start: &Start) -> Result<Writer<W>, MonitorError> {
        let mut waiting = MAGIC.to_vec();
        waiting.extend(VERSION.to_le_bytes());
        let taken = Good { good_bytes: waiting.len() as u64, ..Good::default() };
        let mut writer =
            Writer { out, state: State::default(), checksum: 0, waiting, taken, dropped: 0, next_flush_ms: FLUSH_MS };
        writer.add(&Frame::Start(start.masked()));
        writer.flush()?;
        Ok(writer)
    }

    /// Takes a frame. Secrets in it are masked. It goes out with the next flush, or is dropped when too much waits.
    pub fn push(&mut self, frame: &Frame) {
        if self.waiting.len() >= MOST_WAITING_BYTES {
            self.dropped += 1;
            return;
        }
        match frame {
            Frame::Start(start) => self.add(&Frame::Start(start.masked())),
            Frame::Line(line) => {
                let text = secrets::mask_text(cut(&line.text));
                self.add(&Frame::Line(Line { at_ms: line.at_ms, text: cut(&text).to_owned() }));
            }
            // Copied from a later version's file: its payload is not here.
            Frame::Other { .. } => {}
            Frame::Gpu(sample) if u64::from(sample.index) >= MOST_GPUS => {}
            Frame::End(end) => self.add(&Frame::End(end.masked())),
            other => self.add(other),
        }
    }

    /// Lets what waits out if half a second has passed. An error says that it goes on waiting.
    pub fn tick(&mut self, at_ms: u64) -> Result<(), MonitorError> {
        if at_ms < self.next_flush_ms {
            return Ok(());
        }
        self.next_flush_ms = at_ms.saturating_add(FLUSH_MS);
        self.flush()?;
        if self.dropped > 0 {
            let text = format!("{} entries were dropped: the recording could not be written", self.dropped);
            self.dropped = 0;
            self.add(&Frame::Line(Line { at_ms, text }));
            self.flush()?;
        }
        Ok(())
    }

    /// Lets out what waits, now.
    pub fn flush(&mut self) -> Result<(), MonitorError> {
        let mut gone = 0;
        let outcome = loop {
            match self.waiting.get(gone..) {
                None | Some([]) => break self.out.flush(),
                Some(rest) => match self.out.write(rest) {
                    Ok(0) => break Err(ErrorKind::WriteZero.into()),
                    Ok(count) => gone += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                },
            }
        };
        self.waiting.drain(..gone.min(self.waiting.len()));
        outcome.map_err(|error| MonitorError::Write { reason: error.to_string(), waiting_bytes: self.waiting.len() })
    }

    /// How many frames have been dropped since it was last said.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What a reader will find, once nothing waits any more.
    pub fn taken(&self) -> Good {
        self.taken
    }

    /// Lets out what waits and gives back what was written to, for the caller to wait for the disk.
    pub fn finish(mut self) -> Result<W, MonitorError> {
        self.flush()?;
        Ok(self.out)
    }

    fn add(&mut self, frame: &Frame) {
        let begin = self.waiting.len();
        let (kind, payload) = self.state.encode(frame);
        self.waiting.push(kind);
        varint::push(&mut self.waiting, payload.len() as u64);
        self.waiting.extend_from_slice(&payload);
        let mut hasher = crc32fast::Hasher::new_with_initial(self.checksum);
        hasher.update(&self.waiting[begin..]);
        self.checksum = hasher.finalize();
        self.waiting.extend(self.checksum.to_le_bytes());
        self.taken.frames += 1;
        self.taken.good_bytes += (self.waiting.len() - begin) as u64;
    }
}

/// Text that fits into a frame.
fn cut(text: &str) -> &str {
    let most = text.len().min(MOST_PAYLOAD_BYTES - 64);
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

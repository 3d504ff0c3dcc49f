//! The text of one unit at a time.
//!
//! In: files with their units. Out: a unit's bytes in a buffer that is used again and again, always ended by a line end, with bytes
//! behind it that may be looked at in groups. Line numbers are counted when somebody asks.

use std::fs::File;
use std::sync::Arc;

use super::TextFiles;
use crate::DataError;

/// Bytes behind the text of a unit: the line end that may be missing, and zeros.
pub const PADDING: usize = 64;

/// Reads units for one thread.
pub struct UnitText {
    files: Arc<TextFiles>,
    bytes: Vec<u8>,
    length: usize,
    unit: Option<usize>,
    opened: Option<(usize, Option<File>)>,
}

impl UnitText {
    /// Memory for the largest unit; nothing is read yet.
    pub fn new(files: &Arc<TextFiles>) -> UnitText {
        let most = files.largest().map_or(0, |(_, bytes)| bytes as usize);
        UnitText { files: files.clone(), bytes: vec![0; most + PADDING], length: 0, unit: None, opened: None }
    }

    /// Reads a unit, unless it is there already. Says whether it was read.
    pub fn load(&mut self, unit: usize) -> Result<bool, DataError> {
        if self.unit == Some(unit) {
            return Ok(false);
        }
        self.unit = None;
        let number = self.files.file_of(unit);
        let file = &self.files.files()[number];
        if self.opened.as_ref().is_none_or(|(open, _)| *open != number) {
            self.opened = Some((number, self.files.open(file)?.0));
        }
        let opened = self.opened.as_ref().and_then(|(_, file)| file.as_ref());
        let range = self.files.range_of(unit);
        let length = (range.end - range.start) as usize;
        self.files.read(file, opened, range.start, &mut self.bytes[..length])?;
        self.length = length;
        self.bytes[length..length + PADDING].fill(0);
        if length > 0 && self.bytes[length - 1] != b'\n' {
            self.bytes[length] = b'\n';
            self.length += 1;
        }
        self.unit = Some(unit);
        Ok(true)
    }

    /// The unit that is there.
    pub fn unit(&self) -> Option<usize> {
        self.unit
    }

    /// The text, with the bytes behind it.
    pub fn padded(&self) -> &[u8] {
        &self.bytes[..self.length + PADDING - 1]
    }

    /// Bytes of the text, the line end that was missing included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The line of a byte of the text.
    pub fn line(&self, at: usize) -> u64 {
        let first = self.unit.map_or(1, |unit| self.files.units()[unit].first_line);
        first + memchr::memchr_iter(b'\n', &self.bytes[..at]).count() as u64
    }
}

/// The first byte behind blank lines.
#[inline]
pub fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes[at] {
            b'\n' => at += 1,
            b'\r' if bytes[at + 1] == b'\n' => at += 2,
            _ => return at,
        }
    }
}

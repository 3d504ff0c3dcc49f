//! Where the records of a text file lie.
//!
//! In: a file, whether quotes may hold line ends. Out: [`Unit`]s, each with its place, its first line and its number of records. One
//! pass with a buffer of fixed size, at the speed of memory: what a line holds does not matter, however long it is. A blank line is
//! no record. Not here: what the fields are.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::{memchr, memrchr};

use crate::DataError;
use crate::source::Stop;

/// A piece of a text file: whole records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its first byte within the text.
    pub offset: u64,
    /// The number of its first line, from 1.
    pub first_line: u64,
    /// How many records.
    pub rows: u32,
}

/// A record that is longer than a unit should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongRecord {
    /// Its first byte within the text.
    pub offset: u64,
    /// The number of its first line, from 1.
    pub line: u64,
    /// With its line end.
    pub bytes: u64,
}

/// What is to be indexed.
pub struct Text<'a> {
    /// For errors.
    pub path: &'a Path,
    /// Where the bytes are.
    pub file: &'a File,
    /// The first byte of the text within the file.
    pub base: u64,
    /// Bytes of the text.
    pub bytes: u64,
    /// Where records begin within the text, behind a header.
    pub first: u64,
    /// The line there.
    pub first_line: u64,
    /// What separates values, where a quote behind it (or at the begin of a line) opens a field that may hold line ends.
    pub quoted_after: Option<u8>,
}

const BLOCK: usize = 256 << 10;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Outside,
    /// Since this line.
    Inside(u64),
    /// Behind a quote that ends the field unless another one follows.
    Closing(u64),
}

/// Adds the units of a text, each of about so many bytes. Gives the longest record, if it alone has more.
pub fn index(
    text: &Text,
    unit_bytes: u64,
    units: &mut Vec<Unit>,
    stop: &Stop,
) -> Result<Option<LongRecord>, DataError> {
    let mut buffer = vec![0u8; 2 + BLOCK.min(text.bytes as usize)];
    // The two bytes before the block: as if a line had ended there.
    buffer[..2].copy_from_slice(b"\n\n");
    let (line, unit) = (text.first_line, start(text));
    let record = (text.first, line);
    let mut scan = Scan { text, unit_bytes, line, state: State::Outside, unit, units, record, longest: None };
    let mut offset = text.first;
    while offset < text.bytes {
        stop.check()?;
        let length = (text.bytes - offset).min(BLOCK as u64) as usize;
        let block = &mut buffer[..2 + length];
        text.file.read_exact_at(&mut block[2..], text.base + offset).map_err(|error| cut(text.path, &error))?;
        scan.block(block, offset);
        block.copy_within(length.., 0);
        offset += length as u64;
    }
    if let State::Inside(line) = scan.state {
        let reason = "the quote that opens here is never closed: close it, or remove it";
        return Err(DataError::corrupt(text.path, format!(", line {line}"), reason));
    }
    let ended = buffer[1] == b'\n' || (buffer[1] == b'\r' && buffer[0] == b'\n');
    scan.unit.rows += u32::from(!ended && text.first < text.bytes);
    if scan.unit.rows > 0 {
        scan.units.push(scan.unit);
    }
    scan.end_record(text.bytes);
    Ok(scan.longest)
}

fn start(text: &Text) -> Unit {
    Unit { offset: text.first, first_line: text.first_line, rows: 0 }
}

/// What a read says that ends too early, or fails.
pub fn cut(path: &Path, error: &std::io::Error) -> DataError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            DataError::corrupt(path, "", "it became shorter while it was being read: open it again once it is complete")
        }
        _ => DataError::io(path, error),
    }
}

struct Scan<'a, 'b> {
    text: &'a Text<'a>,
    unit_bytes: u64,
    line: u64,
    state: State,
    unit: Unit,
    units: &'b mut Vec<Unit>,
    /// Where the last record begins, or the blank lines before it: byte and line.
    record: (u64, u64),
    longest: Option<LongRecord>,
}

impl Scan<'_, '_> {
    /// A block behind two bytes of the one before it.
    fn block(&mut self, block: &[u8], offset: u64) {
        let mut at = 2;
        while at < block.len() {
            at = match self.state {
                State::Outside => self.outside(block, at, offset),
                State::Inside(since) => {
                    let quote = memchr(b'"', &block[at..]);
                    let end = quote.map_or(block.len(), |quote| at + quote + 1);
                    self.line += count(block, at, end).0;
                    if quote.is_some() {
                        self.state = State::Closing(since);
                    }
                    end
                }
                State::Closing(since) if block[at] == b'"' => {
                    self.state = State::Inside(since);
                    at + 1
                }
                State::Closing(_) => {
                    self.state = State::Outside;
                    at
                }
            };
        }
    }

    /// From a byte outside quotes to the next quote, the place where the unit has its size, or the end of the block.
    fn outside(&mut self, block: &[u8], at: usize, offset: u64) -> usize {
        let here = offset + at as u64 - 2;
        let goal = self.unit.offset + self.unit_bytes;
        let full = here >= goal;
        let stop = if full { block.len() } else { block.len().min(at + (goal - here) as usize) };
        let quote = self.text.quoted_after.and_then(|_| memchr(b'"', &block[at..stop]));
        let end = quote.map_or(stop, |quote| at + quote);
        if full && let Some(newline) = memchr(b'\n', &block[at..end]) {
            let next = at + newline + 1;
            self.end_record(offset + next as u64 - 2);
            self.count_records(block, at, next, offset);
            let unit = Unit { offset: offset + next as u64 - 2, first_line: self.line, rows: 0 };
            let done = std::mem::replace(&mut self.unit, unit);
            if done.rows > 0 {
                self.units.push(done);
            }
            return next;
        }
        self.count_records(block, at, end, offset);
        if quote.is_none() {
            return end;
        }
        let before = block[end - 1];
        if before == b'\n' || Some(before) == self.text.quoted_after {
            self.state = State::Inside(self.line);
        }
        end + 1
    }

    fn count_records(&mut self, block: &[u8], at: usize, end: usize, offset: u64) {
        let (lines, blank) = count(block, at, end);
        self.line += lines;
        self.unit.rows += (lines - blank) as u32;
        if lines > 0
            && let Some(newline) = memrchr(b'\n', &block[at..end])
        {
            self.record = (offset + (at + newline) as u64 - 1, self.line);
        }
    }

    /// A record ends before this byte. Only the last one of a unit can have more bytes than a unit should.
    fn end_record(&mut self, end: u64) {
        let (offset, line) = self.record;
        let bytes = end.saturating_sub(offset);
        if bytes > self.unit_bytes && self.longest.is_none_or(|longest| bytes > longest.bytes) {
            self.longest = Some(LongRecord { offset, line, bytes });
        }
    }
}

/// Line ends in a part of a block, and how many of them end a blank line. Written so that the compiler makes wide instructions of it.
fn count(block: &[u8], at: usize, end: usize) -> (u64, u64) {
    /// So many fit into a counter of one byte.
    const STEP: usize = 192;
    let (mut lines, mut blanks) = (0u64, 0u64);
    let mut from = at;
    while from < end {
        let to = end.min(from + STEP);
        let (mut line, mut blank) = (0u8, 0u8);
        let before = block[from - 1..to - 1].iter().zip(&block[from - 2..to - 2]);
        for (byte, (last, last_but_one)) in block[from..to].iter().zip(before) {
            let newline = u8::from(*byte == b'\n');
            line += newline;
            let after_crlf = u8::from(*last == b'\r') & u8::from(*last_but_one == b'\n');
            blank += newline & (u8::from(*last == b'\n') | after_crlf);
        }
        lines += u64::from(line);
        blanks += u64::from(blank);
        from = to;
    }
    (lines, blanks)
}

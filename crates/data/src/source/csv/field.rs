//! Where fields and records end, and what a field says: the general way, with quotes.
//!
//! In: text that ends in a line end with zeros behind it. Out: places. A quote opens a field only where the field begins with it; within
//! it two quotes are one; what follows the closing quote up to the delimiter belongs to the field. The same rule counts records when
//! a file is opened.

use std::borrow::Cow;

use memchr::memchr;

pub use crate::source::text::skip_blank;

/// The place of the delimiter or line end behind a field; the last byte (a zero) where the text ends too early.
#[inline]
pub fn end(bytes: &[u8], at: usize, delimiter: u8) -> usize {
    if bytes[at] == b'"' {
        return match closing_quote(bytes, at + 1) {
            Some(close) => plain_end(bytes, close + 1, delimiter),
            None => bytes.len() - 1,
        };
    }
    plain_end(bytes, at, delimiter)
}

fn closing_quote(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let quote = at + memchr(b'"', &bytes[at..])?;
        if bytes.get(quote + 1) != Some(&b'"') {
            return Some(quote);
        }
        at = quote + 2;
    }
}

/// Eight bytes at once: fields are short, so a search that has to be started costs more than it saves.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize, delimiter: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let delimiters = ONES * u64::from(delimiter);
    let newlines = ONES * u64::from(b'\n');
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(Ok(eight)) = bytes.get(at..at + 8).map(|eight| eight.try_into().map(u64::from_le_bytes)) {
        let found = zeros(eight ^ delimiters) | zeros(eight ^ newlines);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    bytes.len() - 1
}

/// The first byte behind a record; nothing where the text ends too early.
pub fn record_end(bytes: &[u8], mut at: usize, delimiter: u8) -> Option<usize> {
    loop {
        let end = end(bytes, at, delimiter);
        match bytes[end] {
            b'\n' => return Some(end + 1),
            found if found == delimiter => at = end + 1,
            _ => return None,
        }
    }
}

/// What the fields of a record say, where the record ends within the text.
pub fn fields(bytes: &[u8], mut at: usize, delimiter: u8) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut fields = Vec::new();
    loop {
        let end = end(bytes, at, delimiter);
        fields.push(value(bytes, at, end));
        match bytes[end] {
            b'\n' => return Some(fields),
            found if found == delimiter => at = end + 1,
            _ => return None,
        }
    }
}

/// What a field says: without its quotes, without the carriage return of a line's end.
pub fn value(bytes: &[u8], at: usize, end: usize) -> Cow<'_, [u8]> {
    let end = if bytes[end] == b'\n' && end > at && bytes[end - 1] == b'\r' { end - 1 } else { end };
    let Some(inner) = bytes[at..end].strip_prefix(b"\"") else {
        return Cow::Borrowed(&bytes[at..end]);
    };
    match memchr(b'"', inner) {
        Some(close) if close + 1 == inner.len() => Cow::Borrowed(&inner[..close]),
        _ => Cow::Owned(unquoted(inner)),
    }
}

fn unquoted(inner: &[u8]) -> Vec<u8> {
    let close = closing_quote(inner, 0).unwrap_or(inner.len());
    let mut text = Vec::with_capacity(inner.len());
    let mut pair = false;
    for byte in &inner[..close] {
        pair = *byte == b'"' && !pair;
        if !pair {
            text.push(*byte);
        }
    }
    text.extend_from_slice(inner.get(close + 1..).unwrap_or_default());
    text
}

//! What separates values, whether there are names, and which.
//!
//! In: the begin of a file, what the caller says. Out: a [`Dialect`]. A delimiter is the one that gives the same number of fields in the
//! most records; the first record has names if none of its fields is a number.

use std::path::Path;

use super::field::{fields, record_end, skip_blank};
use super::types::Nulls;
use crate::DataError;
use crate::source::CsvOptions;
use crate::source::text::{Head, PADDING, number};

/// How a table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// What separates values.
    pub delimiter: u8,
    /// Whether the first record has names.
    pub header: bool,
    /// The columns; made up where there are none.
    pub names: Vec<String>,
}

/// In this order where they fit equally well.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
/// Records that are looked at.
const SAMPLE: usize = 100;
/// More columns than this are no table: each costs memory.
const MOST_COLUMNS: usize = 1 << 20;

/// The begin of a text, ready to be taken apart: with a line end if it is all there is, and zeros.
pub fn padded(head: &Head) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(head.bytes.len() + PADDING);
    bytes.extend_from_slice(&head.bytes);
    if head.whole && bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    bytes.resize(bytes.len() + PADDING - 1, 0);
    bytes
}

/// Finds out how a table is written.
pub fn sniff(path: &Path, head: &Head, options: &CsvOptions, nulls: &Nulls) -> Result<Dialect, DataError> {
    let bytes = padded(head);
    let wrong = |reason: &str| DataError::corrupt(path, "", reason);
    let start = skip_blank(&bytes, 0);
    if start + PADDING > bytes.len() {
        return Err(wrong("it is empty: there is not even a line with names"));
    }
    let delimiter = options.delimiter.unwrap_or_else(|| delimiter(&bytes));
    if matches!(delimiter, b'"' | b'\n' | b'\r' | 0) {
        return Err(DataError::Request("a quote or a line end cannot separate values: give another delimiter".into()));
    }
    let Some(first) = fields(&bytes, start, delimiter) else {
        return Err(if head.whole {
            let line = 1 + memchr::memchr_iter(b'\n', &bytes[..start]).count();
            let reason = "the quote that opens here is never closed: close it, or remove it";
            DataError::corrupt(path, format!(", line {line}"), reason)
        } else {
            wrong("its first line is longer than 4 MiB: this is no table with a record per line")
        });
    };
    if first.len() > MOST_COLUMNS {
        return Err(wrong("its first line has more than a million fields: this is no table"));
    }
    let header = options.header.unwrap_or_else(|| {
        let texts: Vec<&[u8]> = first.iter().map(|text| text.trim_ascii()).collect();
        counted(&texts) || (!texts.iter().any(|text| is_number(text)) && !texts.iter().all(|text| nulls.has(text)))
    });
    let names = if header {
        unique(first.iter().map(|text| String::from_utf8_lossy(text.trim_ascii()).into_owned()).collect())
    } else {
        (0..first.len()).map(|column| format!("c{column}")).collect()
    };
    Ok(Dialect { delimiter, header, names })
}

fn is_number(text: &[u8]) -> bool {
    number::float_of(text).is_some_and(|value| value.is_finite()) || matches!(text, b"true" | b"false")
}

/// `0,1,2,…` or `,0,1,2,…`: what a table without names gets for names when it is written by pandas.
fn counted(texts: &[&[u8]]) -> bool {
    let rest = if texts[0].is_empty() { &texts[1..] } else { texts };
    let least = if texts[0].is_empty() { 1 } else { 3 };
    rest.len() >= least && rest.iter().enumerate().all(|(place, text)| *text == place.to_string().as_bytes())
}

fn delimiter(bytes: &[u8]) -> u8 {
    let score = |delimiter: u8| {
        let mut counts = Vec::new();
        let mut at = skip_blank(bytes, 0);
        while counts.len() < SAMPLE
            && bytes[at] != 0
            && let Some(fields) = fields(bytes, at, delimiter)
        {
            counts.push(fields.len());
            at = skip_blank(bytes, record_end(bytes, at, delimiter).unwrap_or(bytes.len() - 1));
        }
        counts.sort_unstable();
        let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
        let agree = counts.iter().filter(|count| **count == usual).count();
        // Records that agree count in twentieths: one odd line among many is no reason against.
        (usual > 1, (agree * 20).checked_div(counts.len()).unwrap_or(0), usual)
    };
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| score(*delimiter)).expect("there are four")
}

/// Names that differ, as pandas makes them: `a`, `a.1`. Each base remembers its last number: a million equal names take no longer
/// than a million others.
fn unique(mut names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut numbers = std::collections::BTreeMap::<String, usize>::new();
    for (place, name) in names.iter_mut().enumerate() {
        if name.is_empty() {
            *name = format!("unnamed_{place}");
        }
        if seen.insert(name.clone()) {
            continue;
        }
        let number = numbers.entry(name.clone()).or_default();
        let base = name.clone();
        while !seen.insert(name.clone()) {
            *number += 1;
            *name = format!("{base}.{number}");
        }
    }
    names
}

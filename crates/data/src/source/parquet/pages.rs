//! Where the pages of a column chunk lie.
//!
//! In: a file, a chunk. Out: its pages, found by a walk over their headers: a few bytes are read of each, once, when the file is
//! opened. Every size is held against the file; that what a page unpacks to is not believed before it is known to fit the budget is
//! the caller's affair (`Source::reader_bytes`).

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::codec::Codec;
use super::footer::ChunkMeta;
use super::schema::Leaf;
use super::thrift::{TRUE, Thrift};

/// What a page's values are packed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Plain,
    Dictionary,
    /// Booleans in runs.
    Runs,
    Delta,
    DeltaLength,
    DeltaBytes,
    Split,
}

/// A page of values.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Where its bytes begin, after the header.
    pub first_byte: u64,
    pub packed_bytes: u32,
    pub bytes: u32,
    /// Within the row group.
    pub first_row: u32,
    pub rows: u32,
    /// Bytes of levels that lie, unpacked, before the values (second version); none: they are part of what is packed.
    pub levels: Option<(u32, u32)>,
    pub encoding: Encoding,
    pub codec: Codec,
}

/// The pages of a column in a row group.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Its `rows` are the entries.
    pub dictionary: Option<Page>,
    pub pages: Box<[Page]>,
}

/// Most headers are shorter than this; statistics of long text make them longer.
const HEADER_BYTES: usize = 256;
const MOST_HEADER_BYTES: usize = 8 << 20;

#[derive(Default)]
struct Header {
    kind: i32,
    bytes: i32,
    packed_bytes: i32,
    values: i32,
    encoding: i32,
    level_encoding: i32,
    version_2: Option<(i32, i32, bool)>,
}

/// Walks over a chunk; `left` is how many pages may still be kept.
pub fn walk(
    file: &File,
    leaf: &Leaf,
    meta: &ChunkMeta,
    data_bytes: u64,
    rows: u32,
    left: &mut usize,
) -> Result<Chunk, String> {
    if meta.elsewhere {
        return Err("is encrypted or lies in another file".to_owned());
    }
    let codec = Codec::new(meta.codec)?;
    let range = u64::try_from(meta.first_byte).ok().zip(u64::try_from(meta.bytes).ok());
    let range = range.and_then(|(first, bytes)| Some(first..first.checked_add(bytes)?));
    let Some(range) = range.filter(|range| range.start >= 4 && range.end <= data_bytes) else {
        return Err(format!("would lie at byte {} with {} bytes: outside the file", meta.first_byte, meta.bytes));
    };
    let (mut at, mut row, mut dictionary, mut pages) = (range.start, 0u32, None, Vec::new());
    let mut buffer = vec![0; HEADER_BYTES];
    while at < range.end && row < rows {
        let (header, length) = header(file, at, range.end, &mut buffer)?;
        let place = |reason: &str| format!("{reason} (page at byte {at})");
        let (Ok(bytes), Ok(packed_bytes), Ok(values)) =
            (u32::try_from(header.bytes), u32::try_from(header.packed_bytes), u32::try_from(header.values))
        else {
            return Err(place("has a negative size"));
        };
        let first_byte = at + length as u64;
        let end = first_byte + u64::from(packed_bytes);
        if end > range.end {
            return Err(place(&format!("has a page of {packed_bytes} bytes that goes past its end")));
        }
        let mut page = Page {
            first_byte,
            packed_bytes,
            bytes,
            first_row: row,
            rows: values,
            levels: None,
            encoding: Encoding::Plain,
            codec,
        };
        match header.kind {
            2 if dictionary.is_none() && pages.is_empty() => {
                if !matches!(header.encoding, 0 | 2) {
                    return Err(place(&format!("has a dictionary in encoding {}", header.encoding)));
                }
                // Each entry has at least a byte, so that memory for them is not taken on the word of a header.
                if values > bytes {
                    return Err(place(&format!("has a dictionary of {values} entries in {bytes} bytes")));
                }
                dictionary = Some(page);
            }
            2 => return Err(place("has a second dictionary")),
            0 | 3 => {
                page.encoding = encoding(header.encoding).map_err(|reason| place(&reason))?;
                if page.encoding == Encoding::Dictionary && dictionary.is_none() {
                    return Err(place("has a page that needs a dictionary, and none"));
                }
                if let Some((definition, repetition, packed)) = header.version_2 {
                    let (Ok(definition), Ok(repetition)) = (u32::try_from(definition), u32::try_from(repetition))
                    else {
                        return Err(place("has levels of a negative size"));
                    };
                    let levels = u64::from(definition) + u64::from(repetition);
                    if levels > u64::from(packed_bytes.min(bytes)) {
                        return Err(place("has levels that are longer than their page"));
                    }
                    page.levels = Some((repetition, definition));
                    page.codec = if packed { codec } else { Codec::None };
                } else if leaf.max_definition > 0 && header.level_encoding != 3 {
                    let reason = format!("has levels in encoding {}, which is not read here", header.level_encoding);
                    return Err(place(&reason));
                }
                let next = row.checked_add(values).filter(|next| *next <= rows);
                row = next.ok_or_else(|| place(&format!("has more values than the {rows} rows of its row group")))?;
                if values > 0 {
                    *left =
                        left.checked_sub(1).ok_or("has more pages than are kept: write the file with larger pages")?;
                    pages.push(page);
                }
            }
            _ => {}
        }
        at = end;
    }
    if row != rows {
        return Err(format!("has {row} values, its row group {rows} rows"));
    }
    Ok(Chunk { dictionary, pages: pages.into_boxed_slice() })
}

fn encoding(number: i32) -> Result<Encoding, String> {
    Ok(match number {
        0 => Encoding::Plain,
        2 | 8 => Encoding::Dictionary,
        3 => Encoding::Runs,
        5 => Encoding::Delta,
        6 => Encoding::DeltaLength,
        7 => Encoding::DeltaBytes,
        9 => Encoding::Split,
        other => return Err(format!("has values in encoding {other}, which is not known")),
    })
}

fn header(file: &File, at: u64, end: u64, buffer: &mut Vec<u8>) -> Result<(Header, usize), String> {
    let mut length = HEADER_BYTES;
    loop {
        let have = (length as u64).min(end - at) as usize;
        buffer.resize(have.max(HEADER_BYTES), 0);
        file.read_exact_at(&mut buffer[..have], at).map_err(|error| format!("cannot be read at byte {at}: {error}"))?;
        let mut thrift = Thrift::new(&buffer[..have]);
        if let Some(header) = page_header(&mut thrift) {
            return Ok((header, thrift.position()));
        }
        if have < length || length >= MOST_HEADER_BYTES {
            return Err(format!("has a page header at byte {at} that makes no sense: the file is damaged"));
        }
        length *= 8;
    }
}

fn page_header(thrift: &mut Thrift) -> Option<Header> {
    let mut header = Header::default();
    thrift.structure(|thrift, number, _| {
        match number {
            1 => header.kind = thrift.int32()?,
            2 => header.bytes = thrift.int32()?,
            3 => header.packed_bytes = thrift.int32()?,
            5 | 7 => thrift.structure(|thrift, field, _| {
                match (number, field) {
                    (_, 1) => header.values = thrift.int32()?,
                    (_, 2) => header.encoding = thrift.int32()?,
                    // A dictionary has a boolean of this number.
                    (5, 3) => header.level_encoding = thrift.int32()?,
                    _ => return Some(false),
                }
                Some(true)
            })?,
            8 => {
                let (mut definition, mut repetition, mut packed) = (0, 0, true);
                thrift.structure(|thrift, number, wire| {
                    match number {
                        1 => header.values = thrift.int32()?,
                        4 => header.encoding = thrift.int32()?,
                        5 => definition = thrift.int32()?,
                        6 => repetition = thrift.int32()?,
                        // A boolean has no bytes of its own.
                        7 => packed = wire == TRUE,
                        _ => return Some(false),
                    }
                    Some(true)
                })?;
                header.version_2 = Some((definition, repetition, packed));
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some(header)
}

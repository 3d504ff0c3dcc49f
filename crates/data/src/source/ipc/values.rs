//! From the bytes of buffers to numbers.
//!
//! In: where the buffers of a column lie, in the file or unpacked in memory; a range of values. Out: these values as numbers of one
//! type, one after the other, and which of them cannot be told ([`Flag`]). Text becomes its category or its hash on the way.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::schema::Values;
use crate::layout::Conversion;

/// Values that are taken at once.
pub const PIECE: usize = 8192;
/// Bytes of a buffer that are read at once; text of more bytes is only read where it was compressed.
pub const PIECE_BYTES: usize = 256 << 10;
/// Bytes that are read where text lies here and there.
const WINDOW_BYTES: u64 = 16 << 10;

/// Where a buffer lies.
#[derive(Clone, Copy)]
pub enum Place {
    File { first: u64, bytes: u64 },
    Memory { first: usize, bytes: usize },
}

impl Place {
    fn bytes(self) -> u64 {
        match self {
            Place::File { bytes, .. } => bytes,
            Place::Memory { bytes, .. } => bytes as u64,
        }
    }
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    Sound,
    Missing,
    Strange,
    TooLong,
}

/// Memory that is used again and again.
pub struct Scratch {
    raw: Box<[u8]>,
    text: Box<[u8]>,
    plain: Box<[u8]>,
}

impl Scratch {
    pub const BYTES: u64 = 2 * PIECE_BYTES as u64 + 8 * PIECE as u64;

    pub fn new() -> Scratch {
        Scratch {
            raw: vec![0; PIECE_BYTES].into(),
            text: vec![0; PIECE_BYTES].into(),
            plain: vec![0; 8 * PIECE].into(),
        }
    }
}

/// Where bytes come from.
#[derive(Clone, Copy)]
pub struct Fetch<'a> {
    pub file: &'a File,
    pub memory: &'a [u8],
}

const CUT: &str = "its values point outside of their buffer";

impl<'a> Fetch<'a> {
    /// Bytes of a buffer: as they lie in memory, or read into `into`.
    fn get<'s>(self, place: Place, range: Range<u64>, into: &'s mut [u8]) -> Result<&'s [u8], String>
    where
        'a: 's,
    {
        if range.start > range.end || range.end > place.bytes() {
            return Err(CUT.to_owned());
        }
        match place {
            Place::Memory { first, .. } => Ok(&self.memory[first + range.start as usize..first + range.end as usize]),
            Place::File { first, .. } => {
                let into = into.get_mut(..(range.end - range.start) as usize).ok_or(CUT)?;
                self.file.read_exact_at(into, first + range.start).map_err(|error| match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => "the file ends here: it was cut while it was read".to_owned(),
                    _ => format!("cannot be read: {error}"),
                })?;
                Ok(into)
            }
        }
    }
}

/// How many values may be taken at once.
pub fn piece_values(values: Values) -> usize {
    match values {
        Values::Fixed(width) => (PIECE_BYTES / width).clamp(1, PIECE),
        _ => PIECE,
    }
}

/// Notes what the bits of a mask call missing; each bit stands for `repeat` values.
pub fn mask(
    fetch: Fetch,
    place: Place,
    repeat: u64,
    values: Range<u64>,
    scratch: &mut Scratch,
    flags: &mut [Flag],
) -> Result<bool, String> {
    let bits = values.start / repeat..values.end.div_ceil(repeat);
    let bytes = fetch.get(place, bits.start / 8..bits.end.div_ceil(8), &mut scratch.raw)?;
    let inner = bytes.len().saturating_sub(1).max(1);
    if bytes.len() > 2 && bytes[1..inner].iter().all(|byte| *byte == 0xff) {
        // Most masks have few gaps: only the first and the last byte may then say something.
        let edge = |bit: u64| bytes[(bit / 8 - bits.start / 8) as usize] >> (bit % 8) & 1 == 1;
        let first = bits.start..(bits.start / 8 + 1) * 8;
        let last = (bits.end - 1) / 8 * 8..bits.end;
        if first.chain(last).all(edge) {
            return Ok(false);
        }
    }
    let mut any = false;
    for (flag, value) in flags.iter_mut().zip(values) {
        let bit = value / repeat;
        if bytes[(bit / 8 - bits.start / 8) as usize] >> (bit % 8) & 1 == 0 {
            *flag = Flag::Missing;
            any = true;
        }
    }
    Ok(any)
}

/// Values as numbers of `values.plain()`, at most [`piece_values`] at once. Missing ones are not looked at; says whether a flag was set.
pub fn plain<'s>(
    fetch: Fetch<'s>,
    values: Values,
    conversion: &Conversion,
    places: &[Place],
    range: Range<u64>,
    scratch: &'s mut Scratch,
    flags: &mut [Flag],
) -> Result<(&'s [u8], bool), String> {
    let Scratch { raw, text, plain } = scratch;
    let (first, count) = (*places.first().ok_or(CUT)?, (range.end - range.start) as usize);
    let mut any = false;
    // Text of more bytes than are read at once is none.
    let mut set = |into: &mut [u8; 8], found: Option<&[u8]>, flag: &mut Flag| {
        let number = found.and_then(|found| conversion.number(found));
        if number.is_none() {
            *flag = if found.is_some() { Flag::Strange } else { Flag::TooLong };
            any = true;
        }
        *into = number.unwrap_or(0).to_ne_bytes();
    };
    let wide = plain.as_chunks_mut::<8>().0;
    match values {
        Values::Number(dtype) => {
            let width = dtype.bytes() as u64;
            return Ok((fetch.get(first, range.start * width..range.end * width, raw)?, false));
        }
        Values::Bits => {
            let start = range.start / 8;
            let bytes = fetch.get(first, start..range.end.div_ceil(8), raw)?;
            for (into, bit) in plain.iter_mut().zip(range) {
                *into = bytes[(bit / 8 - start) as usize] >> (bit % 8) & 1;
            }
            return Ok((&plain[..count], false));
        }
        Values::Decimal(width, unit) => {
            let bytes = fetch.get(first, range.start * width as u64..range.end * width as u64, raw)?;
            for (into, bytes) in wide.iter_mut().zip(bytes.chunks_exact(width)) {
                *into = (signed(bytes) as f64 / unit).to_ne_bytes();
            }
        }
        Values::Fixed(width) => {
            let bytes = fetch.get(first, range.start * width as u64..range.end * width as u64, raw)?;
            for ((into, bytes), flag) in wide.iter_mut().zip(bytes.chunks_exact(width)).zip(flags) {
                if *flag == Flag::Sound {
                    set(into, Some(bytes), flag);
                }
            }
        }
        Values::Text(width) => {
            let width = width as u64;
            let offsets = fetch.get(first, range.start * width..(range.end + 1) * width, raw)?;
            let offset = |at: usize| {
                let bytes = &offsets[at * width as usize..(at + 1) * width as usize];
                u64::try_from(signed(bytes)).map_err(|_| CUT.to_owned())
            };
            let data = *places.get(1).ok_or(CUT)?;
            let mut at = 0;
            while at < count {
                let start = offset(at)?;
                // As many texts as fit into what is read at once; at least one.
                let mut end = at + 1;
                while end < count && offset(end + 1)?.saturating_sub(start) <= PIECE_BYTES as u64 {
                    end += 1;
                }
                let most = offset(end)?;
                if matches!(data, Place::File { .. }) && most.saturating_sub(start) > PIECE_BYTES as u64 {
                    if flags[at] == Flag::Sound {
                        set(&mut wide[at], None, &mut flags[at]);
                    }
                    at = end;
                    continue;
                }
                let bytes = fetch.get(data, start..most, text)?;
                for number in at..end {
                    let range = (offset(number)?, offset(number + 1)?);
                    let (from, to) = (range.0.checked_sub(start).ok_or(CUT)?, range.1.checked_sub(start).ok_or(CUT)?);
                    let found = bytes.get(from as usize..to as usize).ok_or(CUT)?;
                    if flags[number] == Flag::Sound {
                        set(&mut wide[number], Some(found), &mut flags[number]);
                    }
                }
                at = end;
            }
        }
        Values::Views => {
            let views = fetch.get(first, range.start * 16..range.end * 16, raw)?.as_chunks::<16>().0;
            let mut window = (0, 0..0);
            for ((into, view), flag) in wide.iter_mut().zip(views).zip(flags).filter(|(_, flag)| **flag == Flag::Sound)
            {
                let word = |at: usize| u32::from_le_bytes(*view[at..].first_chunk().expect("four bytes"));
                let length = word(0) as usize;
                if let Some(found) = view[4..].get(..length) {
                    set(into, Some(found), flag);
                    continue;
                }
                let (number, start) = (word(8) as usize, u64::from(word(12)));
                let place = *places.get(1..).and_then(|data| data.get(number)).ok_or(CUT)?;
                let end = start + length as u64;
                if let Place::Memory { .. } = place {
                    set(into, Some(fetch.get(place, start..end, &mut [])?), flag);
                    continue;
                }
                if length > PIECE_BYTES {
                    set(into, None, flag);
                    continue;
                }
                let known =
                    |window: &(usize, Range<u64>)| window.0 == number && window.1.start <= start && end <= window.1.end;
                if !known(&window) {
                    let most = place.bytes().min(end.max(start + WINDOW_BYTES)).max(end);
                    fetch.get(place, start..most, text)?;
                    window = (number, start..most);
                }
                let from = (start - window.1.start) as usize;
                set(into, Some(&text[from..from + length]), flag);
            }
        }
    }
    Ok((&plain[..count * 8], any))
}

/// A whole number with the lowest byte first.
fn signed(bytes: &[u8]) -> i128 {
    let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    let mut all = [if negative { 0xff } else { 0 }; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(all)
}

//! From the bytes of a page to numbers.
//!
//! In: the values of a page as they are packed, the type of the column. Out: numbers of one of three types ([`Stage`]), in their
//! order, without those that are missing. Text becomes its category or its hash on the way.

use half::f16;

use super::delta::Delta;
use super::hybrid::Hybrid;
use super::pages::Encoding;
use super::schema::Physical;
use crate::layout::Conversion;

/// What values are turned into before they are put into rows: `f32` for fields of that type, `f64` for other floats, `i64` for whole
/// numbers.
pub trait Stage: Copy + Default + Send + 'static {
    /// Not known.
    const MISSING: Self;
    /// Text that is none of the categories; no text has this number.
    const STRANGE: Self;
    fn from_f64(value: f64) -> Self;
    fn from_f32(value: f32) -> Self;
    fn from_i64(value: i64) -> Self;
    fn from_u64(value: u64) -> Self;
    fn is_strange(self) -> bool;
}

impl Stage for f32 {
    const MISSING: f32 = f32::NAN;
    const STRANGE: f32 = f32::from_bits(0x7fc0_5a5a);
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    fn from_f32(value: f32) -> f32 {
        value
    }
    fn from_i64(value: i64) -> f32 {
        value as f32
    }
    fn from_u64(value: u64) -> f32 {
        value as f32
    }
    fn is_strange(self) -> bool {
        self.to_bits() == f32::STRANGE.to_bits()
    }
}

impl Stage for f64 {
    const MISSING: f64 = f64::NAN;
    const STRANGE: f64 = f64::from_bits(0x7ff8_0000_0000_5a5a);
    fn from_f64(value: f64) -> f64 {
        value
    }
    fn from_f32(value: f32) -> f64 {
        value.into()
    }
    fn from_i64(value: i64) -> f64 {
        value as f64
    }
    fn from_u64(value: u64) -> f64 {
        value as f64
    }
    fn is_strange(self) -> bool {
        self.to_bits() == f64::STRANGE.to_bits()
    }
}

impl Stage for i64 {
    const MISSING: i64 = 0;
    const STRANGE: i64 = i64::MIN;
    fn from_f64(value: f64) -> i64 {
        value as i64
    }
    fn from_f32(value: f32) -> i64 {
        value as i64
    }
    fn from_i64(value: i64) -> i64 {
        value
    }
    /// The bits as they are: the one who puts them into rows knows whether they have a sign.
    fn from_u64(value: u64) -> i64 {
        value as i64
    }
    fn is_strange(self) -> bool {
        self == i64::STRANGE
    }
}

/// What a column's values are and become.
#[derive(Clone, Copy)]
pub struct Meaning<'a> {
    pub physical: Physical,
    pub conversion: &'a Conversion,
}

const CUT: &str = "its values end too early";
const BATCH: usize = 1024;
/// Text that shares its beginning may be so many times as long as its page: more is an attack on our time.
const MOST_SHARED: usize = 1024;

impl Meaning<'_> {
    /// Values from number `skip` on; `into` says how many. `dictionary` has been decoded by [`Meaning::plain`].
    pub fn decode<T: Stage>(
        self,
        encoding: Encoding,
        bytes: &[u8],
        dictionary: &[T],
        skip: usize,
        into: &mut [T],
    ) -> Result<(), String> {
        if into.is_empty() {
            return Ok(());
        }
        let done = match encoding {
            Encoding::Plain => self.plain(bytes, skip, into),
            Encoding::Dictionary => return gather(bytes, dictionary, skip, into),
            Encoding::Runs if self.physical == Physical::Bool => runs(bytes, skip, into),
            Encoding::Delta => self.delta(bytes, skip, into),
            Encoding::Split => return self.split(bytes, skip, into),
            Encoding::DeltaLength => self.delta_length(bytes, skip, into),
            Encoding::DeltaBytes => self.delta_bytes(bytes, skip, into),
            Encoding::Runs => return Err("its values are packed as booleans are, and are none".to_owned()),
        };
        done.ok_or_else(|| CUT.to_owned())
    }

    /// Values one after the other, each as it is.
    pub fn plain<T: Stage>(self, bytes: &[u8], skip: usize, into: &mut [T]) -> Option<()> {
        match self.physical {
            Physical::Bool => {
                let end = skip.checked_add(into.len())?;
                if end.div_ceil(8) > bytes.len() {
                    return None;
                }
                for (value, at) in into.iter_mut().zip(skip..) {
                    *value = T::from_i64((bytes[at >> 3] >> (at & 7) & 1).into());
                }
            }
            Physical::Bytes | Physical::DecimalBytes(_) => {
                let mut rest = bytes;
                let mut next = || {
                    let (length, after) = rest.split_first_chunk::<4>()?;
                    let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                    rest = after;
                    Some(text)
                };
                for _ in 0..skip {
                    next()?;
                }
                for value in into {
                    *value = self.bytes(next()?);
                }
            }
            _ => {
                let width = self.width();
                let first = skip.checked_mul(width)?;
                let bytes = bytes.get(first..first.checked_add(into.len().checked_mul(width)?)?)?;
                self.fixed(bytes, into);
            }
        }
        Some(())
    }

    /// Bytes of a value whose bytes are always as many.
    fn width(self) -> usize {
        match self.physical {
            Physical::Int32 | Physical::UInt32 | Physical::Float | Physical::DecimalInt32(_) => 4,
            Physical::Int64 | Physical::UInt64 | Physical::Double | Physical::DecimalInt64(_) => 8,
            Physical::Int96 => 12,
            Physical::Half => 2,
            Physical::Fixed(width) | Physical::DecimalFixed(width, _) => width,
            Physical::Bool | Physical::Bytes | Physical::DecimalBytes(_) => 0,
        }
    }

    /// As many values as `into` takes; `bytes` has exactly those.
    fn fixed<T: Stage>(self, bytes: &[u8], into: &mut [T]) {
        match self.physical {
            Physical::Double => each::<T, 8>(bytes, into, |bytes| T::from_f64(f64::from_le_bytes(bytes))),
            Physical::Float => each::<T, 4>(bytes, into, |bytes| T::from_f32(f32::from_le_bytes(bytes))),
            Physical::Int32 => each::<T, 4>(bytes, into, |bytes| T::from_i64(i32::from_le_bytes(bytes).into())),
            Physical::UInt32 => each::<T, 4>(bytes, into, |bytes| T::from_i64(u32::from_le_bytes(bytes).into())),
            Physical::Int64 => each::<T, 8>(bytes, into, |bytes| T::from_i64(i64::from_le_bytes(bytes))),
            Physical::UInt64 => each::<T, 8>(bytes, into, |bytes| T::from_u64(u64::from_le_bytes(bytes))),
            Physical::Half => each::<T, 2>(bytes, into, |bytes| T::from_f32(f16::from_le_bytes(bytes).to_f32())),
            Physical::DecimalInt32(unit) => {
                each::<T, 4>(bytes, into, |bytes| T::from_f64(f64::from(i32::from_le_bytes(bytes)) / unit));
            }
            Physical::DecimalInt64(unit) => {
                each::<T, 8>(bytes, into, |bytes| T::from_f64(i64::from_le_bytes(bytes) as f64 / unit));
            }
            Physical::Int96 => each::<T, 12>(bytes, into, |bytes| T::from_i64(nanoseconds(bytes))),
            Physical::Fixed(width) | Physical::DecimalFixed(width, _) => {
                for (value, bytes) in into.iter_mut().zip(bytes.chunks_exact(width)) {
                    *value = self.bytes(bytes);
                }
            }
            Physical::Bool | Physical::Bytes | Physical::DecimalBytes(_) => {}
        }
    }

    /// A value that is bytes: text, or a decimal number.
    fn bytes<T: Stage>(self, bytes: &[u8]) -> T {
        match self.physical {
            Physical::DecimalBytes(unit) | Physical::DecimalFixed(_, unit) => T::from_f64(big_endian(bytes) / unit),
            _ => self.conversion.number(bytes).map_or(T::STRANGE, T::from_i64),
        }
    }

    fn whole<T: Stage>(self, value: i64) -> Option<T> {
        Some(match self.physical {
            // Differences are taken in the width of the type, and may have gone round.
            Physical::Int32 => T::from_i64(i64::from(value as i32)),
            Physical::UInt32 => T::from_i64(i64::from(value as u32)),
            Physical::Int64 => T::from_i64(value),
            Physical::UInt64 => T::from_u64(value as u64),
            Physical::DecimalInt32(unit) => T::from_f64(f64::from(value as i32) / unit),
            Physical::DecimalInt64(unit) => T::from_f64(value as f64 / unit),
            _ => return None,
        })
    }

    fn delta<T: Stage>(self, bytes: &[u8], skip: usize, into: &mut [T]) -> Option<()> {
        let mut delta = Delta::new(bytes)?;
        for _ in 0..skip {
            delta.next()?;
        }
        for value in into {
            *value = self.whole(delta.next()?)?;
        }
        Some(())
    }

    fn is_bytes(self) -> bool {
        use Physical::{Bytes, DecimalBytes, DecimalFixed, Fixed, Half};
        matches!(self.physical, Bytes | DecimalBytes(_) | Fixed(_) | DecimalFixed(..) | Half)
    }

    fn delta_length<T: Stage>(self, bytes: &[u8], skip: usize, into: &mut [T]) -> Option<()> {
        if !self.is_bytes() {
            return None;
        }
        let mut rest = Delta::new(bytes)?.rest()?;
        let mut lengths = Delta::new(bytes)?;
        let mut next = || {
            let (text, after) = rest.split_at_checked(usize::try_from(lengths.next()?).ok()?)?;
            rest = after;
            Some(text)
        };
        for _ in 0..skip {
            next()?;
        }
        for value in into {
            *value = self.bytes(next()?);
        }
        Some(())
    }

    /// Text as what it shares with the one before and what follows. The one before is kept: it is never longer than the page.
    fn delta_bytes<T: Stage>(self, bytes: &[u8], skip: usize, into: &mut [T]) -> Option<()> {
        if !self.is_bytes() {
            return None;
        }
        let suffixes = Delta::new(bytes)?.rest()?;
        let mut rest = Delta::new(suffixes)?.rest()?;
        let (mut prefixes, mut lengths) = (Delta::new(bytes)?, Delta::new(suffixes)?);
        let mut before: Vec<u8> = Vec::with_capacity(rest.len());
        let mut work = bytes.len().saturating_mul(MOST_SHARED);
        for at in 0..skip + into.len() {
            let shared = usize::try_from(prefixes.next()?).ok().filter(|shared| *shared <= before.len())?;
            let (text, after) = rest.split_at_checked(usize::try_from(lengths.next()?).ok()?)?;
            rest = after;
            before.truncate(shared);
            before.extend_from_slice(text);
            work = work.checked_sub(before.len())?;
            if let Some(value) = at.checked_sub(skip) {
                into[value] = self.bytes(&before);
            }
        }
        Some(())
    }

    /// First bytes of all values, then their second bytes, …
    fn split<T: Stage>(self, bytes: &[u8], skip: usize, into: &mut [T]) -> Result<(), String> {
        let width = self.width();
        if !(1..=16).contains(&width) {
            return Err("its values are split into bytes, which is not read for this type".to_owned());
        }
        let count = bytes.len() / width;
        if skip.checked_add(into.len()).is_none_or(|end| end > count) {
            return Err(CUT.to_owned());
        }
        let mut value = [0; 16];
        for (at, into) in into.iter_mut().enumerate() {
            for (byte, place) in value[..width].iter_mut().zip((skip + at..).step_by(count)) {
                *byte = bytes[place];
            }
            self.fixed(&value[..width], std::slice::from_mut(into));
        }
        Ok(())
    }
}

fn each<T, const N: usize>(bytes: &[u8], into: &mut [T], value: impl Fn([u8; N]) -> T) {
    let (chunks, _) = bytes.as_chunks::<N>();
    for (into, bytes) in into.iter_mut().zip(chunks) {
        *into = value(*bytes);
    }
}

fn gather<T: Stage>(bytes: &[u8], dictionary: &[T], skip: usize, into: &mut [T]) -> Result<(), String> {
    let (width, bytes) = bytes.split_first().ok_or(CUT)?;
    let mut places = Hybrid::new(bytes, *width).ok_or("its places in the dictionary are wider than 32 bits")?;
    places.skip(skip).ok_or(CUT)?;
    let mut batch = [0; BATCH];
    for into in into.chunks_mut(BATCH) {
        let batch = &mut batch[..into.len()];
        places.fill(batch).ok_or(CUT)?;
        for (value, place) in into.iter_mut().zip(batch.iter()) {
            let place = *place as usize;
            *value = *dictionary.get(place).ok_or_else(|| {
                format!("a value is number {place} of its dictionary, which has {}", dictionary.len())
            })?;
        }
    }
    Ok(())
}

fn runs<T: Stage>(bytes: &[u8], skip: usize, into: &mut [T]) -> Option<()> {
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let mut bits = Hybrid::new(bytes.get(..u32::from_le_bytes(*length) as usize)?, 1)?;
    bits.skip(skip)?;
    let mut batch = [0; BATCH];
    for into in into.chunks_mut(BATCH) {
        let batch = &mut batch[..into.len()];
        bits.fill(batch)?;
        for (value, bit) in into.iter_mut().zip(batch.iter()) {
            *value = T::from_i64((*bit).into());
        }
    }
    Some(())
}

/// A time of day in nanoseconds and a day counted from 4713 BC; what does not fit goes round.
fn nanoseconds(bytes: [u8; 12]) -> i64 {
    let time = i64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let day = i64::from(u32::from_le_bytes(bytes[8..].try_into().expect("four bytes")));
    (day - 2_440_588).wrapping_mul(86_400_000_000_000).wrapping_add(time)
}

fn big_endian(bytes: &[u8]) -> f64 {
    let Some((first, rest)) = bytes.split_first() else { return 0.0 };
    if bytes.len() <= 16 {
        return rest.iter().fold(i128::from(*first as i8), |sum, byte| sum << 8 | i128::from(*byte)) as f64;
    }
    rest.iter().fold(f64::from(*first as i8), |sum, byte| sum * 256.0 + f64::from(*byte))
}

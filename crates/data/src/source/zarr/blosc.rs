//! Blosc frames (version 1 of the library), which Zarr's second version writes unless told otherwise.
//!
//! In: a frame. Out: its bytes. A frame is cut into blocks, a block perhaps into one stream for each byte of a number; each stream is
//! compressed by BloscLZ, LZ4, zlib or Zstandard. Afterwards bytes or bits of the same rank lie together and are put back. Not read:
//! Snappy inside, which the library itself has left out for years.

use super::codec::{self, inflate_exactly};

const HEADER: usize = 16;
/// As the library splits blocks.
const MOST_SPLITS: usize = 16;
const LEAST_STREAM: usize = 128;

/// Unpacks a frame into memory of exactly its size; `block` is kept from one frame to the next.
pub(super) fn decode(frame: &[u8], into: &mut [u8], block: &mut Vec<u8>) -> Result<(), String> {
    let word =
        |at: usize| frame.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().expect("four")) as usize);
    let cut = || "the Blosc frame ends too early".to_owned();
    let header = frame.get(..HEADER).ok_or_else(cut)?;
    let (flags, type_bytes) = (header[2], usize::from(header[3]).max(1));
    let (bytes, block_bytes) = (word(4).ok_or_else(cut)?, word(8).ok_or_else(cut)?);
    if bytes != into.len() {
        return Err(format!("the Blosc frame holds {bytes} bytes, but a chunk has {}", into.len()));
    }
    if flags & 2 != 0 {
        into.copy_from_slice(frame.get(HEADER..HEADER + bytes).ok_or_else(cut)?);
        return Ok(());
    }
    if block_bytes == 0 || block_bytes > bytes.max(1) {
        return Err(format!("the Blosc frame claims blocks of {block_bytes} bytes"));
    }
    let codec = match flags >> 5 {
        0 => Stream::BloscLz,
        1 => Stream::Lz4,
        3 => Stream::Zlib,
        4 => Stream::Zstandard,
        2 => return Err("Blosc with Snappy inside is not read: write the array again with lz4 or zstd".to_owned()),
        other => return Err(format!("the codec {other} inside Blosc is not known")),
    };
    block.clear();
    block.try_reserve_exact(block_bytes).map_err(|_| format!("no memory for a block of {block_bytes} bytes"))?;
    block.resize(block_bytes, 0);
    for (number, into) in into.chunks_mut(block_bytes).enumerate() {
        let mut at = word(HEADER + number * 4).ok_or_else(cut)?;
        let whole = into.len() == block_bytes;
        let split = flags & 0x10 == 0 && whole && type_bytes <= MOST_SPLITS && block_bytes / type_bytes >= LEAST_STREAM;
        let streams = if split { type_bytes } else { 1 };
        let shuffled = flags & 1 != 0 && type_bytes > 1;
        let bits = flags & 4 != 0 && into.len() >= type_bytes;
        let stream_bytes = into.len() / streams;
        if stream_bytes * streams != into.len() {
            return Err("the blocks of the Blosc frame cannot be split".to_owned());
        }
        let length = into.len();
        let target: &mut [u8] = if shuffled || bits { &mut block[..length] } else { &mut *into };
        for target in target.chunks_mut(stream_bytes) {
            let packed = word(at).ok_or_else(cut)?;
            let end = (at + 4).checked_add(packed).ok_or_else(cut)?;
            let stream = frame.get(at + 4..end).ok_or_else(cut)?;
            if packed == target.len() {
                target.copy_from_slice(stream)
            } else {
                codec.decode(stream, target)?
            }
            at = end;
        }
        if shuffled {
            unshuffle(&block[..length], into, type_bytes);
        } else if bits {
            unshuffle_bits(&block[..length], into, type_bytes);
        }
    }
    Ok(())
}

enum Stream {
    BloscLz,
    Lz4,
    Zlib,
    Zstandard,
}

impl Stream {
    fn decode(&self, stream: &[u8], into: &mut [u8]) -> Result<(), String> {
        let length = into.len();
        let done = match self {
            Stream::BloscLz => blosclz(stream, into).ok_or("a BloscLZ stream is damaged")?,
            Stream::Lz4 => lz4_flex::block::decompress_into(stream, into).map_err(|error| error.to_string())?,
            Stream::Zlib => return inflate_exactly(flate2::bufread::ZlibDecoder::new(stream), into),
            Stream::Zstandard => return codec::zstandard(stream, into),
        };
        if done == length { Ok(()) } else { Err(format!("a stream has {done} bytes in place of {length}")) }
    }
}

/// Bytes of the same rank lay together.
fn unshuffle(from: &[u8], into: &mut [u8], type_bytes: usize) {
    let count = from.len() / type_bytes;
    for rank in 0..type_bytes {
        let lane = &from[rank * count..(rank + 1) * count];
        for (place, byte) in into[rank..].iter_mut().step_by(type_bytes).zip(lane) {
            *place = *byte;
        }
    }
    into[count * type_bytes..].copy_from_slice(&from[count * type_bytes..]);
}

/// Bits of the same rank lay together; the library leaves blocks alone whose numbers are no multiple of 8.
fn unshuffle_bits(from: &[u8], into: &mut [u8], type_bytes: usize) {
    let count = from.len() / type_bytes;
    if !count.is_multiple_of(8) {
        into.copy_from_slice(from);
        return;
    }
    let lane = count / 8;
    for rank in 0..type_bytes {
        for eight in 0..lane {
            let mut bytes = [0u8; 8];
            for bit in 0..8 {
                let packed = from[(rank * 8 + bit) * lane + eight];
                for (number, byte) in bytes.iter_mut().enumerate() {
                    *byte |= ((packed >> number) & 1) << bit;
                }
            }
            for (number, byte) in bytes.into_iter().enumerate() {
                into[(eight * 8 + number) * type_bytes + rank] = byte;
            }
        }
    }
    into[count * type_bytes..].copy_from_slice(&from[count * type_bytes..]);
}

/// BloscLZ, a descendant of FastLZ: runs of literal bytes, and matches of a length and a distance. How many bytes came out; none where
/// the stream is damaged.
fn blosclz(stream: &[u8], into: &mut [u8]) -> Option<usize> {
    /// Distances from here on take two more bytes.
    const FAR: usize = 8191;
    let mut bytes = stream.iter().copied();
    let mut done = 0usize;
    let mut control = usize::from(bytes.next()? & 31);
    loop {
        if control >= 32 {
            let mut length = (control >> 5) - 1;
            let mut distance = (control & 31) << 8;
            if length == 6 {
                loop {
                    let more = usize::from(bytes.next()?);
                    length += more;
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = usize::from(bytes.next()?);
            if low == 255 && distance == 31 << 8 {
                distance = FAR + (usize::from(bytes.next()?) << 8) + usize::from(bytes.next()?);
            } else {
                distance += low;
            }
            let (length, first) = (length + 3, done.checked_sub(distance + 1)?);
            if length > into.len() - done {
                return None;
            }
            // Matches may overlap what they write.
            for step in 0..length {
                into[done + step] = into[first + step];
            }
            done += length;
        } else {
            for _ in 0..=control {
                *into.get_mut(done)? = bytes.next()?;
                done += 1;
            }
        }
        match bytes.next() {
            Some(next) => control = usize::from(next),
            None => return Some(done),
        }
    }
}

//! How the bytes of a chunk are packed.
//!
//! In: the bytes of a chunk as they lie in a file. Out: its numbers, as bytes, in memory of exactly their size: nothing that a file
//! claims makes the memory grow. One compression at most, with checksums inside or around it.

use std::io::Read;

use super::blosc;

/// One step, in the order in which they were applied when the chunk was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Zlib,
    Zstandard,
    Blosc,
    /// A block of LZ4 after its length, as `numcodecs` writes it.
    Lz4,
    Crc32c,
}

/// Memory that is kept from chunk to chunk.
#[derive(Default)]
pub(super) struct Room {
    block: Vec<u8>,
    inner: Vec<u8>,
}

/// The most that a chunk of so many bytes may take when it is packed: compression adds little to what it cannot make smaller.
pub(super) fn most_packed(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 16).saturating_add(64 << 10)
}

/// Unpacks a chunk.
pub(super) fn decode(mut packed: &[u8], codecs: &[Codec], into: &mut [u8], room: &mut Room) -> Result<(), String> {
    for (index, codec) in codecs.iter().enumerate().rev() {
        if *codec == Codec::Crc32c {
            packed = checked(packed)?;
            continue;
        }
        let inside = codecs[..index].len() * 4;
        if inside == 0 {
            return unpack(*codec, packed, into, &mut room.block);
        }
        // Checksums lie behind the numbers before they are compressed.
        let mut inner = std::mem::take(&mut room.inner);
        inner.resize(into.len() + inside, 0);
        let done = unpack(*codec, packed, &mut inner, &mut room.block).and_then(|()| {
            let mut rest: &[u8] = &inner;
            for _ in 0..index {
                rest = checked(rest)?;
            }
            into.copy_from_slice(rest);
            Ok(())
        });
        room.inner = inner;
        return done;
    }
    if packed.len() != into.len() {
        return Err(format!("it has {} bytes in place of {}", packed.len(), into.len()));
    }
    into.copy_from_slice(packed);
    Ok(())
}

fn unpack(codec: Codec, packed: &[u8], into: &mut [u8], block: &mut Vec<u8>) -> Result<(), String> {
    match codec {
        Codec::Gzip => inflate_exactly(flate2::bufread::MultiGzDecoder::new(packed), into),
        Codec::Zlib => inflate_exactly(flate2::bufread::ZlibDecoder::new(packed), into),
        Codec::Zstandard => zstandard(packed, into),
        Codec::Blosc => blosc::decode(packed, into, block),
        Codec::Lz4 => {
            let stream = packed.get(4..).ok_or("the LZ4 block ends too early")?;
            let done = lz4_flex::block::decompress_into(stream, into).map_err(|error| error.to_string())?;
            exactly(done, into.len())
        }
        Codec::Crc32c => unreachable!("checked before"),
    }
}

/// Bytes that an unpacker gives, which must be as many as there is room for.
pub(super) fn inflate_exactly(mut from: impl Read, into: &mut [u8]) -> Result<(), String> {
    from.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => format!("it unpacks to less than {} bytes", into.len()),
        _ => error.to_string(),
    })?;
    match from.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(format!("it unpacks to more than {} bytes", into.len())),
        Err(error) => Err(error.to_string()),
    }
}

/// A Zstandard frame, without a window of its own: it writes straight into the memory.
pub(super) fn zstandard(packed: &[u8], into: &mut [u8]) -> Result<(), String> {
    let done = zstd::bulk::decompress_to_buffer(packed, into).map_err(|error| error.to_string())?;
    exactly(done, into.len())
}

fn exactly(done: usize, wanted: usize) -> Result<(), String> {
    if done == wanted { Ok(()) } else { Err(format!("it unpacks to {done} bytes in place of {wanted}")) }
}

/// What is before the checksum, if that is right.
pub(super) fn checked(bytes: &[u8]) -> Result<&[u8], String> {
    let (rest, sum) = bytes.split_last_chunk::<4>().ok_or("it ends before its checksum")?;
    if crc32c(rest) == u32::from_le_bytes(*sum) {
        Ok(rest)
    } else {
        Err("its checksum (crc32c) does not fit its bytes".to_owned())
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum, byte| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}

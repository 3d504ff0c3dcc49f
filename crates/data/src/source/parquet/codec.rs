//! How pages are compressed.
//!
//! In: the bytes of a page, memory of exactly the size that its header promises. Out: that memory filled, or why not. What unpacks to
//! more or less than promised is an error, and never takes more memory.

use std::io::Read;

/// A codec, by the format's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None,
    Snappy,
    Gzip,
    Brotli,
    /// LZ4 with the lengths that Hadoop puts before each block.
    Lz4Hadoop,
    Zstd,
    Lz4,
}

/// What unpacking needs besides memory for the page; it is used again and again.
#[derive(Default)]
pub struct Unpacker {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

/// What an unpacker holds at most: zstd's tables (its window is the page itself), gzip's window, brotli's with its tables.
pub fn unpacker_bytes(codec: Codec) -> u64 {
    match codec {
        Codec::None | Codec::Snappy | Codec::Lz4 | Codec::Lz4Hadoop => 0,
        Codec::Gzip => 64 << 10,
        Codec::Zstd => 256 << 10,
        Codec::Brotli => 18 << 20,
    }
}

impl Codec {
    pub fn new(number: i32) -> Result<Codec, String> {
        Ok(match number {
            0 => Codec::None,
            1 => Codec::Snappy,
            2 => Codec::Gzip,
            4 => Codec::Brotli,
            5 => Codec::Lz4Hadoop,
            6 => Codec::Zstd,
            7 => Codec::Lz4,
            3 => return Err("LZO is not read here: write the file with Zstandard or Snappy".to_owned()),
            other => return Err(format!("codec {other} is not known")),
        })
    }
}

impl Unpacker {
    /// Fills `into` from `packed`.
    pub fn unpack(&mut self, codec: Codec, packed: &[u8], into: &mut [u8]) -> Result<(), String> {
        let made = match codec {
            Codec::None if packed.len() == into.len() => {
                into.copy_from_slice(packed);
                Ok(into.len())
            }
            Codec::None => Ok(packed.len()),
            Codec::Snappy => match snap::raw::decompress_len(packed) {
                // Of another size: no work is done for it.
                Ok(length) if length != into.len() => Ok(length),
                _ => snap::raw::Decoder::new().decompress(packed, into).map_err(|error| error.to_string()),
            },
            Codec::Gzip => whole(&mut flate2::read::MultiGzDecoder::new(packed), into),
            Codec::Brotli => whole(&mut brotli_decompressor::Decompressor::new(packed, 4096), into),
            Codec::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = Some(zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?);
                }
                let zstd = self.zstd.as_mut().expect("made above");
                zstd.decompress_to_buffer(packed, into).map_err(|error| error.to_string())
            }
            Codec::Lz4 => lz4_flex::block::decompress_into(packed, into).map_err(|error| error.to_string()),
            Codec::Lz4Hadoop => match hadoop(packed, into) {
                Some(made) => Ok(made),
                // Some writers of that name left the lengths out.
                None => lz4_flex::block::decompress_into(packed, into).map_err(|error| error.to_string()),
            },
        }?;
        if made == into.len() {
            return Ok(());
        }
        Err(format!("unpacks to {made} bytes, its header says {}", into.len()))
    }
}

fn whole(from: &mut dyn Read, into: &mut [u8]) -> Result<usize, String> {
    let mut made = 0;
    while made < into.len() {
        match from.read(&mut into[made..]).map_err(|error| error.to_string())? {
            0 => return Ok(made),
            more => made += more,
        }
    }
    match from.read(&mut [0]).map_err(|error| error.to_string())? {
        0 => Ok(made),
        more => Ok(made + more),
    }
}

/// Blocks, each after its unpacked and its packed length.
fn hadoop(mut packed: &[u8], into: &mut [u8]) -> Option<usize> {
    let mut made = 0usize;
    while !packed.is_empty() {
        let (lengths, rest) = packed.split_first_chunk::<8>()?;
        let length = |at: usize| u32::from_be_bytes(lengths[at..at + 4].try_into().expect("four bytes")) as usize;
        let block = rest.get(..length(4))?;
        let target = into.get_mut(made..made.checked_add(length(0))?)?;
        if lz4_flex::block::decompress_into(block, target).ok()? != length(0) {
            return None;
        }
        made += length(0);
        packed = &rest[length(4)..];
    }
    Some(made)
}

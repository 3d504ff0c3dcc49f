//! How the buffers of a record batch are compressed.
//!
//! In: the bytes of a buffer, memory of exactly the size that it says. Out: that memory filled, or why not. Frames of LZ4 are taken
//! apart here, so that each block is unpacked in its place: `lz4_flex`'s own reader of frames holds up to 8 MiB besides.

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None,
    Lz4,
    Zstd,
}

/// What zstd holds for itself: its window is the buffer.
pub const ZSTD_BYTES: u64 = 256 << 10;

impl Codec {
    /// By the format's number.
    pub fn new(number: u8) -> Result<Codec, String> {
        match number {
            0 => Ok(Codec::Lz4),
            1 => Ok(Codec::Zstd),
            other => Err(format!("codec {other} is not known")),
        }
    }

    /// More than this can come out of no buffer of so many bytes.
    pub fn most_bytes(self, packed: u64) -> u64 {
        match self {
            Codec::None => packed,
            Codec::Lz4 => packed.saturating_mul(255),
            // A block of 4 bytes repeats one byte up to 128 Ki times.
            Codec::Zstd => packed.saturating_mul(32 << 10),
        }
    }
}

/// What unpacking needs; it is used again and again.
#[derive(Default)]
pub struct Unpacker {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Unpacker {
    /// Fills `into` from `packed`.
    pub fn unpack(&mut self, codec: Codec, packed: &[u8], into: &mut [u8]) -> Result<(), String> {
        let made = match codec {
            Codec::None => packed.len(),
            Codec::Lz4 => frame(packed, into)?,
            Codec::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = Some(zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?);
                }
                let zstd = self.zstd.as_mut().expect("made above");
                zstd.decompress_to_buffer(packed, into).map_err(|error| format!("cannot be unpacked: {error}"))?
            }
        };
        if made == into.len() {
            return Ok(());
        }
        Err(format!("unpacks to {made} bytes, where it says {}", into.len()))
    }
}

/// A frame of LZ4: a header, blocks with their lengths, a length of 0. Sums over the content are not checked.
fn frame(packed: &[u8], into: &mut [u8]) -> Result<usize, String> {
    const CUT: &str = "its LZ4 frame ends too early";
    let (head, _) = packed.split_first_chunk::<6>().ok_or(CUT)?;
    let flags = head[4];
    if head[..4] != [0x04, 0x22, 0x4d, 0x18] || flags >> 6 != 1 {
        return Err("is no LZ4 frame".to_owned());
    }
    // The length of the content, the number of a dictionary, the sum over the header.
    let header = 6 + usize::from(flags >> 3 & 1) * 8 + usize::from(flags & 1) * 4 + 1;
    let sum_bytes = usize::from(flags >> 4 & 1) * 4;
    let mut rest = packed.get(header..).ok_or(CUT)?;
    let mut made = 0;
    loop {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        let length = u32::from_le_bytes(*length);
        if length == 0 {
            return Ok(made);
        }
        let (block, after) = after.split_at_checked((length & 0x7fff_ffff) as usize).ok_or(CUT)?;
        rest = after.get(sum_bytes..).ok_or(CUT)?;
        let (done, space) = into.split_at_mut(made);
        made += if length >> 31 == 1 {
            let space = space.get_mut(..block.len()).ok_or("unpacks to more bytes than it says")?;
            space.copy_from_slice(block);
            block.len()
        } else {
            // Blocks may repeat what came up to 64 KiB before them.
            let before = &done[done.len().saturating_sub(64 << 10)..];
            lz4_flex::block::decompress_into_with_dict(block, space, before)
                .map_err(|error| format!("cannot be unpacked: {error}"))?
        };
    }
}

//! How large a picture is, from the first bytes of its file, before anything is decoded.
//!
//! In: a file. Out: what it is, width and height, and how it must be turned; or why it cannot be read. Only markers are read, whatever
//! lies between them, and a description. Not looked at: one that a PNG has behind its pixels.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use super::upright::Turn;

/// What packs a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Jpeg,
    Png,
}

/// The size of a picture as it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) packing: Packing,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) turn: Turn,
}

impl Size {
    pub(super) fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Width and height once it is turned.
    pub(super) fn upright(self) -> (usize, usize) {
        if self.turn.lies() { (self.height, self.width) } else { (self.width, self.height) }
    }
}

/// More than any camera makes; what Pillow too takes for an attack.
pub(super) const MOST_PIXELS: u64 = 178_956_970;
/// The densest that a picture of one colour can be.
const MOST_PIXELS_PER_BYTE: u64 = 8192;
/// Markers before the size; pictures have a few dozen.
const MOST_MARKERS: usize = 1024;

/// Reads the size.
pub(super) fn size_of(file: &File, bytes: u64) -> Result<Size, String> {
    let read = |into: &mut [u8], at: u64| {
        file.read_exact_at(into, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => "the file ends before the picture begins".to_owned(),
            _ => error.to_string(),
        })
    };
    let mut start = [0; 24];
    read(&mut start[..2], 0)?;
    let size = if start[..2] == [0xff, 0xd8] {
        jpeg(&read)?
    } else {
        read(&mut start, 0)?;
        if &start[..8] != b"\x89PNG\r\n\x1a\n" || &start[12..16] != b"IHDR" {
            return Err("it is neither JPEG nor PNG".to_owned());
        }
        let word = |at: usize| u32::from_be_bytes(start[at..at + 4].try_into().expect("four bytes")) as usize;
        Size { packing: Packing::Png, width: word(16), height: word(20), turn: png_turn(&read) }
    };
    let claim = format!("it claims {} × {} pixels", size.width, size.height);
    if size.pixels() == 0 {
        return Err(format!("{claim}, which is nothing"));
    }
    if size.pixels() > MOST_PIXELS {
        return Err(format!("{claim}; more than {MOST_PIXELS} are not decoded"));
    }
    if size.pixels() / MOST_PIXELS_PER_BYTE > bytes {
        return Err(format!("{claim}, but the file has only {bytes} bytes"));
    }
    Ok(size)
}

/// Fills a buffer from a place of the file.
pub(super) type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> Result<(), String>;

fn jpeg(read: ReadAt) -> Result<Size, String> {
    let (mut at, mut turn) = (2, None);
    for _ in 0..MOST_MARKERS {
        let mut marker = [0; 4];
        read(&mut marker, at)?;
        if marker[0] != 0xff {
            return Err(format!("there is no JPEG marker at byte {at}"));
        }
        match marker[1] {
            // Filling before a marker, and markers without a length.
            0xff => at += 1,
            0x01 | 0xd0..=0xd7 => at += 2,
            0xda | 0xd9 => break,
            0xc0..=0xcf if !matches!(marker[1], 0xc4 | 0xc8 | 0xcc) => {
                let mut frame = [0; 5];
                read(&mut frame, at + 4)?;
                let half = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
                return Ok(Size {
                    packing: Packing::Jpeg,
                    height: half(1),
                    width: half(3),
                    turn: turn.unwrap_or(Turn::NONE),
                });
            }
            kind => {
                let length = u64::from(u16::from_be_bytes([marker[2], marker[3]])).max(2);
                if kind == 0xe1 && turn.is_none() {
                    turn = Turn::of_jpeg(read, at + 4, length - 2);
                }
                at += 2 + length;
            }
        }
    }
    Err("the JPEG file does not say how large it is".to_owned())
}

/// How a PNG must be turned: what its chunk `eXIf` says. Whatever is wrong with the chunks, the decoder says better.
fn png_turn(read: ReadAt) -> Turn {
    let mut at = 8;
    for _ in 0..MOST_MARKERS {
        let mut head = [0; 8];
        if read(&mut head, at).is_err() {
            break;
        }
        let bytes = u64::from(u32::from_be_bytes([head[0], head[1], head[2], head[3]]));
        match &head[4..] {
            b"IDAT" | b"IEND" => break,
            b"eXIf" => return Turn::of(read, at + 8, bytes).unwrap_or(Turn::NONE),
            // Its length, its name and its checksum are twelve bytes.
            _ => at += 12 + bytes,
        }
    }
    Turn::NONE
}

//! Pictures as they were seen: cameras write a picture as their sensor had it, and beside it (EXIF) how it must be turned.
//!
//! In: the description in a file, pixels. Out: which of the eight ways a picture must be turned, and the pixels turned. A description
//! that makes no sense, or none, is no reason to turn or to refuse a picture.

use super::size::ReadAt;

/// Tags of a picture that are looked at; cameras write about a dozen.
const MOST_TAGS: usize = 64;
const ORIENTATION: u16 = 0x0112;
const SHORT: u16 = 3;

/// How a picture must be turned: as EXIF numbers them, 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(u8);

impl Turn {
    /// As it is.
    pub(super) const NONE: Turn = Turn(1);

    /// What a JPEG's description of so many bytes says, which begins at a byte of the file: `Exif` is written before it.
    pub(super) fn of_jpeg(read: ReadAt, first: u64, bytes: u64) -> Option<Turn> {
        let mut start = [0; 6];
        read(&mut start, first).ok().filter(|()| bytes >= 6 && &start == b"Exif\0\0")?;
        Turn::of(read, first + 6, bytes - 6)
    }

    /// What a description (TIFF) of so many bytes says, which begins at a byte of the file.
    pub(super) fn of(read: ReadAt, first: u64, bytes: u64) -> Option<Turn> {
        let mut start = [0; 8];
        read(&mut start, first).ok().filter(|()| bytes >= 8)?;
        let little = match &start[..4] {
            b"II\x2a\0" => true,
            b"MM\0\x2a" => false,
            _ => return None,
        };
        let half = |from: &[u8]| match little {
            true => u16::from_le_bytes([from[0], from[1]]),
            false => u16::from_be_bytes([from[0], from[1]]),
        };
        let word = [start[4], start[5], start[6], start[7]];
        let tags_at = u64::from(if little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) });
        let mut tags = [0; 2 + 12 * MOST_TAGS];
        read(&mut tags[..2], first + tags_at).ok().filter(|()| tags_at + 2 <= bytes)?;
        let count = usize::from(half(&tags)).min(MOST_TAGS).min((bytes - tags_at - 2) as usize / 12);
        read(&mut tags[..2 + 12 * count], first + tags_at).ok()?;
        let mut tags = tags[2..2 + 12 * count].chunks_exact(12);
        let tag = tags.find(|tag| half(tag) == ORIENTATION && half(&tag[2..]) == SHORT)?;
        u8::try_from(half(&tag[8..])).ok().filter(|way| (1..=8).contains(way)).map(Turn)
    }

    /// Whether width and height change places.
    pub(super) fn lies(self) -> bool {
        self.0 >= 5
    }

    /// Pixels of so many bytes each, turned; both pieces of memory have exactly the picture.
    pub(super) fn turn(self, from: &[u8], width: usize, height: usize, pixel_bytes: usize, into: &mut [u8]) {
        let across = if self.lies() { height } else { width };
        for (row, line) in into.chunks_exact_mut(across * pixel_bytes).enumerate() {
            for (column, pixel) in line.chunks_exact_mut(pixel_bytes).enumerate() {
                let (x, y) = match self.0 {
                    2 => (width - 1 - column, row),
                    3 => (width - 1 - column, height - 1 - row),
                    4 => (column, height - 1 - row),
                    5 => (row, column),
                    6 => (row, height - 1 - column),
                    7 => (width - 1 - row, height - 1 - column),
                    8 => (width - 1 - row, column),
                    _ => (column, row),
                };
                let place = (y * width + x) * pixel_bytes;
                pixel.copy_from_slice(&from[place..place + pixel_bytes]);
            }
        }
    }
}

//! The texts that Keras writes into an HDF5 file (`.h5`), beside the weights.
//!
//! Offsets, kinds and classes are those of the HDF5 File Format Specification, version 3.0 (II.A superblock, III.E global heap, IV.A object headers).
//!
//! In: the file's bytes, or its beginning: Keras writes the texts first. Out: the texts of the root group's attributes, by their names. What is
//! read is the first layout of the format, which h5py writes unless it is told otherwise: superblock 0 or 1, object headers of version
//! 1, attributes that are one text, in place or in the global heap. Weights are never read. No offset and no size is believed: what
//! lies outside of the bytes is not there.

/// What every HDF5 file begins with.
pub(super) const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// More pieces and messages than the header of any real group has.
const MAX_BLOCKS: usize = 64;
const MAX_MESSAGES: usize = 4096;
/// As many as a collection of the global heap can number.
const MAX_OBJECTS: usize = 1 << 16;
/// Kinds of messages in an object header.
const ATTRIBUTE: u64 = 0x000C;
const CONTINUATION: u64 = 0x0010;
/// Classes of types, in the lower half of their first byte.
const FIXED_TEXT: u64 = 3;
const VARIABLE_LENGTH: u64 = 9;

/// The attributes of the root group that are texts; `None` if the layout is another one.
pub(super) fn root_texts(bytes: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let file = File { bytes };
    let root_entry = match file.number(8, 1)? {
        0 => 56,
        1 => 60,
        _ => return None,
    };
    // Offsets and lengths of eight bytes, and addresses from the file's beginning: all that h5py writes.
    if (file.number(13, 1)?, file.number(14, 1)?, file.number(root_entry - 32, 8)?) != (8, 8, 0) {
        return None;
    }
    let header = usize::try_from(file.number(root_entry + 8, 8)?).ok()?;
    if file.number(header, 1)? != 1 {
        return None;
    }
    let mut found = Vec::new();
    // The messages begin on the next multiple of eight bytes.
    let mut blocks = vec![(header + 16, file.size(header + 8, 4)?)];
    let (mut next, mut messages) = (0, 0);
    while next < blocks.len().min(MAX_BLOCKS) {
        let (mut at, length) = blocks[next];
        let end = at.checked_add(length)?;
        while at + 8 <= end && messages < MAX_MESSAGES {
            messages += 1;
            let (kind, size) = (file.number(at, 2)?, file.size(at + 2, 2)?);
            let message = at + 8;
            if kind == CONTINUATION {
                blocks.push((file.size(message, 8)?, file.size(message + 8, 8)?));
            } else if kind == ATTRIBUTE {
                found.extend(file.attribute(message));
            }
            at = message + size;
        }
        next += 1;
    }
    Some(found)
}

struct File<'a> {
    bytes: &'a [u8],
}

impl<'a> File<'a> {
    fn slice(&self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..at.checked_add(length)?)
    }

    /// A little-endian number of so many bytes.
    fn number(&self, at: usize, length: usize) -> Option<u64> {
        Some(self.slice(at, length)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A number that counts bytes of the file.
    fn size(&self, at: usize, length: usize) -> Option<usize> {
        usize::try_from(self.number(at, length)?).ok().filter(|&size| size <= self.bytes.len())
    }

    /// The name and the text of an attribute; `None` if it is something else.
    fn attribute(&self, at: usize) -> Option<(&'a str, &'a [u8])> {
        let version = self.number(at, 1)?;
        // The first version pads each part to eight bytes; the third names the characters of the name.
        let padded = |size: usize| if version == 1 { size.next_multiple_of(8) } else { size };
        let name_at = match version {
            1 | 2 => at + 8,
            3 => at + 9,
            _ => return None,
        };
        let name_size = self.size(at + 2, 2)?;
        let type_at = name_at + padded(name_size);
        let data = type_at + padded(self.size(at + 4, 2)?) + padded(self.size(at + 6, 2)?);
        let name = std::str::from_utf8(self.slice(name_at, name_size)?).ok()?.trim_end_matches('\0');
        let text = match self.number(type_at, 1)? & 0x0F {
            FIXED_TEXT => self.slice(data, self.size(type_at + 4, 4)?)?,
            VARIABLE_LENGTH => {
                let text = self.heap_object(self.size(data + 4, 8)?, self.number(data + 12, 4)?)?;
                text.get(..self.size(data, 4)?)?
            }
            _ => return None,
        };
        Some((name, without_zeros(text)))
    }

    /// An object of a collection in the global heap.
    fn heap_object(&self, collection: usize, wanted: u64) -> Option<&'a [u8]> {
        if self.slice(collection, 4)? != b"GCOL" {
            return None;
        }
        let end = collection.checked_add(self.size(collection + 8, 8)?)?;
        let mut at = collection + 16;
        for _ in 0..MAX_OBJECTS {
            if at + 16 > end {
                break;
            }
            let (index, size) = (self.number(at, 2)?, self.size(at + 8, 8)?);
            // Object 0 is the free space behind the last one.
            match index {
                0 => return None,
                index if index == wanted => return self.slice(at + 16, size),
                _ => at += 16 + size.next_multiple_of(8),
            }
        }
        None
    }
}

/// Fixed texts are filled up with zeros.
fn without_zeros(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &text[..end]
}

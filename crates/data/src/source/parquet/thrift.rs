//! Thrift's compact protocol, as far as Parquet uses it.
//!
//! In: bytes. Out: one value after the other; nothing is allocated here, and what nobody asks for is passed over. A length is believed
//! only as far as there are bytes. `None` means that the bytes ended or make no sense.

/// Structures inside structures: more are an attack on the stack.
const DEEPEST: u8 = 32;

/// Wire types of the compact protocol.
pub const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Reads values in the order in which they lie.
pub struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub fn new(bytes: &'a [u8]) -> Thrift<'a> {
        Thrift { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A whole number of any width.
    pub fn int(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// One that does not fit into 32 bits is none.
    pub fn int32(&mut self) -> Option<i32> {
        self.int()?.try_into().ok()
    }

    /// A number of a single byte.
    pub fn int8(&mut self) -> Option<i8> {
        self.byte().map(|byte| byte as i8)
    }

    /// Text or bytes.
    pub fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.unsigned()?).ok()?;
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }

    /// How many elements a list has. Each has at least a byte: no more are believed than there are bytes left.
    pub fn list(&mut self) -> Option<usize> {
        self.typed_list().map(|(count, _)| count)
    }

    fn typed_list(&mut self) -> Option<(usize, u8)> {
        let byte = self.byte()?;
        let short = usize::from(byte >> 4);
        let count = if short == 15 { usize::try_from(self.unsigned()?).ok()? } else { short };
        (count <= self.bytes.len() - self.at).then_some((count, byte & 0x0f))
    }

    /// Goes through a structure: `field` gets each number with its wire type, and says whether it has read the value.
    pub fn structure(&mut self, mut field: impl FnMut(&mut Thrift<'a>, i16, u8) -> Option<bool>) -> Option<()> {
        let mut number = 0i16;
        loop {
            let byte = self.byte()?;
            let kind = byte & 0x0f;
            if kind == 0 {
                return Some(());
            }
            let step = i16::from(byte >> 4);
            number = if step == 0 { i16::try_from(self.int()?).ok()? } else { number.checked_add(step)? };
            if !field(self, number, kind)? {
                self.skip(kind, 0)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => self.at += 1,
            DOUBLE => self.at += 8,
            UUID => self.at += 16,
            BINARY => drop(self.binary()?),
            LIST | SET => {
                let (count, kind) = self.typed_list()?;
                for _ in 0..count {
                    // In a list, a boolean takes a byte.
                    if kind <= FALSE { self.byte().map(drop)? } else { self.skip(kind, depth + 1)? }
                }
            }
            MAP => {
                let count = self.unsigned()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        for kind in [kinds >> 4, kinds & 0x0f] {
                            if kind <= FALSE { self.byte().map(drop)? } else { self.skip(kind, depth + 1)? }
                        }
                    }
                }
            }
            STRUCT => loop {
                let byte = self.byte()?;
                if byte & 0x0f == 0 {
                    break;
                }
                if byte >> 4 == 0 {
                    self.int()?;
                }
                self.skip(byte & 0x0f, depth + 1)?;
            },
            // Whole numbers of 16, 32 and 64 bits.
            4..=6 => drop(self.unsigned()?),
            _ => return None,
        }
        (self.at <= self.bytes.len()).then_some(())
    }
}

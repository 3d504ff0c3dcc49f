//! Thrift's compact protocol, as far as a Parquet file of numbers needs it.

/// Bytes of structures, as they are written one inside the other.
#[derive(Default)]
pub struct Thrift {
    pub bytes: Vec<u8>,
    last: Vec<i16>,
}

impl Thrift {
    fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    fn field(&mut self, number: i16, kind: u8) {
        let last = self.last.last_mut().expect("fields are inside structures");
        let step = number - std::mem::replace(last, number);
        debug_assert!((1..16).contains(&step));
        self.bytes.push((step as u8) << 4 | kind);
    }

    /// A structure that is no field: the whole, or an element of a list.
    pub fn structure(&mut self, inside: impl FnOnce(&mut Thrift)) {
        self.last.push(0);
        inside(self);
        self.last.pop();
        self.bytes.push(0);
    }

    pub fn struct_field(&mut self, number: i16, inside: impl FnOnce(&mut Thrift)) {
        self.field(number, 12);
        self.structure(inside);
    }

    pub fn i32(&mut self, number: i16, value: i32) {
        self.field(number, 5);
        self.signed(value.into());
    }

    pub fn i64(&mut self, number: i16, value: i64) {
        self.field(number, 6);
        self.signed(value);
    }

    pub fn text(&mut self, number: i16, text: &str) {
        self.field(number, 8);
        self.text_element(text);
    }

    pub fn text_element(&mut self, text: &str) {
        self.unsigned(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub fn i32_element(&mut self, value: i32) {
        self.signed(value.into());
    }

    /// The beginning of a list: its elements follow. Kinds: 5 numbers, 8 text, 12 structures.
    pub fn list(&mut self, number: i16, kind: u8, count: usize) {
        self.field(number, 9);
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.unsigned(count as u64);
        }
    }
}

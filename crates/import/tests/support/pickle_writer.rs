//! Writes pickles by hand, as Python writes them and as nobody should.
//!
//! In: values. Out: bytes of protocol 4. A part of a test, not a test of its own.

/// A pickle in the making.
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// The start of protocol 4.
    pub fn new() -> Writer {
        Writer(vec![0x80, 4])
    }

    pub fn raw(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn text(self, text: &str) -> Writer {
        self.raw(&[0x8c, text.len() as u8]).raw(text.as_bytes())
    }

    /// As Python does it: the shortest form.
    pub fn int(self, number: i64) -> Writer {
        match number {
            0..=0xff => self.raw(&[b'K', number as u8]),
            0x100..=0xffff => self.raw(b"M").raw(&(number as u16).to_le_bytes()),
            _ => match i32::try_from(number) {
                Ok(number) => self.raw(b"J").raw(&number.to_le_bytes()),
                Err(_) => self.raw(&[0x8a, 8]).raw(&number.to_le_bytes()),
            },
        }
    }

    /// A dictionary of whole numbers and texts, with anything else behind them.
    pub fn dict(self, numbers: &[(&str, i64)], texts: &[(&str, &str)], rest: impl Fn(Writer) -> Writer) -> Writer {
        let mut writer = self.raw(b"}(");
        for (key, number) in numbers {
            writer = writer.text(key).int(*number);
        }
        for (key, text) in texts {
            writer = writer.text(key).text(text);
        }
        rest(writer).raw(b"u")
    }

    pub fn stop(self) -> Vec<u8> {
        self.raw(b".").0
    }
}

/// A snapshot with one segment, one buffer in it, and these entries as its history.
pub fn snapshot(entries: impl Fn(Writer) -> Writer) -> Vec<u8> {
    let frames = |writer: Writer| {
        writer
            .text("frames")
            .raw(b"](")
            .dict(&[("line", 12)], &[("filename", "train.py"), ("name", "main")], |w| w)
            .raw(b"e")
    };
    let block = |writer: Writer| {
        let numbers = [("address", ADDRESS), ("size", 12 << 20), ("requested_size", 12 << 20)];
        writer.text("blocks").raw(b"](").dict(&numbers, &[("state", "active_allocated")], frames).raw(b"e")
    };
    let segment = |writer: Writer| {
        let numbers = [("device", 0), ("address", ADDRESS), ("total_size", 12 << 20), ("stream", 0)];
        writer.dict(&numbers, &[("segment_type", "large")], block)
    };
    let whole = |writer: Writer| {
        let writer = segment(writer.text("segments").raw(b"](")).raw(b"e");
        entries(writer.text("device_traces").raw(b"](](")).raw(b"ee")
    };
    Writer::new().dict(&[], &[], whole).stop()
}

/// Where the segment lies.
pub const ADDRESS: i64 = 0x7f00_0000_0000;

/// One entry of a history.
pub fn entry(writer: Writer, action: &str, address: i64, bytes: i64) -> Writer {
    writer.dict(
        &[("addr", address), ("size", bytes), ("stream", 0), ("time_us", 1_794_743_722_727_249)],
        &[("action", action)],
        |w| w,
    )
}

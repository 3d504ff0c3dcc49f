//! What the bytes of a log are: text as most write it, text in UTF-16 as PowerShell's `>` writes it, or no text at all.
//!
//! In: bytes, a piece at a time, cut anywhere. Out: UTF-8 where it was UTF-16, else the bytes as they are, without a copy; and what a file is that
//! is no text. The first bytes decide, and are held until there are enough of them. Not looked at: a change of encoding further down.

use std::mem;

/// Bytes that are looked at before the first is handed on.
const HEAD_BYTES: usize = 4096;
/// So many bytes are too few to call them no text.
const FEW_BYTES: usize = 512;
/// UTF-16 is decoded so many bytes at a time.
const PIECE_BYTES: usize = 64 << 10;

/// What a file is that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoText {
    /// `a gzip archive`.
    pub what: &'static str,
    /// What to do instead.
    pub how: &'static str,
    /// Whether its first bytes say so; else it only looks like it.
    pub certain: bool,
}

const OTHER: &str = "name the file that the job's output was written to";

/// How files begin that are taken for logs, what they are, and what to do.
const BEGINNINGS: [(&[u8], &str, &str); 10] = [
    (b"\x1f\x8b", "a gzip archive", "pass what is in it: zcat FILE | brimful explain -"),
    (b"BZh91AY&SY", "a bzip2 archive", "pass what is in it: bzcat FILE | brimful explain -"),
    (b"\xfd7zXZ\0", "an xz archive", "pass what is in it: xzcat FILE | brimful explain -"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "pass what is in it: zstdcat FILE | brimful explain -"),
    (b"PK\x03\x04", "a zip archive", "pass what is in it: unzip -p FILE | brimful explain -"),
    (b"\x7fELF", "a program", OTHER),
    (b"MZ\x90\0", "a program", OTHER),
    (b"\x89PNG\r\n\x1a\n", "a picture", OTHER),
    (b"\xff\xd8\xff", "a picture", OTHER),
    (b"%PDF-", "a PDF", OTHER),
];

impl NoText {
    /// What a file is that begins like this, if it is no text.
    fn of(head: &[u8]) -> Option<NoText> {
        let begins = BEGINNINGS.iter().find(|(start, ..)| head.starts_with(start));
        if let Some(&(_, what, how)) = begins {
            return Some(NoText { what, how, certain: true });
        }
        // A log that was cut off while it was written to begins with zeros; other encodings have any byte above 127.
        let zeros = head.iter().filter(|&&byte| byte == 0).count();
        let odd =
            head.iter().filter(|&&byte| (1..0x20).contains(&byte) && !b"\t\n\r\x1b\x07\x08\x0b\x0c".contains(&byte));
        let (odd, rest) = (odd.count(), head.len() - zeros);
        (rest >= FEW_BYTES && odd >= rest / 20).then_some(NoText { what: "binary data", how: OTHER, certain: false })
    }
}

/// How a text is written.
enum Form {
    /// Not decided: what came so far.
    Open(Vec<u8>),
    /// As it is.
    Plain,
    /// In units of two bytes.
    Wide(Wide),
}

/// From bytes to text, as a stream.
pub struct Decoder {
    form: Form,
    no_text: Option<NoText>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { form: Form::Open(Vec::new()), no_text: None }
    }
}

impl Decoder {
    /// Takes more bytes; hands on what they say.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) {
        if let Form::Open(head) = &mut self.form {
            let (first, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - head.len()));
            head.extend_from_slice(first);
            if head.len() < HEAD_BYTES {
                return;
            }
            self.decide(&mut take);
            bytes = rest;
        }
        self.go_on(bytes, &mut take);
    }

    /// There are no more; gives what they were, if they were no text.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Option<NoText> {
        self.decide(&mut take);
        self.no_text
    }

    fn decide(&mut self, take: &mut impl FnMut(&[u8])) {
        let Form::Open(head) = &mut self.form else { return };
        let head = mem::take(head);
        let wide = Wide::of(&head);
        self.no_text = if wide.is_some() { None } else { NoText::of(&head) };
        self.form = wide.map_or(Form::Plain, Form::Wide);
        self.go_on(&head, take);
    }

    fn go_on(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) {
        match &mut self.form {
            Form::Open(_) => {}
            Form::Plain => take(bytes),
            Form::Wide(wide) => bytes.chunks(PIECE_BYTES).for_each(|piece| take(wide.read(piece).as_bytes())),
        }
    }
}

/// UTF-16, cut anywhere.
struct Wide {
    big_endian: bool,
    /// The first byte of a unit whose second is still to come.
    half: Option<u8>,
    /// The first unit of a pair whose second is still to come.
    first: Option<u16>,
    text: String,
}

impl Wide {
    /// The decoder of a text that begins like this, if it is one: with its mark, or with a zero in nearly every second place.
    fn of(head: &[u8]) -> Option<Wide> {
        let big_endian = match head {
            // Four bytes for each character: nobody writes it.
            [0xff, 0xfe, 0, 0, ..] => return None,
            [0xff, 0xfe, ..] => false,
            [0xfe, 0xff, ..] => true,
            _ => {
                let (pairs, _) = head.as_chunks::<2>();
                let little = pairs.iter().filter(|pair| pair[0] != 0 && pair[1] == 0).count();
                let big = pairs.iter().filter(|pair| pair[0] == 0 && pair[1] != 0).count();
                let (most, least) = (little.max(big), little.min(big));
                if most < 4 || most < pairs.len() / 10 * 8 || least > pairs.len() / 20 {
                    return None;
                }
                big > little
            }
        };
        Some(Wide { big_endian, half: None, first: None, text: String::new() })
    }

    /// What so many more bytes say, as far as they are whole.
    fn read(&mut self, bytes: &[u8]) -> &str {
        self.text.clear();
        for &byte in bytes {
            let Some(half) = self.half.take() else {
                self.half = Some(byte);
                continue;
            };
            let unit =
                if self.big_endian { u16::from_be_bytes([half, byte]) } else { u16::from_le_bytes([half, byte]) };
            match (self.first.take(), unit) {
                (None, 0xd800..=0xdbff) => self.first = Some(unit),
                (None, _) => self.text.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
                (Some(first), _) => self
                    .text
                    .extend(char::decode_utf16([first, unit]).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER))),
            }
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is handed on of these bytes, in pieces of so many.
    fn decoded(bytes: &[u8], piece: usize) -> (String, Option<NoText>) {
        let (mut decoder, mut text) = (Decoder::default(), Vec::new());
        bytes.chunks(piece).for_each(|piece| decoder.push(piece, |bytes| text.extend_from_slice(bytes)));
        let no_text = decoder.finish(|bytes| text.extend_from_slice(bytes));
        (String::from_utf8_lossy(&text).into_owned(), no_text)
    }

    fn wide(text: &str, big_endian: bool) -> Vec<u8> {
        let unit = |unit: u16| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn units_and_pairs_may_be_cut_anywhere() {
        let text = format!("step 1 ✓ 🚀 loss\n{}", "epoch 2 🚀 done\r\n".repeat(600));
        for big_endian in [false, true] {
            for mark in ["", "\u{feff}"] {
                let bytes = wide(&format!("{mark}{text}"), big_endian);
                for piece in [1, 3, 7, 4095, 4096, 4097, bytes.len()] {
                    assert_eq!(
                        decoded(&bytes, piece),
                        (format!("{mark}{text}"), None),
                        "{big_endian} {mark:?} {piece}"
                    );
                }
            }
        }
        // The end is missing, or a pair's half.
        assert_eq!(decoded(b"\xff\xfeK\0i\0l", 2).0, "\u{feff}Ki");
        assert_eq!(decoded(b"\xff\xfe\x3d\xd8K\0", 1).0, "\u{feff}\u{fffd}K");
    }

    #[test]
    fn other_text_is_handed_on_as_it_is() {
        let zeros = [&[0; 5000][..], b"Killed\n"].concat();
        for bytes in [&b"Killed\n"[..], b"", b"a\0b\0", b"\xff\0\x1b", &zeros, b"loss \xe9t\xe9 \x00\x01\x02\n"] {
            let (mut decoder, mut text) = (Decoder::default(), Vec::new());
            decoder.push(bytes, |bytes| text.extend_from_slice(bytes));
            assert_eq!(decoder.finish(|bytes| text.extend_from_slice(bytes)), None);
            assert_eq!(text, bytes);
        }
    }

    #[test]
    fn files_that_are_no_text_are_known() {
        assert_eq!(
            decoded(b"\x1f\x8b\x08\0rest", 1).1.map(|found| (found.what, found.certain)),
            Some(("a gzip archive", true))
        );
        assert_eq!(decoded(b"\x7fELF\x02\x01\x01", 3).1.map(|found| found.what), Some("a program"));
        let noise: Vec<u8> = (0..4000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(decoded(&noise, 100).1.map(|found| (found.what, found.certain)), Some(("binary data", false)));
        // Colours and bars are text.
        let bars = "\u{1b}[32m10%\u{1b}[0m|###|\u{8}\u{8}\r".repeat(200);
        assert_eq!(decoded(bars.as_bytes(), 100).1, None);
    }
}

//! Numbers with units, as logs write them.
//!
//! In: text around a phrase. Out: bytes. Units are binary however they are spelt: PyTorch, TensorFlow, XLA, Java, R and the kernel all
//! divide by 1024 and write `MB`, `MiB`, `M` or `kB` as they please. A number without a unit is in bytes only where a message says so.

/// Units by their first letters, longest first; the multiplier is a power of 1024.
const UNITS: [(&str, u32); 24] = [
    ("kibibytes", 1),
    ("mebibytes", 2),
    ("gibibytes", 3),
    ("kilobytes", 1),
    ("megabytes", 2),
    ("gigabytes", 3),
    ("terabytes", 4),
    ("bytes", 0),
    ("byte", 0),
    ("kbytes", 1),
    ("mbytes", 2),
    ("gbytes", 3),
    ("kib", 1),
    ("mib", 2),
    ("gib", 3),
    ("tib", 4),
    ("kb", 1),
    ("mb", 2),
    ("gb", 3),
    ("tb", 4),
    ("ki", 1),
    ("mi", 2),
    ("gi", 3),
    ("ti", 4),
];
const LETTERS: [(u8, u32); 7] = [(b'b', 0), (b'k', 1), (b'm', 2), (b'g', 3), (b't', 4), (b'p', 5), (b'e', 6)];

/// A number and its unit at the start of a text, after what separates it from a phrase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// The number as written.
    pub value: f64,
    /// 1024 to the power of the unit; none where no unit follows.
    pub unit_bytes: Option<u64>,
}

impl Quantity {
    /// Bytes; a bare number counts as bytes.
    pub fn bytes(self) -> u64 {
        let bytes = self.value * self.unit_bytes.unwrap_or(1) as f64;
        // Saturates: a number of fifty digits is no reason to wrap.
        bytes.round() as u64
    }
}

/// The size that follows a phrase (any case): `Tried to allocate` in `Tried to allocate 2.00 GiB`.
pub fn size_after(text: &str, phrase: &str) -> Option<u64> {
    after(text, phrase).and_then(quantity).filter(|found| found.unit_bytes.is_some()).map(Quantity::bytes)
}

/// The number of bytes that follows a phrase, with or without a unit.
pub fn bytes_after(text: &str, phrase: &str) -> Option<u64> {
    after(text, phrase).and_then(quantity).map(Quantity::bytes)
}

/// The plain number that follows a phrase.
pub fn number_after(text: &str, phrase: &str) -> Option<u64> {
    after(text, phrase).and_then(quantity).map(|found| found.value as u64)
}

/// The size that ends where a phrase begins: ` total capacity` in `7.79 GiB total capacity`.
pub fn size_before(text: &str, phrase: &str) -> Option<u64> {
    let at = find(text, phrase)?;
    let head = text[..at].trim_end();
    // The last word, or the last two: `7.79 GiB`, `7.79GiB`, `4096 MB`.
    let last = head.rfind(|c: char| c.is_whitespace() || "(;,[/".contains(c)).map_or(0, |i| i + next_char(head, i));
    if let Some(found) = quantity(&head[last..]).filter(|found| found.unit_bytes.is_some()) {
        return Some(found.bytes());
    }
    let shorter = head[..last].trim_end();
    let start =
        shorter.rfind(|c: char| c.is_whitespace() || "(;,[:=/".contains(c)).map_or(0, |i| i + next_char(shorter, i));
    let found = quantity(&head[start..]).filter(|found| found.unit_bytes.is_some())?;
    Some(found.bytes())
}

/// What follows a phrase, whatever its case.
pub fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    find(text, phrase).map(|at| &text[at + phrase.len()..])
}

/// Where a phrase stands, whatever its case. Phrases are ASCII, so that bounds are those of characters.
pub fn find(text: &str, phrase: &str) -> Option<usize> {
    let (text, phrase) = (text.as_bytes(), phrase.as_bytes());
    if phrase.is_empty() || text.len() < phrase.len() {
        return None;
    }
    let (low, high) = (phrase[0].to_ascii_lowercase(), phrase[0].to_ascii_uppercase());
    let last = text.len() - phrase.len();
    memchr::memchr2_iter(low, high, &text[..=last]).find(|&at| text[at..at + phrase.len()].eq_ignore_ascii_case(phrase))
}

/// Whether a text has a phrase, whatever its case.
pub fn has(text: &str, phrase: &str) -> bool {
    find(text, phrase).is_some()
}

/// Whether a text has one of several phrases.
pub fn has_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| has(text, phrase))
}

/// Whether a text has a word, in this very case, with no letter or digit beside it: `EMFILE` is not in `systemfile`.
pub fn has_word(text: &str, word: &str) -> bool {
    let beside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .any(|(at, _)| !beside(text[..at].chars().next_back()) && !beside(text[at + word.len()..].chars().next()))
}

/// Whether a text has one of several words, whatever their case.
pub fn has_word_of(text: &str, words: &[&str]) -> bool {
    let lower = text.to_ascii_lowercase();
    words.iter().any(|word| has_word(&lower, word))
}

/// A number at the start of a text, after blanks and `: = ( ~ <`.
pub fn quantity(text: &str) -> Option<Quantity> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || ":=(~<\"'*`".contains(c));
    let bytes = text.as_bytes();
    let mut end = 0;
    let mut digits = String::new();
    while let Some(&byte) = bytes.get(end) {
        let digit_follows = bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'0'..=b'9' => digits.push(char::from(byte)),
            b'.' if digit_follows && !digits.contains('.') && !digits.is_empty() => digits.push('.'),
            // Commas group by three: `1,234,567`; in a list (`3,224`) they end the number.
            b',' | b'_' if groups_of_three(&bytes[end..]) && !digits.is_empty() && digits.len() <= 15 => {}
            _ => break,
        }
        end += 1;
    }
    let value: f64 = digits.parse().ok()?;
    // NumPy rounds to three digits and keeps the point: `926. GiB`.
    let rest = &text[end..];
    let mut rest = rest.strip_prefix(". ").filter(|tail| unit(tail).is_some()).unwrap_or(rest);
    let mut value = value;
    // `1.2e+09`; without a sign it may be the start of a word.
    if let Some(power) = rest.strip_prefix("e+").or_else(|| rest.strip_prefix("E+")) {
        let length = power.bytes().take_while(u8::is_ascii_digit).count();
        if let (1..=2, Ok(exponent)) = (length, power[..length].parse::<i32>()) {
            value *= 10f64.powi(exponent);
            rest = &power[length..];
        }
    }
    Some(Quantity { value, unit_bytes: unit(rest.trim_start_matches([' ', '-', '\u{a0}'])) })
}

fn groups_of_three(text: &[u8]) -> bool {
    text.len() > 3 && text[1..4].iter().all(u8::is_ascii_digit) && !text.get(4).is_some_and(u8::is_ascii_digit)
}

fn unit(text: &str) -> Option<u64> {
    let word: String =
        text.chars().take_while(char::is_ascii_alphabetic).take(12).collect::<String>().to_ascii_lowercase();
    if let Some((_, power)) = UNITS.iter().find(|(name, _)| *name == word) {
        return Some(1 << (10 * power));
    }
    let [letter] = word.as_bytes() else { return None };
    LETTERS.iter().find(|(known, _)| known == letter).map(|(_, power)| 1 << (10 * power))
}

fn next_char(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{GIB, MIB};

    #[test]
    fn sizes_are_read_as_written() {
        for (text, bytes) in [
            ("allocate 2.00 GiB. GPU", 2 * GIB),
            ("allocate 20.00MiB (x", 20 * MIB),
            ("allocate: 1,048,576 bytes", MIB),
            ("allocate 1073741824 bytes", GIB),
            ("allocate 15.5G", (15.5 * GIB as f64) as u64),
            ("allocate 512M of", 512 * MIB),
            ("allocate 1.5Gi", 3 * GIB / 2),
            ("allocate 2 Gb", 2 * GIB),
            ("allocate 1e+3 MB", 1000 * MIB),
            ("allocate 118. MiB for", 118 * MIB),
            ("allocate 2E", 2 << 60),
        ] {
            assert_eq!(size_after(text, "allocate"), Some(bytes), "{text}");
        }
        assert_eq!(size_after("allocate 12", "allocate"), None);
        assert_eq!(bytes_after("allocate 12 more", "ALLOCATE"), Some(12));
    }

    #[test]
    fn sizes_before_a_phrase() {
        assert_eq!(size_before("(GPU 0; 8.00 GiB total capacity; x", "total capacity"), Some(8 * GIB));
        assert_eq!(size_before("4096MB total", "total"), Some(4096 * MIB));
        assert_eq!(size_before("the total", "total"), None);
        assert_eq!(size_before("äöü 1 KiB é total", "total"), None);
    }

    #[test]
    fn lists_are_no_thousands() {
        assert_eq!(number_after("shape [128,64]", "shape ["), Some(128));
        assert_eq!(number_after("n=12,345,678", "n"), Some(12_345_678));
    }
}

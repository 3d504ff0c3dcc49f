//! Numbers in as few bytes as they need: seven bits in each, the last without its top bit.
//!
//! In: numbers, or bytes. Out: the reverse; none where bytes end too soon or say more than 64 bits.

/// Adds a number.
pub fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Adds a difference: small ones are short, whichever way they go.
pub fn push_signed(bytes: &mut Vec<u8>, value: i64) {
    push(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

/// Takes a number off the front.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Takes a difference.
pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let value = take(bytes)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Adds a text, its length first.
pub fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes a text; bytes that are none become a question mark.
pub fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(values: Vec<u64>, differences: Vec<i64>) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| push(&mut bytes, value));
            differences.iter().for_each(|&value| push_signed(&mut bytes, value));
            let mut rest = &bytes[..];
            for value in values {
                prop_assert_eq!(take(&mut rest), Some(value));
            }
            for value in differences {
                prop_assert_eq!(take_signed(&mut rest), Some(value));
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn more_than_64_bits_are_none() {
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]), None);
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[][..]), None);
    }
}

//! Numbers as text, fast.
//!
//! In: bytes that go on for at least 8 behind the number. Out: the number and where it ends. Eight digits are taken at once. What is
//! rare (many digits, large exponents, `inf`) is left to an exact parser; what comes out is always what the exact one would say.

/// A number as it is written: `digits × 10^exponent`.
struct Decimal {
    negative: bool,
    digits: u64,
    exponent: i32,
    end: usize,
}

/// Powers of ten that are exact.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
const WHOLE_POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Up to eight digits: how many, and their value.
#[inline(always)]
fn run(bytes: &[u8], at: usize) -> (usize, u64) {
    let Some(Ok(eight)) = bytes.get(at..at + 8).map(|eight| eight.try_into().map(u64::from_le_bytes)) else {
        return (0, 0);
    };
    let less = eight ^ 0x3030_3030_3030_3030;
    // The high bit of the first byte that is no digit; those behind it may be wrong by a carry.
    let other = (less.wrapping_add(0x7676_7676_7676_7676) | less) & 0x8080_8080_8080_8080;
    let count = (other.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    let digits = less << (64 - 8 * count);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    const MASK: u64 = 0x0000_00ff_0000_00ff;
    let high = (pairs & MASK).wrapping_mul(0x000f_4240_0000_0064);
    let low = (pairs >> 16 & MASK).wrapping_mul(0x0000_2710_0000_0001);
    (count, high.wrapping_add(low) >> 32)
}

/// Appends digits; nothing if they are too many for 64 bits.
#[inline(always)]
fn digits(bytes: &[u8], mut at: usize, mut value: u64) -> Option<(usize, u64)> {
    loop {
        let (count, more) = run(bytes, at);
        value = value.checked_mul(WHOLE_POWERS[count])?.checked_add(more)?;
        at += count;
        if count < 8 {
            return Some((at, value));
        }
    }
}

#[inline(always)]
fn decimal(bytes: &[u8], at: usize) -> Option<Decimal> {
    let negative = *bytes.get(at)? == b'-';
    let first = at + usize::from(negative);
    let (mut end, mut value) = digits(bytes, first, 0)?;
    let mut written = end - first;
    let mut exponent = 0;
    if *bytes.get(end)? == b'.' {
        let fraction = end + 1;
        (end, value) = digits(bytes, fraction, value)?;
        exponent = -((end - fraction) as i32);
        written += end - fraction;
    }
    if written == 0 {
        return None;
    }
    if *bytes.get(end)? | 0x20 == b'e' {
        let sign = *bytes.get(end + 1)?;
        let first = end + 1 + usize::from(sign == b'-' || sign == b'+');
        let (count, value) = run(bytes, first);
        if count == 0 || count > 4 {
            return None;
        }
        end = first + count;
        exponent += if sign == b'-' { -(value as i32) } else { value as i32 };
    }
    Some(Decimal { negative, digits: value, exponent, end })
}

impl Decimal {
    /// At most two units in the last place away; exact where the digits are below 2^53.
    #[inline(always)]
    fn near(&self) -> Option<f64> {
        let power = POWERS.get(self.exponent.unsigned_abs() as usize)?;
        let digits = self.digits as f64;
        let value = if self.exponent < 0 { digits / power } else { digits * power };
        Some(if self.negative { -value } else { value })
    }
}

/// A number of eight bytes and where it ends; nothing where the short way does not do.
#[inline(always)]
pub fn float64(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let decimal = decimal(bytes, at)?;
    if decimal.digits < 1 << 53
        && let Some(value) = decimal.near()
    {
        return Some((value, decimal.end));
    }
    Some((fast_float2::parse::<f64, _>(&bytes[at..decimal.end]).ok()?, decimal.end))
}

/// The same rounded to four bytes: what [`float64`] would give, made smaller.
#[inline(always)]
pub fn float32(bytes: &[u8], at: usize) -> Option<(f32, usize)> {
    let decimal = decimal(bytes, at)?;
    if let Some(value) = decimal.near() {
        // The last 29 bits are rounded away. Only near the middle between two numbers does an error of two units matter.
        let rest = (value.to_bits() & 0x1fff_ffff) as i64;
        if (rest - 0x1000_0000).abs() > 4 {
            return Some((value as f32, decimal.end));
        }
    }
    Some((fast_float2::parse::<f64, _>(&bytes[at..decimal.end]).ok()? as f32, decimal.end))
}

/// A whole number and where it ends.
#[inline(always)]
pub fn int64(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = *bytes.get(at)? == b'-';
    let first = at + usize::from(negative);
    let (end, value) = digits(bytes, first, 0)?;
    let value = i64::try_from(value).ok()?;
    (end > first).then_some((if negative { -value } else { value }, end))
}

/// The same for a text that is nothing but a number, of any length: `inf` and `+1` too.
pub fn float_of(text: &[u8]) -> Option<f64> {
    fast_float2::parse::<f64, _>(text).ok()
}

/// A whole number of any length that 64 bits hold.
pub fn int_of(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str) {
        let padded = format!("{text},12345678");
        let exact: f64 = text.parse().unwrap();
        if let Some((value, end)) = float64(padded.as_bytes(), 0) {
            assert_eq!((value.to_bits(), end), (exact.to_bits(), text.len()), "{text}");
        }
        if let Some((value, end)) = float32(padded.as_bytes(), 0) {
            assert_eq!((value.to_bits(), end), ((exact as f32).to_bits(), text.len()), "{text}");
        }
    }

    #[test]
    fn the_short_way_is_taken_for_usual_numbers() {
        for text in
            ["0", "-0", "1.5", "-12.25", "0.12345678901234567", "1e-05", "123456789012345678", "7.", ".5", "1E+3"]
        {
            check(text);
            assert!(float32(format!("{text},________").as_bytes(), 0).is_some(), "{text}");
        }
        for text in [",,,,,,,,,", "-,,,,,,,,", "e5,,,,,,,", ".,,,,,,,,,", "1e,,,,,,,,,", "nan,,,,,,,"] {
            assert!(float64(text.as_bytes(), 0).is_none(), "{text}");
        }
        assert_eq!(int64(b"-123456789,,,,,,,,", 0), Some((-123_456_789, 10)));
        assert_eq!(int64(b"9223372036854775808,,,,,,,,", 0), None);
        assert_eq!(int_of(b"-9223372036854775808"), Some(i64::MIN));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn doubles_come_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                check(&format!("{value:?}"));
                check(&format!("{value:e}"));
            }
        }

        #[test]
        fn usual_numbers_come_back(whole in any::<i64>(), shift in 0i32..30, places in 0usize..20) {
            let value = whole as f64 / 2f64.powi(shift + 30);
            check(&format!("{value:.places$}"));
            check(&format!("{value}"));
        }

        /// Just beside the middle between two floats of four bytes, where rounding twice goes wrong.
        #[test]
        fn the_middle_between_two_floats(bits in 0x2000_0000u32..0x5f00_0000, off in -3i64..4) {
            let middle = (f64::from(f32::from_bits(bits)) + f64::from(f32::from_bits(bits + 1))) / 2.0;
            let beside = f64::from_bits((middle.to_bits() as i64 + off) as u64);
            check(&format!("{beside}"));
            check(&format!("{beside:e}"));
        }

        #[test]
        fn whole_numbers_come_back(value in any::<i64>()) {
            let text = format!("{value},12345678");
            if let Some((parsed, end)) = int64(text.as_bytes(), 0) {
                prop_assert_eq!((parsed, end), (value, text.len() - 9));
            }
        }
    }
}

//! Figures as people read them.

use brimful_core::bytes::{GIB, MIB, human};

/// `3.4 of 8.0 GiB (43 %)`, or `3.4 GiB` without a limit.
pub fn of(bytes: u64, limit_bytes: Option<u64>) -> String {
    let Some(limit_bytes) = limit_bytes.filter(|&limit| limit > 0) else { return human(bytes) };
    let share = 100.0 * bytes as f64 / limit_bytes as f64;
    let same_unit = (bytes >= GIB) == (limit_bytes >= GIB) && (bytes >= MIB) == (limit_bytes >= MIB);
    let (part, whole) = (human(bytes), human(limit_bytes));
    let part = if same_unit { part.split(' ').next().unwrap_or_default() } else { &part };
    format!("{part} of {whole} ({share:.0} %)")
}

/// `2 h 5 min`, `3 min 7 s`, `12.3 s`.
pub fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{:.1} s", ms as f64 / 1000.0),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1,204`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 process`, `3 processes`.
pub fn several(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", count(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_aloud() {
        assert_eq!(of(3 * GIB / 2, Some(6 * GIB)), "1.50 of 6.00 GiB (25 %)");
        assert_eq!(of(300 * MIB, Some(2 * GIB)), "300 MiB of 2.00 GiB (15 %)");
        assert_eq!((of(MIB, None).as_str(), of(MIB, Some(0)).as_str()), ("1.00 MiB", "1.00 MiB"));
        assert_eq!(
            (time(12_340).as_str(), time(187_000).as_str(), time(7_530_000).as_str()),
            ("12.3 s", "3 min 7 s", "2 h 5 min")
        );
        assert_eq!((count(0).as_str(), count(1204).as_str(), count(1_000_000).as_str()), ("0", "1,204", "1,000,000"));
    }
}

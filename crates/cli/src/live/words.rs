//! Figures as a person reads them at a glance: three digits at most, one unit for two sizes that belong together.
//!
//! In: numbers, of any size. Out: text without control characters. Memory is in powers of 1024, what flows in powers of 1000, as elsewhere.

use brimful_core::bytes::{GIB, KIB, MIB, TIB};

/// `2:30`, `1:02:30`: time since the job began.
pub fn clock(at_ms: u64) -> String {
    let seconds = at_ms / 1000;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// `40 s`, `14 min`, `3.2 h`, `5 d`: time that is left, which is never known better than this.
pub fn duration(ms: f64) -> String {
    let seconds = (ms / 1000.0).max(0.0);
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 90.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s if s < 1000.0 * 86400.0 => format!("{:.0} d", s / 86400.0),
        _ => "years".to_owned(),
    }
}

/// `1 process`, `3 processes`.
pub fn several(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", count(number)) }
}

/// `1,204`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of no known size, such as a loss.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if !value.is_finite() || size == 0.0 => format!("{value}"),
        size if (1e-3..10.0).contains(&size) => format!("{value:.4}"),
        size if (10.0..1e5).contains(&size) => format!("{value:.1}"),
        _ => format!("{value:.2e}"),
    }
}

fn unit(bytes: u64) -> (u64, &'static str) {
    match bytes {
        b if b >= TIB => (TIB, "TiB"),
        b if b >= GIB => (GIB, "GiB"),
        b if b >= MIB => (MIB, "MiB"),
        _ => (KIB, "KiB"),
    }
}

fn in_unit(bytes: u64, unit_bytes: u64) -> String {
    let value = bytes as f64 / unit_bytes as f64;
    if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// `3.2 GiB`.
pub fn size(bytes: u64) -> String {
    let (unit_bytes, name) = unit(bytes);
    format!("{} {name}", in_unit(bytes, unit_bytes))
}

/// `3.2 of 8.0 GiB`; where the first would be next to nothing in the unit of the second, `3.1 MiB of 62.8 GiB`.
pub fn of(part: u64, whole: Option<u64>) -> String {
    let Some(whole) = whole else { return size(part) };
    let (unit_bytes, name) = unit(whole);
    if part > 0 && part < unit_bytes / 20 {
        return format!("{} of {}", size(part), size(whole));
    }
    format!("{} of {} {name}", in_unit(part, unit_bytes), in_unit(whole, unit_bytes))
}

/// The same size again, where its unit is already there.
pub fn like(bytes: u64, shown: u64) -> String {
    let (unit_bytes, name) = unit(shown);
    if unit(bytes).1 == name || bytes >= unit_bytes / 20 { in_unit(bytes, unit_bytes) } else { size(bytes) }
}

/// `12 MB/s`, `850 kB/s`.
pub fn flow(bytes_per_s: f64) -> String {
    let (value, name) = match bytes_per_s.max(0.0) {
        b if b >= 1e9 => (b / 1e9, "GB/s"),
        b if b >= 1e6 => (b / 1e6, "MB/s"),
        b => (b / 1e3, "kB/s"),
    };
    if value < 9.95 && name != "kB/s" { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") }
}

/// `8.1/s`, or `20 s each` where there is less than one in two seconds.
pub fn pace(per_second: f64) -> String {
    match per_second {
        p if p >= 99.5 => format!("{p:.0}/s"),
        p if p >= 0.5 => format!("{p:.1}/s"),
        p => format!("{} each", duration(1000.0 / p)),
    }
}

/// `1.9 of 4 cores`.
pub fn cores(busy: f64, cpus: Option<f64>) -> String {
    let whole = cpus.map(|cpus| format!(" of {}", (cpus * 10.0).round() / 10.0)).unwrap_or_default();
    format!("{busy:.1}{whole} cores")
}

/// `87 %`, of a share of one.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// At most so many characters, and none that would move a cursor or change a colour.
pub fn plain(text: &str, most_chars: usize) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.by_ref().take(most_chars).collect();
    if chars.next().is_some() {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts() {
        assert_eq!([clock(0), clock(150_999), clock(3_750_000)], ["0:00", "2:30", "1:02:30"]);
        assert_eq!(
            [duration(40e3), duration(840e3), duration(4e7), duration(1e10)],
            ["40 s", "14 min", "11.1 h", "116 d"]
        );
        assert_eq!([several(1, "rank", "ranks"), several(1200, "rank", "ranks")], ["1 rank", "1,200 ranks"]);
        assert_eq!([count(7), count(1204), count(1_234_567)], ["7", "1,204", "1,234,567"]);
        assert_eq!([number(0.43217), number(f64::NAN), number(2.5e-7)], ["0.4322", "NaN", "2.50e-7"]);
        assert_eq!([pace(8.13), pace(250.4), pace(0.05)], ["8.1/s", "250/s", "20 s each"]);
        assert_eq!(
            [cores(1.94, Some(4.0)), cores(0.5, Some(1.5)), cores(2.0, None)],
            ["1.9 of 4 cores", "0.5 of 1.5 cores", "2.0 cores"]
        );
    }

    #[test]
    fn two_sizes_share_a_unit_unless_one_would_vanish() {
        assert_eq!(of(3_435_973_836, Some(8 * GIB)), "3.2 of 8.0 GiB");
        assert_eq!(of(3 * MIB, Some(62 * GIB)), "3.0 MiB of 62.0 GiB");
        assert_eq!(of(0, Some(62 * GIB)), "0.0 of 62.0 GiB");
        assert_eq!(of(512 * MIB, None), "512 MiB");
        assert_eq!([like(5 * GIB / 2, 8 * GIB), like(MIB, 8 * GIB)], ["2.5", "1.0 MiB"]);
        assert_eq!([flow(12.3e6), flow(1.25e6), flow(850e3), flow(0.0)], ["12 MB/s", "1.2 MB/s", "850 kB/s", "0 kB/s"]);
    }

    #[test]
    fn text_from_elsewhere_is_tamed() {
        assert_eq!(plain("a\x1b[2Jb\nc", 99), "a [2Jb c");
        assert_eq!(plain("abcdef", 4), "abc…");
        assert_eq!(plain("abcd", 4), "abcd");
    }
}

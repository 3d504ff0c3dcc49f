//! Dates and times, as people read them. In: milliseconds. Out: text. All dates are UTC: a recording does not know where it is read.

/// A length of time: `3.2 s`, `3 min 10 s`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{}.{} s", s, ms % 1000 / 100),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// The time of day, `12:03:10 UTC`.
pub fn clock(unix_ms: u64) -> String {
    let s = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", s / 3600, s / 60 % 60, s % 60)
}

/// The date and the time, as ISO 8601 has it: `2026-11-15T12:03:10.250Z`.
pub fn iso(unix_ms: u64) -> String {
    let (days, s) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z", s / 3600, s / 60 % 60, s % 60, unix_ms % 1000)
}

/// The same for names of files, which sort as the dates do: `20261115-120310`.
pub fn compact(unix_ms: u64) -> String {
    let ((year, month, day), s) = (civil(unix_ms / 86_400_000), unix_ms / 1000 % 86_400);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// Year, month and day of a number of days since 1970. Eras of 400 years all have the same days, and years that begin in March have
/// their leap day at the end.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso(1_794_744_190_250), "2026-11-15T12:03:10.250Z");
        assert_eq!(clock(1_794_744_190_250), "12:03:10 UTC");
        assert_eq!(compact(1_794_744_190_250), "20261115-120310");
        assert!(iso(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn durations_have_two_parts() {
        let said = [900, 59_900, 190_000, 7_500_000, 273_600_000].map(duration);
        assert_eq!(said, ["0.9 s", "59.9 s", "3 min 10 s", "2 h 5 min", "3 d 4 h"]);
    }
}

//! Figures as people read them, in sentences.
//!
//! In: numbers. Out: text. Not here: sizes, which are written as everywhere else (`brimful_core::bytes`).

use brimful_core::bytes::human;

/// A size that is not whole, such as a rate: `1.20 MiB`.
pub fn size(bytes: f64) -> String {
    // A negative one, or none at all, is zero.
    human(bytes as u64)
}

/// A count with its thousands apart: `5,200`.
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let first = digits.len() % 3;
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as whole percents, never 0 for something nor 100 for less than all.
pub fn percent(share: f64) -> String {
    let percent = (share * 100.0).round().clamp(0.0, 100.0);
    let percent = if share < 1.0 { percent.min(99.0) } else { percent };
    format!("{:.0} %", if share > 0.0 { percent.max(1.0) } else { percent })
}

/// A time to come: `less than a minute`, `about 14 minutes`, `about 3 hours`.
pub fn about(minutes: f64) -> String {
    let (number, unit) = match minutes {
        m if m < 1.0 => return "less than a minute".to_owned(),
        m if m < 90.0 => (m, "minute"),
        m if m < 48.0 * 60.0 => (m / 60.0, "hour"),
        m => (m / (24.0 * 60.0), "day"),
    };
    let number = number.round();
    format!("about {} {unit}{}", count(number), if number == 1.0 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let counts = [0.0, 999.0, 1000.0, 5200.4, 1_234_567.0, -3.0].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "5,200", "1,234,567", "0"]);
        assert_eq!([0.0, 0.001, 0.5, 0.999, 1.0].map(percent), ["0 %", "1 %", "50 %", "99 %", "100 %"]);
        let times = [0.2, 1.2, 14.0, 89.0, 100.0, 4000.0].map(about);
        assert_eq!(
            times,
            [
                "less than a minute", "about 1 minute", "about 14 minutes", "about 89 minutes", "about 2 hours",
                "about 3 days"
            ]
        );
        assert_eq!((size(1.2e6), size(-5.0), size(f64::NAN)), ("1.14 MiB".into(), "0 B".into(), "0 B".into()));
    }
}

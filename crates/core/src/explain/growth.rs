//! Figures that grow from line to line: a leak, if they go on to the end.
//!
//! In: lines that mention memory, in order. Out: the series that grew the most steadily. Lines are told apart by what is left when their
//! numbers are taken out, so that step 10 and step 20 belong together. Only a series that hardly ever falls, over many lines and by a fifth
//! or more, counts: warm-up rises at first and then stays.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sizes::quantity;

/// As many different lines are followed at a time.
const MOST_SERIES: usize = 64;
/// Fewer figures say nothing.
const LEAST_FIGURES: u64 = 5;

/// A series of figures that grew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The first line of it.
    pub first_line: u64,
    /// The last one.
    pub last_line: u64,
    /// What the last one says.
    pub text: String,
    /// The first figure.
    pub first_bytes: u64,
    /// The last one.
    pub last_bytes: u64,
    /// How many there are.
    pub figures: u64,
}

struct Series {
    growth: Growth,
    rises: u64,
    falls: u64,
    /// Rises among the last half, to tell a plateau.
    middle_bytes: u64,
}

/// Follows figures.
#[derive(Default)]
pub struct Followed {
    series: BTreeMap<String, Series>,
}

impl Followed {
    /// Takes a line.
    pub fn push(&mut self, number: u64, text: &str) {
        if text.len() > 400 {
            return;
        }
        let Some(bytes) = figure(text) else { return };
        let key: String = text.chars().filter(|c| !c.is_ascii_digit() && !".,:#=>-█▏▎▍▌▋▊▉ ".contains(*c)).take(80).collect();
        if self.series.len() >= MOST_SERIES && !self.series.contains_key(&key) {
            return;
        }
        let growth = || Growth { first_line: number, last_line: number, text: text.to_owned(), first_bytes: bytes, last_bytes: bytes, figures: 0 };
        let series = self.series.entry(key).or_insert_with(|| Series { growth: growth(), rises: 0, falls: 0, middle_bytes: bytes });
        match bytes.cmp(&series.growth.last_bytes) {
            std::cmp::Ordering::Greater => series.rises += 1,
            std::cmp::Ordering::Less => series.falls += 1,
            std::cmp::Ordering::Equal => {}
        }
        series.growth.figures += 1;
        // The figure at half of the way, near enough: it moves each time the count doubles.
        if series.growth.figures.is_power_of_two() {
            series.middle_bytes = series.growth.last_bytes;
        }
        series.growth.last_bytes = bytes;
        series.growth.last_line = number;
        text.clone_into(&mut series.growth.text);
    }

    /// The series that grew most.
    pub fn grown(&self) -> Option<Growth> {
        let steady = self.series.values().filter(|series| {
            let grown = series.growth.last_bytes.saturating_sub(series.growth.first_bytes);
            let later = series.growth.last_bytes.saturating_sub(series.middle_bytes);
            let steady = series.growth.figures >= LEAST_FIGURES && series.falls * 8 <= series.rises && series.rises * 2 >= series.growth.figures;
            steady && grown * 5 >= series.growth.first_bytes && grown > 8 << 20 && later * 5 >= grown
        });
        steady.max_by_key(|series| series.growth.last_bytes.saturating_sub(series.growth.first_bytes)).map(|series| series.growth.clone())
    }
}

/// The first size in a line that is said of memory.
fn figure(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at].is_ascii_digit() && (at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'.')) && text.is_char_boundary(at) {
            let found = quantity(&text[at..]);
            if let Some(found) = found.filter(|found| found.unit_bytes.is_some_and(|unit| unit >= 1024)) {
                return Some(found.bytes());
            }
            at += text[at..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(figures: impl Iterator<Item = u64>) -> Option<Growth> {
        let mut followed = Followed::default();
        for (step, figure) in figures.enumerate() {
            followed.push(step as u64, &format!("step {step}: memory {figure} MiB, loss 0.{step}"));
        }
        followed.grown()
    }

    #[test]
    fn a_leak_is_seen_and_a_plateau_is_not() {
        let leak = grown((0..40).map(|step| 500 + 20 * step)).expect("it grows to the end");
        assert_eq!((leak.first_bytes, leak.last_bytes), (500 << 20, 1280 << 20));
        assert_eq!(grown((0..40).map(|step| 500 + 60 * step.min(6))), None, "warm-up, then a plateau");
        assert_eq!(grown((0..40).map(|step| 500 + 200 * (step % 2))), None, "up and down");
        assert_eq!(grown((0..4).map(|step| 500 + 200 * step)), None, "too few");
    }
}

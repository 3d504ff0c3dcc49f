//! Figures that grow from line to line: a leak, if they go on to the end.
//!
//! In: lines that mention memory, in order. Out: the series that grew the most steadily. Lines are told apart by what is left when their
//! numbers are taken out, so that step 10 and step 20 belong together. Only a series that hardly ever turns, over several lines and by a
//! fifth or more, counts: warm-up rises at first and then stays. What is said to be free counts when it falls.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sizes::{Quantity, has_any, quantity};

/// As many different lines are followed at a time.
const MOST_SERIES: usize = 64;
/// Figures of one line that are followed.
const MOST_FIGURES: usize = 4;
/// Fewer lines say nothing.
const LEAST_LINES: u64 = 5;
/// Growth below this is noise.
const LEAST_BYTES: u64 = 8 << 20;

/// A series of figures that grew, or of free memory that shrank.
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
    /// Whether they are of free memory, and fell.
    pub free: bool,
}

impl Growth {
    fn grown_bytes(&self) -> u64 {
        let (from, to) =
            if self.free { (self.last_bytes, self.first_bytes) } else { (self.first_bytes, self.last_bytes) };
        to.saturating_sub(from)
    }
}

struct Series {
    growth: Growth,
    onward: u64,
    back: u64,
    /// The smallest and the largest step between two lines.
    steps: (u64, u64),
    /// The figure at a quarter to half of the way: it moves each time the count doubles, and the one to come.
    middle_bytes: u64,
    next_middle_bytes: u64,
    /// The count at the last rise: what has come to rest does not leak.
    last_onward: u64,
}

/// Follows figures.
#[derive(Default)]
pub struct Followed {
    series: BTreeMap<String, Series>,
}

impl Followed {
    /// Takes a line.
    pub fn push(&mut self, number: u64, text: &str) {
        // DeepSpeed writes down what it takes while it sets itself up, and that is meant to grow.
        if text.len() > 400 || text.contains("see_memory_usage") {
            return;
        }
        let words: String = text.chars().filter(|c| c.is_alphabetic()).take(80).collect();
        for (index, (bytes, free)) in figures(text).into_iter().enumerate() {
            let key = format!("{words} {index}");
            if self.series.len() >= MOST_SERIES && !self.series.contains_key(&key) {
                return;
            }
            let first = || Growth {
                first_line: number,
                last_line: number,
                text: String::new(),
                first_bytes: bytes,
                last_bytes: bytes,
                figures: 0,
                free,
            };
            let series = self.series.entry(key).or_insert_with(|| Series {
                growth: first(),
                onward: 0,
                back: 0,
                steps: (u64::MAX, 0),
                middle_bytes: bytes,
                next_middle_bytes: bytes,
                last_onward: 0,
            });
            series.push(number, bytes);
            text.clone_into(&mut series.growth.text);
        }
    }

    /// The series that grew most.
    pub fn grown(&self) -> Option<Growth> {
        let steady = self.series.values().filter(|series| series.is_steady());
        steady.max_by_key(|series| series.growth.grown_bytes()).map(|series| series.growth.clone())
    }
}

impl Series {
    fn push(&mut self, number: u64, bytes: u64) {
        let last = self.growth.last_bytes;
        let (more, less) = if self.growth.free { (bytes < last, bytes > last) } else { (bytes > last, bytes < last) };
        self.onward += u64::from(more);
        self.back += u64::from(less);
        if self.growth.figures > 0 {
            let step = bytes.abs_diff(last);
            self.steps = (self.steps.0.min(step), self.steps.1.max(step));
        }
        self.growth.figures += 1;
        if more {
            self.last_onward = self.growth.figures;
        }
        if self.growth.figures.is_power_of_two() {
            self.middle_bytes = self.next_middle_bytes;
            self.next_middle_bytes = bytes;
        }
        self.growth.last_bytes = bytes;
        self.growth.last_line = number;
    }

    fn is_steady(&self) -> bool {
        let grown = self.growth.grown_bytes();
        let later = Growth { first_bytes: self.middle_bytes, ..self.growth.clone() }.grown_bytes();
        // Four that are evenly apart say as much as five that are not.
        let even =
            self.growth.figures + 1 >= LEAST_LINES && self.steps.1 <= self.steps.0.saturating_add(self.steps.0 / 4);
        let steady = (self.growth.figures >= LEAST_LINES || even)
            && self.back * 8 <= self.onward
            && self.onward * 2 >= self.growth.figures;
        // What rises by the same again and again leaks, even where it has much already.
        let clockwork = self.growth.figures > LEAST_LINES
            && self.back == 0
            && self.steps.0 > 0
            && self.steps.1 <= self.steps.0.saturating_add(self.steps.0 / 4);
        // The last figure may be that of a step that had begun only.
        let goes_on = self.growth.figures - self.last_onward <= (self.growth.figures / 8).max(1);
        steady
            && goes_on
            && (clockwork || grown.saturating_mul(6) >= self.growth.first_bytes)
            && grown > LEAST_BYTES
            && later.saturating_mul(5) >= grown
    }
}

/// The sizes in a line, and whether each is said to be free.
fn figures(text: &str) -> Vec<(u64, bool)> {
    // A row of `free`: total, used, free, in units that it does not say; GiB, MiB or KiB by their size.
    if let Some(row) = text.trim_start().strip_prefix("Mem:") {
        let columns: Vec<u64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if let [total, used, ..] = columns[..] {
            let unit = [(4096, 30), (1 << 23, 20), (1 << 33, 10)]
                .iter()
                .find(|(most, _)| total < *most)
                .map_or(0, |(_, shift)| *shift);
            return vec![(used << unit, false)];
        }
    }
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    let mut said_from = 0;
    while at < bytes.len() && found.len() < MOST_FIGURES {
        let starts = bytes[at].is_ascii_digit()
            && (at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'.'));
        if starts {
            // How much of something was done, and how fast, is no memory: `1.2G/4.5G`, `30 MB/s`.
            let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            let behind = text[at + digits..].trim_start().trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let done = behind.starts_with('/') || (at > 0 && bytes[at - 1] == b'/');
            // A single letter is minutes, metres and millions, too: then a word before it must say that it is memory.
            let unit = text[at + digits..].trim_start().bytes().take_while(u8::is_ascii_alphabetic).count();
            let memory = has_any(&text[said_from..at], &["mem", "rss", "alloc", "reserved", "used", "free", "avail"]);
            let named = unit > 1 || memory || (unit == 1 && is_first_column(&text[..at]));
            let counted =
                has_any(&text[said_from..at], &["file", "size", "read", "seen", "written", "download", "batch"]);
            let size = quantity(&text[at..]).filter(|_| !done && named && !counted);
            // `max mem: 22614`: without a unit, only right behind the word, and as large as memory is in MiB.
            let bare = |size: &Quantity| (unit == 0 && is_labelled(&text[..at])).then_some(size.value).and_then(in_mib);
            let bytes = size.and_then(|size| match size.unit_bytes {
                Some(unit) => (unit >= 1024).then(|| size.bytes()),
                None => bare(&size),
            });
            if let Some(bytes) = bytes {
                found.push((bytes, has_any(&text[said_from..at], &["free", "avail"])));
                said_from = at;
            }
            at += digits;
        } else {
            at += 1;
        }
    }
    found
}

/// Behind `36/299` at the start of a line: the first column of a table of epochs is the memory.
fn is_first_column(before: &str) -> bool {
    let counter = before.trim();
    counter.split_once('/').is_some_and(|(done, all)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(done) && digits(all)
    })
}

/// Right behind a word for memory: `mem: `, `memory=`, `memory_allocated `.
fn is_labelled(before: &str) -> bool {
    let label = before.trim_end_matches([' ', ':', '=', '\t']);
    let word = label.rsplit([' ', ',', ';', '|', '\t', '(', '[']).next().unwrap_or("");
    has_any(word, &["mem", "rss", "allocated"])
}

/// A number of MiB, unless no machine has as little or as much.
fn in_mib(value: f64) -> Option<u64> {
    (100.0..4e6).contains(&value).then(|| (value * f64::from(1 << 20)) as u64)
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
        for steps in [10, 12, 16, 40] {
            assert_eq!(grown((0..steps).map(|step| 500 + 60 * step.min(6))), None, "warm-up, then a plateau");
        }
        assert_eq!(grown((0..40).map(|step| 500 + 200 * (step % 2))), None, "up and down");
        assert_eq!(grown((0..4).map(|step| 500 + 200 * step * step)), None, "too few");
        assert!(grown((0..4).map(|step| 500 + 200 * step)).is_some(), "few, but evenly apart");
    }

    #[test]
    fn columns_need_no_unit() {
        let followed = |line: &dyn Fn(u64) -> String| {
            let mut followed = Followed::default();
            (0..8).for_each(|step| followed.push(step, &line(step)));
            followed.grown()
        };
        let clockwork =
            followed(&|step| format!("Evaluation [{}/480] time: 0.05 max mem: {}", step, 22_614 + 37 * step));
        assert!(clockwork.is_some_and(|growth| growth.first_bytes == 22_614 << 20));
        assert!(followed(&|step| format!("  {step}/299   {}.1G  0.041  61  640: 412/412", 14 + step)).is_some());
        assert_eq!(followed(&|step| format!("  {step}/299   14.1G  0.041  61  640: 412/412")), None);
        assert_eq!(followed(&|step| format!("memory loss: {}", 200 + 50 * step)), None);
    }

    #[test]
    fn free_memory_that_falls_is_growth() {
        let mut followed = Followed::default();
        for step in 0..8u64 {
            followed.push(step, &format!("Memory: total:31.28Gb, available: {}.5Gb", 30 - 4 * step.min(7)));
        }
        assert!(followed.grown().expect("it falls").free);
    }
}

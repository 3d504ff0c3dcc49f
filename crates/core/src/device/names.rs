//! Names as people write them, and what is said of one that no device has.

use std::fmt;

use super::all;

/// A name that no device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDevice {
    /// What was asked for.
    pub name: String,
    /// The ids that come close, the closest first.
    pub close: Vec<&'static str>,
}

impl UnknownDevice {
    pub(super) fn of(name: &str) -> UnknownDevice {
        let asked = key(name);
        let mut close: Vec<_> = all()
            .iter()
            .filter_map(|d| {
                let likeness = |k: String| {
                    let part = asked.len() >= 2 && (k.contains(&asked) || asked.contains(&k));
                    // Letters in another order, as in `rtx4900`, are the likeliest slip.
                    let edits = if letters(&asked) == letters(&k) { 1 } else { distance(&asked, &k) };
                    // A quarter of the letters may be wrong; beyond that two names are just two names.
                    (part || edits <= 1 + asked.len().min(30) / 4).then_some((edits, !part))
                };
                Some((d.keys().filter_map(likeness).min()?, d.id.as_str()))
            })
            .collect();
        close.sort();
        close.truncate(4);
        UnknownDevice { name: name.to_owned(), close: close.into_iter().map(|(_, id)| id).collect() }
    }
}

impl fmt::Display for UnknownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no device is called '{}'", self.name)?;
        match self.close.as_slice() {
            [] => f.write_str("; 'brimful devices' lists those that are known"),
            close => write!(f, "; did you mean {}?", close.join(" or ")),
        }
    }
}

impl std::error::Error for UnknownDevice {}

/// A name without what people write differently: letters and digits only, in lower case, no vendor in front.
pub(super) fn key(name: &str) -> String {
    let mut key: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    for vendor in ["nvidia", "tesla", "geforce"] {
        if let Some(rest) = key.strip_prefix(vendor).filter(|rest| !rest.is_empty()) {
            key = rest.to_owned();
        }
    }
    key
}

fn letters(text: &str) -> Vec<u8> {
    let mut letters = text.as_bytes().to_vec();
    letters.sort_unstable();
    letters
}

/// The number of letters to insert, remove or replace to get from one text to the other. Cut at 30 letters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(30).collect(), b.chars().take(30).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

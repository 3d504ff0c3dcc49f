//! A line that says something, with the lines around it.
//!
//! In: the cleaned lines around a match. Out: the message with its wrapped continuation, and the lines of the same process before it.

use super::clean::{self, Line};

/// A message is at most this many lines long when it was wrapped.
const WRAPPED_LINES: usize = 7;

/// A message is at most this long, wrapped or not.
const LONGEST_MESSAGE: usize = 3000;

/// A line with its surroundings.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// The lines before it, the last one nearest.
    pub before: Vec<Line>,
    /// The line.
    pub line: Line,
    /// The lines after it.
    pub after: Vec<Line>,
}

impl Excerpt {
    /// The line joined with those that may continue it, with a blank in between or without.
    pub fn joined(&self, between: &str) -> String {
        let mut text = self.line.text.trim_end().to_owned();
        // Mail quotes line by line.
        let quoted = text.starts_with("> ");
        for line in self.after.iter().take(WRAPPED_LINES) {
            let next = line.text.trim();
            let next = if quoted { next.trim_start_matches(['>', ' ']) } else { next };
            let starts_anew =
                ["Traceback", "File \"", "Exception", "During handling"].iter().any(|start| next.starts_with(start));
            if text.len() > LONGEST_MESSAGE || next.is_empty() || starts_anew || next.contains("ried to allocate") {
                break;
            }
            // A number that was cut in two belongs together.
            let in_number = text.ends_with(|c: char| c.is_ascii_digit())
                && next.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            text.push_str(if in_number { "" } else { between });
            text.push_str(next);
        }
        text
    }

    /// Who wrote the line, where many write into one log.
    pub fn speaker(&self) -> Option<&str> {
        clean::speaker(&self.line.text)
    }

    /// The lines before it that the same process wrote, without its prefix.
    pub fn before_by_speaker(&self) -> Vec<&str> {
        self.of_speaker(&self.before)
    }

    /// The lines after it that the same process wrote, without its prefix.
    pub fn after_by_speaker(&self) -> Vec<&str> {
        self.of_speaker(&self.after)
    }

    fn of_speaker<'a>(&self, lines: &'a [Line]) -> Vec<&'a str> {
        let Some(speaker) = self.speaker() else { return lines.iter().map(|line| line.text.as_str()).collect() };
        let same = lines.iter().filter(|line| clean::speaker(&line.text) == Some(speaker));
        same.map(|line| line.text.split_once([']', ')']).map_or("", |(_, rest)| rest.strip_prefix(':').unwrap_or(rest)))
            .collect()
    }
}

//! Lines, wrapped and painted.
//!
//! In: words and a [`Style`]. Out: text whose lines keep to the width. Widths count characters: a name in wide letters may
//! stand out by its own width. Nothing here knows what the words mean.

use super::Style;
use crate::report::Verdict;

const BOLD: &str = "1";
const DIM: &str = "2";
pub(crate) const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

/// A text in the making.
pub(crate) struct Page {
    text: String,
    style: Style,
}

impl Page {
    pub(crate) fn new(style: Style) -> Page {
        Page { text: String::new(), style: Style { width: style.width.clamp(40, 200), ..style } }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    pub(crate) fn width(&self) -> usize {
        self.style.width
    }

    pub(crate) fn colour(&self) -> bool {
        self.style.colour
    }

    /// The text in a colour, if there are colours.
    pub(crate) fn paint(&self, code: &str, text: &str) -> String {
        if self.style.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        self.paint(DIM, text)
    }

    pub(crate) fn code(&self, text: &str) -> String {
        self.paint(CYAN, text)
    }

    pub(crate) fn fit_mark(&self, fits: bool) -> String {
        if fits { self.paint(GREEN, "✓") } else { self.paint(RED, "✗") }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub(crate) fn blank(&mut self) {
        self.line("");
    }

    /// A heading, with a blank line above.
    pub(crate) fn heading(&mut self, title: &str) {
        self.blank();
        self.line(&self.paint(BOLD, title));
    }

    /// The first sentence; its first words are painted by the verdict.
    pub(crate) fn headline(&mut self, verdict: Verdict, word: &str, rest: &str) {
        let colour = match verdict {
            Verdict::Fits => GREEN,
            Verdict::Tight => YELLOW,
            Verdict::DoesNotFit => RED,
        };
        let painted = self.paint(&format!("{BOLD};{colour}"), word);
        for (index, line) in wrap(&format!("{word}{rest}"), self.width()).into_iter().enumerate() {
            match line.strip_prefix(word) {
                Some(rest) if index == 0 => self.line(&format!("{painted}{rest}")),
                _ => self.line(&line),
            }
        }
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.hanging("", 0, text);
    }

    pub(crate) fn indented(&mut self, text: &str) {
        self.hanging("  ", 2, text);
    }

    /// Words behind a mark, further lines indented. The mark takes `indent` columns, however it is painted.
    pub(crate) fn hanging(&mut self, mark: &str, indent: usize, text: &str) {
        for (index, line) in wrap(text, self.width() - indent).into_iter().enumerate() {
            if index == 0 {
                self.line(&format!("{mark}{line}"));
            } else {
                self.line(&format!("{:indent$}{line}", ""));
            }
        }
    }

    /// Says how many of a list were left out, and where they are.
    pub(crate) fn more(&mut self, count: usize, place: &str) {
        if count > 0 {
            self.line(&self.dim(&format!("    and {count} more, {place}")));
        }
    }
}

/// How many of a list to show: not many more than the cap, but no line that only says that one is missing.
pub(super) fn first(all: usize, cap: usize) -> usize {
    if all <= cap + 1 { all } else { cap }
}

/// Holds two words on one line: [`wrap`] makes it a space.
pub(super) const GLUE: char = '\u{a0}';

/// Splits at spaces into lines of at most that width; a word that is longer stands alone.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| line.replace(GLUE, " ")).collect()
}

/// The text, or its start and end with an ellipsis between: both ends of a path tell layers apart.
pub(crate) fn middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (start, end) = (kept / 2, kept - kept / 2);
    text.chars().take(start).chain(['…']).chain(text.chars().skip(length - end)).collect()
}

/// Names come from files: what would move the cursor or change colours is made visible instead.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn plain_list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A bar of at most that many cells, to an eighth of a cell; never empty for something that is there.
pub(super) fn small_bar(part: u64, most: u64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part as f64 / most.max(1) as f64 * cells as f64 * 8.0).round() as usize;
    let eighths = eighths.clamp(usize::from(part > 0), cells * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

//! The picture of what fills the device: one line, to scale.
//!
//! In: the breakdown and what is usable. Out: a bar whose cells are shared out among the parts, the usable limit marked, and
//! a caption under the mark. The context is left out: it lies beside what is usable. Parts of less than half a cell
//! do not show; the table below has them.

use super::layout::{Page, RED};
use crate::bytes::human;
use crate::report::Report;

/// The letter and the colour of each part, in the order of `Breakdown::parts`. The context has none.
const SIGNS: [(char, &str); 8] =
    [('P', "34"), ('G', "36"), ('O', "35"), ('A', "33"), ('I', "32"), ('T', "94"), ('W', "96"), ('S', "90")];

/// What each part is, in a few plain words.
pub(super) const WHY: [&str; 8] = [
    "the weights", "how to change each weight", "what it remembers per weight", "kept for the backward pass",
    "the batch and its labels", "needed for a moment", "scratch of kernels", "rounding and gaps",
];

/// The context's place among the parts.
pub(super) const CONTEXT: usize = 8;

/// The sign that stands for a part in the bar and in the table.
pub(super) fn mark(part: usize, page: &Page) -> String {
    let (letter, colour) = SIGNS[part];
    if page.colour() { page.paint(colour, "█") } else { letter.to_string() }
}

pub(super) fn write(report: &Report, page: &mut Page) {
    let parts = report.breakdown.parts().map(|part| part.1);
    let needed = report.without_context(report.breakdown.total());
    let scale = needed.max(report.limit_bytes().unwrap_or(0));
    if scale == 0 {
        return;
    }
    // Two spaces on the left, and the mark.
    let cells = page.width() - 4;
    let at = |bytes: u64| (bytes as f64 / scale as f64 * cells as f64).round() as usize;
    // Rounding the running sum gives each part its share and the whole its length.
    let mut filled: Vec<usize> = Vec::with_capacity(cells);
    let mut sum = 0u64;
    for (index, bytes) in parts.into_iter().take(CONTEXT).enumerate() {
        sum = sum.saturating_add(bytes);
        filled.resize(at(sum).max(filled.len()), index);
    }
    page.blank();
    let Some(usable) = report.limit_bytes() else {
        page.line(&format!("  {}", paint(&filled, false, page)));
        return;
    };
    // A bar that is over shows it, if only by one cell.
    let limit = if needed > usable { at(usable).min(cells - 1) } else { cells };
    let within = &filled[..limit.min(filled.len())];
    let free = page.dim(&"·".repeat(limit - within.len()));
    let beyond = if needed > usable { &filled[limit..] } else { &[] };
    let line = page.paint(RED, "┃");
    page.line(&format!("  {}{free}{line}{}", paint(within, false, page), paint(beyond, true, page)));
    let rest = if needed > usable {
        format!("{} over", human(needed - usable))
    } else {
        format!("{} free", human(usable - needed))
    };
    let caption = format!("{} usable, {rest}", human(usable));
    page.line(&place(&caption, limit, cells).replace('┃', &line));
}

/// The cells, each run of one part painted at once. What is beyond the limit is drawn lighter.
fn paint(cells: &[usize], beyond: bool, page: &Page) -> String {
    let mut text = String::new();
    for run in cells.chunk_by(|a, b| a == b) {
        let (letter, colour) = SIGNS[run[0]];
        if page.colour() {
            text += &page.paint(colour, &if beyond { "▒" } else { "█" }.repeat(run.len()));
        } else {
            text.extend(std::iter::repeat_n(letter, run.len()));
        }
    }
    text
}

/// The caption beside a mark under the limit: to the right of it where there is room, else to the left.
fn place(caption: &str, limit: usize, cells: usize) -> String {
    let length = caption.chars().count();
    let mark = 2 + limit;
    if limit + 2 + length <= cells + 2 {
        format!("{:mark$}┃ {caption}", "")
    } else if length < mark - 1 {
        format!("{:1$}{caption} ┃", "", mark - 1 - length)
    } else {
        format!("  {caption}")
    }
}

//! The table of figures, each with a bar against its limit.
//!
//! In: [`State`] and an area. Out: as many rows as fit, and the area that is left below them. A bar shows eighths of a column and a mark at the peak.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::look::Look;
use super::rows::{Row, rows};
use crate::live::state::State;

/// Names have at most so many columns.
const MOST_NAME: usize = 16;
const MOST_BAR: usize = 40;
/// A bar with fewer columns says nothing.
const LEAST_BAR: usize = 4;
/// With as many rows, each figure has its own.
const LONG_ROWS: u16 = 10;
/// A column filled from the left by so many eighths.
const EIGHTHS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Draws them.
pub fn draw(state: &State, look: Look, area: Rect, cells: &mut Buffer) -> Rect {
    if state.sample.is_none() && state.gpus.is_empty() && !area.is_empty() {
        cells.set_stringn(area.x, area.y, "No figures yet.", usize::from(area.width), look.faint());
    }
    let rows = fitting(rows(state, area.height >= LONG_ROWS), usize::from(area.height));
    let name_columns = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(MOST_NAME) + 1;
    let bar_columns = (usize::from(area.width) * 22 / 100).min(MOST_BAR);
    let bar_columns =
        if bar_columns < LEAST_BAR || rows.iter().all(|row| row.share.is_none()) { 0 } else { bar_columns };
    for (y, row) in (area.y..).zip(&rows) {
        let line = Rect { y, height: 1, ..area };
        draw_row(row, name_columns, bar_columns, look, line, cells);
    }
    let used = rows.len() as u16;
    Rect { y: area.y + used, height: area.height - used, ..area }
}

/// Those that are kept, in their order; what is left out of GPUs and the like is counted.
fn fitting(mut rows: Vec<Row>, most: usize) -> Vec<Row> {
    if rows.len() <= most {
        return rows;
    }
    let mut ranks: Vec<usize> = rows.iter().map(|row| row.rank).collect();
    ranks.sort_unstable();
    let Some(first_lost) = ranks.get(most).copied() else { return rows };
    let lost_gpus = rows.iter().filter(|row| row.rank >= first_lost && row.name.starts_with("GPU ")).count();
    rows.retain(|row| row.rank < first_lost);
    if lost_gpus > 0
        && let Some(last) = rows.iter_mut().rev().find(|row| row.name.starts_with("GPU "))
    {
        last.pieces.insert(last.pieces.len().min(2), format!("{lost_gpus} more, not as full"));
    }
    rows
}

fn draw_row(row: &Row, name_columns: usize, bar_columns: usize, look: Look, line: Rect, cells: &mut Buffer) {
    let put = |cells: &mut Buffer, column: usize, text: &str, style| {
        let left = usize::from(line.width).saturating_sub(column);
        if left > 0 {
            cells.set_stringn(line.x + column as u16, line.y, text, left, style);
        }
    };
    let name: String = row.name.chars().take(name_columns.saturating_sub(1)).collect();
    put(cells, 0, &name, look.name());
    if let Some(share) = row.share {
        for column in 0..bar_columns {
            let (text, style) = match bar_cell(share, row.peak_share, column, bar_columns) {
                Part::Filled(text) => (text, look.level(row.level)),
                Part::Peak => ("│", look.news()),
                Part::Free => ("·", look.faint()),
            };
            super::put(cells, line.x + (name_columns + column) as u16, line.y, text, style);
        }
    }
    let signs = usize::from(bar_columns > 0) * 3;
    put(cells, name_columns + bar_columns, row.level.sign(), look.level(row.level));
    let start = name_columns + bar_columns + signs;
    let mut text = String::new();
    for (place, piece) in row.pieces.iter().enumerate() {
        let columns = text.chars().count() + piece.chars().count() + 2;
        if place > 0 && start + columns > usize::from(line.width) {
            break;
        }
        text.push_str(if place > 0 { "  " } else { "" });
        text.push_str(piece);
    }
    put(cells, start, &text, look.figure(row.level));
}

enum Part {
    Filled(&'static str),
    Peak,
    Free,
}

/// What one column of a bar shows. Shares may be more than one, or no number.
fn bar_cell(share: f64, peak_share: Option<f64>, column: usize, columns: usize) -> Part {
    let eighths = |share: f64| (share.clamp(0.0, 1.0) * (columns * 8) as f64).round() as usize;
    let filled = eighths(share).saturating_sub(column * 8).min(8);
    let peak_column = peak_share.map(|share| eighths(share).saturating_sub(1) / 8);
    match (filled, peak_column == Some(column)) {
        (0, true) => Part::Peak,
        (0, false) => Part::Free,
        (filled, _) => Part::Filled(EIGHTHS[filled]),
    }
}

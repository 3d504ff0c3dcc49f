//! The live screen, drawn into cells.
//!
//! In: [`State`], the job's own output as a terminal would show it, the size. Out: cells. Above, what is known of the job; below, its output, in a
//! panel whose size depends on the terminal's alone, so that the job can be told of it. Drawn whole each time; whoever writes it to a terminal
//! looks for what changed. Not here: the terminal.

mod look;
mod title;
mod meters;
mod rows;
mod plot;
mod plots;
mod findings;
mod output;

use std::num::NonZeroU16;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect, Size};
use ratatui_core::style::Style;

pub use look::Look;

use super::state::State;

/// Where there is as much room, figures and plots stand side by side.
const WIDE_COLUMNS: u16 = 110;
const WIDE_ROWS: u16 = 12;
/// The figures take at most so many columns then, and so many rows in any case.
const MOST_FIGURE_COLUMNS: u16 = 90;
const MOST_UPPER_ROWS: u16 = 44;
/// A plot with fewer rows says nothing.
const LEAST_PLOT_ROWS: u16 = 5;

/// The parts of the screen, from top to bottom: what is known, a line that divides, the job's output.
struct Parts {
    upper: Rect,
    rule: Rect,
    panel: Rect,
}

impl Parts {
    fn of(area: Rect) -> Parts {
        let upper_rows = match area.height {
            0..=2 => 0,
            3..=5 => 1,
            rows => (rows / 2).min(MOST_UPPER_ROWS),
        };
        let rule_rows = u16::from(area.height > 3);
        let below = |rows: u16| Rect { y: area.y + rows, height: area.height - rows, ..area };
        Parts {
            upper: Rect { height: upper_rows, ..area },
            rule: Rect { height: rule_rows, ..below(upper_rows) },
            panel: below(upper_rows + rule_rows),
        }
    }
}

/// The rows and columns that the job's output has on a terminal of this size. Never none, because a terminal without cells does not exist.
pub fn panel_size(terminal: Size) -> (NonZeroU16, NonZeroU16) {
    let panel = Parts::of(Rect::from((Position::ORIGIN, terminal))).panel;
    (NonZeroU16::new(panel.height).unwrap_or(NonZeroU16::MIN), NonZeroU16::new(panel.width).unwrap_or(NonZeroU16::MIN))
}

/// Draws all of it, and gives the place of the job's cursor if it is to be seen.
pub fn draw(state: &State, job: &vt100::Screen, look: Look, cells: &mut Buffer) -> Option<Position> {
    let parts = Parts::of(cells.area);
    draw_upper(state, look, parts.upper, cells);
    title::draw_rule(look, parts.rule, cells);
    output::draw(job, parts.panel, cells)
}

fn draw_upper(state: &State, look: Look, area: Rect, cells: &mut Buffer) {
    let (first, rest) = cut_rows(area, 1);
    title::draw(state, look, first, cells);
    let said = u16::from(rest.height > 2 && findings::has_news(state));
    let (news, rest) = cut_rows(rest, said);
    findings::draw_news(state, look, news, cells);
    if rest.width >= WIDE_COLUMNS && area.height >= WIDE_ROWS {
        let figure_columns = (rest.width / 2).min(MOST_FIGURE_COLUMNS);
        let (figures, courses) = cut_columns(rest, figure_columns);
        let left = meters::draw(state, look, figures, cells);
        findings::draw_list(state, look, left, cells);
        // One column stays free between the two.
        plots::draw_many(state, look, cut_columns(courses, 2).1, cells);
    } else {
        let meter_rows = if rest.height > LEAST_PLOT_ROWS + 1 { rest.height - LEAST_PLOT_ROWS } else { rest.height };
        let left = meters::draw(state, look, Rect { height: meter_rows, ..rest }, cells);
        let below = Rect { height: rest.bottom() - left.y, ..left };
        // Tall and narrow: there is room for a list, too.
        let list_rows = if below.height >= 3 * LEAST_PLOT_ROWS { below.height / 3 } else { 0 };
        let (course, list) = cut_rows(below, below.height - list_rows);
        plots::draw_one(state, look, course, cells);
        findings::draw_list(state, look, list, cells);
    }
}

/// The first rows, and the others.
fn cut_rows(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    (Rect { height: rows, ..area }, Rect { y: area.y + rows, height: area.height - rows, ..area })
}

/// The first columns, and the others.
fn cut_columns(area: Rect, columns: u16) -> (Rect, Rect) {
    let columns = columns.min(area.width);
    (Rect { width: columns, ..area }, Rect { x: area.x + columns, width: area.width - columns, ..area })
}

/// One character of one column. Faster than a text, which is searched for wide and combined characters.
fn put(cells: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
    if let Some(cell) = cells.cell_mut((x, y)) {
        cell.set_symbol(text).set_style(style);
    }
}

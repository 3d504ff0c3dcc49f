//! The job's own output, cell by cell.
//!
//! In: what a terminal of the panel's size would show. Out: the same cells, colours and attributes kept, and the place of the cursor. A screen
//! of another size, as while a window is being resized, is cut.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::{Color, Modifier, Style};

/// Draws it.
pub fn draw(job: &vt100::Screen, area: Rect, cells: &mut Buffer) -> Option<Position> {
    for row in 0..area.height {
        for column in 0..area.width {
            let Some(cell) = job.cell(row, column) else { continue };
            if cell.is_wide_continuation() {
                continue;
            }
            let target = &mut cells[(area.x + column, area.y + row)];
            target.set_style(style(cell));
            // Half a wide character would move all that follows.
            let is_cut = cell.is_wide() && column + 1 == area.width;
            if cell.has_contents() && !is_cut {
                target.set_symbol(cell.contents());
            }
        }
    }
    let (row, column) = job.cursor_position();
    // A terminal that has just filled a line has its cursor behind the last column.
    let column = column.min(area.width.saturating_sub(1));
    (!job.hide_cursor() && row < area.height && !area.is_empty())
        .then(|| Position { x: area.x + column, y: area.y + row })
}

fn style(cell: &vt100::Cell) -> Style {
    let modifiers = [
        (cell.bold(), Modifier::BOLD),
        (cell.dim(), Modifier::DIM),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ];
    let modifier = modifiers.into_iter().filter(|(is_set, _)| *is_set).map(|(_, modifier)| modifier).collect();
    Style::new().fg(colour(cell.fgcolor())).bg(colour(cell.bgcolor())).add_modifier(modifier)
}

fn colour(colour: vt100::Color) -> Color {
    match colour {
        vt100::Color::Default => Color::Reset,
        vt100::Color::Idx(index) => Color::Indexed(index),
        vt100::Color::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}

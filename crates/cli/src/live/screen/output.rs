//! The job's own output, cell by cell.
//!
//! In: what a terminal of the panel's size would show. Out: the same cells, colours and attributes kept, and the place of the cursor. A screen
//! of another size, as while a window is being resized, is cut.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::{Color, Modifier, Style};

/// Draws it.
pub fn draw(job: &vt100::Screen, area: Rect, cells: &mut Buffer) -> Option<Position> {
    for (column, row, cell) in job_cells(job, area) {
        let target = &mut cells[(area.x + column, area.y + row)];
        target.set_style(style(cell)).set_symbol(symbol(cell, column, area));
    }
    cursor(job, area)
}

/// The place of the cursor, if it is to be seen.
fn cursor(job: &vt100::Screen, area: Rect) -> Option<Position> {
    let (row, column) = job.cursor_position();
    // A terminal that has just filled a line has its cursor behind the last column.
    let column = column.min(area.width.saturating_sub(1));
    let is_seen = !job.hide_cursor() && row < area.height && !area.is_empty();
    is_seen.then(|| Position { x: area.x + column, y: area.y + row })
}

/// The cells that are in the area, without the second halves of wide ones.
fn job_cells(job: &vt100::Screen, area: Rect) -> impl Iterator<Item = (u16, u16, &vt100::Cell)> {
    let places = (0..area.height).flat_map(move |row| (0..area.width).map(move |column| (column, row)));
    let cells = places.filter_map(|(column, row)| Some((column, row, job.cell(row, column)?)));
    cells.filter(|(_, _, cell)| !cell.is_wide_continuation())
}

fn symbol(cell: &vt100::Cell, column: u16, area: Rect) -> &str {
    // Half a wide character would move all that follows.
    let is_cut = cell.is_wide() && column + 1 == area.width;
    if cell.has_contents() && !is_cut { cell.contents() } else { " " }
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

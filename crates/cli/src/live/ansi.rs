//! Cells as the bytes that draw them.
//!
//! In: cells that changed, row by row. Out: escape sequences that every terminal of the last decades knows. The sixteen colours are written
//! as such, so that the user's own palette is used.

use std::io::{self, Write};

use ratatui_core::buffer::Cell;
use ratatui_core::layout::Position;
use ratatui_core::style::{Color, Modifier};

/// Writes the cells. A writer that has no end, such as a vector, gives no error.
pub fn write<'a>(out: &mut impl Write, changed: impl Iterator<Item = (u16, u16, &'a Cell)>) -> io::Result<()> {
    // Where the terminal will write next, if that is known.
    let mut next: Option<Position> = None;
    let mut style = None;
    for (x, y, cell) in changed {
        if next != Some(Position { x, y }) {
            move_to(out, Position { x, y })?;
        }
        let wanted = (cell.fg, cell.bg, cell.modifier);
        if style != Some(wanted) {
            write_style(out, wanted)?;
            style = Some(wanted);
        }
        out.write_all(cell.symbol().as_bytes())?;
        // Terminals do not agree on how wide the rest of Unicode is.
        let is_one_wide = cell.symbol().chars().all(|c| matches!(c, ' '..='~' | '\u{2500}'..='\u{259f}'));
        next = (is_one_wide && cell.symbol().chars().count() == 1).then(|| Position { x: x.saturating_add(1), y });
    }
    out.write_all(b"\x1b[0m")
}

/// Moves the cursor.
pub fn move_to(out: &mut impl Write, to: Position) -> io::Result<()> {
    write!(out, "\x1b[{};{}H", u32::from(to.y) + 1, u32::from(to.x) + 1)
}

fn write_style(out: &mut impl Write, (fg, bg, modifier): (Color, Color, Modifier)) -> io::Result<()> {
    out.write_all(b"\x1b[0")?;
    let attributes = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::SLOW_BLINK, 5),
        (Modifier::RAPID_BLINK, 6),
        (Modifier::REVERSED, 7),
        (Modifier::HIDDEN, 8),
        (Modifier::CROSSED_OUT, 9),
    ];
    for (attribute, code) in attributes {
        if modifier.contains(attribute) {
            write!(out, ";{code}")?;
        }
    }
    write_colour(out, fg, 30)?;
    write_colour(out, bg, 40)?;
    out.write_all(b"m")
}

/// `base` is 30 for the text and 40 for what is behind it.
fn write_colour(out: &mut impl Write, colour: Color, base: u8) -> io::Result<()> {
    let index = match colour {
        Color::Reset => return Ok(()),
        Color::Rgb(red, green, blue) => return write!(out, ";{};2;{red};{green};{blue}", base + 8),
        Color::Indexed(index) => index,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    };
    match index {
        0..=7 => write!(out, ";{}", base + index),
        8..=15 => write!(out, ";{}", base + 60 + index - 8),
        _ => write!(out, ";{};5;{index}", base + 8),
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::buffer::Buffer;
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    /// What a terminal shows that was given the bytes.
    fn shown(cells: &Buffer) -> vt100::Parser {
        let blank = Buffer::empty(cells.area);
        let mut bytes = Vec::new();
        write(&mut bytes, blank.diff(cells).into_iter()).unwrap();
        let size = |number: u16| number.try_into().unwrap();
        let mut terminal = vt100::Parser::new(size(cells.area.height), size(cells.area.width), 0);
        terminal.process(&bytes);
        terminal
    }

    #[test]
    fn a_terminal_shows_the_cells() {
        let mut cells = Buffer::empty(Rect::new(0, 0, 20, 3));
        cells.set_string(1, 0, "plain", Style::new());
        let loud = Style::new().fg(Color::LightRed).bg(Color::Indexed(200)).add_modifier(Modifier::BOLD);
        cells.set_string(6, 1, "loud", loud);
        cells.set_string(0, 2, "漢字 é ▇ x", Style::new().fg(Color::Rgb(1, 2, 3)));
        let terminal = shown(&cells);
        assert_eq!(terminal.screen().contents(), " plain\n      loud\n漢字 é ▇ x");
        let loud = terminal.screen().cell(1, 7).unwrap();
        assert_eq!((loud.fgcolor(), loud.bgcolor(), loud.bold()), (vt100::Color::Idx(9), vt100::Color::Idx(200), true));
        assert_eq!(terminal.screen().cell(2, 0).unwrap().fgcolor(), vt100::Color::Rgb(1, 2, 3));
        assert!(!terminal.screen().cell(0, 1).unwrap().bold());
    }
}

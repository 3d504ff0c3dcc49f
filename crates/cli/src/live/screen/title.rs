//! The first line, and the one that divides.
//!
//! In: [`State`]. Out: one row each. The command on the left, as much of it as there is room for; on the right how far the job is.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::look::Look;
use crate::live::state::State;
use crate::live::words;

/// The command has at least so many columns, if it needs them.
const LEAST_COMMAND: usize = 16;

/// How far the job is, what matters most last: that is kept the longest.
fn progress(state: &State) -> Vec<String> {
    let mut pieces = Vec::new();
    if let Some(mark) = state.steps.latest() {
        let waiting = state.steps.waiting_share().filter(|share| *share >= 0.005);
        pieces.extend(waiting.map(|share| format!("{} between steps", words::percent(share))));
        pieces.extend(mark.loss.map(|loss| format!("loss {}", words::number(loss))));
        pieces.extend(mark.epoch.map(|epoch| format!("epoch {}", words::count(epoch))));
        let quiet = state.steps.quiet_ms(state.now_ms).map(|ms| format!("none for {}", words::duration(ms as f64)));
        pieces.extend(state.steps.per_second(state.now_ms).map(words::pace).or(quiet));
        pieces.push(format!("step {}", words::count(mark.step)));
    }
    pieces.push(words::clock(state.now_ms));
    pieces
}

/// The first line.
pub fn draw(state: &State, look: Look, area: Rect, cells: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    cells.set_style(area, look.title());
    let width = usize::from(area.width);
    let command = if state.command.is_empty() { "brimful run" } else { &state.command };
    let command_columns = command.chars().count().min(LEAST_COMMAND) + 2;
    let mut right = String::from(" ");
    for piece in progress(state).iter().rev() {
        if right.chars().count() + piece.chars().count() + 2 + command_columns <= width || right.len() == 1 {
            right = if right.len() == 1 { format!("{piece} ") } else { format!("{piece}  {right}") };
        }
    }
    let right_columns = right.chars().count().min(width);
    let command = words::plain(command, width.saturating_sub(right_columns + 2));
    cells.set_stringn(area.x + 1, area.y, command, width.saturating_sub(1), look.title());
    let x = area.right() - right_columns as u16;
    cells.set_stringn(x, area.y, right, right_columns, look.title());
}

/// The line above the job's output.
pub fn draw_rule(look: Look, area: Rect, cells: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let width = usize::from(area.width);
    let line = |columns: usize| "─".repeat(columns);
    let (left, right) = ("── output ", " F9 hides this screen ──");
    let columns = left.chars().count() + right.chars().count();
    let text = if columns <= width { format!("{left}{}{right}", line(width - columns)) } else { line(width) };
    cells.set_stringn(area.x, area.y, text, width, look.faint());
}

//! One figure over time: filled columns with eighths of a row, its limit above, what is foreseen as dots.
//!
//! In: a history and what to show of it. Out: cells. The first row says what it is and how high it reaches, the last one the times. In
//! between, each column is the highest value in its stretch of time.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::look::{Level, Look};
use crate::live::history::History;
use crate::live::words;

/// Columns for what stands at the left.
const SCALE_COLUMNS: u16 = 9;
/// A column filled from below by so many eighths.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Dots at a quarter of a row, from below.
const DOTS: [&str; 4] = ["⣀", "⠤", "⠒", "⠉"];

/// What to show.
pub struct Plot<'a> {
    /// What it is.
    pub title: String,
    /// The values.
    pub history: &'a History,
    /// The time at the left edge.
    pub from_ms: u64,
    /// Now.
    pub now_ms: u64,
    /// The time at the right edge: later than now where something is foreseen.
    pub to_ms: u64,
    /// The value at the upper edge.
    pub top: f64,
    /// That value as text.
    pub top_text: String,
    /// Whether it is a limit.
    pub top_is_limit: bool,
    /// The value now and its growth each millisecond, if that is foreseen.
    pub ahead: Option<(f64, f64)>,
    /// How bad it is.
    pub level: Level,
}

impl Plot<'_> {
    /// Draws it.
    pub fn draw(&self, look: Look, area: Rect, cells: &mut Buffer) {
        if area.height < 3 || area.width < SCALE_COLUMNS + 8 {
            return;
        }
        let (scale, course) = super::cut_columns(area, SCALE_COLUMNS);
        let width = usize::from(course.width);
        let columns = usize::from(SCALE_COLUMNS) - 1;
        cells.set_stringn(scale.x, scale.y, format!("{:>columns$}", self.top_text), columns, look.faint());
        let limit_line = if self.top_is_limit { "╌" } else { "" };
        let head = format!("{limit_line} {} {}", self.title, limit_line.repeat(width));
        cells.set_stringn(course.x, course.y, head.trim_end(), width, look.faint());
        let title_x = course.x + 1 + u16::from(self.top_is_limit);
        cells.set_stringn(title_x, course.y, &self.title, width.saturating_sub(2), look.name());
        let body = Rect { y: course.y + 1, height: course.height - 2, ..course };
        self.draw_body(look, body, cells);
        cells.set_stringn(scale.x, body.bottom() - 1, format!("{:>columns$}", "0"), columns, look.faint());
        self.draw_times(look, Rect { y: body.bottom(), height: 1, ..course }, cells);
    }

    fn draw_body(&self, look: Look, body: Rect, cells: &mut Buffer) {
        let columns = usize::from(body.width);
        let highs = self.history.over(self.from_ms, self.to_ms, columns);
        let eighths_in_all = usize::from(body.height) * 8;
        let eighths = |value: f64| {
            let share = if self.top > 0.0 { (value / self.top).clamp(0.0, 1.0) } else { 0.0 };
            (share * eighths_in_all as f64).round() as usize
        };
        let fill = look.level(self.level);
        for (x, high) in (body.x..body.right()).zip(highs) {
            // What is there at all shows, however little it is.
            let filled = high.map_or(0, |high| if high > 0.0 { eighths(high).max(1) } else { 0 });
            for (row, y) in (body.y..body.bottom()).rev().enumerate() {
                let text = EIGHTHS[filled.saturating_sub(row * 8).min(8)];
                if text != " " {
                    super::put(cells, x, y, text, fill);
                }
            }
        }
        let Some((now, per_ms)) = self.ahead else { return };
        let span_ms = self.to_ms.saturating_sub(self.from_ms) as f64;
        let ms_of = |column: usize| self.from_ms as f64 + (column as f64 + 0.5) * span_ms / columns as f64;
        for (column, x) in (body.x..body.right()).enumerate() {
            let later_ms = ms_of(column) - self.now_ms as f64;
            let value = now + later_ms * per_ms;
            if later_ms > 0.0 && value <= self.top {
                let quarter = (eighths(value) / 2).min(usize::from(body.height) * 4 - 1);
                let y = body.bottom() - 1 - (quarter / 4) as u16;
                super::put(cells, x, y, DOTS[quarter % 4], look.news());
            }
        }
    }

    /// The first time, now, and the last; those that would stand on another are left out.
    fn draw_times(&self, look: Look, line: Rect, cells: &mut Buffer) {
        let width = usize::from(line.width);
        let span_ms = self.to_ms.saturating_sub(self.from_ms).max(1);
        let place = |at_ms: u64| {
            (u128::from(at_ms.saturating_sub(self.from_ms)) * width as u128 / u128::from(span_ms)) as usize
        };
        let mut put = |text: &str, column: usize| {
            cells.set_stringn(line.x + column as u16, line.y, text, width - column, look.faint());
        };
        let first = words::clock(self.from_ms);
        put(&first, 0);
        let last = words::clock(self.to_ms);
        let last_column = width.saturating_sub(last.len());
        if last_column > first.len() {
            put(&last, last_column);
        }
        let now = format!("now {}", words::clock(self.now_ms));
        let now_column = place(self.now_ms).min(width).saturating_sub(now.len() / 2);
        if self.to_ms > self.now_ms && now_column > first.len() && now_column + now.len() < last_column {
            put(&now, now_column);
        }
    }
}

//! What was found and what is foreseen.
//!
//! In: [`State`]. Out: one line with what matters most now, and a list of all that was found, the latest first.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::look::Look;
use crate::live::state::State;
use crate::live::words;

/// What matters most now: how it ended, what is foreseen, or what was found last.
fn news(state: &State) -> Option<String> {
    if let Some(end) = &state.end {
        let how = match (end.signal, end.exit_code) {
            (Some(signal), _) => format!("was ended by signal {signal}"),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        return Some(format!("The job {how}."));
    }
    if let Some(ahead) = state.ahead() {
        let step = ahead.step.map(|step| format!(", at step {}", words::count(step))).unwrap_or_default();
        return Some(format!("At this rate memory meets its limit in {}{step}.", words::duration(ahead.left_ms)));
    }
    state.findings.back().map(|finding| format!("{}  {}", words::clock(finding.at_ms), finding.text))
}

/// Whether there is any.
pub fn has_news(state: &State) -> bool {
    state.end.is_some() || !state.findings.is_empty()
}

/// The one line.
pub fn draw_news(state: &State, look: Look, area: Rect, cells: &mut Buffer) {
    if let Some(text) = news(state).filter(|_| !area.is_empty()) {
        let text = words::plain(&format!("! {text}"), usize::from(area.width));
        cells.set_stringn(area.x, area.y, text, usize::from(area.width), look.news());
    }
}

/// The list.
pub fn draw_list(state: &State, look: Look, area: Rect, cells: &mut Buffer) {
    if state.findings.is_empty() || area.height < 2 {
        return;
    }
    let width = usize::from(area.width);
    let lines = state.findings.iter().rev().flat_map(|finding| {
        let clock = format!("{:>7}  ", words::clock(finding.at_ms));
        let indent = clock.chars().count();
        let lines = wrap(&finding.text, width.saturating_sub(indent + 1)).into_iter().enumerate();
        lines.map(move |(place, line)| if place == 0 { format!("{clock}{line}") } else { " ".repeat(indent) + &line })
    });
    // A row stays free above.
    let bottom = area.bottom();
    for (y, line) in (area.y + 1..bottom).zip(lines) {
        cells.set_stringn(area.x, y, line, width, ratatui_core::style::Style::new());
        cells.set_style(Rect { y, height: 1, width: area.width.min(8), ..area }, look.name());
    }
}

/// Lines of at most so many characters; longer words are cut.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + rest.len() > columns {
            lines.push(String::new());
            used = 0;
        }
        while rest.len() > columns {
            lines.push(rest.drain(..columns).collect());
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            used += rest.len();
            line.extend(rest);
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_and_long_ones_are_cut() {
        assert_eq!(wrap("memory grows by 1.2 MB", 10), ["memory", "grows by", "1.2 MB"]);
        assert_eq!(wrap("", 10), [] as [&str; 0]);
        assert!(wrap("abcdefghijkl", 5).concat().contains("abcde"));
        assert_eq!(wrap("abc", 0).concat(), "abc");
    }
}

//! Which figures are plotted, and how high the plots reach.
//!
//! In: [`State`] and an area. Out: the memory of the whole run, always; where there is room, the last minutes, the GPUs, the CPUs and the
//! disks besides.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::look::{Level, Look};
use super::plot::Plot;
use super::{cut_columns, cut_rows};
use crate::live::history::History;
use crate::live::state::State;
use crate::live::words;

/// A plot shows at least as much time.
const LEAST_SPAN_MS: u64 = 60_000;
/// A limit that is more than so many times as high as what is held would leave nothing to see.
const MOST_ABOVE: f64 = 5.0;
/// Two rows of plots where there are as many rows.
const TWO_STORIES: u16 = 12;
/// No plot is drawn narrower where it stands beside another.
const LEAST_COLUMNS: u16 = 36;
/// Of the room to plot, at least this share is for what has been.
const LEAST_PAST: f64 = 0.5;

/// The memory of the whole run.
pub fn draw_one(state: &State, look: Look, area: Rect, cells: &mut Buffer) {
    if let Some(plot) = memory(state) {
        plot.draw(look, area, cells);
    }
}

/// That one, and below it as many others as fit side by side.
pub fn draw_many(state: &State, look: Look, area: Rect, cells: &mut Buffer) {
    let others = others(state);
    let beside = usize::from((area.width / LEAST_COLUMNS).min(4)).min(others.len());
    if beside == 0 || area.height < TWO_STORIES {
        return draw_one(state, look, area, cells);
    }
    let (above, mut below) = cut_rows(area, area.height - area.height * 2 / 5);
    draw_one(state, look, above, cells);
    let columns = area.width / beside as u16;
    for plot in others.into_iter().take(beside) {
        let (here, rest) = cut_columns(below, columns);
        plot.draw(look, Rect { width: here.width.saturating_sub(1), ..here }, cells);
        below = rest;
    }
}

fn memory(state: &State) -> Option<Plot<'_>> {
    let (held_bytes, limit_bytes) = state.held()?;
    let high = state.peak.map_or(held_bytes, |peak| peak.bytes.max(held_bytes)) as f64;
    let ahead = state.ahead();
    let past_ms = state.now_ms.max(LEAST_SPAN_MS);
    let most_future_ms = past_ms as f64 * (1.0 / LEAST_PAST - 1.0);
    let future_ms = ahead.map_or(0.0, |ahead| (ahead.left_ms * 1.05).min(most_future_ms));
    let to_ms = past_ms.saturating_add(future_ms as u64);
    let high = ahead.map_or(high, |ahead| high.max(held_bytes as f64 + ahead.bytes_per_ms * future_ms));
    let limit = limit_bytes.filter(|limit| *limit as f64 <= high * MOST_ABOVE);
    // What is foreseen goes a little beyond the limit.
    let top = limit.map_or(high * 1.2, |limit| (limit as f64).max(state.peak.map_or(0.0, |peak| peak.bytes as f64)));
    let (title, top_is_limit) = match (limit, limit_bytes) {
        (Some(_), _) => ("memory and its limit".to_owned(), true),
        (None, Some(limit)) => (format!("memory (limit {})", words::size(limit)), false),
        (None, None) => ("memory".to_owned(), false),
    };
    let level = limit_bytes.map_or(Level::Calm, |limit| Level::of(held_bytes as f64 / limit.max(1) as f64));
    Some(Plot {
        title,
        history: &state.held,
        from_ms: 0,
        now_ms: state.now_ms,
        to_ms,
        top,
        top_text: words::size(top as u64),
        top_is_limit,
        ahead: ahead.map(|ahead| (held_bytes as f64, ahead.bytes_per_ms)),
        level,
    })
}

/// The others, over the last minutes, those that say most first.
fn others(state: &State) -> Vec<Plot<'_>> {
    let now_ms = state.now_ms.max(LEAST_SPAN_MS);
    let from_ms = now_ms.saturating_sub(History::FINE_SPAN_MS);
    let recent = |title: String, history, top: f64, top_text: String| Plot {
        title,
        history,
        from_ms,
        now_ms,
        to_ms: now_ms,
        top,
        top_text,
        top_is_limit: false,
        ahead: None,
        level: Level::Calm,
    };
    let highest = |history: &History| history.over(from_ms, now_ms, 64).into_iter().flatten().fold(0.0, f64::max);
    let mut plots = Vec::new();
    let mut gpus: Vec<_> = state.gpus.iter().collect();
    gpus.sort_by_key(|(_, gpu)| std::cmp::Reverse(gpu.latest.used_bytes));
    for (index, gpu) in gpus.into_iter().take(2) {
        if let Some(total) = gpu.latest.total_bytes.filter(|_| !gpu.used.is_empty()) {
            let share = gpu.latest.used_bytes.unwrap_or(0) as f64 / total.max(1) as f64;
            let plot = recent(format!("GPU {index} memory"), &gpu.used, total as f64, words::size(total));
            plots.push(Plot { top_is_limit: true, level: Level::of(share), ..plot });
        }
        if !gpu.busy.is_empty() {
            plots.push(recent(format!("GPU {index} busy"), &gpu.busy, 100.0, "100 %".to_owned()));
        }
    }
    if !state.cpu_cores.is_empty() {
        let top = state.cpus.unwrap_or_else(|| highest(&state.cpu_cores).max(1.0));
        plots.push(recent("CPU".to_owned(), &state.cpu_cores, top, format!("{top:.0} cores")));
    }
    for (name, history) in [("disk", &state.disk_bytes_per_s), ("network", &state.network_bytes_per_s)] {
        let top = highest(history);
        if top > 0.0 {
            plots.push(recent(name.to_owned(), history, top, words::flow(top)));
        }
    }
    plots
}

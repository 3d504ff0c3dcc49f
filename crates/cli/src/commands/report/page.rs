//! A recorded job as a page: what happened in words, then plots that share one cursor, then tables.
//!
//! In: what was gathered. Out: one self-contained file; see `brimful_core::page`.

use brimful_core::bytes::human;
use brimful_core::page::{Axis, Cell, Mark, MarkKind, Page, Panel, Plots, Series, escape};

use super::gather::Gathered;
use super::words;
use crate::summary::date::{self, duration};
use crate::summary::facts;

/// Points on a page: half a megabyte or so.
const MOST_POINTS: usize = 60_000;
/// Epochs and phases that are marked; more would be a wall.
const MOST_MARKS: usize = 120;

/// The page.
pub fn render(gathered: &Gathered) -> String {
    let summary = &gathered.summary;
    let mut page = Page::new(&words::command(summary));
    let (tone, word, rest) = words::headline(summary);
    page.headline(tone, &word, &rest);
    page.list(&facts::facts(summary));
    if let Some(torn) = words::torn(summary) {
        page.paragraph(&torn);
    }
    why(gathered, &mut page);
    findings(gathered, &mut page);
    let plots = plots(gathered);
    if plots.panels.is_empty() {
        page.paragraph(
            "Nothing was sampled: the job ended at once, or the recording breaks off before the first sample.",
        );
    } else {
        page.heading("time", "Over time");
        page.plots(plots);
    }
    processes(gathered, &mut page);
    said(gathered, &mut page);
    about(gathered, &mut page);
    page.finish()
}

fn why(gathered: &Gathered, page: &mut Page) {
    let Some(cause) = words::cause(&gathered.summary) else { return };
    page.heading("why", "Why");
    page.html(&format!("<p dir=\"auto\"><strong>{}.</strong></p>", escape(&cause.title)));
    page.list(&cause.because);
    if cause.remedies.is_empty() {
        return;
    }
    page.heading("remedies", "What helps");
    page.html("<ol>");
    for (title, code) in &cause.remedies {
        let code: String = code.iter().map(|code| format!("<pre>{}</pre>", escape(code))).collect();
        page.html(&format!("<li dir=\"auto\">{}{code}</li>", escape(title)));
    }
    page.html("</ol>");
}

fn findings(gathered: &Gathered, page: &mut Page) {
    let findings = gathered.findings();
    if findings.is_empty() {
        return;
    }
    page.heading("findings", "What was seen");
    let mut rows = vec![vec![Cell::text("When"), Cell::text("What")]];
    for finding in findings {
        rows.push(vec![moment(finding.at_ms), Cell::text(&finding.text)]);
    }
    page.table("What was seen while the job ran", false, &rows);
    if gathered.summary.more_findings > 0 {
        page.paragraph(&format!("And {} more.", gathered.summary.more_findings));
    }
}

/// A time that the plots go to.
fn moment(at_ms: u64) -> Cell {
    Cell::html(format!("<button type=\"button\" data-at=\"{at_ms}\">{}</button>", duration(at_ms)))
}

fn plots(gathered: &Gathered) -> Plots {
    let summary = &gathered.summary;
    let most = gathered.points_each(MOST_POINTS);
    let mut panels: Vec<Panel> = Vec::new();
    for group in gathered.lines.chunk_by(|a, b| a.plot == b.plot) {
        let Some(first) = group.first() else { continue };
        let series = group.iter().map(|line| Series {
            name: line.name.clone(),
            shown: line.shown,
            limit: line.limit,
            points: line.thin.points(most),
            unit: line.unit,
        });
        panels.push(Panel {
            id: first.plot.id(),
            title: first.plot.title(),
            unit: first.unit,
            series: series.collect(),
            ..Panel::default()
        });
    }
    let axis = Axis::Time { began_unix_ms: summary.started_unix_ms, end: summary.duration_ms };
    Plots { axis, panels, marks: marks(gathered) }
}

fn marks(gathered: &Gathered) -> Vec<Mark> {
    let summary = &gathered.summary;
    let mark = |at, kind, text: String| Mark { at, kind, text };
    let findings = gathered.findings().iter();
    let mut marks: Vec<Mark> =
        findings.map(|finding| mark(finding.at_ms, MarkKind::Finding, finding.text.clone())).collect();
    let every = gathered.spans.len().div_ceil(MOST_MARKS).max(1);
    for span in gathered.spans.iter().step_by(every) {
        let kind = if span.epoch { MarkKind::Epoch } else { MarkKind::Phase };
        marks.push(mark(span.from_ms, kind, format!("{} begins.", span.name)));
        if !span.epoch {
            marks.push(mark(span.to_ms, kind, format!("{} ends.", span.name)));
        }
    }
    if let Some(peak) = summary.peak {
        marks.push(mark(peak.at_ms, MarkKind::Peak, format!("Peak of memory, {}.", human(peak.held_bytes))));
    }
    let (_, word, rest) = words::headline(summary);
    marks.push(mark(summary.duration_ms, MarkKind::End, format!("{word} {rest}")));
    marks.sort_by_key(|mark| mark.at);
    marks
}

fn processes(gathered: &Gathered, page: &mut Page) {
    let Some(holders) = gathered.summary.holders.as_ref().filter(|holders| !holders.processes.is_empty()) else {
        return;
    };
    page.heading("processes", "The largest processes near the peak");
    let mut rows = vec![vec![
        Cell::text("Name"),
        Cell::number_head("Process"),
        Cell::number_head("Resident"),
        Cell::number_head("Shared parts divided"),
        Cell::number_head("Most it ever had"),
    ]];
    let sized = |bytes: u64| Cell::number(&human(bytes), bytes as f64);
    for process in &holders.processes {
        rows.push(vec![
            Cell::text(&process.name),
            Cell::number(&process.pid.to_string(), f64::from(process.pid)),
            sized(process.rss_bytes),
            process.pss_bytes.map_or(Cell::default(), sized),
            sized(process.peak_rss_bytes),
        ]);
    }
    page.table("The largest processes near the peak", true, &rows);
    page.paragraph(&format!("Read {} after the start.", duration(holders.at_ms)));
}

fn said(gathered: &Gathered, page: &mut Page) {
    if gathered.said.is_empty() {
        return;
    }
    page.heading("said", "What was said last");
    let lines: String =
        gathered.said.iter().map(|line| format!("{:>12}  {}\n", duration(line.at_ms), escape(&line.text))).collect();
    page.html(&format!("<pre class=\"said\" dir=\"auto\" tabindex=\"0\">{lines}</pre>"));
}

fn about(gathered: &Gathered, page: &mut Page) {
    let summary = &gathered.summary;
    page.heading("about", "About this run");
    let mut rows = vec![vec![Cell::text("What"), Cell::text("Value")]];
    let mut row = |name: &str, value: &str| rows.push(vec![Cell::text(name), Cell::text(value)]);
    row("command", &words::command(summary));
    if summary.started_unix_ms > 0 {
        row("started", &date::iso(summary.started_unix_ms));
    }
    summary.versions.iter().for_each(|(name, version)| row(name, version));
    summary.limits_bytes.iter().for_each(|(name, bytes)| row(&format!("limit: {name}"), &human(*bytes)));
    summary.environment.iter().for_each(|(name, value)| row(name, value));
    if let Some(read) = summary.recording {
        row("entries of the recording", &read.entries.to_string());
    }
    page.table("About this run", false, &rows);
    let seen = gathered.lines.iter().map(|line| line.thin.seen()).max().unwrap_or(0);
    let most = gathered.points_each(MOST_POINTS).min(2000) as u64;
    if seen > most {
        page.paragraph(&format!(
            "The plots draw at most {most} points of each figure: of each stretch of time the lowest and the highest. All \
             samples: brimful report RUN --format csv."
        ));
    }
    if gathered.left_out > 0 {
        page.paragraph(&format!("{} entries about further devices and processes are not drawn.", gathered.left_out));
    }
}

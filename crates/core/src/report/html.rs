//! A plan as a page: the verdict, what fills the device, the remedies, the training step event by event, all layers.
//!
//! In: a [`Report`], best one with its [`Detail`](super::Detail). Out: one self-contained page; see [`page`](crate::page). The words are those of the
//! text. Sizes leave CUDA's context out, as there.

use std::fmt::Write;

use super::text::{SAID_ABOVE, effect, job_sentence, size, time, verdict_words, when};
use super::{Report, Verdict};
use crate::allocator::timeline::{Moment, Timeline};
use crate::bytes::human;
use crate::page::{Axis, Cell, Limit, Mark, MarkKind, Page, Panel, Plots, Series, Tone, Unit, escape};

/// Layers in the table: more make a page that nobody reads.
const MOST_LAYERS: usize = 1000;

/// The parts of a stack in the order of `ROLES`, and what the allocator adds. The order of the breakdown.
const TITLES: [&str; 8] = [
    "parameters", "gradients", "optimizer state", "saved activations", "inputs", "temporaries", "workspace",
    "allocator slack",
];

impl Report {
    /// The report as a page.
    pub fn to_html(&self) -> String {
        let name = if self.model.name.is_empty() { "The model" } else { &self.model.name };
        let mut page = Page::new(&format!("{name}: memory plan"));
        let (word, rest) = verdict_words(self);
        let tone = match self.verdict {
            Verdict::Fits => Tone::Good,
            Verdict::Tight => Tone::Warning,
            Verdict::DoesNotFit => Tone::Bad,
        };
        page.headline(tone, word, rest.trim_start());
        page.paragraph(&job_sentence(self));
        self.fill(&mut page);
        self.help(&mut page);
        self.steps(&mut page);
        self.layers(&mut page);
        self.notes(&mut page);
        page.finish()
    }

    /// The bar and the table of the parts.
    fn fill(&self, page: &mut Page) {
        let total = self.without_context(self.breakdown.total());
        let scale = total.max(self.limit_bytes().unwrap_or(0)).max(1) as f64;
        page.heading("fill", "What fills it");
        let parts = self.breakdown.parts().into_iter().take(TITLES.len()).enumerate();
        let parts: Vec<(usize, (&str, u64))> = parts.filter(|(_, (_, bytes))| *bytes > 0).collect();
        let (mut bar, mut begin) = (String::new(), 0u64);
        for (index, (title, bytes)) in &parts {
            let (left, width) = (begin as f64 / scale * 100.0, *bytes as f64 / scale * 100.0);
            let _ = write!(
                bar,
                "<i style=\"left:{left:.3}%;width:{width:.3}%;background:var(--c{index})\" title=\"{}: {}\"></i>",
                escape(title),
                human(*bytes)
            );
            begin = begin.saturating_add(*bytes);
        }
        if let Some(limit) = self.limit_bytes() {
            let _ = write!(
                bar,
                "<b style=\"left:calc({:.3}% - 3px)\" title=\"usable: {}\"></b>",
                limit as f64 / scale * 100.0,
                human(limit)
            );
        }
        let said = self.limit_bytes().map_or(String::new(), |limit| format!(" of {} usable", human(limit)));
        page.html(&format!(
            "<div class=\"share\" role=\"img\" aria-label=\"{} needed{said}\">{bar}</div>",
            human(total)
        ));
        let mut rows = vec![vec![Cell::text("Part"), Cell::number_head("Size"), Cell::number_head("Share")]];
        for (index, (title, bytes)) in parts {
            let dot = format!("<i class=\"dot\" style=\"background:var(--c{index})\"></i>{}", escape(title));
            let share = bytes as f64 * 100.0 / total.max(1) as f64;
            rows.push(vec![
                Cell::html(dot),
                Cell::number(&human(bytes), bytes as f64),
                Cell::number(&format!("{share:.1} %"), share),
            ]);
        }
        rows.push(vec![Cell::text("together"), Cell::number(&human(total), total as f64), Cell::default()]);
        page.table("What fills the memory at the peak", false, &rows);
        if self.breakdown.context > 0 {
            page.paragraph(&format!("CUDA itself holds {} beside that.", human(self.breakdown.context)));
        }
        if let Some(moment) = &self.peak.at {
            page.paragraph(&when(moment, self.part_title()));
        }
    }

    /// The remedies: as a table, and the code of the cheapest set.
    fn help(&self, page: &mut Page) {
        if self.remedies.is_empty() {
            return;
        }
        page.heading("remedies", if self.verdict == Verdict::Fits { "What would save more" } else { "What helps" });
        if let Some(plan) = self.cheapest_fit.as_ref().filter(|plan| !plan.remedies.is_empty()) {
            let titles: Vec<&str> = plan.changes.iter().map(|change| change.title.as_str()).collect();
            page.paragraph(&format!(
                "Cheapest way to fit: {}. Then {}; {}; {}.",
                titles.join(", and "),
                size(self.without_context(plan.peak_bytes)),
                effect(plan.same_result),
                time(plan.time_cost)
            ));
            for code in plan.changes.iter().filter_map(|change| self.code(&change.apply)) {
                page.html(&format!("<pre>{}</pre>", escape(code)));
            }
        }
        let mut rows = vec![vec![
            Cell::text("Change"),
            Cell::number_head("Then needs"),
            Cell::text("Fits"),
            Cell::number_head("Largest batch"),
            Cell::text("Result"),
            Cell::text("Time"),
            Cell::text("Code"),
        ]];
        for remedy in &self.remedies {
            let bytes = self.without_context(remedy.peak_bytes);
            let code = self.code(&remedy.apply).map_or(String::new(), |code| {
                format!("<details><summary>Show</summary><pre>{}</pre></details>", escape(code))
            });
            let batch = remedy.max_batch.map_or(Cell::default(), |most| Cell::number(&most.to_string(), most as f64));
            rows.push(vec![
                Cell::text(&remedy.title),
                Cell::number(&human(bytes), bytes as f64),
                Cell::text(if remedy.fits { "yes" } else { "no" }),
                batch,
                Cell::text(effect(remedy.same_result)),
                Cell::text(&time(remedy.time_cost)),
                Cell::html(code),
            ]);
        }
        page.table("Changes that need less memory", false, &rows);
    }

    fn steps(&self, page: &mut Page) {
        let Some(timeline) = self.detail.as_ref().map(|detail| &detail.timeline) else { return };
        page.heading("step", "The step, event by event");
        if timeline.moments.is_empty() {
            page.paragraph("No event of the step could be shown.");
            return;
        }
        let shown = if (timeline.moments.len() as u64) < timeline.event_count {
            format!(
                " Of {} events, {} are drawn: the extremes of each stretch.",
                timeline.event_count,
                timeline.moments.len()
            )
        } else {
            String::new()
        };
        page.paragraph(&format!(
            "What is held after each request and release, in the order that gives the predicted peak.{shown}"
        ));
        page.plots(self.plots(timeline));
    }

    fn plots(&self, timeline: &Timeline) -> Plots {
        let line = |name: &str, limit: bool, bytes: &dyn Fn(&Moment) -> u64| Series {
            name: name.to_owned(),
            shown: true,
            limit,
            points: timeline.moments.iter().map(|moment| (moment.event, bytes(moment) as f64)).collect(),
            unit: Unit::Bytes,
        };
        let mut series: Vec<Series> = Vec::new();
        for (index, title) in TITLES.iter().enumerate() {
            series.push(line(title, false, &|moment| {
                moment.role_bytes.get(index).copied().unwrap_or(moment.slack_bytes)
            }));
        }
        if self.is_torch() {
            series.push(line("reserved by the allocator", true, &|moment| moment.reserved_bytes));
        }
        let name = |moment: &Moment| {
            let phase = super::phase_name(moment.phase);
            let cause = &timeline.causes[moment.cause];
            let layer = if cause.layer.is_empty() { String::new() } else { format!(" in {}", cause.layer) };
            let source = cause.source.as_ref().map_or(String::new(), |source| format!(", {source}"));
            format!("{phase}: {}{layer}{source}", cause.op)
        };
        let (mut names, mut labels) = (Vec::<String>::new(), Vec::new());
        let mut known = std::collections::BTreeMap::new();
        for moment in &timeline.moments {
            let label = *known.entry((moment.phase, moment.cause)).or_insert_with(|| {
                names.push(name(moment));
                names.len() as u32 - 1
            });
            labels.push(label);
        }
        let limits = self.limit_bytes().map(|limit| Limit { name: "usable".to_owned(), value: limit as f64 });
        let panel = Panel {
            id: "step".to_owned(),
            title: "Memory held".to_owned(),
            unit: Unit::Bytes,
            stacked: true,
            series,
            limits: limits.into_iter().collect(),
            labels,
            names,
        };
        let peak = timeline.peak.and_then(|place| timeline.moments.get(place));
        let marks = peak.map(|moment| {
            let last = self.peak.at.as_ref().map_or(String::new(), |at| {
                let layer = if at.layer.is_empty() { String::new() } else { format!(" in {}", at.layer) };
                format!(", {}: {}{layer}", at.phase, at.op)
            });
            Mark {
                at: moment.event,
                kind: MarkKind::Peak,
                text: format!("Peak, {}{last}.", human(moment.allocated_bytes())),
            }
        });
        let end = timeline.event_count.saturating_sub(1);
        Plots { axis: Axis::Events { end }, panels: vec![panel], marks: marks.into_iter().collect() }
    }

    fn layers(&self, page: &mut Page) {
        let all = self.detail.as_ref().map_or(&self.layers, |detail| &detail.layers);
        if all.is_empty() {
            return;
        }
        let part = self.part_title();
        page.heading("layers", &format!("What each {part} holds at the peak"));
        let mut rows = vec![vec![
            Cell::text(if part == "layer" { "Layer" } else { "Module" }),
            Cell::text("Class"),
            Cell::number_head("All"),
            Cell::number_head("Weights, gradients, slots"),
            Cell::number_head("Kept for backward"),
        ]];
        let sized = |bytes: u64| Cell::number(&human(bytes), bytes as f64);
        for layer in all.iter().take(MOST_LAYERS) {
            rows.push(vec![
                Cell::text(&layer.layer),
                Cell::text(&layer.class),
                sized(layer.bytes),
                sized(layer.weights_bytes),
                sized(layer.saved_bytes),
            ]);
        }
        page.table(&format!("What each {part} holds at the peak"), true, &rows);
        if let Some(rest) = all.get(MOST_LAYERS..).filter(|rest| !rest.is_empty()) {
            let bytes = rest.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.bytes));
            page.paragraph(&format!("{} more hold {} together.", rest.len(), human(bytes)));
        }
        if !self.lines.is_empty() {
            page.heading("lines", "Heaviest lines of source");
            let mut rows = vec![vec![Cell::text("Line"), Cell::number_head("Holds")]];
            rows.extend(self.lines.iter().map(|line| vec![Cell::text(&line.source), sized(line.bytes)]));
            page.table("Heaviest lines of source", false, &rows);
        }
    }

    fn notes(&self, page: &mut Page) {
        let notes: Vec<String> = self
            .assumptions
            .iter()
            .chain(&self.notes)
            .filter(|note| note.code != SAID_ABOVE)
            .map(|note| note.layer.as_ref().map_or(String::new(), |layer| format!("{layer}: ")) + &note.text)
            .collect();
        if !notes.is_empty() {
            page.heading("notes", "Notes");
            page.list(&notes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;

    #[test]
    fn a_page_has_the_verdict_the_parts_and_all_remedies() {
        for report in [samples::too_large(), samples::fits(), samples::tight(), samples::no_limit(), samples::torch()] {
            let page = report.to_html();
            assert!(page.contains("<h1 class=") && page.contains("saved activations"), "{}", report.model.name);
            for remedy in &report.remedies {
                assert!(page.contains(&crate::page::escape(&remedy.title)), "{}", remedy.title);
            }
        }
    }

    #[test]
    fn names_from_a_model_cannot_leave_their_place() {
        let mut report = samples::too_large();
        let wicked = "</script><img src=x onerror=alert(1)>";
        report.model.name = wicked.to_owned();
        report.layers[0].layer = wicked.to_owned();
        report.device.name = wicked.to_owned();
        report.notes[0].text = wicked.to_owned();
        let page = report.to_html();
        assert!(!page.contains("<img") && page.contains("&lt;img"));
        assert_eq!(page.matches("</script>").count(), 2);
    }
}

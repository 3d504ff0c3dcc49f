//! A report for people, as text.
//!
//! In: a [`Report`] and a [`Style`]. Out: lines of at most the style's width (a single word may be longer): the verdict in
//! one sentence, then what fills the device, when, by which layers, and what to do about it. Not here: lists in full. The
//! text shows the first few of each and says how many more the JSON has.

mod bar;
pub(crate) mod layout;
mod snapshot;
#[cfg(test)]
mod tests;

use super::{Apply, Moment, RemedyReport, Report, SameResult, Verdict};
use crate::bytes::human;
use crate::framework::Framework;
use layout::{GLUE, Page, clean, first, middle, plain_list};

/// How many layers are shown.
const LAYERS: usize = 5;
/// How many lines of source are shown.
const LINES: usize = 5;
/// How many remedies are shown.
const REMEDIES: usize = 6;
/// How many notes are shown.
const NOTES: usize = 5;

/// The note on a device without measurements: said with the range.
pub(super) const SAID_ABOVE: &str = "not_measured";

/// The note on a recording that says nothing about other batches.
const BATCH_UNKNOWN: &str = "batch_fixed";

/// How a text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether parts are told apart by ANSI colours; by letters otherwise.
    pub colour: bool,
    /// Columns. Anything below 40 is taken as 40, anything above 200 as 200.
    pub width: usize,
}

impl Default for Style {
    /// What suits a file or a pipe.
    fn default() -> Style {
        Style { colour: false, width: 80 }
    }
}

impl Report {
    /// The report for people.
    pub fn to_text(&self, style: Style) -> String {
        let mut page = Page::new(style);
        verdict(self, &mut page);
        job(self, &mut page);
        bar::write(self, &mut page);
        breakdown(self, &mut page);
        layers(self, &mut page);
        lines(self, &mut page);
        batch(self, &mut page);
        remedies(self, &mut page);
        cheapest(self, &mut page);
        notes(self, &mut page);
        page.finish()
    }

    /// A size on the device as the framework's allocator counts it: without the context, which CUDA holds beside it. Limits
    /// that people set (`--memory`, TensorFlow's `memory_limit`) are meant so.
    pub(super) fn without_context(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.breakdown.context)
    }

    /// What the allocator may hold.
    pub(super) fn limit_bytes(&self) -> Option<u64> {
        self.device.usable_bytes.map(|usable| self.without_context(usable))
    }

    /// The device as a sentence names it.
    fn device_title(&self) -> String {
        if self.device.name == "cpu" { "a CPU".to_owned() } else { clean(&self.device.name) }
    }

    /// The code that applies a change in the job's framework.
    pub(super) fn code<'a>(&self, apply: &'a Apply) -> Option<&'a str> {
        if self.is_torch() { apply.torch.as_deref() } else { apply.keras.as_deref() }
    }

    pub(super) fn is_torch(&self) -> bool {
        self.job.framework.parse() == Ok(Framework::Torch)
    }

    /// What the framework calls the parts of a model.
    pub(super) fn part_title(&self) -> &'static str {
        if self.is_torch() { "module" } else { "layer" }
    }

    /// Where lists stand in full: recorded jobs are planned from Python.
    fn all_of_it(&self) -> &'static str {
        if self.is_torch() { "in the plan's JSON" } else { "with --format json" }
    }

    fn framework_title(&self) -> String {
        self.job.framework.parse().map_or(self.job.framework.clone(), |f: Framework| f.title().to_owned())
    }
}

fn verdict(report: &Report, page: &mut Page) {
    let (word, rest) = verdict_words(report);
    page.headline(report.verdict, word, &rest);
}

/// The first sentence: the words that say how it is meant, and the rest.
pub(super) fn verdict_words(report: &Report) -> (&'static str, String) {
    let needed = report.without_context(report.peak.device_bytes);
    let most = report.without_context(report.peak.high_bytes);
    let name = report.device_title();
    let Some(usable) = report.limit_bytes() else {
        return ("Needs", format!(" {} on {name}. No limit is known.", size(needed)));
    };
    let of = format!("of {} usable on {name}", size(usable));
    match report.verdict {
        Verdict::Fits => ("Fits:", format!(" needs {} {of}.", size(needed))),
        Verdict::Tight if most > usable => {
            ("Tight:", format!(" needs {}, perhaps {}, {of}.", size(needed), size(most)))
        }
        Verdict::Tight => {
            let spare = size(usable.saturating_sub(most));
            ("Tight:", format!(" needs {} {of}; only {spare} to spare.", size(needed)))
        }
        Verdict::DoesNotFit if needed > usable && human(needed) == human(usable) => {
            let over = size(needed - usable);
            ("Does not fit:", format!(" needs {} {of}, {over} too much.", size(needed)))
        }
        // Enough bytes, but in pieces: in most orders a request finds no gap that is large enough.
        Verdict::DoesNotFit if needed <= usable => {
            let text = format!(" needs {} {of}, but finds it in pieces that are too small.", size(needed));
            ("Does not fit:", text)
        }
        Verdict::DoesNotFit => ("Does not fit:", format!(" needs {} {of}.", size(needed))),
    }
}

/// What was asked for, and how sure the answer is.
fn job(report: &Report, page: &mut Page) {
    page.blank();
    let (asked, range) = job_words(report);
    page.paragraph(&asked);
    page.paragraph(&range);
}

/// Both as one paragraph.
pub(super) fn job_sentence(report: &Report) -> String {
    let (asked, range) = job_words(report);
    format!("{asked} {range}")
}

fn job_words(report: &Report) -> (String, String) {
    let (model, job) = (&report.model, &report.job);
    let framework = report.framework_title();
    let plural = if model.layers == 1 { "" } else { "s" };
    let name = if model.name.is_empty() { "The model".to_owned() } else { clean(&model.name) };
    let part = report.part_title();
    let counted = format!("{name}: {} parameters in {} {part}{plural}.", count(model.parameters), model.layers);
    let asked = if job.mode == "inference" {
        format!("Inference with {framework}: batch {}, {}.", job.batch, clean(&job.precision))
    } else {
        let (precision, optimizer) = (clean(&job.precision), clean(&job.optimizer));
        let optimizer = if optimizer.is_empty() { String::new() } else { format!("{optimizer}, ") };
        format!("Training with {framework}: batch {}, {optimizer}{precision}.", job.batch)
    };
    let range = if report.is_torch() { recorded_range(report) } else { range_of_orders(report) };
    let measured = if report.device.measured { "" } else { " Not checked against a real run on this device." };
    (format!("{counted} {asked}"), format!("{range}{measured}"))
}

fn range_of_orders(report: &Report) -> String {
    let low = report.without_context(report.peak.low_bytes);
    let high = report.without_context(report.peak.high_bytes);
    if human(low) == human(high) {
        return "The orders of ops that were tried need the same.".to_owned();
    }
    let (low, high) = (size(low), size(high));
    format!("Expect {low} to {high}, depending on the order in which ops run.")
}

/// What was recorded needs what it needs; what the allocator takes for it is more.
fn recorded_range(report: &Report) -> String {
    let peak = &report.peak;
    let used = if human(peak.allocated_bytes) == human(peak.reserved_bytes) {
        "All of it is in use at the peak.".to_owned()
    } else {
        let (used, cached) = (size(peak.allocated_bytes), size(peak.reserved_bytes - peak.allocated_bytes));
        format!("At the peak {used} of it is in use; {cached} is cache and gaps.")
    };
    let high = report.without_context(peak.high_bytes);
    if human(high) == human(peak.reserved_bytes) {
        return used;
    }
    format!("{used} It may come to {}.", size(high))
}

fn breakdown(report: &Report, page: &mut Page) {
    let total = report.without_context(report.breakdown.total());
    if total == 0 {
        return;
    }
    page.heading("What fills it");
    let explained = page.width() >= 76;
    for (index, (title, bytes)) in report.breakdown.parts().into_iter().enumerate() {
        if bytes == 0 || index == bar::CONTEXT {
            continue;
        }
        let mark = bar::mark(index, page);
        let why = if explained { format!("  {}", page.dim(bar::WHY[index])) } else { String::new() };
        page.line(&format!("  {mark} {title:<17} {:>9} {:>7}{why}", human(bytes), percent(bytes, total)));
    }
    page.line(&format!("    {:<17} {:>9}", "together", human(total)));
    if report.breakdown.context > 0 {
        page.indented(&format!("CUDA itself holds {} beside that.", size(report.breakdown.context)));
    }
    if let Some(moment) = &report.peak.at {
        page.blank();
        page.paragraph(&when(moment, report.part_title()));
    }
}

pub(super) fn when(moment: &Moment, part: &str) -> String {
    let phase = match moment.phase.as_str() {
        "forward" => "in the forward pass".to_owned(),
        "backward" => "in the backward pass".to_owned(),
        "setup" => "before the first step".to_owned(),
        "optimizer" => "while the optimizer updates the weights".to_owned(),
        other => format!("in {}", clean(other)),
    };
    let place = if moment.layer.is_empty() {
        format!("in {}", clean(&moment.op))
    } else {
        format!("in {part} {} ({})", clean(&moment.layer), clean(&moment.op))
    };
    let source = moment.source.as_ref().map_or(String::new(), |source| format!(", at {}", clean(source)));
    format!("The peak comes {phase}, {place}{source}.")
}

fn layers(report: &Report, page: &mut Page) {
    let shown = &report.layers[..report.layers.len().min(LAYERS)];
    let Some(most) = shown.iter().map(|layer| layer.bytes).max().filter(|most| *most > 0) else { return };
    page.heading(&format!("Heaviest {}s", report.part_title()));
    let width = page.width();
    let bar = if width >= 60 { (width / 5).min(24) } else { 0 };
    // Two spaces before each column, nine letters of size.
    let room = width - 2 - 2 - 9 - if bar > 0 { bar + 2 } else { 0 };
    let longest = |texts: &mut dyn Iterator<Item = &String>| texts.map(|t| clean(t).chars().count()).max().unwrap_or(0);
    let class = longest(&mut shown.iter().map(|layer| &layer.class)).min(20);
    let class = if room >= 20 + 2 + class { class } else { 0 };
    let path = longest(&mut shown.iter().map(|layer| &layer.layer)).min(room - if class > 0 { class + 2 } else { 0 });
    for layer in shown {
        let mut line = format!("  {:<path$}", middle(&clean(&layer.layer), path));
        if class > 0 {
            line += &format!("  {}", page.dim(&format!("{:<class$}", middle(&clean(&layer.class), class))));
        }
        line += &format!("  {:>9}", human(layer.bytes));
        if bar > 0 {
            line += &format!("  {}", layout::small_bar(layer.bytes, most, bar));
        }
        page.line(line.trim_end());
    }
}

/// Lines of the user's own source.
fn lines(report: &Report, page: &mut Page) {
    let shown = &report.lines[..report.lines.len().min(LINES)];
    if shown.is_empty() {
        return;
    }
    page.heading("Heaviest lines");
    // Two spaces before each column, nine letters of size.
    let room = page.width() - 2 - 2 - 9;
    let source = shown.iter().map(|line| clean(&line.source).chars().count()).max().unwrap_or(0).min(room);
    for line in shown {
        page.line(&format!("  {:<source$}  {:>9}", middle(&clean(&line.source), source), human(line.bytes)));
    }
}

fn batch(report: &Report, page: &mut Page) {
    // What is not known about other batches is said by a note.
    if report.limit_bytes().is_none() || report.notes.iter().any(|note| note.code == BATCH_UNKNOWN) {
        return;
    }
    let batch = report.job.batch;
    let sentence = match report.max_batch {
        None => "Not even a batch of one fits.".to_owned(),
        Some(most) if most > batch => format!("The batch could grow to {most}."),
        Some(most) if most == batch => format!("{most} is the largest batch that fits."),
        // This one may fit, too.
        Some(most) if report.verdict == Verdict::Tight => format!("The largest batch with room to spare is {most}."),
        Some(most) => format!("The largest batch that fits is {most}."),
    };
    page.heading("Batch");
    // The largest ones say most; the largest of all has just been named.
    let others: Vec<u64> = report.safe_batches.iter().copied().filter(|b| Some(*b) != report.max_batch).collect();
    let shown: Vec<String> = others.iter().rev().take(4).rev().map(u64::to_string).collect();
    if shown.is_empty() {
        page.indented(&sentence);
    } else {
        page.indented(&format!("{sentence} Also simulated, and fine: {}.", plain_list(&shown)));
    }
}

fn remedies(report: &Report, page: &mut Page) {
    // Who has room to spare asks for no remedy; the JSON has them all the same.
    if report.remedies.is_empty() || report.verdict == Verdict::Fits {
        return;
    }
    page.heading("What helps");
    let (fitting, others): (Vec<_>, Vec<_>) = report.remedies.iter().partition(|remedy| remedy.fits);
    let shown = first(report.remedies.len(), REMEDIES);
    for remedy in fitting.iter().chain(&others).take(shown) {
        let mark = page.fit_mark(remedy.fits);
        page.hanging(&format!("  {mark} "), 4, &clean(&remedy.title));
        page.hanging("    ", 4, &outcome(report, remedy));
    }
    page.more(report.remedies.len() - shown, report.all_of_it());
}

/// What a remedy comes to: peak, batch, effect on the result, time.
fn outcome(report: &Report, remedy: &RemedyReport) -> String {
    let peak = size(report.without_context(remedy.peak_bytes));
    let fits = match (remedy.fits, remedy.max_batch) {
        (true, _) => String::new(),
        (false, Some(most)) if most < report.job.batch => format!(", then fits up to batch {most}"),
        (false, _) => ", still too much".to_owned(),
    };
    format!("{peak}{fits}; {}; {}.", effect(remedy.same_result), time(remedy.time_cost))
}

fn cheapest(report: &Report, page: &mut Page) {
    let Some(plan) = &report.cheapest_fit else { return };
    if plan.remedies.is_empty() {
        return;
    }
    page.heading("Cheapest way to fit");
    for change in &plan.changes {
        page.indented(&format!("{}.", clean(&change.title)));
    }
    let peak = size(report.without_context(plan.peak_bytes));
    page.indented(&format!("{peak}; {}; {}.", effect(plan.same_result), time(plan.time_cost)));
    for change in &plan.changes {
        if let Some(code) = report.code(&change.apply) {
            page.blank();
            // Code is never wrapped: it is there to be copied.
            code.lines().for_each(|line| page.line(&page.code(&format!("    {}", clean(line)))));
        }
    }
}

fn notes(report: &Report, page: &mut Page) {
    // What was assumed about the question comes before what was assumed about the answer.
    let all = report.assumptions.iter().chain(&report.notes);
    let notes: Vec<_> = all.filter(|note| note.code != SAID_ABOVE).collect();
    if notes.is_empty() {
        return;
    }
    page.heading("Notes");
    let shown = first(notes.len(), NOTES);
    for note in notes.iter().take(shown) {
        let layer = note.layer.as_ref().map_or(String::new(), |layer| format!("{}: ", clean(layer)));
        page.hanging("  - ", 4, &format!("{layer}{}", clean(&note.text)));
    }
    page.more(notes.len() - shown, report.all_of_it());
}

/// A size that a line does not break.
pub(super) fn size(bytes: u64) -> String {
    human(bytes).replace(' ', &GLUE.to_string())
}

pub(super) fn effect(result: SameResult) -> &'static str {
    match result {
        SameResult::Exact => "same result",
        SameResult::Numerics => "same model, other rounding",
        SameResult::Changed => "changes what is trained",
    }
}

/// A time cost in words. Costs are estimates, so they are given to the nearest 5 %.
pub(super) fn time(cost: f64) -> String {
    let percent = ((cost - 1.0) * 20.0).round() * 5.0;
    match percent {
        p if !p.is_finite() => "unknown time".to_owned(),
        p if p >= 100.0 => format!("about {cost:.1} times as long"),
        p if p > 0.0 => format!("about {p:.0}{GLUE}% slower"),
        p if p < 0.0 => format!("about {:.0}{GLUE}% faster", -p),
        _ => "as fast".to_owned(),
    }
}

fn percent(part: u64, total: u64) -> String {
    let percent = part as f64 * 100.0 / total.max(1) as f64;
    if percent < 0.05 { "<0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// A number of parameters as people say it: `25.6 million`, `1.2 billion`.
fn count(number: u64) -> String {
    let value = number as f64;
    match number {
        1_000_000_000.. => format!("{:.1} billion", value / 1e9),
        1_000_000.. => format!("{:.1} million", value / 1e6),
        10_000.. => format!("{:.0} thousand", value / 1e3),
        _ => number.to_string(),
    }
}

//! A report on a memory snapshot for people, as text.
//!
//! In: a [`SnapshotReport`] and a [`Style`]. Out: for each device the peak in one sentence, then what failed, who held the
//! memory, what was reserved for nothing, and which settings would have needed less. Not here: lists in full. The text shows
//! the first few of each and says how many more the JSON has.

use super::layout::{GLUE, Page, clean, first, middle, small_bar};
use super::{Style, size};
use crate::bytes::human;
use crate::report::Verdict;
use crate::report::snapshot::{
    CheckReport, DeviceReport, FailureReport, HolderKind, HolderReport, PeakReport, SettingReport, SnapshotReport,
};

/// Where lists are that were cut short.
const IN_FULL: &str = "with --format json";

/// How many holders are shown.
const HOLDERS: usize = 8;
/// How many failures are shown.
const FAILURES: usize = 3;
/// How many notes are shown.
const NOTES: usize = 6;

impl SnapshotReport {
    /// The report for people.
    pub fn to_text(&self, style: Style) -> String {
        let mut page = Page::new(style);
        for (index, device) in self.devices.iter().enumerate() {
            if index > 0 {
                page.blank();
            }
            headline(device, &mut page);
            recording(self, device, &mut page);
            failures(device, &mut page);
            holders(device, &mut page);
            unused(device, &mut page);
            now(device, &mut page);
            settings(device, &mut page);
            if let Some(check) = &device.self_check {
                page.blank();
                page.paragraph(&how_exact(check));
            }
        }
        if self.devices.is_empty() {
            page.headline(Verdict::Fits, "Nothing", " is on a GPU in this snapshot.");
        }
        notes(self, &mut page);
        page.finish()
    }
}

fn headline(device: &DeviceReport, page: &mut Page) {
    let name = clean(&device.device);
    let verdict = if device.fits == Some(false) { Verdict::DoesNotFit } else { Verdict::Fits };
    let asked = device.limit_bytes.filter(|_| device.out_of_memory.is_empty());
    match (&device.peak, asked) {
        (Some(peak), _) if !device.out_of_memory.is_empty() => {
            let text = format!(" on {name}, with {} allocated at the peak{}.", size(peak.allocated_bytes), when(peak));
            page.headline(verdict, "Ran out of memory", &text);
        }
        (Some(peak), Some(limit)) => {
            let word = if device.fits == Some(false) { "Does not fit:" } else { "Fits:" };
            let text = format!(" reserved up to {} of {} on {name}.", size(peak.most_reserved_bytes), size(limit));
            page.headline(verdict, word, &text);
        }
        (Some(peak), None) => {
            let (allocated, reserved) = (size(peak.allocated_bytes), size(peak.most_reserved_bytes));
            let text = format!(" {allocated} allocated on {name}{}; up to {reserved} reserved.", when(peak));
            page.headline(verdict, "Peak:", &text);
        }
        (None, _) => {
            let (allocated, reserved) = (size(device.now.allocated_bytes), size(device.now.reserved_bytes));
            let text = format!(" {allocated} allocated and {reserved} reserved on {name} when the snapshot was taken.");
            page.headline(verdict, "Held:", &text);
        }
    }
}

fn when(peak: &PeakReport) -> String {
    peak.seconds.map_or(String::new(), |seconds| format!(", {} into the recording", duration(seconds)))
}

/// `1.84 s`, `12 ms`, `3 min`.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 120.0 => format!("{:.0}{GLUE}min", s / 60.0),
        s if s >= 10.0 => format!("{s:.0}{GLUE}s"),
        s if s >= 1.0 => format!("{s:.2}{GLUE}s"),
        s => format!("{:.1}{GLUE}ms", s * 1e3),
    }
}

fn recording(report: &SnapshotReport, device: &DeviceReport, page: &mut Page) {
    let Some(recording) = &device.recording else { return };
    let lasts = recording.seconds.map_or(String::new(), |seconds| format!(" over {}", duration(seconds)));
    let conf = match report.recorded_conf.as_str() {
        "" => "the allocator's default settings".to_owned(),
        conf => format!("PYTORCH_CUDA_ALLOC_CONF={}", clean(conf)),
    };
    page.blank();
    let counted = format!("{} events, {} of them allocations", recording.events, recording.allocations);
    let mut text = format!("Recorded: {counted}{lasts}, with {conf}.");
    if let Some(source) = device.peak.as_ref().and_then(|peak| peak.source.as_ref()) {
        text += &format!(" The peak came in {}.", clean(&short(source)));
    }
    if let Some(before) = device.before_recording.as_ref().filter(|before| before.buffers > 0) {
        let buffers = if before.buffers == 1 { "buffer" } else { "buffers" };
        text += &format!(
            " Before the recording there were {} in {} {buffers}; {} of that was freed later.",
            size(before.bytes),
            before.buffers,
            size(before.freed_bytes)
        );
    }
    page.paragraph(&text);
}

fn failures(device: &DeviceReport, page: &mut Page) {
    if device.out_of_memory.is_empty() {
        return;
    }
    page.heading("Out of memory");
    let shown = first(device.out_of_memory.len(), FAILURES);
    for failure in device.out_of_memory.iter().take(shown) {
        page.hanging("  - ", 4, &why_it_failed(failure));
    }
    page.more(device.out_of_memory.len() - shown, IN_FULL);
}

fn why_it_failed(failure: &FailureReport) -> String {
    let when = failure.seconds.map_or(String::new(), |seconds| format!(" after {}", duration(seconds)));
    let place = failure.source.as_ref().map_or(String::new(), |source| format!(", in {}", clean(&short(source))));
    let unused = failure.reserved_bytes.saturating_sub(failure.allocated_bytes);
    let asked = size(failure.requested_bytes);
    let free = size(failure.device_free_bytes);
    let (allocated, unused_size) = (size(failure.allocated_bytes), size(unused));
    let limit = if failure.own_limit {
        format!(
            "The device had {free} free: the process has a limit of its own (set_per_process_memory_fraction). It had \
             {allocated} allocated"
        )
    } else {
        format!("The device had {free} free, PyTorch had {allocated} allocated")
    };
    format!("{asked} asked for{when}{place}. {limit} and {unused_size} reserved beside that.")
}

fn holders(device: &DeviceReport, page: &mut Page) {
    let shown = &device.holders[..first(device.holders.len(), HOLDERS)];
    let Some(most) = shown.iter().map(|holder| holder.bytes).max().filter(|most| *most > 0) else { return };
    page.heading(if device.peak.is_some() { "Who held it at the peak" } else { "Who holds it" });
    let width = page.width();
    let bar = if width >= 60 { (width / 5).min(24) } else { 0 };
    let room = width - 2 - 2 - 9 - if bar > 0 { bar + 2 } else { 0 };
    let titles: Vec<String> = shown.iter().map(title).collect();
    let name_width = titles.iter().map(|title| title.chars().count()).max().unwrap_or(0).min(room);
    for (holder, title) in shown.iter().zip(&titles) {
        let mut line = format!("  {:<name_width$}  {:>9}", middle(title, name_width), human(holder.bytes));
        if bar > 0 {
            line += &format!("  {}", small_bar(holder.bytes, most, bar));
        }
        page.line(&line);
        if let Some(library) = &holder.library {
            page.line(&page.dim(&format!("    {}", middle(&clean(&short(library)), width - 4))));
        }
    }
    let rest: u64 = device.holders[shown.len()..].iter().map(|holder| holder.bytes).fold(0, u64::saturating_add);
    if rest > 0 {
        page.line(&format!("  {:<name_width$}  {:>9}", "all other lines", human(rest)));
    }
    if let Some(peak) = &device.peak {
        let rounding = peak.allocated_bytes.saturating_sub(peak.requested_bytes);
        if rounding > 0 {
            page.line(&format!("  {:<name_width$}  {:>9}", "the allocator's rounding", human(rounding)));
        }
    }
    page.more(device.holders.len() - shown.len(), IN_FULL);
}

fn title(holder: &HolderReport) -> String {
    let line = holder.source.as_ref().map(|source| {
        let function = holder.function.as_deref().filter(|function| !function.is_empty());
        let function = function.map_or(String::new(), |function| format!(" {}", clean(function)));
        format!("{}{function}", clean(&short(source)))
    });
    match (holder.kind, line) {
        (HolderKind::UserLine | HolderKind::LibraryLine, Some(line)) => line,
        (HolderKind::Backward, _) => match &holder.function {
            Some(gradient) => format!("backward pass, {}", clean(gradient)),
            None => "backward pass".to_owned(),
        },
        (HolderKind::BeforeRecording, _) => "before the recording".to_owned(),
        (_, _) => "no stack recorded".to_owned(),
    }
}

/// The last two parts of a path: what tells files apart in one project.
fn short(source: &str) -> String {
    let (path, rest) = source.split_once(' ').map_or((source, ""), |(path, rest)| (path, rest));
    let kept = match path.rmatch_indices('/').nth(1) {
        // Packages of libraries are named from their start.
        Some((at, _)) if path.starts_with('/') => &path[at + 1..],
        _ => path,
    };
    if rest.is_empty() { kept.trim_end().to_owned() } else { format!("{kept} {rest}") }
}

fn unused(device: &DeviceReport, page: &mut Page) {
    let (Some(peak), Some(gaps)) = (&device.peak, &device.fragmentation) else { return };
    page.heading("Reserved and not used at the peak");
    if gaps.unused_bytes == 0 {
        page.indented("Nothing.");
        return;
    }
    let share = gaps.unused_bytes as f64 * 100.0 / peak.reserved_bytes.max(1) as f64;
    page.indented(&format!(
        "{} of {} ({share:.0}{GLUE}%): {} lies between buffers and cannot go back to the device; the largest free block is \
         {}.",
        size(gaps.unused_bytes),
        size(peak.reserved_bytes),
        size(gaps.beside_buffers_bytes),
        size(gaps.largest_free_bytes)
    ));
}

fn now(device: &DeviceReport, page: &mut Page) {
    let now = &device.now;
    page.heading("When the snapshot was taken");
    let pending = match now.pending_free_bytes {
        0 => String::new(),
        bytes => format!(", {} waiting for another stream", size(bytes)),
    };
    page.indented(&format!(
        "{} allocated{pending}, {} reserved in {} {}; the largest free block is {}.",
        size(now.allocated_bytes),
        size(now.reserved_bytes),
        now.segments,
        if now.segments == 1 { "segment" } else { "segments" },
        size(now.largest_free_bytes)
    ));
}

fn settings(device: &DeviceReport, page: &mut Page) {
    let Some(recorded) = device.settings.iter().find(|setting| setting.recorded) else { return };
    page.heading("What each setting would have reserved");
    let named: Vec<String> = device.settings.iter().map(name).collect();
    let width = named.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(page.width() - 30);
    for (setting, name) in device.settings.iter().zip(&named) {
        let mark = setting.fits.map_or(String::new(), |fits| format!("{} ", page.fit_mark(fits)));
        let difference = difference(setting, recorded);
        let line =
            format!("  {mark}{:<width$}  {:>9}{difference}", middle(name, width), human(setting.peak_reserved_bytes));
        page.line(line.trim_end());
    }
    if let Some(advice) = &device.advice {
        page.blank();
        page.line(&page.code(&format!("    {}", clean(&advice.environment))));
    } else {
        page.indented("No setting is worth a change.");
    }
}

fn name(setting: &SettingReport) -> String {
    let conf = if setting.conf.is_empty() { "default".to_owned() } else { clean(&setting.conf) };
    if setting.recorded { format!("{conf} (as recorded)") } else { conf }
}

fn difference(setting: &SettingReport, recorded: &SettingReport) -> String {
    let (needs, needed) = (setting.peak_reserved_bytes, recorded.peak_reserved_bytes);
    if setting.recorded {
        return String::new();
    }
    match needs.abs_diff(needed) {
        0 => "  the same".to_owned(),
        bytes if needs < needed => format!("  {} less", human(bytes)),
        bytes => format!("  {} more", human(bytes)),
    }
}

fn how_exact(check: &CheckReport) -> String {
    let exact = check.reproduced == check.segment_events && check.invented == 0;
    let events = if exact {
        format!("all {} movements of memory to and from the device", check.segment_events)
    } else {
        format!(
            "{} of {} movements of memory to and from the device (and {} others)",
            check.reproduced, check.segment_events, check.invented
        )
    };
    format!(
        "How exact: replayed with the recorded settings, {events} come out the same, and {} of {} buffers lie at the same \
         address; {} reserved at most, {} recorded.",
        check.at_recorded_address,
        check.allocations,
        size(check.replayed_peak_reserved_bytes),
        size(check.recorded_peak_reserved_bytes)
    )
}

fn notes(report: &SnapshotReport, page: &mut Page) {
    if report.notes.is_empty() {
        return;
    }
    page.heading("Notes");
    let shown = first(report.notes.len(), NOTES);
    for note in report.notes.iter().take(shown) {
        page.hanging("  - ", 4, &clean(&note.text));
    }
    page.more(report.notes.len() - shown, IN_FULL);
}

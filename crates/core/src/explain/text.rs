//! An explanation as a person reads it: the answer in one sentence, then why, the figures, the lines, what else it could be, what to do.
//!
//! In: an [`Explanation`] and a [`Style`]. Out: lines of at most the style's width; quoted lines and code are cut, not wrapped, so that they can be
//! searched for and copied. The JSON has them whole.

use super::answer::{Explanation, Named};
use super::causes::{Code, Confidence};
use super::sign::Resource;
use crate::bytes::human;
use crate::report::text::layout::{Page, clean, middle};
use crate::report::{SameResult, Style, Verdict};

/// Remedies shown.
const REMEDIES: usize = 4;
/// Characters shown of the line that counts.
const FIRST_LINE: usize = 480;
/// Lines of the log shown.
const LINES: usize = 5;

impl Explanation {
    /// The explanation for people.
    pub fn to_text(&self, style: Style) -> String {
        let mut page = Page::new(style);
        self.answer(&mut page);
        self.why(&mut page);
        self.figures(&mut page);
        self.plan(&mut page);
        self.quotes(&mut page);
        self.others(&mut page);
        self.unknown(&mut page);
        self.advice(&mut page);
        page.finish()
    }

    fn answer(&self, page: &mut Page) {
        let ran_out = self.resource.map(|resource| format!("{} ran out", capital(self.name(resource))));
        match (&self.cause, ran_out) {
            (Some(cause), _) if cause.code == Code::NotMemory => {
                page.headline(Verdict::Tight, "Not a memory failure", &format!(": {}.", cause.because[0]))
            }
            // Their titles say what ran out.
            (Some(cause), Some(_)) if says_it(cause.code) => {
                page.headline(Verdict::DoesNotFit, cause.title, &format!("{}.", sure(cause)));
            }
            (Some(cause), Some(ran_out)) => {
                page.headline(Verdict::DoesNotFit, &ran_out, &format!(": {}{}.", lower(cause.title), sure(cause)))
            }
            (Some(cause), None) => page.headline(Verdict::DoesNotFit, cause.title, "."),
            (None, Some(ran_out)) => {
                page.headline(Verdict::Tight, &ran_out, "; the log does not say enough to name the cause.")
            }
            (None, None) if self.evidence.is_empty() => {
                page.headline(Verdict::Fits, "No failure was found", " in this log.")
            }
            (None, None) => page.headline(Verdict::Tight, "The log does not say", " what ended the job."),
        }
    }

    /// What ran out, by the name of the device where it is no GPU.
    fn name(&self, resource: Resource) -> &'static str {
        let tpu = self.numbers.device.as_deref().is_some_and(|device| device.starts_with("TPU"));
        if resource == Resource::GpuMemory && tpu { "TPU memory" } else { resource.name() }
    }

    fn why(&self, page: &mut Page) {
        let Some(cause) = self.cause.as_ref().filter(|cause| cause.code != Code::NotMemory) else { return };
        page.heading("Why");
        for because in &cause.because {
            page.hanging("  - ", 4, &clean(because));
        }
    }

    fn figures(&self, page: &mut Page) {
        let numbers = &self.numbers;
        let size = |bytes: Option<u64>| bytes.map(human);
        let shape = numbers.shape.as_ref().map(|shape| {
            let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
            let dtype = numbers.dtype.as_deref().map_or(String::new(), |dtype| format!(" {dtype}"));
            let bytes = numbers.tensor_bytes.map_or(String::new(), |bytes| format!(" = {}", human(bytes)));
            format!("[{}]{dtype}{bytes}", sizes.join(" × "))
        });
        let others: Vec<String> = numbers
            .others
            .iter()
            .map(|process| format!("{} (process {})", human(process.bytes), process.pid))
            .collect();
        // Without a figure of its own, this process may be one of them: in a container PyTorch cannot tell.
        let listed = if numbers.process_bytes.is_some() { "others" } else { "processes" };
        let rows = [
            ("asked for", size(numbers.requested_bytes)),
            ("tensor", shape),
            ("capacity", size(numbers.capacity_bytes)),
            ("allowed of it", size(numbers.allowed_bytes)),
            ("in use", size(numbers.allocated_bytes)),
            ("reserved", size(numbers.reserved_bytes)),
            ("free", size(numbers.free_bytes)),
            ("free at start", size(numbers.free_at_start_bytes)),
            ("largest free piece", size(numbers.largest_free_bytes)),
            ("largest tensor", size(numbers.largest_in_use_bytes)),
            ("program: given", size(numbers.argument_bytes)),
            ("program: computes", size(numbers.temporary_bytes)),
            ("this process", size(numbers.process_bytes)),
            (listed, (!others.is_empty()).then(|| others.join(", "))),
            ("device", numbers.device.clone()),
            ("operation", numbers.op.clone()),
            ("process", numbers.process.clone()),
            ("step", numbers.step.map(|step| step.to_string())),
            ("epoch", numbers.epoch.map(|epoch| epoch.to_string())),
            ("rank", numbers.rank.map(|rank| rank.to_string())),
            ("exit code", numbers.exit_code.map(|code| code.to_string())),
        ];
        let shown: Vec<(&str, String)> = rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        if shown.is_empty() || self.resource.is_none() {
            return;
        }
        page.heading("Figures");
        for (name, value) in shown {
            page.hanging(&format!("  {name:<20}"), 22, &clean(&value));
        }
    }

    fn plan(&self, page: &mut Page) {
        let Some(planned) = &self.planned else { return };
        page.heading("The plan of this model");
        if let Some(failed) = &planned.failed {
            page.hanging(
                "  - ",
                4,
                &format!(
                    "the tensor that failed has the shape of the output of {} for a batch of {}",
                    clean(&failed.layer),
                    failed.batch
                ),
            );
        }
        page.hanging(
            "  - ",
            4,
            &format!(
                "a batch of {} needs {} of {}",
                planned.batch,
                human(planned.peak_bytes),
                human(planned.memory_bytes)
            ),
        );
        let largest = planned.max_batch.map_or_else(
            || "not even one sample fits".to_owned(),
            |batch| format!("the largest batch that would have fitted is {batch}"),
        );
        page.hanging("  - ", 4, &largest);
        if planned.leaves_half() {
            page.hanging(
                "  - ",
                4,
                "so it is not the batch that filled it: something else holds the rest, such as results that are kept from step to \
                 step (a leak), data on the device, or another process; 'brimful run -- COMMAND' shows which",
            );
        }
    }

    fn quotes(&self, page: &mut Page) {
        if !self.evidence.is_empty() {
            page.heading("In the log");
        }
        for (index, quote) in self.evidence.iter().take(LINES).enumerate() {
            if index == 0 {
                let number = page.dim(&format!("  {:>6}  ", quote.line));
                page.hanging(&number, 10, &cut(&clean(&quote.text), FIRST_LINE));
                continue;
            }
            let number = format!("  {:>6}  ", quote.line);
            let text = middle(&clean(&quote.text), page.width().saturating_sub(number.len()));
            let line = format!("{}{text}", page.dim(&number));
            page.line(&line);
        }
        page.more(self.evidence.len().saturating_sub(LINES), "in the JSON");
        if !self.not_failures.is_empty() {
            page.heading("Not failures, though they sound like it");
            for quote in &self.not_failures {
                let number = format!("  {:>6}  ", quote.line);
                let text = middle(&clean(&quote.text), page.width().saturating_sub(number.len()));
                let line = format!("{}{text}", page.dim(&number));
                page.line(&line);
            }
        }
    }

    fn others(&self, page: &mut Page) {
        if self.alternatives.is_empty() {
            return;
        }
        page.heading(if self.cause.is_some() { "It could also be" } else { "It could be" });
        for other in &self.alternatives {
            page.hanging("  - ", 4, &clean(&format!("{}: {}", lower(other.title), other.because[0])));
        }
    }

    fn unknown(&self, page: &mut Page) {
        if self.missing.is_empty() {
            return;
        }
        page.heading("What would decide");
        for missing in &self.missing {
            page.hanging("  - ", 4, &format!("{}: {}", missing.fact, missing.how));
        }
    }

    fn advice(&self, page: &mut Page) {
        if self.remedies.is_empty() {
            return;
        }
        page.heading("What to do");
        for (index, advice) in self.remedies.iter().take(REMEDIES).enumerate() {
            let result = match advice.same_result {
                SameResult::Exact => "",
                SameResult::Numerics => " (other rounding)",
                SameResult::Changed => " (changes the result)",
            };
            page.hanging(&format!("  {}  ", index + 1), 5, &format!("{}{result}", advice.title));
            for snippet in advice.apply.iter() {
                let code = page.code(snippet.code);
                page.line(&format!("       {code}"));
            }
        }
        page.more(self.remedies.len().saturating_sub(REMEDIES), "in the JSON");
        if let Some(cause) = &self.cause {
            let name = super::causes::by_code(cause.code).name;
            page.blank();
            page.line(&page.dim(&format!("More: brimful explain --cause {name}")));
        }
    }
}

/// Whether a cause's title names what ran out.
fn says_it(code: Code) -> bool {
    matches!(
        code,
        Code::WorkerSharedMemory
            | Code::ContainerOrSchedulerLimit
            | Code::KernelOomKill
            | Code::DiskFull
            | Code::FileDescriptors
            | Code::Threads
            | Code::MessageSize
    )
}

fn sure(cause: &Named) -> &'static str {
    match cause.confidence {
        Confidence::Certain => "",
        Confidence::Likely | Confidence::Possible => " (likely)",
    }
}

/// The start of a text, and a mark where it goes on.
fn cut(text: &str, most: usize) -> String {
    text.char_indices().nth(most).map_or_else(|| text.to_owned(), |(at, _)| format!("{}…", &text[..at]))
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + characters.as_str())
}

/// A title inside a sentence.
fn lower(text: &str) -> String {
    let keeps = text.starts_with("GPU") || text.starts_with("CUDA");
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| {
        if keeps { text.to_owned() } else { first.to_lowercase().collect::<String>() + characters.as_str() }
    })
}

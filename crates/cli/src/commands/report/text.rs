//! A recorded job as text. In: what was gathered. Out: lines for a terminal or a file; the words are those of the page.

use super::gather::Gathered;
use super::words;
use crate::output::Output;
use crate::summary::date::duration;
use crate::summary::facts;

/// Findings that are shown.
const MOST_FINDINGS: usize = 10;

/// The text.
pub fn render(gathered: &Gathered, output: &Output) -> String {
    let summary = &gathered.summary;
    let (_, word, rest) = words::headline(summary);
    let mut text = Text { lines: String::new(), width: output.width().clamp(40, 200) };
    text.paragraph("", &format!("{word} {rest}"));
    text.paragraph("", &words::command(summary));
    text.lines.push('\n');
    facts::facts(summary).iter().for_each(|fact| text.paragraph("", fact));
    if let Some(torn) = words::torn(summary) {
        text.paragraph("", &torn);
    }
    if let Some(cause) = words::cause(summary) {
        text.heading("Why");
        text.paragraph("  ", &format!("{}.", cause.title));
        cause.because.iter().for_each(|because| text.paragraph("  ", because));
        if !cause.remedies.is_empty() {
            text.heading("What helps");
            cause.remedies.iter().for_each(|(title, _)| text.paragraph("  - ", title));
        }
    }
    let findings = gathered.findings();
    if !findings.is_empty() {
        text.heading("What was seen");
        for finding in findings.iter().take(MOST_FINDINGS) {
            text.paragraph("  ", &format!("{}: {}", duration(finding.at_ms), finding.text));
        }
        let more = findings.len().saturating_sub(MOST_FINDINGS) as u64 + summary.more_findings;
        if more > 0 {
            text.paragraph("  ", &format!("and {more} more, on the page: -o report.html"));
        }
    }
    text.lines
}

struct Text {
    lines: String,
    width: usize,
}

impl Text {
    fn heading(&mut self, title: &str) {
        self.lines.push('\n');
        self.lines.push_str(title);
        self.lines.push('\n');
    }

    /// Words behind a mark, further lines indented as far. Control characters of the recording must not reach a terminal.
    fn paragraph(&mut self, mark: &str, text: &str) {
        let mut line = mark.to_owned();
        let clean: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        for word in clean.split(' ').filter(|word| !word.is_empty()) {
            let begins = line.trim().len() <= mark.trim().len();
            if !begins && line.chars().count() + 1 + word.chars().count() > self.width {
                self.lines.push_str(line.trim_end());
                self.lines.push('\n');
                line = " ".repeat(mark.chars().count());
            } else if !begins {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.lines.push_str(line.trim_end());
        self.lines.push('\n');
    }
}

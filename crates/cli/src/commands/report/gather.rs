//! Everything that is shown of a recording, gathered in one pass.
//!
//! In: a recording. Out: [`Gathered`]: a summary, lines, events and what was said last, all of bounded size.

use std::collections::{BTreeMap, VecDeque};

use brimful_monitor::recording::{Finding, Frame, Line as Said, StepMark};

use super::open::Recording;
use super::series::{Follower, Line};
use crate::summary::{MOST_FINDINGS, Summarizer, Summary};

/// Epochs and phases that are kept.
const MOST_SPANS: usize = 2000;
/// Lines that are kept: the last ones.
const MOST_SAID: usize = 40;
/// Characters that are kept of each.
const MOST_CHARS: usize = 400;

/// A stretch of time with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// `epoch 3`, `evaluate`.
    pub name: String,
    /// Whether it is an epoch, not a phase.
    pub epoch: bool,
    /// When it begins.
    pub from_ms: u64,
    /// When it ends.
    pub to_ms: u64,
}

/// What is shown.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// In short.
    pub summary: Summary,
    /// Figures over time.
    pub lines: Vec<Line>,
    /// Frames of figures for which there was no line.
    pub left_out: u64,
    /// Epochs and phases.
    pub spans: Vec<Span>,
    /// What was said last.
    pub said: Vec<Said>,
    /// Steps and when they ended, to find the step of a moment.
    pub steps: Vec<(u64, u64)>,
}

impl Gathered {
    /// Reads a recording.
    pub fn of(recording: &Recording<'_>) -> Gathered {
        let (mut summarizer, mut follower, mut spans) = (Summarizer::default(), Follower::default(), Spans::default());
        let mut said: VecDeque<Said> = VecDeque::new();
        let mut steps = super::thin::Thin::new(20_000);
        recording.for_each(|frame| {
            summarizer.take(&frame);
            follower.take(&frame);
            match frame {
                Frame::Step(mark) => {
                    spans.step(&mark);
                    steps.push(mark.at_ms, mark.step as f64);
                }
                Frame::Line(line) if spans.line(&line) => {}
                Frame::Line(line) => {
                    if said.len() == MOST_SAID {
                        said.pop_front();
                    }
                    said.push_back(Said { at_ms: line.at_ms, text: line.text.chars().take(MOST_CHARS).collect() });
                }
                _ => {}
            }
        });
        let summary = summarizer.finish(Some(recording.good()), MOST_FINDINGS);
        let spans = spans.finish(summary.duration_ms);
        let (lines, left_out) = follower.finish();
        let steps = steps.points(20_000).into_iter().map(|(at, step)| (at, step as u64)).collect();
        Gathered { summary, lines, left_out, spans, said: said.into(), steps }
    }

    /// Points for each line so that all of them are no more than this.
    pub fn points_each(&self, all: usize) -> usize {
        all / self.lines.len().max(1)
    }

    /// The findings.
    pub fn findings(&self) -> &[Finding] {
        &self.summary.findings
    }
}

/// A line that says that a phase begins or ends: `phase evaluate begins`.
pub fn phase(text: &str) -> Option<(&str, bool)> {
    let rest = text.strip_prefix("phase ")?;
    let (name, word) = rest.split_once(' ')?;
    match word {
        "begins" => Some((name, true)),
        "ends" => Some((name, false)),
        _ => None,
    }
}

#[derive(Default)]
struct Spans {
    done: Vec<Span>,
    open: BTreeMap<String, u64>,
    epoch: Option<(u64, u64)>,
    last_step_ms: u64,
}

impl Spans {
    fn step(&mut self, mark: &StepMark) {
        self.last_step_ms = mark.at_ms;
        let Some(epoch) = mark.epoch else { return };
        if let Some((known, from_ms)) = self.epoch.filter(|(known, _)| *known != epoch) {
            self.add(format!("epoch {known}"), true, from_ms, mark.at_ms);
            self.epoch = None;
        }
        self.epoch.get_or_insert((epoch, mark.at_ms));
    }

    /// Takes a line, if it is about a phase.
    fn line(&mut self, line: &Said) -> bool {
        let Some((name, begins)) = phase(&line.text) else { return false };
        if begins {
            if self.open.len() < MOST_SAID {
                self.open.entry(name.to_owned()).or_insert(line.at_ms);
            }
        } else if let Some(from_ms) = self.open.remove(name) {
            self.add(name.to_owned(), false, from_ms, line.at_ms);
        }
        true
    }

    fn add(&mut self, name: String, epoch: bool, from_ms: u64, to_ms: u64) {
        if self.done.len() < MOST_SPANS {
            self.done.push(Span { name, epoch, from_ms, to_ms: to_ms.max(from_ms) });
        }
    }

    fn finish(mut self, end_ms: u64) -> Vec<Span> {
        for (name, from_ms) in std::mem::take(&mut self.open) {
            self.add(name, false, from_ms, end_ms);
        }
        if let Some((epoch, from_ms)) = self.epoch {
            let to_ms = self.last_step_ms;
            self.add(format!("epoch {epoch}"), true, from_ms, to_ms);
        }
        self.done.sort_by_key(|span| span.from_ms);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_and_phases_become_spans() {
        let mut spans = Spans::default();
        let step = |at_ms, epoch| StepMark { at_ms, epoch: Some(epoch), ..StepMark::default() };
        let said = |at_ms, text: &str| Said { at_ms, text: text.to_owned() };
        spans.step(&step(10, 0));
        spans.step(&step(20, 0));
        assert!(spans.line(&said(21, "phase evaluate begins")) && spans.line(&said(25, "phase evaluate ends")));
        assert!(!spans.line(&said(26, "phase two of the plan")) && !spans.line(&said(26, "Epoch 1")));
        spans.step(&step(30, 1));
        spans.line(&said(31, "phase save begins"));
        let names: Vec<_> = spans.finish(40).into_iter().map(|span| (span.name, span.from_ms, span.to_ms)).collect();
        let expected = [("epoch 0", 10, 30), ("evaluate", 21, 25), ("epoch 1", 30, 30), ("save", 31, 40)];
        assert_eq!(names, expected.map(|(name, from, to)| (name.to_owned(), from, to)));
    }
}

//! Which process's steps are the job's.
//!
//! In: messages of all processes. Out: frames, and the phase of the process that leads. The first process that steps leads; another takes over
//! when it has stepped far more often, or when the leader has been silent for a while: a job may train in one process after the other. Steps and
//! waiting go on from where they were then, so that neither ever falls. Memory is that of every process. Not known: which rank a process is.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Message, Phase, Said};
use crate::recording::{Frame, FrameworkMemory, Line, StepMark};

/// Silent for so long, the leader is followed by the next that steps.
const SILENT_MS: u64 = 10_000;
/// So many times its steps, and so many more, are far more often.
const FAR_MORE: (u64, u64) = (2, 10);
/// Processes that are kept apart; no job has more, and none shall take memory by saying so.
const MOST_RANKS: usize = 4096;
/// Frameworks that are kept.
const MOST_FRAMEWORKS: usize = 16;

/// The processes of a job that speak.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// Steps and open phases of each.
    ranks: BTreeMap<u32, Rank>,
    leader: Option<u32>,
    /// What was given out last.
    last: StepMark,
    /// What is added to the leader's own counts.
    offset_steps: u64,
    offset_waited_us: u64,
    frameworks: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    step: u64,
    stepped_at_ms: u64,
    open: Vec<Phase>,
}

impl Ranks {
    /// Takes a message; gives the frame that it becomes, if it becomes one.
    pub fn take(&mut self, message: &Message) -> Option<Frame> {
        if self.ranks.len() >= MOST_RANKS && !self.ranks.contains_key(&message.pid) {
            return None;
        }
        let rank = self.ranks.entry(message.pid).or_default();
        match &message.said {
            Said::Framework { name, version } => {
                let is_news = self.frameworks.len() < MOST_FRAMEWORKS && self.frameworks.insert(name.clone());
                is_news.then(|| line(message.at_ms, format!("imports {name} {version}")))
            }
            Said::Phase { phase, begins } => {
                rank.open.retain(|open| open != phase);
                rank.open.extend(begins.then_some(*phase));
                let is_leader = self.leader.is_none_or(|leader| leader == message.pid);
                let text = format!("phase {} {}", phase.name(), if *begins { "begins" } else { "ends" });
                is_leader.then(|| line(message.at_ms, text))
            }
            Said::Step { step, epoch, loss, waited_us } => {
                (rank.step, rank.stepped_at_ms) = (*step, message.at_ms);
                // A training step has ended: an evaluation that still seems to go on is one whose end was dropped.
                rank.open.retain(|open| *open == Phase::Train);
                let mark =
                    StepMark { at_ms: message.at_ms, step: *step, epoch: *epoch, loss: *loss, waited_us: *waited_us };
                self.step(message.pid, mark)
            }
            Said::Memory { framework, device, allocated_bytes, reserved_bytes, peak_allocated_bytes, limit_bytes } => {
                Some(Frame::Framework(FrameworkMemory {
                    at_ms: message.at_ms,
                    pid: message.pid,
                    framework: framework.clone(),
                    device: device.clone(),
                    allocated_bytes: *allocated_bytes,
                    reserved_bytes: *reserved_bytes,
                    peak_allocated_bytes: *peak_allocated_bytes,
                    limit_bytes: *limit_bytes,
                }))
            }
        }
    }

    /// What the leading process does now: evaluation and the like before training, none if it says nothing.
    pub fn phase(&self) -> Option<Phase> {
        self.ranks.get(&self.leader?)?.open.last().copied()
    }

    /// The process whose steps are the job's.
    pub fn leader(&self) -> Option<u32> {
        self.leader
    }

    fn step(&mut self, pid: u32, mark: StepMark) -> Option<Frame> {
        if self.leader != Some(pid) {
            if !self.takes_over(&mark) {
                return None;
            }
            self.leader = Some(pid);
            self.offset_steps = (self.last.step + u64::from(self.last.step > 0)).saturating_sub(mark.step);
            self.offset_waited_us = self.last.waited_us.unwrap_or(0).saturating_sub(mark.waited_us.unwrap_or(0));
        }
        let waited_us = mark.waited_us.map(|waited_us| waited_us.saturating_add(self.offset_waited_us));
        let step = mark.step.saturating_add(self.offset_steps);
        if step <= self.last.step {
            return None;
        }
        self.last = StepMark { step, waited_us: waited_us.max(self.last.waited_us), ..mark };
        Some(Frame::Step(StepMark { waited_us, ..self.last }))
    }

    fn takes_over(&self, mark: &StepMark) -> bool {
        let Some(leader) = self.leader.and_then(|pid| self.ranks.get(&pid)) else { return true };
        let is_silent = mark.at_ms.saturating_sub(leader.stepped_at_ms) >= SILENT_MS;
        let (times, more) = FAR_MORE;
        is_silent || mark.step > leader.step.saturating_mul(times).saturating_add(more)
    }
}

/// What a recording keeps as text: phases, as the report reads them, and which frameworks there are.
fn line(at_ms: u64, text: String) -> Frame {
    Frame::Line(Line { at_ms, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(pid: u32, at_ms: u64, step: u64) -> Message {
        Message {
            pid,
            at_ms,
            said: Said::Step { step, epoch: None, loss: None, waited_us: Some(step.saturating_mul(10)) },
        }
    }

    fn marks(messages: &[Message]) -> Vec<(u64, u64)> {
        let mut ranks = Ranks::default();
        let frames = messages.iter().filter_map(|message| ranks.take(message));
        frames
            .map(|frame| match frame {
                Frame::Step(mark) => (mark.step, mark.waited_us.unwrap()),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn steps_of_several_ranks_are_counted_once() {
        let messages: Vec<Message> = (1..=50).flat_map(|n| [2, 1, 3].map(|pid| step(pid, n * 100, n))).collect();
        assert_eq!(marks(&messages), (1..=50).map(|n| (n, n * 10)).collect::<Vec<_>>());
    }

    #[test]
    fn one_process_after_the_other_goes_on_counting() {
        let first = (1..=5).map(|n| step(1, n * 100, n));
        let second = (1..=5).map(|n| step(2, 20_000 + n * 100, n));
        let messages: Vec<Message> = first.chain(second).collect();
        let marks = marks(&messages);
        assert_eq!(marks.iter().map(|mark| mark.0).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert!(marks.is_sorted(), "{marks:?}");
    }

    #[test]
    fn a_process_that_steps_far_more_often_takes_over() {
        let mut messages = vec![step(1, 0, 1)];
        messages.extend((1..=30).map(|n| step(2, n, n)));
        assert_eq!(marks(&messages).last(), Some(&(30, 300)));
        // Steps that go back, as of a process that reads its count from a file, are left out.
        assert_eq!(marks(&[step(1, 0, 9), step(1, 1, 3), step(1, 2, u64::MAX)]).len(), 2);
    }

    #[test]
    fn the_phase_is_that_of_the_leader_and_a_lost_end_does_not_hold_it() {
        let mut ranks = Ranks::default();
        let phase = |pid, phase, begins| Message { pid, at_ms: 0, said: Said::Phase { phase, begins } };
        ranks.take(&step(1, 0, 1));
        assert_eq!(ranks.phase(), None);
        ranks.take(&phase(1, Phase::Train, true));
        ranks.take(&phase(2, Phase::Save, true));
        assert_eq!((ranks.phase(), ranks.leader()), (Some(Phase::Train), Some(1)));
        ranks.take(&phase(1, Phase::Evaluate, true));
        assert_eq!(ranks.phase(), Some(Phase::Evaluate));
        ranks.take(&phase(1, Phase::Evaluate, false));
        assert_eq!(ranks.phase(), Some(Phase::Train));
        ranks.take(&phase(1, Phase::Evaluate, true));
        ranks.take(&step(1, 5, 2));
        assert_eq!(ranks.phase(), Some(Phase::Train));
    }
}

//! Processes that have appeared since the last sample.
//!
//! In: the number that the kernel gave out last, which the next ones follow, and the job's processes. Out: more of them. Looking at a few numbers costs
//! nothing beside a look at all processes, so it is done at every sample: a process of a tenth of a second is seen, and its
//! children while it is still known whose they are. Left to the next look at all: many at once, and numbers that began anew.
//!
//! A process that left its parent before anyone looked (a daemon) is known by its environment, if the job was given a mark there.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Member, Sampler};
use crate::readings::file::text_if_any;
use crate::readings::process::{self, ProcessId, Stat};
use crate::readings::tree;

/// More at once are left to the next look at all.
const MOST_NUMBERS: u64 = 64;
/// As many strangers are remembered.
const MOST_STRANGERS: usize = 1 << 16;

/// How the job's processes are known when their parents are not.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// A part of their environment.
    text: Option<String>,
    /// Those that were looked at and have no mark: a process's environment does not change.
    strangers: BTreeSet<ProcessId>,
}

impl Mark {
    pub fn set(&mut self, text: &str) {
        self.text = Some(text.to_owned()).filter(|text| !text.is_empty());
        self.strangers.clear();
    }

    /// Whether a process that is no older than the job bears the mark.
    pub fn is_on(&mut self, root: &Path, stat: &Stat, first: ProcessId) -> bool {
        let Some(mark) = &self.text else { return false };
        if stat.has_ended() || stat.id.start_ticks < first.start_ticks || self.strangers.contains(&stat.id) {
            return false;
        }
        let environment = text_if_any(&process::folder(root, stat.id.pid).join("environ"));
        let is_ours = environment.is_some_and(|text| text.contains(mark.as_str()));
        if !is_ours && self.strangers.len() < MOST_STRANGERS {
            self.strangers.insert(stat.id);
        }
        is_ours
    }
}

impl Sampler {
    /// Processes with this text in their environment are the job's, too, whoever their parent is: the path of the agent's socket, say.
    pub fn recognise(&mut self, mark: &str) {
        self.mark.set(mark);
    }

    /// Looks at the numbers that were given out since the last time.
    pub(super) fn look_at_newcomers(&mut self, last_pid: Option<u64>) {
        let before = std::mem::replace(&mut self.seen_pid, last_pid);
        let Some((from, to)) = before.zip(last_pid).filter(|(from, to)| from < to && to - from <= MOST_NUMBERS) else {
            return;
        };
        for pid in (from + 1..=to).filter_map(|pid| u32::try_from(pid).ok()) {
            let Some(stat) = tree::stat_of(&self.root, pid).filter(|stat| !stat.has_ended()) else { continue };
            let is_parent = |member: &Member| {
                member.id.pid == stat.parent_pid && member.id.start_ticks <= stat.id.start_ticks && member.id != stat.id
            };
            let is_known = self.members.iter().any(|member| member.id == stat.id);
            let is_ours = self.members.iter().any(is_parent) || self.mark.is_on(&self.root, &stat, self.first);
            // Threads have numbers, too, and seem to be children of their process's parent.
            if is_ours && !is_known && !process::is_thread(&self.root, pid) {
                let mut member = Member::new(&self.root, stat.id, self.members.len());
                member.update(&stat);
                self.members.push(member);
            }
        }
        self.last.process_count = Some(self.members.len() as u64);
    }
}

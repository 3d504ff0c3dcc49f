//! Processes that have appeared since the last sample.
//!
//! In: the number that the kernel gave out last, which the next ones follow, and the job's processes. Out: more of them. Looking at a few numbers costs
//! nothing beside a look at all processes, so it is done at every sample: a process of a tenth of a second is seen, and its
//! children while it is still known whose they are. Left to the next look at all: many at once, and numbers that began anew.

use super::{Member, Sampler};
use crate::readings::process;
use crate::readings::tree;

/// More at once are left to the next look at all.
const MOST_NUMBERS: u64 = 64;
impl Sampler {
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
            let is_adopted = Some(stat.parent_pid) == self.guardian;
            let is_ours = (self.members.iter().any(is_parent) || is_adopted) && self.left_out != Some(pid);
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

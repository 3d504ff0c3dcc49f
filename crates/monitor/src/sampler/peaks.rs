//! Peaks between two samples.
//!
//! In: what each process held at each sample, and the kernel's own peak of each (`VmHWM`), which is read once a second, and at once when a process
//! has let go of much or is new, since it may be gone by then. Out: the highest that the job is known to have held. A process whose
//! peak is above all that was seen of it was there when it was seen highest, and so were the others with what they held then: rises
//! of several processes are added up only if they were seen highest at the same sample. Not known: peaks of processes that lived between two samples.

use std::collections::BTreeMap;

use super::Sampler;
use crate::readings::process;

/// Letting go of as much is a spike that has ended.
const MUCH_BYTES: u64 = 16 << 20;
/// Samples for which a process is new.
const NEW_SAMPLES: u64 = 10;
/// As many are read out of turn at one sample.
const MOST_OUT_OF_TURN: usize = 8;

/// When a process was seen highest since its peak was last read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Highest {
    rss_bytes: u64,
    /// The sample, and what all processes held then.
    at_sample: u64,
    job_bytes: u64,
    /// What it held at the sample before.
    before_bytes: u64,
    samples: u64,
}

impl Highest {
    /// Takes what is held at a sample, and gives whether the kernel's peak is to be read now.
    pub fn see(&mut self, rss_bytes: u64, at_sample: u64, job_bytes: u64) -> bool {
        if self.samples == 0 || rss_bytes > self.rss_bytes {
            *self = Highest { rss_bytes, at_sample, job_bytes, ..*self };
        }
        let let_go = self.before_bytes.saturating_sub(rss_bytes) >= MUCH_BYTES;
        let grew_while_new = self.samples < NEW_SAMPLES && rss_bytes >= self.before_bytes.saturating_add(MUCH_BYTES);
        self.before_bytes = rss_bytes;
        self.samples += 1;
        let_go || grew_while_new
    }

    /// Begins anew: the peak was read.
    fn reset(&mut self, rss_bytes: u64, at_sample: u64, job_bytes: u64) {
        *self = Highest { rss_bytes, at_sample, job_bytes, ..*self };
    }
}

impl Sampler {
    /// Takes what was read at this sample.
    pub(super) fn see_peaks(&mut self, job_bytes: u64) {
        self.samples += 1;
        let mut due = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            if member.highest.see(member.rss_bytes, self.samples, job_bytes) && member.is_here() {
                due.push(index);
            }
        }
        due.truncate(MOST_OUT_OF_TURN);
        self.read_peaks(&due);
    }

    /// Reads the kernel's peaks of these processes.
    pub(super) fn read_peaks(&mut self, members: &[usize]) {
        let job_bytes = self.last.rss_bytes.unwrap_or(0);
        let mut rises: BTreeMap<u64, u64> = BTreeMap::new();
        for &index in members {
            let Some(member) = self.members.get_mut(index) else { continue };
            let Some(peak_bytes) = process::peak_rss_bytes(&self.root, member.id.pid) else { continue };
            let highest = member.highest;
            if peak_bytes > member.peak_rss_bytes {
                let rise = rises.entry(highest.at_sample).or_insert(highest.job_bytes);
                *rise = rise.saturating_add(peak_bytes.saturating_sub(highest.rss_bytes));
                member.peak_rss_bytes = peak_bytes;
            }
            member.highest.reset(member.rss_bytes, self.samples, job_bytes);
        }
        self.last.peak_rss_bytes = self.last.peak_rss_bytes.max(rises.into_values().max());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_read_when_much_was_let_go_and_when_a_new_process_grows() {
        let mut highest = Highest::default();
        assert!(!highest.see(1 << 20, 1, 5));
        assert!(highest.see(100 << 20, 2, 105 << 20), "new");
        let mut due = (3..30).map(|sample| highest.see(100 << 20, sample, 0));
        assert!(!due.any(|due| due), "level");
        assert!(!highest.see(200 << 20, 30, 205 << 20), "grows, and is not new");
        assert!(highest.see(150 << 20, 31, 0), "let go");
        assert_eq!((highest.at_sample, highest.rss_bytes, highest.job_bytes), (30, 200 << 20, 205 << 20));
    }
}

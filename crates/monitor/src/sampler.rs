//! Decides what is read when, and puts it together into samples.
//!
//! In: a root folder, a process, and the time of each call. Out: [`Sample`]s, and the job's processes. Read at every call (10 Hz): resident
//! memory and what the cgroup holds. Once a second: peaks, CPU, disks, the cgroup's details, the machine. Every ten: shared memory and open
//! files, which are dear. The list of processes is made anew every two seconds, and sooner when a process appeared anywhere; on
//! machines with thousands of processes more rarely, so that the cost stays below half a percent of a core. In between, processes with
//! the numbers that were given out last are looked at. No clock: a test may pass any time.

use std::path::{Path, PathBuf};

use crate::error::MonitorError;
use crate::readings::cgroup::Cgroup;
use crate::readings::disk::Disk;
use crate::readings::process::{self, ProcessId};
use crate::readings::{Answer, tree};
use crate::sample::Sample;

mod member;
mod newcomers;
mod peaks;
mod rare;
pub(crate) mod schedule;

pub use member::Member;
use schedule::Every;

/// So much more resident memory is worth a look at what is shared.
const JUMP_BYTES: u64 = 64 << 20;

/// Watches one job.
pub struct Sampler {
    root: PathBuf,
    first: ProcessId,
    guardian: Option<u32>,
    members: Vec<Member>,
    cgroup: Option<Cgroup>,
    last: Sample,
    /// The number that was given out last, when all processes were looked at, and at the last sample.
    last_pid: Option<u64>,
    seen_pid: Option<u64>,
    samples: u64,
    left_out: Option<u32>,
    /// Sums that must not fall when a process ends before its parent has waited for it.
    cpu_ms: u64,
    disk: Disk,
    second: Every,
    ten_seconds: Every,
    /// When it was last read what the processes share, how many there were, and what was resident.
    shared_at: (u64, usize, u64),
    scan: Every,
    early_scan: Every,
}

impl Sampler {
    /// Finds the job. What else is to be known is read with the first sample.
    pub fn new(root: &Path, pid: u32) -> Result<Sampler, MonitorError> {
        let first = match tree::identify(root, pid) {
            Answer::Known(id) => id,
            Answer::Gone => return Err(MonitorError::Gone { pid }),
            Answer::Hidden => return Err(MonitorError::Hidden { pid }),
        };
        Ok(Sampler {
            root: root.to_path_buf(),
            first,
            guardian: None,
            members: Vec::new(),
            cgroup: None,
            last: Sample::default(),
            last_pid: None,
            seen_pid: None,
            samples: 0,
            left_out: None,
            cpu_ms: 0,
            disk: Disk::default(),
            second: Every::ms(1000),
            ten_seconds: Every::ms(10_000),
            shared_at: (0, 0, 0),
            scan: Every::ms(2000),
            early_scan: Every::ms(500),
        })
    }

    /// The job was started in this cgroup. Known from the start, it is read even of a job that has ended before the first sample.
    pub fn begin_in(&mut self, cgroup: Cgroup) {
        self.cgroup = Some(cgroup);
    }

    /// From now on all children of this process are the job's: it takes in those whose parents have ended.
    pub fn guarded_by(&mut self, pid: u32) {
        self.guardian = Some(pid);
    }

    /// This process is not the job's, though the job may have started it: whoever watches it.
    pub fn leave_out(&mut self, pid: u32) {
        self.left_out = Some(pid);
    }

    /// Takes a sample. Times that do not rise are taken as they come: nothing is read twice for them.
    pub fn sample(&mut self, at_ms: u64) -> Sample {
        self.last.at_ms = at_ms;
        self.scan_if_due(at_ms);
        self.read_resident();
        if let Some(cgroup) = &self.cgroup {
            self.last.cgroup_used_bytes = cgroup.used_bytes();
        }
        if self.second.is_due(at_ms) {
            self.read_each_second();
        }
        if self.shares_anew(at_ms) {
            self.ten_seconds.now();
        }
        if self.ten_seconds.is_due(at_ms) {
            self.read_each_ten_seconds();
            self.shared_at = (at_ms, self.members.len(), self.last.rss_bytes.unwrap_or(0));
        }
        self.last
    }

    /// Whether processes appeared and resident memory jumped since it was last read what they share: a fork shares all that its parent has, which
    /// would count in full until then.
    fn shares_anew(&self, at_ms: u64) -> bool {
        let (then_ms, then_members, then_bytes) = self.shared_at;
        let jumped =
            self.last.rss_bytes.unwrap_or(0) > then_bytes.saturating_add(then_bytes / 4).saturating_add(JUMP_BYTES);
        jumped && self.members.len() > then_members && at_ms >= then_ms.saturating_add(1000)
    }

    /// Reads everything once more, for the end of a job or the end of a step.
    pub fn sample_all(&mut self, at_ms: u64) -> Sample {
        self.second.now();
        self.ten_seconds.now();
        self.scan.now();
        self.sample(at_ms)
    }

    /// The job's processes, as last read.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The cgroup that holds the job.
    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    /// Whether no process of the job is left; not before the first sample.
    pub fn has_ended(&self) -> bool {
        self.last.process_count.is_some() && self.members.iter().all(|member| !member.is_here())
    }

    fn scan_if_due(&mut self, at_ms: u64) {
        let last_pid = tree::last_pid(&self.root);
        let appeared = last_pid != self.last_pid;
        if !(self.scan.is_due(at_ms) || appeared && self.early_scan.is_due(at_ms)) {
            return self.look_at_newcomers(last_pid);
        }
        self.scan.done(at_ms);
        self.early_scan.done(at_ms);
        (self.last_pid, self.seen_pid) = (last_pid, last_pid);
        let known: Vec<ProcessId> = self.members.iter().map(|member| member.id).chain([self.first]).collect();
        let mut scan = tree::scan(&self.root, &known, |stat| Some(stat.parent_pid) == self.guardian);
        scan.processes.retain(|stat| Some(stat.id.pid) != self.left_out);
        // A look costs some 25 µs for each process of the machine: a quarter of a percent of a core at most.
        self.early_scan.at_least_ms(10 * scan.looked_at as u64);
        self.scan.at_least_ms(10 * scan.looked_at as u64);
        let mut before = std::mem::take(&mut self.members);
        for stat in &scan.processes {
            let known = before.iter().position(|member| member.id == stat.id).map(|index| before.swap_remove(index));
            let mut member = known.unwrap_or_else(|| Member::new(&self.root, stat.id, self.members.len()));
            member.update(stat);
            self.members.push(member);
        }
        // One that took another user's rights may be hidden from now on; the file that is open still tells what it holds.
        if before.iter().any(Member::is_here) && process::hides_processes(&self.root) {
            self.members.extend(before.into_iter().filter(Member::answers));
        }
        self.last.process_count = Some(self.members.len() as u64);
        self.last.thread_count = Some(self.members.iter().map(|member| member.threads).fold(0, u64::saturating_add));
        // A job may move to another group, such as one that a batch system makes for it.
        // One that is about to end, and has let go of its memory, has left its group already.
        let has_memory = |pid: &u32| process::rss_bytes(&self.root, *pid).known().is_some_and(|bytes| bytes > 0);
        let witness = self.members.iter().map(|member| member.id.pid).find(has_memory);
        let found = witness.and_then(|pid| Cgroup::find(&self.root, Some(pid)));
        let watched = |cgroup: &Option<Cgroup>| cgroup.as_ref().map(|cgroup| cgroup.watched.clone());
        let before = watched(&self.cgroup);
        self.cgroup = found.or_else(|| self.cgroup.take());
        if before != watched(&self.cgroup) {
            // What the other group counted is not this one's.
            self.second.now();
        }
        self.last.cgroup_limit_bytes = self.cgroup.as_ref().and_then(|cgroup| cgroup.limits.limit_bytes);
    }

    fn read_resident(&mut self) {
        for member in &mut self.members {
            member.read_resident(&self.root);
        }
        let rss_bytes = self.members.iter().map(|member| member.rss_bytes).fold(0, u64::saturating_add);
        self.last.rss_bytes = Some(rss_bytes);
        let anon_bytes = self.members.iter().map(|member| member.anon_bytes).fold(0, u64::saturating_add);
        self.last.anon_bytes = Some(anon_bytes);
        self.last.peak_rss_bytes = self.last.peak_rss_bytes.max(Some(rss_bytes));
        self.see_peaks(rss_bytes);
    }
}

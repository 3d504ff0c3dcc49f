//! A job's processes: the first one, its children, theirs, and those that it left behind.
//!
//! In: every `/proc/*/stat`, and the processes that are known to be the job's. Out: [`Scan`]. A child whose parent ended is given to
//! another parent; it is found as long as it, or a process above it, was seen before, or its new parent is the job's guardian. A number that was given to a new process is
//! not ours. Not found: a process that was never seen before its parent ended, and those of other PID namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::file::piece;
use super::process::{ProcessId, Stat, stat};

/// The outcome of one look at all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The job's, by number; those that have ended are left out.
    pub processes: Vec<Stat>,
    /// How many processes were looked at, which is what a scan costs.
    pub looked_at: usize,
}

/// Looks at all processes. Those that vanish while being read are skipped; those that `is_ours` says so of belong to the job, whoever started
/// them.
pub fn scan(root: &Path, known: &[ProcessId], is_ours: impl FnMut(&Stat) -> bool) -> Scan {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return Scan::default() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: BTreeMap<u32, Stat> = pids.filter_map(|pid| Some((pid, stat_of(root, pid)?))).collect();
    let looked_at = all.len();
    let mut found = descendants(&all, known);
    let is_new = |stat: &&Stat| !found.contains(&stat.id.pid);
    let strays: Vec<&Stat> = all.values().filter(is_new).collect();
    let mut is_ours = is_ours;
    let strays: Vec<ProcessId> = strays.into_iter().filter(|stat| is_ours(stat)).map(|stat| stat.id).collect();
    if !strays.is_empty() {
        found = descendants(&all, &[known, &strays].concat());
    }
    Scan { processes: living(all, &found), looked_at }
}

/// Without the search for a reason that an absent one calls for.
pub(crate) fn stat_of(root: &Path, pid: u32) -> Option<Stat> {
    let text = piece(&super::process::folder(root, pid).join("stat")).ok()?;
    super::process::parse_stat(&text).filter(|stat| stat.id.pid == pid)
}

fn descendants(all: &BTreeMap<u32, Stat>, known: &[ProcessId]) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<ProcessId>> = BTreeMap::new();
    for stat in all.values() {
        children.entry(stat.parent_pid).or_default().push(stat.id);
    }
    let is_here = |id: &ProcessId| all.get(&id.pid).is_some_and(|stat| stat.id == *id);
    let mut open: Vec<ProcessId> = known.iter().copied().filter(is_here).collect();
    let mut ours: BTreeSet<u32> = open.iter().map(|id| id.pid).collect();
    while let Some(parent) = open.pop() {
        // A child is never older than its parent: an older one belongs to an earlier holder of the number.
        for child in children.get(&parent.pid).into_iter().flatten().filter(|c| c.start_ticks >= parent.start_ticks) {
            if ours.insert(child.pid) {
                open.push(*child);
            }
        }
    }
    ours
}

fn living(mut all: BTreeMap<u32, Stat>, ours: &BTreeSet<u32>) -> Vec<Stat> {
    ours.iter().filter_map(|pid| all.remove(pid)).filter(|stat| !stat.has_ended()).collect()
}

/// The number that the kernel gave out last, to a process or a thread: while it stays, no child has appeared.
pub fn last_pid(root: &Path) -> Option<u64> {
    piece(&root.join("proc/loadavg")).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// The process that has this number now.
pub fn identify(root: &Path, pid: u32) -> super::Answer<ProcessId> {
    stat(root, pid).map(|stat| stat.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent_pid: u32, start_ticks: u64, state: char) -> (u32, Stat) {
        let id = ProcessId { pid, start_ticks };
        (pid, Stat { id, name: "python".to_owned(), state, parent_pid, cpu_ticks: 0, threads: 1 })
    }

    fn pids(all: &[(u32, Stat)], known: &[(u32, u64)]) -> Vec<u32> {
        let known: Vec<ProcessId> = known.iter().map(|&(pid, start_ticks)| ProcessId { pid, start_ticks }).collect();
        let all: BTreeMap<u32, Stat> = all.iter().cloned().collect();
        let ours = descendants(&all, &known);
        living(all, &ours).iter().map(|stat| stat.id.pid).collect()
    }

    #[test]
    fn children_of_children_are_ours_and_the_rest_is_not() {
        let all = [
            process(1, 0, 0, 'S'),
            process(10, 1, 100, 'R'),
            process(11, 10, 101, 'S'),
            process(12, 11, 102, 'Z'),
            process(13, 11, 103, 'D'),
            process(20, 1, 100, 'R'),
        ];
        assert_eq!(pids(&all, &[(10, 100)]), [10, 11, 13]);
        // The first one ended; what it left behind is known from before.
        assert_eq!(pids(&all[2..], &[(10, 100), (11, 101)]), [11, 13]);
    }

    #[test]
    fn a_number_that_was_given_out_again_is_not_ours() {
        let all = [process(10, 1, 500, 'R'), process(11, 10, 501, 'S')];
        assert_eq!(pids(&all, &[(10, 100)]), [0_u32; 0]);
        // An older process whose parent had this number before.
        assert_eq!(pids(&[process(10, 1, 500, 'R'), process(11, 10, 400, 'S')], &[(10, 500)]), [10]);
    }

    #[test]
    fn circles_end() {
        assert_eq!(pids(&[process(5, 6, 1, 'S'), process(6, 5, 1, 'S')], &[(5, 1)]), [5, 6]);
    }
}

//! The cgroup that holds a process: its limit, and what it holds. Version 1, version 2, or both on one machine.
//!
//! In: `/proc/PID/cgroup`, `/proc/self/mountinfo` and the files of the groups. Out: a [`Cgroup`], found once and read often; a process
//! may be moved to another, so it is found again now and then. The group that is read is the one with the tightest limit, since that is
//! where the job dies; without a limit, the process's own. Not counted: limits that are not cgroups (`ulimit`).

pub mod place;
pub mod limits;
pub mod usage;

use std::path::{Path, PathBuf};

use super::file::text_if_any;
use limits::{Limits, below};
use place::{Group, groups};
use usage::Usage;

/// All groups of a process, or of this one, from its own up to the top that is visible.
pub fn groups_of(root: &Path, pid: Option<u32>) -> Vec<Group> {
    let name = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let text = |path: PathBuf| text_if_any(&path).unwrap_or_default();
    groups(&text(root.join("proc").join(name).join("cgroup")), &text(root.join("proc/self/mountinfo")))
}

/// The cgroups of a process that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// What bounds it.
    pub limits: Limits,
    /// The process's own group.
    pub own: Group,
    /// The group that is read: the one with the tightest limit, or its own.
    pub watched: Group,
    root: PathBuf,
}

impl Cgroup {
    /// Finds those of a process, or of this one. None without a cgroup that counts memory.
    pub fn find(root: &Path, pid: Option<u32>) -> Option<Cgroup> {
        let groups = groups_of(root, pid);
        let counts = |group: &&Group| usage::used_bytes(&below(root, &group.folder), group.version).is_some();
        let own = groups.iter().find(counts)?.clone();
        let limits = Limits::read(root, &groups);
        let sets_it = |group: &&Group| limits.limit_source.as_deref().and_then(Path::parent) == Some(&group.folder);
        let watched = groups.iter().filter(counts).find(sets_it).unwrap_or(&own).clone();
        Some(Cgroup { limits, own, watched, root: root.to_path_buf() })
    }

    /// What is held, page cache included: one read.
    pub fn used_bytes(&self) -> Option<u64> {
        usage::used_bytes(&below(&self.root, &self.watched.folder), self.watched.version)
    }

    /// Everything about the group that is read; the kills are those of its own group too.
    pub fn usage(&self) -> Usage {
        let mut usage = usage::usage(&below(&self.root, &self.watched.folder), self.watched.version);
        if self.own != self.watched {
            let own = usage::usage(&below(&self.root, &self.own.folder), self.own.version);
            usage.oom_kill_count = usage.oom_kill_count.max(own.oom_kill_count);
        }
        usage
    }
}

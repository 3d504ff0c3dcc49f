//! What bounds a process: the tightest memory limit of its group and those above, and the bounds that go with it.
//!
//! In: the limit files of its groups. Out: [`Limits`]. A limit that is no limit (`max`, or the huge number of version 1) is none. Not
//! known: limits above what is mounted, unless version 1 tells them in `memory.stat`.

use std::path::{Path, PathBuf};

use super::place::{Group, Version};
use super::usage::usage;
use crate::readings::file::{named, text_if_any};

/// Limits from here on mean none: version 1 writes 9223372036854771712, the largest page-aligned number (`PAGE_COUNTER_MAX`
/// in the kernel's mm/page_counter), for an unlimited cgroup.
const UNLIMITED: u64 = 1 << 62;

/// The bounds on a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The tightest limit; more than that, and a process in the group is killed.
    pub limit_bytes: Option<u64>,
    /// The file that sets it.
    pub limit_source: Option<PathBuf>,
    /// Where the kernel begins to slow the group down (`memory.high`, version 2 only), the tightest.
    pub high_bytes: Option<u64>,
    /// The most swap, the tightest; in version 1 it is memory and swap together, less the limit.
    pub swap_limit_bytes: Option<u64>,
}

impl Limits {
    /// Reads the groups of one process.
    pub fn read(root: &Path, groups: &[Group]) -> Limits {
        let tightest = groups.iter().filter_map(|group| limit(root, group)).min_by_key(|(bytes, _)| *bytes);
        let value = |group: &Group, file| bytes_in(&below(root, &group.folder).join(file));
        let of_version = |version| groups.iter().filter(move |group| group.version == version);
        let high_bytes = of_version(Version::Two).filter_map(|group| value(group, "memory.high")).min();
        let swap_of_two = of_version(Version::Two).filter_map(|group| value(group, "memory.swap.max"));
        let swap_of_one = of_version(Version::One).filter_map(|group| {
            let both = value(group, "memory.memsw.limit_in_bytes")?;
            Some(both.saturating_sub(value(group, "memory.limit_in_bytes").unwrap_or(0)))
        });
        Limits {
            limit_bytes: tightest.as_ref().map(|(bytes, _)| *bytes),
            swap_limit_bytes: swap_of_two.chain(swap_of_one).min(),
            high_bytes,
            limit_source: tightest.map(|(_, source)| source),
        }
    }
}

/// What is left under the limits of all groups: the least of what each sets less what it holds, without the page cache that would be dropped
/// first. A limit above what is mounted is not counted: what is held under it is not known.
pub fn left_bytes(root: &Path, groups: &[Group]) -> Option<u64> {
    let left = |group: &Group| {
        let (limit_bytes, source) = limit(root, group)?;
        let usage = usage(&below(root, &group.folder), group.version);
        let held_bytes = usage.used_bytes?.saturating_sub(usage.inactive_file_bytes.unwrap_or(0));
        (!source.ends_with("memory.stat")).then(|| limit_bytes.saturating_sub(held_bytes))
    };
    groups.iter().filter_map(left).min()
}

/// The limit of one group, and the file that says it.
fn limit(root: &Path, group: &Group) -> Option<(u64, PathBuf)> {
    let folder = below(root, &group.folder);
    let file = match group.version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    let own = bytes_in(&folder.join(file)).map(|bytes| (bytes, file));
    // Version 1 also tells the limits of the groups above, which a container may not see.
    let above = (group.version == Version::One)
        .then(|| named(&text_if_any(&folder.join("memory.stat"))?, "hierarchical_memory_limit"))
        .flatten()
        .filter(|bytes| *bytes < UNLIMITED)
        .map(|bytes| (bytes, "memory.stat"));
    let (bytes, file) = own.into_iter().chain(above).min_by_key(|(bytes, _)| *bytes)?;
    Some((bytes, group.folder.join(file)))
}

/// A limit file. None for `max`, for the huge number that means the same, and for anything else.
fn bytes_in(path: &Path) -> Option<u64> {
    text_if_any(path)?.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED)
}

/// An absolute path within another tree.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

//! The host memory that this process may really use: the machine's, or the tightest limit of the cgroups it is in.
//!
//! In: `/proc/meminfo`, `/proc/self/cgroup`, `/proc/self/mountinfo` and the cgroup files, version 1, 2 or both. Out:
//! [`Memory`]. Page cache that the kernel would drop counts as available. Not counted: swap, and `memory.high`, which slows
//! a process down but does not end it.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Limits from here on mean none: version 1 writes 9223372036854771712, the largest page-aligned number (`PAGE_COUNTER_MAX`
/// in the kernel's mm/page_counter), for an unlimited cgroup.
const UNLIMITED: u64 = 1 << 62;

/// Host memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the machine has; none where `/proc/meminfo` does not say.
    pub total_bytes: Option<u64>,
    /// The tightest limit of a cgroup, if it is below what the machine has.
    pub limit_bytes: Option<u64>,
    /// The file that sets it.
    pub limit_source: Option<PathBuf>,
    /// What is left, under the limit and on the machine.
    pub available_bytes: Option<u64>,
}

impl Memory {
    /// Reads this machine.
    pub fn read() -> Memory {
        Memory::under(Path::new("/"))
    }

    /// Reads a tree that looks like a machine's: `proc/…` and `sys/fs/cgroup/…` under that folder.
    pub fn under(root: &Path) -> Memory {
        let meminfo = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let total_bytes = meminfo_bytes(&meminfo, "MemTotal");
        let groups = groups(
            &fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default(),
            &fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default(),
        );
        let readings: Vec<Reading> = groups.iter().filter_map(|group| group.read(root)).collect();
        let tightest = readings
            .iter()
            .min_by_key(|reading| reading.limit_bytes)
            .filter(|reading| total_bytes.is_none_or(|total| reading.limit_bytes < total));
        let left = readings.iter().filter_map(Reading::left_bytes);
        Memory {
            total_bytes,
            limit_bytes: tightest.map(|reading| reading.limit_bytes),
            limit_source: tightest.map(|reading| reading.source.clone()),
            available_bytes: left.chain(meminfo_bytes(&meminfo, "MemAvailable")).min(),
        }
    }

    /// What this process may hold at most: the limit, or all that the machine has.
    pub fn allowed_bytes(&self) -> Option<u64> {
        self.limit_bytes.or(self.total_bytes)
    }
}

/// The version of a cgroup, which decides the names of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A cgroup that this process is in, or one above it, by its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    folder: PathBuf,
}

/// What one cgroup sets and holds.
struct Reading {
    limit_bytes: u64,
    source: PathBuf,
    /// Held now, without the page cache that would be dropped first.
    held_bytes: Option<u64>,
}

impl Reading {
    fn left_bytes(&self) -> Option<u64> {
        Some(self.limit_bytes.saturating_sub(self.held_bytes?))
    }
}

impl Group {
    /// None if it has no limit, or cannot be read.
    fn read(&self, root: &Path) -> Option<Reading> {
        let text = |file: &str| fs::read_to_string(below(root, &self.folder).join(file)).ok();
        let (limit, usage, cache) = match self.version {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            Version::Two => ("memory.max", "memory.current", "inactive_file"),
        };
        let stat = text("memory.stat").unwrap_or_default();
        let own = text(limit).and_then(|t| limit_bytes(&t)).map(|bytes| (bytes, limit));
        // Version 1 also tells the limits of the groups above, which a container may not see.
        let above =
            stat_bytes(&stat, "hierarchical_memory_limit").filter(|b| *b < UNLIMITED).map(|b| (b, "memory.stat"));
        let (limit_bytes, file) = own.into_iter().chain(above).min_by_key(|(bytes, _)| *bytes)?;
        let held_bytes = text(usage)
            .and_then(|t| t.trim().parse::<u64>().ok())
            .map(|used| used.saturating_sub(stat_bytes(&stat, cache).unwrap_or(0)))
            // What is held under a limit of the groups above is not known here.
            .filter(|_| file == limit);
        Some(Reading { limit_bytes, source: self.folder.join(file), held_bytes })
    }
}

/// The groups of this process, each hierarchy from its own group up to the top that is visible.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for (version, path) in cgroup.lines().filter_map(membership) {
        for mount in mountinfo.lines().filter_map(mount).filter(|mount| mount.version == version) {
            // A container may see a path of the host that lies outside of what it has mounted: then only the top is left.
            let inside = Path::new(&path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
            let plain = inside.components().all(|c| matches!(c, Component::Normal(_)));
            let own = if plain { mount.point.join(inside) } else { mount.point.clone() };
            let up = own.ancestors().take_while(|folder| folder.starts_with(&mount.point));
            groups.extend(up.map(|folder| Group { version, folder: folder.to_path_buf() }));
        }
    }
    groups
}

/// A line of `/proc/self/cgroup` that is about memory: `4:memory:/user/job`, or `0::/user/job` for version 2.
fn membership(line: &str) -> Option<(Version, String)> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    match controllers {
        "" if id == "0" => Some((Version::Two, path.to_owned())),
        _ if controllers.split(',').any(|c| c == "memory") => Some((Version::One, path.to_owned())),
        _ => None,
    }
}

struct Mount {
    version: Version,
    /// The part of the hierarchy that is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)) that mounts a hierarchy with memory in it.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (fstype, options) = (kind.next()?, kind.nth(1).unwrap_or(""));
    let version = match fstype {
        "cgroup2" => Version::Two,
        "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
        _ => return None,
    };
    Some(Mount { version, root: unescape(root).into(), point: unescape(point).into() })
}

/// Spaces and the like are written `\040` in `mountinfo`.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

/// An absolute path within another tree.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The text of a limit file. None for `max`, for the huge number that means the same, and for anything else.
fn limit_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED)
}

/// One line of `memory.stat`.
fn stat_bytes(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// One line of `/proc/meminfo`, which counts in units of 1024 bytes that it calls kB.
fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::{GIB, MIB};

    use super::*;

    fn fixture(name: &str) -> Memory {
        Memory::under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cgroup").join(name))
    }

    #[test]
    fn version_2_takes_the_tightest_of_the_groups_above() {
        let memory = fixture("v2_nested");
        assert_eq!(memory.total_bytes, Some(16 * GIB));
        assert_eq!(memory.limit_bytes, Some(4 * GIB));
        assert_eq!(
            memory.limit_source.as_deref(),
            Some(Path::new("/sys/fs/cgroup/user.slice/session.scope/memory.max"))
        );
        // 4 GiB less 3 GiB held, of which 1 GiB is cache to be dropped.
        assert_eq!(memory.available_bytes, Some(2 * GIB));
        assert_eq!(memory.allowed_bytes(), Some(4 * GIB));
    }

    #[test]
    fn version_2_without_a_limit_leaves_the_machine() {
        let memory = fixture("v2_max");
        assert_eq!((memory.limit_bytes, memory.limit_source.as_deref()), (None, None));
        assert_eq!(memory.available_bytes, Some(12 * GIB));
        assert_eq!(memory.allowed_bytes(), Some(16 * GIB));
    }

    #[test]
    fn a_container_of_version_1_is_limited_at_its_top() {
        let memory = fixture("v1");
        assert_eq!(memory.limit_bytes, Some(2 * GIB));
        // The path of the host is outside of what is mounted here.
        assert_eq!(memory.limit_source.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes")));
        assert_eq!(memory.available_bytes, Some(2 * GIB - 512 * MIB));
    }

    #[test]
    fn version_1_tells_the_limits_above_it() {
        let memory = fixture("v1_hierarchical");
        assert_eq!(memory.limit_bytes, Some(3 * GIB));
        assert_eq!(memory.limit_source.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/memory.stat")));
        assert_eq!(memory.available_bytes, Some(12 * GIB));
    }

    #[test]
    fn a_hybrid_machine_has_its_memory_in_version_1() {
        let memory = fixture("hybrid");
        assert_eq!(memory.limit_bytes, Some(GIB));
        assert_eq!(memory.limit_source.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/job/memory.limit_in_bytes")));
    }

    #[test]
    fn the_huge_number_of_version_1_is_no_limit() {
        let memory = fixture("v1_unlimited");
        assert_eq!(memory.limit_bytes, None);
        assert_eq!(memory.allowed_bytes(), Some(16 * GIB));
    }

    #[test]
    fn a_limit_beyond_the_machine_is_none() {
        assert_eq!(fixture("v2_beyond").limit_bytes, None);
    }

    #[test]
    fn nothing_readable_gives_nothing() {
        assert_eq!(fixture("absent"), Memory::default());
        assert_eq!(limit_bytes("garbage"), None);
        assert_eq!(limit_bytes("-1"), None);
        assert_eq!(meminfo_bytes("MemTotal: 99999999999999999999 kB", "MemTotal"), None);
        assert_eq!(meminfo_bytes("MemTotal:", "MemTotal"), None);
        assert!(
            groups("0::/../../x\n:::\n\n5", "x - y\n1 2 3 / /a - cgroup2\n")
                .iter()
                .all(|g| g.folder == Path::new("/a"))
        );
        assert!(groups("", "").is_empty());
    }

    #[test]
    fn this_machine_is_read() {
        let memory = Memory::read();
        if cfg!(target_os = "linux") {
            assert!(memory.total_bytes.is_some() && memory.available_bytes <= memory.total_bytes, "{memory:?}");
        }
    }
}

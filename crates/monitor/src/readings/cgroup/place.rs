//! Where the cgroups of a process are: each hierarchy with memory in it, from its own group up to the top that is visible.
//!
//! In: `/proc/PID/cgroup` and `/proc/self/mountinfo`. Out: [`Group`]s, the own one of each hierarchy first. Not found: groups above what a
//! container has mounted.

use std::path::{Component, Path, PathBuf};

/// The version of a cgroup, which decides the names of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// A cgroup, by its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its version.
    pub version: Version,
    /// Its folder, as the machine has it: without the root that readings are given.
    pub folder: PathBuf,
}

/// The groups of a process.
pub fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
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

/// A line of `/proc/PID/cgroup` that is about memory: `4:memory:/user/job`, or `0::/user/job` for version 2.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_of_the_mount_leaves_its_top() {
        let odd = groups("0::/../../x\n:::\n\n5", "x - y\n1 2 3 / /a - cgroup2\n");
        assert_eq!(odd, [Group { version: Version::Two, folder: "/a".into() }]);
        assert!(groups("", "").is_empty());
        let nested = groups("0::/user/job\n", "30 23 0:26 / /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw\n");
        let folders: Vec<&str> = nested.iter().map(|group| group.folder.to_str().unwrap()).collect();
        assert_eq!(folders, ["/sys/fs/my cgroup/user/job", "/sys/fs/my cgroup/user", "/sys/fs/my cgroup"]);
    }
}

//! What a process has really read from and written to disks.
//!
//! In: `/proc/PID/io`. Out: [`Disk`], with what its children did that have ended and were waited for. Not counted: reads that the page
//! cache answered, and writes that are still in it are counted when they are made.

use std::path::Path;

use super::Answer;
use super::file::of_process;
use super::process::folder;

/// Bytes since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Read from a disk.
    pub read_bytes: u64,
    /// Written, less what was dropped before it got to a disk.
    pub written_bytes: u64,
}

/// Reads one process. Needs the right to trace it.
pub fn disk(root: &Path, pid: u32) -> Answer<Disk> {
    of_process(&folder(root, pid).join("io")).map(|text| parse(&text))
}

fn parse(text: &str) -> Disk {
    let value = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok());
        value.unwrap_or(0_u64)
    };
    let written_bytes = value("write_bytes").saturating_sub(value("cancelled_write_bytes"));
    Disk { read_bytes: value("read_bytes"), written_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reached_a_disk_counts() {
        let text = "rchar: 9\nwchar: 9\nsyscr: 9\nsyscw: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!(parse(text), Disk { read_bytes: 4096, written_bytes: 4096 });
        assert_eq!(parse("read_bytes: -3\ngarbage"), Disk::default());
    }
}

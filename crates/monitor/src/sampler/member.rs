//! One process of the job, between readings.
//!
//! In: its readings. Out: its last figures. Its `statm` is kept open: reading it again costs half, and it never becomes another
//! process's, whatever happens to the number. Not kept open are those of very large jobs, so that files do not run out.

use std::fs::File;
use std::path::Path;

use super::peaks::Highest;
use crate::readings::process::{ProcessId, Stat, folder, parse_statm};

/// As many files are kept open.
const MOST_OPEN: usize = 128;

/// A process of the job.
#[derive(Debug)]
pub struct Member {
    /// Which.
    pub id: ProcessId,
    /// Its name.
    pub name: String,
    /// Its state, as the kernel writes it.
    pub state: char,
    /// Its threads.
    pub threads: u64,
    /// Time on CPUs, with that of its children that have ended.
    pub cpu_ticks: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Of it, what has neither a file nor shared memory behind it.
    pub anon_bytes: u64,
    /// The most it was ever seen to have, or the kernel says it had.
    pub peak_rss_bytes: u64,
    /// Its share of what it shares, as last read.
    pub pss_bytes: Option<u64>,
    pub(super) highest: Highest,
    statm: Option<File>,
    is_here: bool,
}

impl Member {
    pub(super) fn new(root: &Path, id: ProcessId, others: usize) -> Member {
        let statm = (others < MOST_OPEN).then(|| File::open(folder(root, id.pid).join("statm")).ok()).flatten();
        Member {
            id,
            name: String::new(),
            state: '?',
            threads: 0,
            cpu_ticks: 0,
            rss_bytes: 0,
            anon_bytes: 0,
            peak_rss_bytes: 0,
            pss_bytes: None,
            highest: Highest::default(),
            statm,
            is_here: true,
        }
    }

    /// Whether it still answered when last asked.
    pub fn is_here(&self) -> bool {
        self.is_here
    }

    pub(super) fn update(&mut self, stat: &Stat) {
        if self.name != stat.name {
            self.name.clone_from(&stat.name);
        }
        (self.state, self.threads, self.cpu_ticks) = (stat.state, stat.threads, stat.cpu_ticks);
        self.is_here = !stat.has_ended();
    }

    pub(super) fn read_resident(&mut self, root: &Path) {
        let read = match &self.statm {
            Some(file) => read_again(file),
            None => crate::readings::file::text_if_any(&folder(root, self.id.pid).join("statm")),
        };
        match read.as_deref().and_then(parse_statm) {
            Some(resident) => {
                (self.rss_bytes, self.anon_bytes) = (resident.rss_bytes, resident.anon_bytes);
                self.peak_rss_bytes = self.peak_rss_bytes.max(resident.rss_bytes);
            }
            None => self.end(),
        }
    }

    /// Whether the file that is open still tells what it holds.
    pub(super) fn answers(&self) -> bool {
        let text = self.statm.as_ref().filter(|_| self.is_here).and_then(read_again);
        text.as_deref().and_then(parse_statm).is_some_and(|resident| resident.rss_bytes > 0)
    }

    /// It is no longer there, or its number is another's.
    pub(super) fn end(&mut self) {
        (self.rss_bytes, self.anon_bytes, self.is_here) = (0, 0, false);
    }
}

/// The file from its beginning, in one call.
#[cfg(unix)]
fn read_again(file: &File) -> Option<String> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 256];
    let count = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..count)?).ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn read_again(_file: &File) -> Option<String> {
    None
}

//! Holds a job to a memory limit, so that it does not take the machine down.
//!
//! In: a size. Out: a job that is started inside a cgroup of its own with that limit, where that is allowed: the kernel then counts what the whole job
//! really holds. Elsewhere its address space is limited, process by process, which counts more than it holds, and that is said. Brimful enters the
//! group, starts the job there and leaves again, so that no process of the job ever runs outside.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::bail;
use brimful_core::bytes::human;
use brimful_monitor::readings::cgroup::Cgroup;
use brimful_monitor::readings::cgroup::place::{Group, Version};

use crate::output;
use crate::watching::KnownGroup;

/// Less holds no interpreter.
const LEAST_BYTES: u64 = 1 << 20;

/// How a job is held.
pub enum Limit {
    /// By a cgroup of its own.
    Group(Box<OwnGroup>),
    /// By the address space of each of its processes.
    AddressSpace(u64),
}

/// A cgroup that was made for a job, and is removed with this.
pub struct OwnGroup {
    folder: PathBuf,
    home: PathBuf,
    /// As it is read, known before the job starts: one that ends at once is in no group any more when it is looked at.
    known: Option<KnownGroup>,
}

impl Limit {
    /// Prepares a limit.
    pub fn prepare(bytes: u64) -> anyhow::Result<Limit> {
        if bytes < LEAST_BYTES {
            bail!("--limit {} is less than any job needs: nothing was started", human(bytes));
        }
        match Cgroup::find(Path::new("/"), None).map(|cgroup| OwnGroup::make(&cgroup, bytes)) {
            Some(Ok(group)) => Ok(Limit::Group(Box::new(group))),
            refused => {
                let why = match refused {
                    Some(Err(error)) => format!("no cgroup can be made here ({error})"),
                    _ => "there is no cgroup that counts memory here".to_owned(),
                };
                output::say(&format!(
                    "{why}: each process of the job may have {} of address space instead, which is more than it holds; GPU jobs may need many times that",
                    human(bytes)
                ));
                Ok(Limit::AddressSpace(bytes))
            }
        }
    }

    /// The command that is to be started: the job's own, or a shell that limits itself and becomes the job.
    pub fn command(limit: Option<&Limit>, program: &OsStr, arguments: &[OsString]) -> Command {
        let mut command = match limit {
            Some(Limit::AddressSpace(bytes)) => {
                let mut shell = Command::new("/bin/sh");
                let kib = (bytes / 1024).to_string();
                shell.args(["-c", r#"ulimit -v "$1" && shift && exec "$@""#, "brimful", &kib]).arg(program);
                shell
            }
            _ => Command::new(program),
        };
        command.args(arguments);
        command
    }

    /// The group, for who watches the job.
    pub fn group(&self) -> Option<KnownGroup> {
        match self {
            Limit::Group(group) => group.known.clone(),
            Limit::AddressSpace(_) => None,
        }
    }

    /// Starts something inside.
    pub fn start<T>(&self, start: impl FnOnce() -> T) -> anyhow::Result<T> {
        match self {
            Limit::Group(group) => group.start(start),
            Limit::AddressSpace(_) => Ok(start()),
        }
    }
}

impl OwnGroup {
    /// Below the group that Brimful is in; or beside it, where version 2 allows no group below one with processes in it. Beside only if the own
    /// one has no limit, which the job would escape.
    fn make(cgroup: &Cgroup, bytes: u64) -> io::Result<OwnGroup> {
        let Group { version, folder: home } = &cgroup.own;
        let name = format!("brimful-{}", process::id());
        [Some(home.as_path()), home.parent()].into_iter().flatten().for_each(remove_left_over);
        let below = OwnGroup::at(home.join(&name), home, *version, bytes);
        match (below, home.parent()) {
            (Err(_), Some(parent))
                if *version == Version::Two
                    && cgroup.limits.limit_source.as_deref().and_then(Path::parent) != Some(home) =>
            {
                OwnGroup::at(parent.join(&name), home, *version, bytes)
            }
            (below, _) => below,
        }
    }

    fn at(folder: PathBuf, home: &Path, version: Version, bytes: u64) -> io::Result<OwnGroup> {
        fs::create_dir(&folder)?;
        // From here on it is removed if something fails.
        let mut group = OwnGroup { folder, home: home.to_path_buf(), known: None };
        let write = |file: &str, text: &str| fs::write(group.folder.join(file), text);
        match version {
            Version::One => {
                write("memory.limit_in_bytes", &bytes.to_string())?;
                // Memory and swap together, where that is counted: a job that swaps is slow, not held.
                let _ = write("memory.memsw.limit_in_bytes", &bytes.to_string());
            }
            Version::Two => {
                write("memory.max", &bytes.to_string())?;
                let _ = write("memory.swap.max", "0");
            }
        }
        // Entering is what most often is not allowed: tried before anything runs.
        group.enter()?;
        group.known = Cgroup::find(Path::new("/"), None).map(KnownGroup::now);
        group.leave()?;
        Ok(group)
    }

    fn start<T>(&self, start: impl FnOnce() -> T) -> anyhow::Result<T> {
        self.enter()?;
        let started = start();
        self.leave()?;
        Ok(started)
    }

    fn enter(&self) -> io::Result<()> {
        move_to(&self.folder)
    }

    fn leave(&self) -> io::Result<()> {
        move_to(&self.home)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // It stays while a process of the job is left in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Groups of runs that were killed before they could tidy up. One that still holds processes cannot be removed, and stays.
fn remove_left_over(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("brimful-"));
        let pid = name.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid == process::id() || !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(path);
        }
    }
}

fn move_to(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), process::id().to_string())
}

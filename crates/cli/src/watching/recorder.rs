//! The file that a run is recorded in.
//!
//! In: a place, frames, the time. Out: a recording that is only ever added to. A disk that is full is said once: what waits is bounded, and the job
//! goes on. Without a place of the user's, runs are kept in a folder of the user's state, the newest of them.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use brimful_monitor::recording::{Frame, Start, Writer};

use crate::output;
use crate::summary::date;

/// Recordings that are kept where the user named no place.
const KEPT_RUNS: usize = 30;
/// How recordings end.
pub const EXTENSION: &str = "run";

/// A recording that is being written.
pub struct Recorder {
    writer: Writer<File>,
    /// Where.
    pub path: PathBuf,
    is_failing: bool,
}

/// A file that a recording will be written to.
pub struct Place {
    path: PathBuf,
    file: File,
}

impl Place {
    /// Where the user said; or where runs are kept, if that can be written. Asked for before a job is started: one that cannot be recorded as was
    /// wished is not started.
    pub fn open(wished: Option<&Path>) -> anyhow::Result<Option<Place>> {
        let Some(path) = wished else {
            return Ok(kept().and_then(|path| Some(Place { file: File::create(&path).ok()?, path })));
        };
        let file =
            File::create(path).with_context(|| format!("{} cannot be written: nothing was started", path.display()));
        Ok(Some(Place { path: path.to_path_buf(), file: file? }))
    }
}

impl Recorder {
    /// Begins a recording. A disk that is full already is said; the job goes on.
    pub fn begin(place: Place, start: &Start) -> Option<Recorder> {
        match Writer::new(place.file, start) {
            Ok(writer) => Some(Recorder { writer, path: place.path, is_failing: false }),
            Err(error) => {
                output::say(&format!("{} is not recorded: {error}", place.path.display()));
                None
            }
        }
    }

    /// Takes a frame.
    pub fn push(&mut self, frame: &Frame) {
        self.writer.push(frame);
    }

    /// Lets out what waits, about once a second.
    pub fn tick(&mut self, at_ms: u64) {
        match self.writer.tick(at_ms) {
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                output::say(&format!("{}: {error}; it is tried again, and the job goes on", self.path.display()));
            }
            _ => {}
        }
    }

    /// Lets out the rest; says if that failed. Gives where it is.
    pub fn finish(self) -> PathBuf {
        if let Err(error) = self.writer.finish() {
            output::say(&format!("{} is not complete: {error}", self.path.display()));
        }
        self.path
    }
}

/// The folder in which runs are kept.
pub fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("brimful/runs"))
}

/// The recordings in it, the newest last: their names begin with the date.
pub fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == EXTENSION)).collect();
    runs.sort();
    runs
}

/// A name for a new one; the oldest make room.
fn kept() -> Option<PathBuf> {
    let folder = folder()?;
    fs::create_dir_all(&folder).ok()?;
    let runs = recordings(&folder);
    for old in runs.iter().take((runs.len() + 1).saturating_sub(KEPT_RUNS)) {
        let _ = fs::remove_file(old);
    }
    Some(folder.join(format!("{}-{}.{EXTENSION}", date::compact(unix_ms()), process::id())))
}

/// Milliseconds since 1970, now.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

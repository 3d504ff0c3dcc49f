//! The file that a run is recorded in.
//!
//! In: a place, frames, the time. Out: a recording that is only ever added to. A disk that is full is said once: what waits is bounded, and the job
//! goes on. Without a place of the user's, runs are kept in a folder of the user's state, the newest of them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use brimful_monitor::recording::{Frame, Good, Start, Writer};

use crate::output;
use crate::runs;

/// A recording that is being written.
pub struct Recorder {
    writer: Writer<File>,
    /// Where.
    pub path: PathBuf,
    is_failing: bool,
}

/// A file that a recording will be written to. What was in it stays until then, and a new one is gone if nothing is begun.
pub struct Place {
    path: PathBuf,
    file: Option<File>,
    is_new: bool,
}

impl Place {
    /// Where the user said; or where runs are kept, if that can be written. Asked for before a job is started: one that cannot be recorded as was
    /// wished is not started.
    pub fn open(wished: Option<&Path>) -> anyhow::Result<Option<Place>> {
        let Some(path) = wished else { return Ok(runs::new_name().and_then(|path| Place::at(path).ok())) };
        if !runs::may_be_replaced(path) {
            bail!("{} exists and is no recording: name another file; nothing was started", path.display());
        }
        let place = Place::at(path.to_path_buf());
        Ok(Some(place.with_context(|| format!("{} cannot be written: nothing was started", path.display()))?))
    }

    fn at(path: PathBuf) -> io::Result<Place> {
        let is_new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
        Ok(Place { path, file: Some(file), is_new })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_new && self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Recorder {
    /// Begins a recording. A disk that is full already is said; the job goes on.
    pub fn begin(mut place: Place, start: &Start) -> Option<Recorder> {
        let file = place.file.take()?;
        // Devices have no length.
        let _ = file.set_len(0);
        match Writer::new(file, start) {
            Ok(writer) => Some(Recorder { writer, path: place.path.clone(), is_failing: false }),
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

    /// Lets out what waits, twice a second.
    pub fn tick(&mut self, at_ms: u64) {
        match self.writer.tick(at_ms) {
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                output::say(&format!("{}: {error}; it is tried again, and the job goes on", self.path.display()));
            }
            _ => {}
        }
    }

    /// Lets out the rest; says if that failed. Gives where it is, and what is in it: not known where it breaks off.
    pub fn finish(self) -> (PathBuf, Option<Good>) {
        let taken = self.writer.taken();
        match self.writer.finish() {
            Ok(_) => (self.path, Some(taken)),
            Err(error) => {
                output::say(&format!("{} is not complete: {error}", self.path.display()));
                (self.path, None)
            }
        }
    }
}

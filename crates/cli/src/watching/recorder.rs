//! The file that a run is recorded in.
//!
//! In: a place, frames, the time. Out: a recording that is only ever added to. A disk that is full is said once: what waits is bounded, and the job
//! goes on. Without a place of the user's, runs are kept in a folder of the user's state, the newest of them.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use brimful_monitor::recording::{Frame, Start, Writer};

use crate::output;
use crate::runs;

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
            return Ok(runs::new_name().and_then(|path| Some(Place { file: File::create(&path).ok()?, path })));
        };
        if !runs::may_be_replaced(path) {
            bail!("{} exists and is no recording: name another file; nothing was started", path.display());
        }
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

//! Opens a recording. In: a path. Out: its bytes, or one sentence that says what is wrong with it.

use std::cell::Cell;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use brimful_core::bytes::human;
use brimful_monitor::recording::{Frame, Good, Reader};

use crate::{files, output};

/// A month at 10 Hz is a few hundred megabytes; what is larger is something else.
const MOST_BYTES: u64 = 4 << 30;

/// The bytes of a recording. Its head is looked at first: of a file that is none, no more is read.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    if path.is_dir() {
        bail!("{name} is a folder: name the recording in it");
    }
    let mut file = files::open(path)?;
    let unreadable = || format!("{name} cannot be read");
    let mut bytes = Vec::new();
    file.by_ref().take(64).read_to_end(&mut bytes).with_context(unreadable)?;
    if bytes.is_empty() {
        bail!("{name} is empty: nothing was recorded");
    }
    Reader::new(&bytes).map_err(|error| anyhow!("{name}: {error}"))?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).with_context(unreadable)?;
    if bytes.len() as u64 >= MOST_BYTES {
        bail!("{name} is larger than {}: no recording is", human(MOST_BYTES));
    }
    Ok(bytes)
}

/// A recording whose head is right.
pub struct Recording<'a> {
    path: PathBuf,
    reader: Reader<'a>,
    good: Cell<Option<Good>>,
}

impl<'a> Recording<'a> {
    /// Looks at the head.
    pub fn new(path: &Path, bytes: &'a [u8]) -> anyhow::Result<Recording<'a>> {
        let reader = Reader::new(bytes).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if reader.clone().next().is_none() {
            bail!("{} breaks off in its first entry: nothing of it can be read", path.display());
        }
        Ok(Recording { path: path.to_owned(), reader, good: Cell::new(None) })
    }

    /// Shows each frame, from the beginning.
    pub fn for_each(&self, mut each: impl FnMut(Frame)) {
        let mut reader = self.reader.clone();
        reader.by_ref().for_each(&mut each);
        self.good.set(Some(reader.good()));
    }

    /// The same, until one says no.
    pub fn find_map<T>(&self, find: impl FnMut(Frame) -> Option<T>) -> Option<T> {
        self.reader.clone().find_map(find)
    }

    /// How much was good, once all frames were shown.
    pub fn good(&self) -> Good {
        self.good.get().unwrap_or_default()
    }

    /// Says on standard error how much of a torn recording could be read.
    pub fn say_what_is_missing(&self, written: Option<&Path>) {
        let good = self.good();
        if good.bad_bytes > 0 {
            let is_in = written.map_or(String::new(), |path| format!("; {} has what could be read", path.display()));
            output::say(&format!("{}: {}{is_in}", self.path.display(), torn(good)));
        }
    }
}

/// How much of a torn recording is good, in words.
pub fn torn(good: Good) -> String {
    format!(
        "the last {} of {} are torn or damaged; {} entries before them are good",
        human(good.bad_bytes),
        human(good.good_bytes + good.bad_bytes),
        good.frames
    )
}

//! The folder in which runs are kept that the user gave no name.
//!
//! In: the user's environment. Out: names of recordings, old and new. The newest are kept; nothing else in the folder is touched.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use brimful_monitor::recording::MAGIC;

use crate::summary::date;

/// As many are kept.
const KEPT_RUNS: usize = 30;
/// How recordings end.
const EXTENSION: &str = "run";

/// The name of a new one; the oldest make room. None where there is no place for them.
pub fn new_name() -> Option<PathBuf> {
    let folder = folder()?;
    fs::create_dir_all(&folder).ok()?;
    let runs = recordings(&folder);
    for old in runs.iter().take((runs.len() + 1).saturating_sub(KEPT_RUNS)).filter(|run| !is_being_written(run)) {
        let _ = fs::remove_file(old);
    }
    Some(folder.join(format!("{}-{}.{EXTENSION}", date::compact(unix_ms()), process::id())))
}

/// The latest.
pub fn latest() -> Option<PathBuf> {
    recordings(&folder()?).pop()
}

/// Whether nothing of the user's is lost with what is at a path: nothing, an empty file, a device, or a recording.
pub fn may_be_replaced(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return true };
    if !about.is_file() {
        // To open a pipe would wait for its reader.
        return is_device(&about);
    }
    let mut begins = [0; MAGIC.len()];
    about.len() == 0 || File::open(path).and_then(|mut file| file.read_exact(&mut begins)).is_ok() && &begins == MAGIC
}

#[cfg(unix)]
fn is_device(about: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_char_device(&about.file_type())
}

#[cfg(not(unix))]
fn is_device(_: &fs::Metadata) -> bool {
    false
}

/// A recording that goes on is written to twice a second.
fn is_being_written(path: &Path) -> bool {
    let since = fs::metadata(path).and_then(|about| about.modified()).ok().and_then(|then| then.elapsed().ok());
    since.is_none_or(|since| since < Duration::from_secs(60))
}

/// Milliseconds since 1970, now.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("brimful/runs"))
}

/// Those in it, the newest last: their names begin with the date.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == EXTENSION)).collect();
    runs.sort();
    runs
}

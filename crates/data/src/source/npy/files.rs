//! The files that arrays lie in.
//!
//! In: paths, or files that have no name any more. Out: bytes at a place, or an error that names the file and the row. Up to
//! [`KEPT_OPEN`] files stay open; others are opened again when they are read, and must be as long as they were.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::DataError;
use crate::source::known::{Fingerprint, Mark};

/// How many files a source keeps open: processes may often have no more than 1024.
const KEPT_OPEN: usize = 64;

/// One file.
pub(crate) struct Held {
    path: PathBuf,
    mark: Mark,
    /// Nobody else can change it.
    unnamed: bool,
    open: Option<Arc<File>>,
}

/// The files of a source.
#[derive(Default)]
pub(crate) struct Files(Vec<Held>);

impl Files {
    /// Opens one more file; its number, and the file.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(usize, Arc<File>), DataError> {
        let (file, found) = open(path)?;
        let file = Arc::new(file);
        // The first ones; to count those that are open for each of a million files would take hours.
        let keep = self.0.len() < KEPT_OPEN;
        let open = keep.then(|| file.clone());
        self.0.push(Held { path: path.to_owned(), mark: Mark::of(&found), unnamed: false, open });
        Ok((self.0.len() - 1, file))
    }

    /// One more file that has no name any more, in the name of the one it was unpacked from.
    pub(crate) fn add_unnamed(&mut self, path: &Path, bytes: u64, file: Arc<File>) -> usize {
        let mark = Mark { bytes, modified_ns: 0 };
        self.0.push(Held { path: path.to_owned(), mark, unnamed: true, open: Some(file) });
        self.0.len() - 1
    }

    /// Bytes of the files that were given.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().filter(|held| !held.unnamed).map(|held| held.mark.bytes).sum()
    }

    /// What the list itself holds.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.0.iter().map(|held| (size_of::<Held>() + held.path.as_os_str().len() + 64) as u64).sum()
    }

    /// Changes when a name, a length or a time of change does.
    pub(crate) fn fingerprint(&self) -> u64 {
        Fingerprint::of(self.0.iter().map(|held| (&*held.path, held.mark)))
    }
}

/// The file that a reader read last, kept open.
#[derive(Default)]
pub(crate) struct Cursor(Option<(usize, Arc<File>)>);

impl Cursor {
    /// Fills the buffer from a place of a file; `row` is for the error.
    pub(crate) fn read(
        &mut self,
        files: &Files,
        file: usize,
        into: &mut [u8],
        at: u64,
        row: u64,
    ) -> Result<(), DataError> {
        let held = &files.0[file];
        if self.0.as_ref().is_none_or(|(last, _)| *last != file) {
            self.0 = None;
            let opened = match &held.open {
                Some(open) => open.clone(),
                None => {
                    let (opened, found) = open(&held.path)?;
                    if Mark::of(&found) != held.mark {
                        return Err(DataError::corrupt(
                            &held.path, "", "the file has changed since it was opened: open it again",
                        ));
                    }
                    Arc::new(opened)
                }
            };
            self.0 = Some((file, opened));
        }
        let (_, open) = self.0.as_ref().expect("just set");
        open.read_exact_at(into, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => DataError::corrupt(
                &held.path,
                format!(", row {row}"),
                format!(
                    "the file ends here, but it had {} bytes when it was opened: it was cut meanwhile",
                    held.mark.bytes
                ),
            ),
            _ => DataError::io(&held.path, &error),
        })
    }
}

/// Opens a plain file; anything else could block or never end.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), DataError> {
    let io = |error: std::io::Error| DataError::io(path, &error);
    let found = std::fs::metadata(path).map_err(io)?;
    if !found.is_file() {
        let what =
            if found.is_dir() { "a folder: give the files in it (such as folder/*.npy)" } else { "no plain file" };
        return Err(DataError::Path { path: path.display().to_string(), reason: format!("this is {what}") });
    }
    let file = File::open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    Ok((file, found))
}

//! Files as they were when they were first looked at.
//!
//! In: paths, what the system says about files. Out: [`Mark`], which changes when a file is written again; [`KnownFile`], which is
//! opened again only as long as it is the same; [`Fingerprint`], one number for the files of a source.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::DataError;

/// What changes when a file is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) bytes: u64,
    pub(crate) modified_ns: i64,
}

impl Mark {
    pub(crate) fn of(found: &Metadata) -> Mark {
        let modified_ns = found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec());
        Mark { bytes: found.len(), modified_ns }
    }
}

/// A file that is opened again by every reader.
pub(crate) struct KnownFile {
    pub(crate) path: PathBuf,
    pub(crate) mark: Mark,
}

impl KnownFile {
    /// Opens a file for the first time; `pattern` is for who gives a folder of them.
    pub(crate) fn open(path: &Path, pattern: &str) -> Result<(KnownFile, File), DataError> {
        let io = |error: std::io::Error| DataError::io(path, &error);
        let file = File::open(path).map_err(io)?;
        let found = file.metadata().map_err(io)?;
        if found.is_dir() {
            let reason = format!("is a folder: give its files, as in 'folder/{pattern}'");
            return Err(DataError::Path { path: path.display().to_string(), reason });
        }
        Ok((KnownFile { path: path.to_owned(), mark: Mark::of(&found) }, file))
    }

    fn reopen(&self) -> Result<File, DataError> {
        let io = |error: std::io::Error| DataError::io(&self.path, &error);
        let file = File::open(&self.path).map_err(io)?;
        if Mark::of(&file.metadata().map_err(io)?) != self.mark {
            return Err(DataError::corrupt(&self.path, "", "has changed since it was opened: open it again"));
        }
        Ok(file)
    }
}

/// The file that a reader reads.
#[derive(Default)]
pub(crate) struct OpenFile(Option<(u32, File)>);

impl OpenFile {
    /// Opens one of the files, unless it is open; another one is closed before.
    pub(crate) fn open(&mut self, files: &[KnownFile], number: u32) -> Result<(), DataError> {
        if self.0.as_ref().is_none_or(|(open, _)| *open != number) {
            self.0 = None;
            self.0 = Some((number, files[number as usize].reopen()?));
        }
        Ok(())
    }

    /// The file that was opened last.
    pub(crate) fn file(&self) -> &File {
        &self.0.as_ref().expect("opened before anything is read of it").1
    }
}

/// FNV-1a: the same in every version of ours, unlike the library's hash.
pub(crate) struct Fingerprint(pub(crate) u64);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // A border between texts.
        self.0 = (self.0 ^ 0x1ff).wrapping_mul(0x0100_0000_01b3);
    }

    /// A file, by its name and its mark.
    pub(crate) fn add_file(&mut self, path: &Path, mark: Mark) {
        self.add(path.as_os_str().as_encoded_bytes());
        self.add(&mark.bytes.to_le_bytes());
        self.add(&mark.modified_ns.to_le_bytes());
    }

    /// The number of some files.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = (&'a Path, Mark)>) -> u64 {
        let mut print = Fingerprint::default();
        files.into_iter().for_each(|(path, mark)| print.add_file(path, mark));
        print.0
    }
}

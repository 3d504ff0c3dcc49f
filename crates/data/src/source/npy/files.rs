//! The files that arrays lie in.
//!
//! In: paths, or files that have no name any more. Out: bytes at a place, or an error that names the file and the row. Up to
//! [`KEPT_OPEN`] files stay open; others are opened again when they are read, and must be as long as they were.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::DataError;

/// How many files a source keeps open: processes may often have no more than 1024.
const KEPT_OPEN: usize = 64;

/// The time of change of a file that nobody else can change.
const UNNAMED: u128 = u128::MAX;

/// One file.
pub(crate) struct Held {
    path: PathBuf,
    bytes: u64,
    modified_ns: u128,
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
        self.0.push(Held { path: path.to_owned(), bytes: found.len(), modified_ns: modified_ns(&found), open });
        Ok((self.0.len() - 1, file))
    }

    /// One more file that has no name any more, in the name of the one it was unpacked from.
    pub(crate) fn add_unnamed(&mut self, path: &Path, bytes: u64, file: Arc<File>) -> usize {
        self.0.push(Held { path: path.to_owned(), bytes, modified_ns: UNNAMED, open: Some(file) });
        self.0.len() - 1
    }

    /// Bytes of the files that were given.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().filter(|held| held.modified_ns != UNNAMED).map(|held| held.bytes).sum()
    }

    /// What the list itself holds.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.0.iter().map(|held| (size_of::<Held>() + held.path.as_os_str().len() + 64) as u64).sum()
    }

    /// Changes when a name, a length or a time of change does.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::default();
        for held in &self.0 {
            print.add(held.path.as_os_str().as_encoded_bytes());
            print.add(&held.bytes.to_le_bytes());
            print.add(&held.modified_ns.to_le_bytes());
        }
        print.0
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
                    if found.len() != held.bytes || modified_ns(&found) != held.modified_ns {
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
                format!("the file ends here, but it had {} bytes when it was opened: it was cut meanwhile", held.bytes),
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

pub(crate) fn modified_ns(found: &Metadata) -> u128 {
    let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    modified.map_or(0, |since| since.as_nanos())
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
}

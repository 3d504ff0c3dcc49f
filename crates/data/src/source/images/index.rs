//! Which pictures there are.
//!
//! In: folders and files. Out: [`Index`]: the pictures in a fixed order (folder by folder, names sorted), each with its class. A
//! million of names must not take much: names lie in one piece of memory, with eight bytes for each besides. Links are followed, but
//! no folder is entered twice, so links in circles end.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::DataError;
use crate::source::Stop;
use crate::source::known::{Fingerprint, Mark};

/// The largest files are looked at before reading begins.
const LARGEST: usize = 256;

/// The pictures of a source.
#[derive(Default)]
pub(super) struct Index {
    folders: Vec<Folder>,
    names: Vec<u8>,
    files: Vec<Name>,
    /// Sorted; empty where the pictures have no classes.
    pub(super) classes: Vec<String>,
    pub(super) file_bytes: u64,
    pub(super) largest_file_bytes: u64,
    pub(super) print: Fingerprint,
    largest: BinaryHeap<Reverse<(u64, usize)>>,
    stop: Stop,
}

struct Folder {
    path: PathBuf,
    first: usize,
    class: Option<u32>,
}

#[derive(Clone, Copy)]
struct Name {
    first: u32,
    bytes: u16,
}

impl Index {
    /// Looks through folders. Where the pictures of a folder lie in folders of its own, these are their classes.
    pub(super) fn new(paths: &[PathBuf], stop: &Stop) -> Result<Index, DataError> {
        let mut index = Index { stop: stop.clone(), ..Index::default() };
        let mut seen = BTreeSet::new();
        let mut of_class: Vec<(String, PathBuf)> = Vec::new();
        for path in paths {
            let found = std::fs::metadata(path).map_err(|error| DataError::io(path, &error))?;
            stop.check()?;
            if found.is_file() {
                let parent = path.parent().unwrap_or(Path::new("")).to_owned();
                if index.folders.last().is_none_or(|folder| folder.path != parent || folder.class.is_some()) {
                    index.folders.push(Folder { path: parent, first: index.files.len(), class: None });
                }
                index.add(path.file_name().unwrap_or_default(), path, &found)?;
                continue;
            }
            for folder in index.folder(path, None, &mut seen)? {
                let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                of_class.push((name, folder));
            }
        }
        let without_class = index.files.len();
        // Where names are the same in several folders that were given, so are classes.
        of_class.sort();
        for (name, path) in of_class {
            let same = index.classes.last() == Some(&name);
            let class = index.classes.len() - usize::from(same);
            let (before, shown) = (index.files.len(), path.display().to_string());
            index.tree(path, class as u32, &mut seen)?;
            if index.files.len() > before && without_class > 0 {
                let reason = "there are pictures in this folder, and some beside it without a class: give folders one by one, or \
                              move all pictures into folders by class";
                return Err(DataError::Path { path: shown, reason: reason.to_owned() });
            }
            if index.files.len() > before && !same {
                index.classes.push(name);
            }
        }
        if index.files.is_empty() {
            let path = paths[0].display().to_string();
            return Err(DataError::Path { path, reason: "there is no picture in it (.jpg, .jpeg, .png)".to_owned() });
        }
        // The question belongs to who opens: it is not asked when rows are read.
        index.stop = Stop::default();
        index.names.shrink_to_fit();
        index.files.shrink_to_fit();
        Ok(index)
    }

    /// A folder of a class and all in it.
    fn tree(&mut self, root: PathBuf, class: u32, seen: &mut BTreeSet<(u64, u64)>) -> Result<(), DataError> {
        let mut open = vec![root];
        while let Some(path) = open.pop() {
            let mut inside = self.folder(&path, Some(class), seen)?;
            inside.reverse();
            open.append(&mut inside);
        }
        Ok(())
    }

    /// The pictures of one folder, sorted; the folders in it, sorted, are given back.
    fn folder(
        &mut self,
        path: &Path,
        class: Option<u32>,
        seen: &mut BTreeSet<(u64, u64)>,
    ) -> Result<Vec<PathBuf>, DataError> {
        let io = |error: std::io::Error| DataError::io(path, &error);
        let found = std::fs::metadata(path).map_err(io)?;
        if !seen.insert((found.dev(), found.ino())) {
            return Ok(Vec::new());
        }
        let first = self.files.len();
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io)? {
            self.stop.check()?;
            let entry = entry.map_err(io)?;
            let full = entry.path();
            let kind = entry.file_type().map_err(io)?;
            if kind.is_file() && !is_picture(&entry.file_name()) {
                continue;
            }
            // Of what a link leads to; a link that leads nowhere is nothing.
            let found = if kind.is_symlink() { std::fs::metadata(&full) } else { entry.metadata() };
            match found {
                Ok(found) if found.is_dir() => inside.push(full),
                Ok(found) if found.is_file() && is_picture(&entry.file_name()) => {
                    self.add(&entry.file_name(), &full, &found)?;
                }
                _ => {}
            }
        }
        let names = &self.names;
        self.files[first..].sort_unstable_by_key(|name| &names[name.first as usize..][..name.bytes as usize]);
        if self.files.len() > first {
            self.folders.push(Folder { path: path.to_owned(), first, class });
        }
        inside.sort_unstable();
        Ok(inside)
    }

    fn add(&mut self, name: &OsStr, path: &Path, found: &Metadata) -> Result<(), DataError> {
        let full = || DataError::Request(format!("too many pictures: the names up to {} take 4 GiB", path.display()));
        let first = u32::try_from(self.names.len()).map_err(|_| full())?;
        let bytes = u16::try_from(name.len()).map_err(|_| full())?;
        self.names.extend_from_slice(name.as_bytes());
        self.files.push(Name { first, bytes });
        self.file_bytes += found.len();
        self.largest_file_bytes = self.largest_file_bytes.max(found.len());
        // The sum of all, since folders come in any order.
        let mut print = Fingerprint::default();
        print.add_file(path, Mark::of(found));
        self.print.0 = self.print.0.wrapping_add(print.0);
        self.largest.push(Reverse((found.len(), first as usize)));
        if self.largest.len() > LARGEST {
            self.largest.pop();
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The path of a picture, into memory that is kept.
    pub(super) fn path(&self, file: usize, into: &mut PathBuf) {
        into.clear();
        into.push(&self.folder_of(file).path);
        let name = self.files[file];
        into.push(OsStr::from_bytes(&self.names[name.first as usize..][..name.bytes as usize]));
    }

    /// The class of a picture.
    pub(super) fn class(&self, file: usize) -> Option<u32> {
        self.folder_of(file).class
    }

    fn folder_of(&self, file: usize) -> &Folder {
        &self.folders[self.folders.partition_point(|folder| folder.first <= file) - 1]
    }

    /// Some pictures, spread evenly, and the largest files.
    pub(super) fn sample(&mut self, most: usize) -> Vec<usize> {
        let all = self.files.len();
        let starts: BTreeSet<usize> = self.largest.drain().map(|Reverse((_, first))| first).collect();
        if all <= most {
            return (0..all).collect();
        }
        let large = (0..all).filter(|file| starts.contains(&(self.files[*file].first as usize)));
        let mut chosen: Vec<usize> = (0..most).map(|place| place * all / most).chain(large).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    pub(super) fn bytes(&self) -> u64 {
        let folders: usize =
            self.folders.iter().map(|folder| size_of::<Folder>() + folder.path.as_os_str().len()).sum();
        let classes: usize = self.classes.iter().map(|class| class.len() + size_of::<String>()).sum();
        (folders + classes + self.names.capacity() + self.files.capacity() * size_of::<Name>()) as u64
    }
}

fn is_picture(name: &OsStr) -> bool {
    let end = Path::new(name).extension().map(OsStr::to_ascii_lowercase);
    end.is_some_and(|end| end == "jpg" || end == "jpeg" || end == "png")
}

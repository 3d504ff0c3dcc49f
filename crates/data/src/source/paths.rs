//! From what the caller wrote to files, in a fixed order.
//!
//! In: paths and patterns. Out: paths that exist, each pattern's in alphabetical order, none twice in a pattern. A pattern that finds
//! more files than there is memory for is refused while it is followed, before the system ends the process. Not here: what is inside a
//! folder; that is the format's affair.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use brimful_core::bytes::human;
use glob::Pattern;

use super::Stop;
use crate::DataError;
use crate::budget::left_bytes;

/// What a source makes of a file besides its name, at least: its size, its time, where its rows begin.
const FILE_BYTES: u64 = 192;
/// A name is held by the list of paths, and again by the source.
const NAME_TIMES: u64 = 2;
/// Of the memory that is left, names may take no more than one part of so many.
const SHARE: u64 = 2;
/// With fewer files nobody asks how much is left.
const FEW_FILES: u64 = 10_000;

/// Files and folders, at least one.
pub fn expand(given: &[String], stop: &Stop) -> Result<Vec<PathBuf>, DataError> {
    expand_within(given, &|| left_bytes(Path::new("/")), stop)
}

fn expand_within(given: &[String], left: &dyn Fn() -> Option<u64>, stop: &Stop) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Found { paths: Vec::new(), names: 0, name_bytes: 0, most_bytes: None, left, stop };
    for text in given {
        let path = PathBuf::from(text);
        // A file may have brackets in its name.
        if path.exists() {
            found.count(text, path.as_os_str().len())?;
            found.paths.push(path);
            continue;
        }
        let wrong = |reason: String| DataError::Path { path: text.clone(), reason };
        if !text.contains(['*', '?', '[']) {
            return Err(wrong("there is no such file".to_owned()));
        }
        let before = found.paths.len();
        if text.contains("**") {
            for path in glob::glob(text).map_err(|error| wrong(format!("not a pattern: {error}")))? {
                let path = path.map_err(|error| wrong(format!("cannot be looked at: {error}")))?;
                found.count(text, path.as_os_str().len())?;
                found.paths.push(path);
            }
        } else {
            let parts = path.components().map(part).collect::<Result<Vec<_>, _>>();
            found.follow(text, PathBuf::new(), &parts.map_err(|error| wrong(format!("not a pattern: {error}")))?)?;
        }
        if found.paths.len() == before {
            return Err(wrong("no file fits this pattern".to_owned()));
        }
    }
    if found.paths.is_empty() {
        return Err(DataError::Request("no file was given".to_owned()));
    }
    Ok(found.paths)
}

/// A part of a pattern between slashes.
enum Part {
    Plain(OsString),
    Any(Pattern),
}

fn part(component: Component<'_>) -> Result<Part, glob::PatternError> {
    match component.as_os_str().to_str() {
        Some(text) if text.contains(['*', '?', '[']) => Pattern::new(text).map(Part::Any),
        _ => Ok(Part::Plain(component.as_os_str().to_owned())),
    }
}

struct Found<'a> {
    paths: Vec<PathBuf>,
    /// Names that were seen so far, also those that are not paths yet, and their bytes.
    names: u64,
    name_bytes: u64,
    /// What they may take; asked when there are many.
    most_bytes: Option<u64>,
    left: &'a dyn Fn() -> Option<u64>,
    stop: &'a Stop,
}

impl Found<'_> {
    /// Everything that fits the rest of a pattern below a folder, in alphabetical order.
    fn follow(&mut self, text: &str, folder: PathBuf, parts: &[Part]) -> Result<(), DataError> {
        let Some((part, rest)) = parts.split_first() else {
            self.paths.push(folder);
            return Ok(());
        };
        match part {
            Part::Plain(name) => {
                let path = folder.join(name);
                if path.symlink_metadata().is_ok() { self.follow(text, path, rest) } else { Ok(()) }
            }
            Part::Any(pattern) => {
                let wrong = |error: std::io::Error| DataError::Path {
                    path: text.to_owned(),
                    reason: format!("cannot be looked at: {error}"),
                };
                let here = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
                if !here.is_dir() {
                    return Ok(());
                }
                let mut names = Vec::new();
                for entry in std::fs::read_dir(here).map_err(wrong)? {
                    let name = entry.map_err(wrong)?.file_name();
                    if name.to_str().is_some_and(|name| pattern.matches(name)) {
                        self.count(text, folder.as_os_str().len() + name.len() + 1)?;
                        names.push(name.into_boxed_os_str());
                    }
                }
                names.sort_unstable();
                names.into_iter().try_for_each(|name| self.follow(text, folder.join(&*name), rest))
            }
        }
    }

    /// One more name; an error when there are too many for the memory that is left, or somebody wants an end.
    fn count(&mut self, text: &str, name_bytes: usize) -> Result<(), DataError> {
        self.stop.check()?;
        self.names += 1;
        self.name_bytes += name_bytes as u64;
        if self.names < FEW_FILES {
            return Ok(());
        }
        let most_bytes = *self.most_bytes.get_or_insert_with(|| (self.left)().map_or(u64::MAX, |left| left / SHARE));
        let held_bytes = self.names * FILE_BYTES + NAME_TIMES * self.name_bytes;
        if held_bytes <= most_bytes {
            return Ok(());
        }
        Err(DataError::Path {
            path: text.to_owned(),
            reason: format!(
                "more than {} files fit this pattern, and their names and places alone would take more than the {} that are \
                 free for that here: put the rows into fewer files, read some of them at a time, or give more memory",
                self.names - 1,
                human(most_bytes)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(folder: &Path, pattern: &str) -> Vec<String> {
        let found = expand(&[folder.join(pattern).display().to_string()], &Stop::default()).unwrap();
        found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
    }

    #[test]
    fn patterns_find_what_the_library_finds() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/2.csv", "b/1.csv", "a/3.csv", "a/x.txt", "a/[4].csv", "c.csv", "a/deep/5.csv"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        for pattern in
            ["*.csv", "*/*.csv", "a/?.csv", "[ab]/[1-3].csv", "a/*", "*", "**/*.csv", "a/[[]4].csv", "./a/*.csv"]
        {
            let full = folder.path().join(pattern).display().to_string();
            let theirs: Vec<PathBuf> = glob::glob(&full).unwrap().map(Result::unwrap).collect();
            assert_eq!(expand(&[full], &Stop::default()).unwrap(), theirs, "{pattern}");
        }
        assert_eq!(texts(folder.path(), "a/[4].csv"), ["a/[4].csv"]);
        let nothing = folder.path().join("*.nothing").display().to_string();
        assert!(expand(&[nothing], &Stop::default()).unwrap_err().to_string().ends_with("no file fits this pattern"));
    }

    #[test]
    fn more_files_than_memory_are_refused_while_they_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=FEW_FILES {
            std::fs::write(folder.path().join(format!("{number}.npy")), "").unwrap();
        }
        let pattern = [folder.path().join("*.npy").display().to_string()];
        let never = Stop::default();
        assert_eq!(expand_within(&pattern, &|| None, &never).unwrap().len() as u64, FEW_FILES + 1);
        let refused = expand_within(&pattern, &|| Some(1 << 20), &never).unwrap_err().to_string();
        assert!(refused.contains("more than 9999 files fit this pattern") && refused.contains("512 KiB"), "{refused}");
    }
}

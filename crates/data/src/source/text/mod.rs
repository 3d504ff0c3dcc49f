//! Text files as units of whole records, for the formats that are lines.
//!
//! In: paths, where records begin in each. Out: [`TextFiles`]: units over all files; [`UnitText`]: the text of one unit at a time, with
//! its line numbers. Compressed files are unpacked once (`unpack`). Not here: what a record holds.

mod index;
pub mod number;
mod source;
mod unit;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::known::{Fingerprint, Mark};
use super::unpack::{self, Unpacked};
use super::{OpenOptions, Stop};
use crate::DataError;
use brimful_core::bytes::human;

pub use index::{LongRecord, Text, Unit, cut};
pub use source::{Records, TextSource};
pub use unit::{PADDING, UnitText, skip_blank};

/// Text that a unit has at least: enough to be read in one go, little enough for a processor's cache.
const UNIT_BYTES: u64 = 256 << 10;
/// More units than this only where there are more files: an index of about 1 MiB.
const MOST_UNITS: u64 = 40_000;
/// A first line longer than this is no table.
const MOST_HEAD_BYTES: u64 = 4 << 20;

/// Files whose begin is looked at.
const SAMPLE_FILES: usize = 8;
/// Records of the begin, and of each other place, that types are inferred from.
const FIRST_RECORDS: usize = 1000;
const OTHER_RECORDS: usize = 200;
/// A larger unit is one long record: no sample.
const MOST_SAMPLE_BYTES: u64 = 4 << 20;

/// One file.
pub struct TextFile {
    /// As it was given.
    pub path: PathBuf,
    /// The first byte of the text: within what was unpacked, otherwise 0.
    base: u64,
    /// Bytes of the text.
    pub bytes: u64,
    first_unit: u32,
    mark: Mark,
}

/// Files with their units.
pub struct TextFiles {
    files: Vec<TextFile>,
    units: Vec<Unit>,
    /// The longest record, and its file, if it alone is more than a unit should be.
    longest: Option<(usize, LongRecord)>,
    unpacked: Option<Arc<Unpacked>>,
    file_bytes: u64,
}

/// The begin of a text, as much as was asked for.
pub struct Head {
    /// The bytes, without a byte order mark.
    pub bytes: Vec<u8>,
    /// How many bytes come before them (the mark).
    pub skipped: u64,
    /// Whether this is all.
    pub whole: bool,
}

impl TextFiles {
    /// Looks at the files, and unpacks those that are compressed. No units yet.
    pub fn new(paths: &[PathBuf], options: &OpenOptions) -> Result<TextFiles, DataError> {
        let mut files = Vec::with_capacity(paths.len());
        let mut unpacked = None;
        let mut file_bytes = 0;
        for path in paths {
            options.stop.check()?;
            let file = File::open(path).map_err(|error| DataError::io(path, &error))?;
            let about = file.metadata().map_err(|error| DataError::io(path, &error))?;
            if !about.is_file() {
                let reason = "this is no file: give files, or a pattern such as folder/*.csv".to_owned();
                return Err(DataError::Path { path: path.display().to_string(), reason });
            }
            file_bytes += about.len();
            let (base, bytes) = match unpack::packing(path) {
                None => (0, about.len()),
                Some(packing) => {
                    let into = unpacked.get_or_insert(Unpacked::new(options)?);
                    into.add(path, file, packing)?
                }
            };
            files.push(TextFile { path: path.clone(), base, bytes, first_unit: 0, mark: Mark::of(&about) });
        }
        Ok(TextFiles { files, units: Vec::new(), longest: None, unpacked: unpacked.map(Arc::new), file_bytes })
    }

    /// The files.
    pub fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// Opens a file's text. What was unpacked lies in one file for all.
    fn open(&self, file: &TextFile) -> Result<(Option<File>, u64), DataError> {
        if unpack::packing(&file.path).is_some() {
            return Ok((None, file.base));
        }
        let opened = File::open(&file.path).map_err(|error| DataError::io(&file.path, &error))?;
        let about = opened.metadata().map_err(|error| DataError::io(&file.path, &error))?;
        if Mark::of(&about) != file.mark {
            let reason = "it was changed after it was opened: open it again";
            return Err(DataError::corrupt(&file.path, "", reason));
        }
        Ok((Some(opened), 0))
    }

    /// Reads bytes of a file's text.
    fn read(&self, file: &TextFile, opened: Option<&File>, at: u64, into: &mut [u8]) -> Result<(), DataError> {
        let from = opened.or(self.unpacked.as_ref().map(|unpacked| unpacked.file())).expect("one of the two");
        from.read_exact_at(into, file.base + at).map_err(|error| cut(&file.path, &error))
    }

    /// The begin of a file's text: so much that it has at least `lines` line ends, or all.
    pub fn head(&self, file: usize, lines: usize, least_bytes: u64) -> Result<Head, DataError> {
        let file = &self.files[file];
        let (opened, _) = self.open(file)?;
        let mut length = least_bytes.min(MOST_HEAD_BYTES).min(file.bytes);
        loop {
            let mut bytes = vec![0; length as usize];
            self.read(file, opened.as_ref(), 0, &mut bytes)?;
            let whole = length == file.bytes;
            if whole || memchr::memchr_iter(b'\n', &bytes).take(lines).count() == lines || length >= MOST_HEAD_BYTES {
                return head(&file.path, bytes, whole);
            }
            length = (length * 4).min(MOST_HEAD_BYTES).min(file.bytes);
        }
    }

    /// Makes the units: `begins` says for each file where records begin (byte and line); see [`Text::quoted_after`].
    pub fn index(
        &mut self,
        quoted_after: Option<u8>,
        stop: &Stop,
        mut begins: impl FnMut(&TextFiles, usize) -> Result<(u64, u64), DataError>,
    ) -> Result<(), DataError> {
        let all: u64 = self.files.iter().map(|file| file.bytes).sum();
        let unit_bytes = UNIT_BYTES.max(all / MOST_UNITS);
        let mut units = Vec::new();
        for number in 0..self.files.len() {
            let (first, first_line) = begins(self, number)?;
            let file = &self.files[number];
            let (opened, base) = self.open(file)?;
            let from = opened.as_ref().or(self.unpacked.as_ref().map(|unpacked| unpacked.file()));
            let text = Text {
                path: &file.path,
                file: from.expect("one of the two"),
                base,
                bytes: file.bytes,
                first,
                first_line,
                quoted_after,
            };
            let first_unit = units.len() as u32;
            let long = index::index(&text, unit_bytes, &mut units, stop)?;
            if let Some(long) = long.filter(|long| self.longest.is_none_or(|(_, longest)| long.bytes > longest.bytes)) {
                self.longest = Some((number, long));
            }
            self.files[number].first_unit = first_unit;
        }
        units.shrink_to_fit();
        self.units = units;
        Ok(())
    }

    /// The units.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The first unit of a file; the number of all where it has none and no file behind it has one.
    fn first_unit(&self, file: usize) -> usize {
        self.files.get(file).map_or(self.units.len(), |file| file.first_unit as usize)
    }

    /// Units that a sample is taken from: begin, middle and end of all, and the begin of some files.
    fn places(&self) -> Vec<usize> {
        let (units, files) = (self.units.len(), self.files.len());
        let mut places: Vec<usize> = (0..=4).map(|quarter| units.saturating_sub(1) * quarter / 4).collect();
        places.extend((1..SAMPLE_FILES).map(|part| self.first_unit(files * part / SAMPLE_FILES)));
        places.sort_unstable();
        places.dedup();
        places.retain(|unit| *unit < units);
        places
    }

    /// Shows the text of units that types are inferred from, each with its number and how many records of it should be looked at.
    pub fn sample(&self, mut look: impl FnMut(usize, &[u8], usize)) -> Result<(), DataError> {
        for unit in self.places() {
            if let Some(text) = self.unit_sample(unit)? {
                look(unit, &text, if unit == 0 { FIRST_RECORDS } else { OTHER_RECORDS });
            }
        }
        Ok(())
    }

    /// The text of a unit, as [`UnitText`] has it; nothing where it is too long for a sample.
    fn unit_sample(&self, unit: usize) -> Result<Option<Vec<u8>>, DataError> {
        let range = self.range_of(unit);
        if range.end - range.start > MOST_SAMPLE_BYTES {
            return Ok(None);
        }
        let file = &self.files[self.file_of(unit)];
        let (opened, _) = self.open(file)?;
        let length = (range.end - range.start) as usize;
        let mut bytes = vec![0; length];
        bytes.reserve_exact(PADDING);
        self.read(file, opened.as_ref(), range.start, &mut bytes)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        bytes.resize(length + PADDING, 0);
        Ok(Some(bytes))
    }

    /// The file of a unit.
    pub fn file_of(&self, unit: usize) -> usize {
        self.files.partition_point(|file| file.first_unit as usize <= unit) - 1
    }

    /// Where a unit lies within its file's text.
    pub fn range_of(&self, unit: usize) -> std::ops::Range<u64> {
        let file = self.file_of(unit);
        let next = unit + 1;
        let last = self.files.get(file + 1).is_some_and(|after| after.first_unit as usize <= next);
        let end = if last || next >= self.units.len() { self.files[file].bytes } else { self.units[next].offset };
        self.units[unit].offset..end
    }

    /// The largest unit: its number and its bytes.
    pub fn largest(&self) -> Option<(usize, u64)> {
        let bytes = |unit: usize| {
            let range = self.range_of(unit);
            range.end - range.start
        };
        (0..self.units.len()).map(|unit| (unit, bytes(unit))).max_by_key(|(_, bytes)| *bytes)
    }

    /// What a reader of units holds at most, and why.
    pub fn unit_text_bytes(&self) -> (u64, String) {
        let Some((unit, bytes)) = self.largest() else {
            return (PADDING as u64, "no records".to_owned());
        };
        let path = self.files[self.file_of(unit)].path.display();
        let line = self.units[unit].first_line;
        let what = match self.longest {
            Some((file, long)) => format!(
                "the record of {} at byte {} of {}, line {}, is read as a whole",
                human(long.bytes),
                long.offset,
                self.files[file].path.display(),
                long.line
            ),
            None => format!("{} of text: {} records of {path} from line {line}", human(bytes), self.units[unit].rows),
        };
        (bytes + PADDING as u64, what)
    }

    /// What to change where that is too much.
    pub fn unit_text_fix(&self) -> &'static str {
        match self.longest {
            Some(_) => "split that record or remove it from the file",
            None => "write the rows with fewer or shorter columns",
        }
    }

    /// Bytes of all files, as they lie on the disk.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// What this holds.
    pub fn index_bytes(&self) -> u64 {
        let names: usize = self.files.iter().map(|file| file.path.capacity() + size_of::<TextFile>()).sum();
        (names + self.units.len() * size_of::<Unit>()) as u64
    }

    /// Changes when a file does.
    pub fn fingerprint(&self) -> u64 {
        Fingerprint::of(self.files.iter().map(|file| (&*file.path, file.mark)))
    }
}

/// Refuses what is no text of one byte per letter of a table; takes the byte order mark away.
fn head(path: &Path, mut bytes: Vec<u8>, whole: bool) -> Result<Head, DataError> {
    let marked = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let sample = &bytes[..bytes.len().min(4096)];
    let nuls = memchr::memchr_iter(0, sample).count();
    if marked || nuls * 3 > sample.len() {
        let reason = "this is UTF-16 text: convert it first, with iconv -f UTF-16 -t UTF-8";
        return Err(DataError::corrupt(path, "", reason));
    }
    let skipped = if bytes.starts_with(&[0xef, 0xbb, 0xbf]) { 3 } else { 0 };
    bytes.drain(..skipped);
    let lone = |at: usize| bytes.get(at + 1).is_some_and(|next| *next != b'\n');
    if !bytes.contains(&b'\n') && memchr::memchr_iter(b'\r', &bytes).filter(|at| lone(*at)).count() > 1 {
        let reason = "its lines end in carriage returns alone: convert it first, with tr '\\r' '\\n'";
        return Err(DataError::corrupt(path, "", reason));
    }
    Ok(Head { bytes, skipped: skipped as u64, whole })
}

//! Archives of arrays as NumPy saves them (`.npz`).
//!
//! In: archives with the same arrays, all arrays of one archive with the same number of rows. Out: one column per array. Members that
//! are stored as they are (`np.savez`) are read in place; compressed ones are unpacked once into a file without a name. What a
//! directory says about sizes is a limit, never believed as a promise.

use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_core::bytes::human;
use zip::{CompressionMethod, ZipArchive};

use super::npy::files::Files;
use super::npy::header::{self, Header};
use super::npy::table::{Block, Table};
use super::npy::{header_error, whole};
use super::{Format, OpenOptions, Source, Stop};
use crate::DataError;
use crate::layout::Column;

/// `.npz`.
pub const FORMAT: Format = Format { name: "npz", extensions: &["npz"], open };

/// The most that the directory of an archive may have: it is held in memory while it is read.
const MOST_DIRECTORY_BYTES: u64 = 4 << 20;
/// No member that was deflated is denser.
const MOST_RATIO: u64 = 1032;
/// Left free on the disk for everybody else.
const RESERVE_BYTES: u64 = 256 << 20;

type Archive = ZipArchive<BufReader<File>>;

/// One array of an archive.
struct Member {
    name: String,
    header: Header,
    file: usize,
    data_at: u64,
}

fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let mut files = Files::default();
    let mut unpacked = None;
    let mut blocks: Vec<(String, Block)> = Vec::new();
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    for path in paths {
        options.stop.check()?;
        let members = members(path, options, &mut files, &mut unpacked)?;
        let wrong = |name: &str, reason: String| DataError::corrupt(path, format!(", array '{name}'"), reason);
        if blocks.is_empty() {
            for member in &members {
                let block = Block::new(&member.header, columns.len()).map_err(|reason| wrong(&member.name, reason))?;
                columns.extend(block.columns("").map(|column| in_archive(&member.name, column)));
                blocks.push((member.name.clone(), block));
            }
        }
        let names = |names: &mut dyn Iterator<Item = &String>| names.map(String::as_str).collect::<Vec<_>>().join(", ");
        if members.len() != blocks.len() {
            let here = names(&mut members.iter().map(|member| &member.name));
            let first = names(&mut blocks.iter().map(|(name, _)| name));
            let reason =
                format!("it has the arrays {here}, but the first file has {first}: choose those of both (keys=)");
            return Err(DataError::corrupt(path, "", reason));
        }
        for (name, block) in &mut blocks {
            let member = members.iter().find(|member| member.name == *name);
            let member =
                member.ok_or_else(|| wrong(name, "the first file has this array, this one does not".to_owned()))?;
            block.fits(&member.header).map_err(|reason| wrong(name, reason))?;
            if member.header.rows != members[0].header.rows {
                return Err(wrong(
                    name,
                    format!(
                        "it has {} rows, but '{}' has {}: choose arrays of one length (keys=)",
                        member.header.rows, members[0].name, members[0].header.rows
                    ),
                ));
            }
            block.starts.push((member.file, member.data_at));
        }
        rows.push(members[0].header.rows);
    }
    let blocks = blocks.into_iter().map(|(_, block)| block).collect();
    Ok(Arc::new(Table::source("npz", columns, blocks, files, &rows)?))
}

fn in_archive(member: &str, column: Column) -> Column {
    let name = if column.name.is_empty() { member.to_owned() } else { format!("{member}.{}", column.name) };
    Column { name, ..column }
}

/// The arrays of one archive that were asked for, in the order in which they were; at least one.
fn members(
    path: &Path,
    options: &OpenOptions,
    files: &mut Files,
    unpacked: &mut Option<Unpacked>,
) -> Result<Vec<Member>, DataError> {
    let (number, file) = files.add(path)?;
    let corrupt = |reason: String| DataError::corrupt(path, "", reason);
    let bytes = check_directory(path, &file)?;
    let again = file.try_clone().map_err(|error| DataError::io(path, &error))?;
    let mut archive = ZipArchive::new(BufReader::new(again))
        .map_err(|error| corrupt(format!("it cannot be read as an archive: {error}; it may be cut off")))?;
    let mut there: Vec<(String, usize)> = Vec::new();
    for index in 0..archive.len() {
        let name = archive.by_index_data(index).and_then(|entry| entry.name().map(|name| name.into_owned()));
        let name = name.map_err(|error| corrupt(format!("a name in the archive cannot be read: {error}")))?;
        if let Some(name) = name.strip_suffix(".npy") {
            there.push((name.to_owned(), index));
        }
    }
    if there.is_empty() {
        return Err(corrupt("the archive holds no array (no member ends in .npy)".to_owned()));
    }
    let chosen: Vec<(String, usize)> = if options.keys.is_empty() {
        there
    } else {
        let find = |key: &String| {
            let found = there.iter().find(|(name, _)| name == key).cloned();
            let names = || there.iter().take(12).map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| corrupt(format!("there is no array '{key}'; there are {}", names())))
        };
        options.keys.iter().map(find).collect::<Result<_, _>>()?
    };
    let mut members = Vec::new();
    for (name, index) in chosen {
        let place = format!(", array '{name}'");
        let wrong = |reason: String| DataError::corrupt(path, place.clone(), reason);
        let (stored, size, packed, start) = {
            let member = archive.by_index_raw(index).map_err(|error| wrong(error.to_string()))?;
            if member.encrypted() {
                return Err(wrong("it is encrypted, which is not read".to_owned()));
            }
            let start = member.data_start().ok_or_else(|| wrong("its place in the archive is not known".to_owned()))?;
            (member.compression() == CompressionMethod::Stored, member.size(), member.compressed_size(), start)
        };
        let (file_number, from, first) = if stored {
            if start.checked_add(size).is_none_or(|end| end > bytes) {
                return Err(wrong(format!("the archive says that it has {}, but ends before", human(size))));
            }
            (number, file.clone(), start)
        } else {
            if size / MOST_RATIO > packed {
                let text = format!("its {} cannot unpack to the {} that it claims", human(packed), human(size));
                return Err(wrong(text));
            }
            if unpacked.is_none() {
                *unpacked = Some(Unpacked::new(path, options, files)?);
            }
            let unpacked = unpacked.as_mut().expect("just made");
            let first = unpacked.add(path, &place, &mut archive, index, size)?;
            (unpacked.number, unpacked.file.clone(), first)
        };
        let read_at = |into: &mut [u8], at: u64| match at + into.len() as u64 {
            end if end > size => Err(Error::from(ErrorKind::UnexpectedEof)),
            _ => from.read_exact_at(into, first + at),
        };
        let header = header::read(&read_at).map_err(|error| header_error(path, &place, &error))?;
        whole(path, &place, &header, size)?;
        members.push(Member { name, data_at: first + header.data_at, header, file: file_number });
    }
    Ok(members)
}

/// Looks how large the directory at the end of an archive is, before anything holds it; the bytes of the file.
fn check_directory(path: &Path, file: &File) -> Result<u64, DataError> {
    let io = |error: Error| DataError::io(path, &error);
    let bytes = file.metadata().map_err(io)?.len();
    let length = bytes.min(22 + 65_535);
    let mut tail = vec![0; length as usize];
    file.read_exact_at(&mut tail, bytes - length).map_err(io)?;
    let Some(end) = tail.windows(4).rposition(|four| four == b"PK\x05\x06").filter(|at| tail.len() - at >= 22) else {
        let reason = "this is not a whole .npz file: an archive ends with a directory, and there is none";
        return Err(DataError::corrupt(path, "", reason));
    };
    let small = u32::from_le_bytes(tail[end + 12..end + 16].try_into().expect("four bytes"));
    let mut directory = if small == u32::MAX { 0 } else { u64::from(small) };
    // Large archives have a second record, and here the place of it.
    if let Some(locator) = end.checked_sub(20).filter(|at| tail[*at..].starts_with(b"PK\x06\x07")) {
        let at = u64::from_le_bytes(tail[locator + 8..locator + 16].try_into().expect("eight bytes"));
        let mut record = [0; 56];
        if at.checked_add(56).is_some_and(|end| end <= bytes) {
            file.read_exact_at(&mut record, at).map_err(io)?;
            directory = directory.max(u64::from_le_bytes(record[40..48].try_into().expect("eight bytes")));
        }
    }
    if directory > MOST_DIRECTORY_BYTES {
        let reason = format!("the directory of the archive claims {}: no archive of arrays has that", human(directory));
        return Err(DataError::corrupt(path, "", reason));
    }
    Ok(bytes)
}

/// The file into which compressed members go, one after the other.
struct Unpacked {
    file: Arc<File>,
    folder: PathBuf,
    number: usize,
    bytes: u64,
    stop: Stop,
}

impl Unpacked {
    fn new(path: &Path, options: &OpenOptions, files: &mut Files) -> Result<Unpacked, DataError> {
        let folder = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let file = tempfile::tempfile_in(&folder).map_err(|error| DataError::Io {
            path: folder.clone(),
            reason: format!("compressed arrays cannot be unpacked here: {error}; give another folder (scratch=)"),
        })?;
        let file = Arc::new(file);
        let number = files.add_unnamed(path, 0, file.clone());
        Ok(Unpacked { file, folder, number, bytes: 0, stop: options.stop.clone() })
    }

    /// Unpacks a member of exactly `size` bytes; where it begins.
    fn add(
        &mut self,
        path: &Path,
        place: &str,
        archive: &mut Archive,
        index: usize,
        size: u64,
    ) -> Result<u64, DataError> {
        let about = rustix::fs::fstatvfs(&*self.file).map_err(|error| DataError::io(&self.folder, &error.into()))?;
        let free = about.f_bavail.saturating_mul(about.f_frsize).saturating_sub(RESERVE_BYTES);
        if size > free {
            let reason = format!(
                "{}{place} unpacks to {}, but here is room for {}: give another folder (scratch=), or save with np.savez, which \
                 does not compress",
                path.display(),
                human(size),
                human(free)
            );
            return Err(DataError::Io { path: self.folder.clone(), reason });
        }
        let wrong = |reason: String| DataError::corrupt(path, place, reason);
        let damaged =
            |error: &dyn std::fmt::Display| wrong(format!("it cannot be unpacked: {error}; the file is damaged"));
        let mut member = archive.by_index(index).map_err(|error| damaged(&error))?;
        let mut to = &*self.file;
        to.seek(SeekFrom::Start(self.bytes)).map_err(|error| DataError::io(&self.folder, &error))?;
        let mut buffer = vec![0; 128 << 10];
        let mut done = 0;
        loop {
            self.stop.check()?;
            let count = match member.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(damaged(&error)),
            };
            done += count as u64;
            if done > size {
                return Err(wrong(format!("it unpacks to more than the {} that it claims", human(size))));
            }
            to.write_all(&buffer[..count]).map_err(|error| DataError::Io {
                path: self.folder.clone(),
                reason: format!(
                    "{}{place} cannot be unpacked here: {error}; give another folder (scratch=)",
                    path.display()
                ),
            })?;
        }
        if done < size {
            return Err(wrong(format!("it unpacks to {}, less than the {} that it claims", human(done), human(size))));
        }
        self.bytes += size;
        Ok(self.bytes - size)
    }
}

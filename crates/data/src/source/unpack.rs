//! Compressed text, unpacked once.
//!
//! In: `.gz` and `.zst` files. Out: one file without a name that holds the text of all of them, one after the other; it is gone with
//! the process, however that ends. Streaming, in fixed memory. What comes out is limited by the disk, and by a ratio that no table
//! has: a few bytes that unpack to terabytes are refused.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use brimful_core::bytes::human;

use super::{OpenOptions, Stop};
use crate::DataError;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `.gz`; several members one after the other too.
    Gzip,
    /// `.zst`.
    Zstandard,
}

/// What the name of a file says.
pub fn packing(path: &Path) -> Option<Packing> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "gz" => Some(Packing::Gzip),
        "zst" => Some(Packing::Zstandard),
        _ => None,
    }
}

const BLOCK: usize = 256 << 10;
/// Left free on the disk for everybody else.
const RESERVE_BYTES: u64 = 256 << 20;
/// Beyond this much text, more than [`MOST_RATIO`] bytes from one byte are a bomb.
const RATIO_FROM_BYTES: u64 = 1 << 30;
/// The densest that gzip can be is 1032; real tables are below 100.
const MOST_RATIO: u64 = 1000;
/// Zstandard may ask for a window of 2 GiB; 32 MiB are enough for all but the `--ultra` and `--long` settings.
const WINDOW_LOG_MAX: u32 = 25;

/// The text of compressed files.
pub struct Unpacked {
    file: File,
    folder: PathBuf,
    bytes: u64,
    stop: Stop,
}

impl Unpacked {
    /// Nothing yet, in a folder, or where the system keeps what is temporary.
    pub fn new(options: &OpenOptions) -> Result<Unpacked, DataError> {
        let folder = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let file = tempfile::tempfile_in(&folder).map_err(|error| DataError::Io {
            path: folder.clone(),
            reason: format!("compressed files cannot be unpacked here: {error}; give another folder (scratch=)"),
        })?;
        Ok(Unpacked { file, folder, bytes: 0, stop: options.stop.clone() })
    }

    /// Where the text is.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Unpacks a file; says where its text begins, and its bytes.
    pub fn add(&mut self, path: &Path, file: File, packing: Packing) -> Result<(u64, u64), DataError> {
        let packed_bytes = file.metadata().map_err(|error| DataError::io(path, &error))?.len();
        let corrupt = |error: std::io::Error| {
            DataError::corrupt(path, "", format!("it cannot be unpacked: {error}; it may be cut or damaged"))
        };
        let mut reader: Box<dyn Read> = match packing {
            Packing::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(std::io::BufReader::with_capacity(BLOCK, file)))
            }
            Packing::Zstandard => {
                let mut decoder = zstd::stream::read::Decoder::new(file).map_err(corrupt)?;
                decoder.window_log_max(WINDOW_LOG_MAX).map_err(corrupt)?;
                Box::new(decoder)
            }
        };
        let base = self.bytes;
        let mut buffer = vec![0; BLOCK];
        let mut free_bytes = 0;
        loop {
            self.stop.check()?;
            let length = match reader.read(&mut buffer) {
                Ok(0) => return Ok((base, self.bytes - base)),
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(corrupt(error)),
            };
            let text_bytes = self.bytes - base + length as u64;
            if text_bytes > RATIO_FROM_BYTES && text_bytes / MOST_RATIO > packed_bytes {
                let reason = format!(
                    "its {} unpack to more than {}: no table is that dense, so this is taken for an attack; unpack it \
                     by hand if it is none",
                    human(packed_bytes),
                    human(text_bytes)
                );
                return Err(DataError::corrupt(path, "", reason));
            }
            // Asked anew every 64 MiB: others write to the disk too.
            if free_bytes < length as u64 {
                free_bytes = self.free(path, packed_bytes, text_bytes)?.min(64 << 20);
            }
            free_bytes = free_bytes.saturating_sub(length as u64);
            self.file.write_all(&buffer[..length]).map_err(|error| DataError::Io {
                path: self.folder.clone(),
                reason: format!("{} cannot be unpacked here: {error}; give another folder (scratch=)", path.display()),
            })?;
            self.bytes += length as u64;
        }
    }

    /// Bytes that may still be written; at least one.
    fn free(&self, path: &Path, packed_bytes: u64, text_bytes: u64) -> Result<u64, DataError> {
        let about = rustix::fs::fstatvfs(&self.file).map_err(|error| DataError::io(&self.folder, &error.into()))?;
        let free_bytes = about.f_bavail.saturating_mul(about.f_frsize);
        if free_bytes <= RESERVE_BYTES {
            let reason = format!(
                "{} ({} compressed) does not fit here: {} of it are unpacked and {} are free, of which {} stay free; \
                 give another folder (scratch=)",
                path.display(),
                human(packed_bytes),
                human(text_bytes),
                human(free_bytes),
                human(RESERVE_BYTES)
            );
            return Err(DataError::Io { path: self.folder.clone(), reason });
        }
        Ok(free_bytes - RESERVE_BYTES)
    }
}

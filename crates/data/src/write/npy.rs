//! A field of rows as `.npy`.
//!
//! In: rows, in the order in which they shall lie in the file. Out: one array of shape `(rows, …)`, written by rows, little-endian.
//! How many rows there are is known at the end, so the header has room for any number and is written then.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::DataError;
use crate::layout::{DType, Field, Rows};

/// Room for a shape of dozens of axes; a multiple of 64, as NumPy aligns data.
const LEAST_HEADER: usize = 128;

/// So much may wait for the disk unless somebody says otherwise.
const UNWRITTEN_BYTES: usize = 32 << 20;

/// A file that is being written.
pub struct NpyWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    dtype: DType,
    shape: Vec<usize>,
    header_bytes: usize,
    rows: u64,
    /// What was given since the disk had all of it, and how much that may be: a container's limit counts what waits for the disk.
    unwritten_bytes: usize,
    most_unwritten_bytes: usize,
}

impl NpyWriter {
    /// Begins a file for rows of this field. Nothing has the final name yet.
    pub fn create(path: &Path, field: &Field) -> Result<NpyWriter, DataError> {
        let io = |error: std::io::Error| DataError::io(path, &error);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let temporary = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".partial")
            // Less what the user's mask takes away, as for any file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(io)?;
        let header_bytes = header(field.dtype, &field.shape, u64::MAX, LEAST_HEADER).len();
        let mut file = BufWriter::new(temporary);
        file.write_all(&vec![0; header_bytes]).map_err(io)?;
        let (path, shape) = (path.to_owned(), field.shape.clone());
        let (unwritten_bytes, most_unwritten_bytes) = (0, UNWRITTEN_BYTES);
        Ok(NpyWriter {
            path,
            file,
            dtype: field.dtype,
            shape,
            header_bytes,
            rows: 0,
            unwritten_bytes,
            most_unwritten_bytes,
        })
    }

    /// Lets no more than this wait for the disk.
    pub fn holding(self, most_unwritten_bytes: usize) -> NpyWriter {
        NpyWriter { most_unwritten_bytes, ..self }
    }

    /// Writes the rows of a field.
    pub fn append(&mut self, rows: &Rows, field: usize) -> Result<(), DataError> {
        let given = &rows.layout().fields[field];
        if given.dtype != self.dtype || given.shape != self.shape {
            return Err(DataError::Request(format!(
                "{}: rows of {} {:?} cannot follow rows of {} {:?}",
                self.path.display(),
                given.dtype.name(),
                given.shape,
                self.dtype.name(),
                self.shape
            )));
        }
        let bytes = &rows.field(field)[..rows.len() * given.row_bytes()];
        let io = |error: std::io::Error| DataError::io(&self.path, &error);
        for piece in bytes.chunks(self.most_unwritten_bytes.max(1)) {
            self.file.write_all(piece).map_err(io)?;
            self.unwritten_bytes += piece.len();
            if self.unwritten_bytes >= self.most_unwritten_bytes {
                self.file.flush().and_then(|()| self.file.get_ref().as_file().sync_data()).map_err(io)?;
                self.unwritten_bytes = 0;
            }
        }
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Completes the header and gives the file its name; how many rows it has.
    pub fn finish(self) -> Result<u64, DataError> {
        let path = self.path;
        let io = |error: std::io::Error| DataError::io(&path, &error);
        let mut file: NamedTempFile = self.file.into_inner().map_err(|error| io(error.into_error()))?;
        let header = header(self.dtype, &self.shape, self.rows, self.header_bytes);
        let inner: &mut File = file.as_file_mut();
        inner.seek(SeekFrom::Start(0)).map_err(io)?;
        inner.write_all(&header).map_err(io)?;
        inner.sync_all().map_err(io)?;
        file.persist(&path).map_err(|error| io(error.error))?;
        Ok(self.rows)
    }
}

fn header(dtype: DType, shape: &[usize], rows: u64, least: usize) -> Vec<u8> {
    let kind = match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::U16 => "<u2",
        DType::I16 => "<i2",
        DType::U32 => "<u4",
        DType::I32 => "<i4",
        DType::U64 => "<u8",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    };
    let sizes: String = shape.iter().map(|size| format!(" {size},")).collect();
    let shape = format!("({rows},{})", sizes.trim_end_matches(','));
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let bytes = (10 + text.len() + 1).next_multiple_of(64).max(least);
    text.push_str(&" ".repeat(bytes - 10 - text.len() - 1));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend_from_slice(&((bytes - 10) as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}

//! Rows of numbers to a Parquet file.
//!
//! In: [`Rows`] of one layout, as many times as there are. Out: a file of required columns, packed with Zstandard, one page per
//! column and row group: what our own reader reads with the least work. Memory: a row group before it is packed
//! and a column of it after ([`ParquetWriter::held_bytes`]), and 24 bytes for each column of each group, for the footer. Not here:
//! text, and values that may be missing (NaN stays NaN).

mod thrift;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use self::thrift::Thrift;
use crate::DataError;
use crate::layout::{Column, DType, Layout, Rows};

/// Bytes of a row group before it is packed, where there is memory for it.
pub const GROUP_BYTES: usize = 8 << 20;
/// What Zstandard holds for itself at level 1, and the buffer of the file.
const PACKER_BYTES: usize = 1 << 20;
const MAGIC: &[u8] = b"PAR1";
/// Numbers of the codec and of encodings in the format.
const ZSTD: i32 = 6;
const PLAIN: i32 = 0;
const RUNS: i32 = 3;

struct Chunk {
    first_byte: u64,
    bytes: u64,
    unpacked_bytes: u64,
}

/// Asking the disk more often than this costs more than it saves.
const LEAST_UNWRITTEN_BYTES: usize = 1 << 20;

/// Writes one file. Until [`ParquetWriter::finish`], nothing is under the final name; without it, nothing stays.
pub struct ParquetWriter {
    path: PathBuf,
    partial: PathBuf,
    out: Option<BufWriter<File>>,
    written: u64,
    /// What the disk has for certain, and how much may wait for it.
    settled: u64,
    most_unwritten_bytes: u64,
    /// Name and type of each column, its field, its element in the field.
    columns: Vec<(String, DType, usize, usize)>,
    buffers: Vec<Vec<u8>>,
    buffered_rows: usize,
    group_rows: usize,
    groups: Vec<(u64, Vec<Chunk>)>,
    packer: zstd::bulk::Compressor<'static>,
}

impl ParquetWriter {
    /// Begins a file; `columns` are those of the source, and give the names.
    pub fn create(path: &Path, layout: &Layout, columns: &[Column]) -> Result<ParquetWriter, DataError> {
        ParquetWriter::with_groups(path, layout, columns, GROUP_BYTES)
    }

    /// What a writer with row groups of so many bytes holds at most.
    pub fn held_bytes(layout: &Layout, group_bytes: usize) -> u64 {
        let rows = group_rows(layout, group_bytes);
        let widest = layout.fields.iter().map(|field| kept_bytes(field.dtype)).max().unwrap_or(0);
        let group = rows.saturating_mul(kept_row_bytes(layout));
        (group + zstd::zstd_safe::compress_bound(rows * widest) + PACKER_BYTES) as u64
    }

    /// Begins a file with row groups of about so many bytes, one row at least.
    pub fn with_groups(
        path: &Path,
        layout: &Layout,
        columns: &[Column],
        group_bytes: usize,
    ) -> Result<ParquetWriter, DataError> {
        let io = |error: std::io::Error| DataError::io(path, &error);
        let name = path.file_name().ok_or_else(|| DataError::Path {
            path: path.display().to_string(),
            reason: "is not the name of a file".to_owned(),
        })?;
        let partial = path.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
        let packer = zstd::bulk::Compressor::new(1).map_err(io)?;
        let columns = names(layout, columns);
        let group_rows = group_rows(layout, group_bytes);
        let mut out = BufWriter::new(File::create(&partial).map_err(io)?);
        out.write_all(MAGIC).map_err(io)?;
        // Their full size at once: a buffer that grows holds up to three times as much.
        let buffers =
            columns.iter().map(|(_, dtype, ..)| Vec::with_capacity(group_rows * kept_bytes(*dtype))).collect();
        let (path, written) = (path.to_owned(), MAGIC.len() as u64);
        let (groups, out) = (Vec::new(), Some(out));
        Ok(ParquetWriter {
            path,
            partial,
            out,
            written,
            settled: 0,
            most_unwritten_bytes: group_bytes.max(LEAST_UNWRITTEN_BYTES) as u64,
            columns,
            buffers,
            buffered_rows: 0,
            group_rows,
            groups,
            packer,
        })
    }

    /// Takes rows.
    pub fn write(&mut self, rows: &Rows) -> Result<(), DataError> {
        let mut first = 0;
        while first < rows.len() {
            let count = (self.group_rows - self.buffered_rows).min(rows.len() - first);
            for ((_, dtype, field, element), buffer) in self.columns.iter().zip(&mut self.buffers) {
                let stride = rows.layout().fields[*field].row_bytes();
                let bytes = rows.field(*field)[first * stride..(first + count) * stride].chunks_exact(stride);
                let at = element * dtype.bytes();
                append(*dtype, bytes.map(|row| &row[at..at + dtype.bytes()]), buffer);
            }
            self.buffered_rows += count;
            first += count;
            if self.buffered_rows == self.group_rows {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DataError> {
        let path = self.path.clone();
        let io = |error: std::io::Error| DataError::io(&path, &error);
        let rows = std::mem::take(&mut self.buffered_rows);
        let out = self.out.as_mut().expect("open until it is finished");
        let mut chunks = Vec::with_capacity(self.columns.len());
        for ((_, dtype, ..), buffer) in self.columns.iter().zip(&mut self.buffers) {
            if *dtype == DType::Bool {
                pack_bits(buffer);
            }
            let packed = self.packer.compress(buffer).map_err(io)?;
            let mut header = Thrift::default();
            header.structure(|page| {
                page.i32(1, 0);
                page.i32(2, buffer.len() as i32);
                page.i32(3, packed.len() as i32);
                page.struct_field(5, |data| {
                    data.i32(1, rows as i32);
                    data.i32(2, PLAIN);
                    data.i32(3, RUNS);
                    data.i32(4, RUNS);
                });
            });
            out.write_all(&header.bytes).and_then(|()| out.write_all(&packed)).map_err(io)?;
            let head = header.bytes.len() as u64;
            let bytes = head + packed.len() as u64;
            chunks.push(Chunk { first_byte: self.written, bytes, unpacked_bytes: head + buffer.len() as u64 });
            self.written += bytes;
            buffer.clear();
        }
        self.groups.push((rows as u64, chunks));
        // A container's limit counts what waits for the disk.
        if self.written - self.settled >= self.most_unwritten_bytes {
            out.flush().and_then(|()| out.get_ref().sync_data()).map_err(io)?;
            self.settled = self.written;
        }
        Ok(())
    }

    /// Writes what is left and the footer, and gives the file its name.
    pub fn finish(mut self) -> Result<(), DataError> {
        if self.buffered_rows > 0 {
            self.flush()?;
        }
        let mut end = self.footer();
        let length = end.len() as u32;
        end.extend_from_slice(&length.to_le_bytes());
        end.extend_from_slice(MAGIC);
        let io = |error: std::io::Error| DataError::io(&self.path, &error);
        let mut out = self.out.take().expect("open until it is finished");
        out.write_all(&end).map_err(io)?;
        let file = out.into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(io)?;
        std::fs::rename(&self.partial, &self.path).map_err(io)
    }

    fn footer(&self) -> Vec<u8> {
        let rows: u64 = self.groups.iter().map(|(rows, _)| rows).sum();
        let mut thrift = Thrift::default();
        thrift.structure(|file| {
            file.i32(1, 1);
            file.list(2, 12, self.columns.len() + 1);
            file.structure(|root| {
                root.text(4, "schema");
                root.i32(5, self.columns.len() as i32);
            });
            for (name, dtype, ..) in &self.columns {
                file.structure(|node| schema(node, name, *dtype));
            }
            file.i64(3, rows as i64);
            file.list(4, 12, self.groups.len());
            for (rows, chunks) in &self.groups {
                file.structure(|group| {
                    group.list(1, 12, chunks.len());
                    for (chunk, (name, dtype, ..)) in chunks.iter().zip(&self.columns) {
                        group.structure(|column| {
                            column.i64(2, chunk.first_byte as i64);
                            column.struct_field(3, |meta| {
                                meta.i32(1, physical(*dtype).0);
                                meta.list(2, 5, 2);
                                meta.i32_element(PLAIN);
                                meta.i32_element(RUNS);
                                meta.list(3, 8, 1);
                                meta.text_element(name);
                                meta.i32(4, ZSTD);
                                meta.i64(5, *rows as i64);
                                meta.i64(6, chunk.unpacked_bytes as i64);
                                meta.i64(7, chunk.bytes as i64);
                                meta.i64(9, chunk.first_byte as i64);
                            });
                        });
                    }
                    group.i64(2, chunks.iter().map(|chunk| chunk.unpacked_bytes).sum::<u64>() as i64);
                    group.i64(3, *rows as i64);
                });
            }
            file.text(6, concat!("brimful version ", env!("CARGO_PKG_VERSION")));
        });
        thrift.bytes
    }
}

impl Drop for ParquetWriter {
    fn drop(&mut self) {
        // After `finish`, there is none of this name.
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// A name for each element of each field, none twice.
fn names(layout: &Layout, columns: &[Column]) -> Vec<(String, DType, usize, usize)> {
    let mut found = Vec::new();
    let mut taken = std::collections::BTreeSet::new();
    for (number, field) in layout.fields.iter().enumerate() {
        for element in 0..field.elements() {
            let holds = |slot: &&crate::layout::Slot| {
                slot.field == number && (slot.first..slot.first + slot.elements).contains(&element)
            };
            let slot = layout.slots.iter().find(holds);
            let column = slot.and_then(|slot| Some((columns.get(slot.column)?, slot)));
            let name = match column {
                Some((column, slot)) if slot.elements == 1 => column.name.clone(),
                Some((column, slot)) => format!("{}_{}", column.name, element - slot.first),
                None => format!("{}_{element}", field.name),
            };
            let mut unique = name.clone();
            let mut again = 2;
            while !taken.insert(unique.clone()) {
                unique = format!("{name}_{again}");
                again += 1;
            }
            found.push((unique, field.dtype, number, element));
        }
    }
    found
}

/// The format's numbers for a type: how it is kept, and what it means where that is not all.
fn physical(dtype: DType) -> (i32, Option<i32>) {
    match dtype {
        DType::Bool => (0, None),
        DType::U8 => (1, Some(11)),
        DType::U16 => (1, Some(12)),
        DType::U32 => (1, Some(13)),
        DType::U64 => (2, Some(14)),
        DType::I8 => (1, Some(15)),
        DType::I16 => (1, Some(16)),
        DType::I32 => (1, None),
        DType::I64 => (2, None),
        DType::F32 => (4, None),
        DType::F64 => (5, None),
        DType::F16 => (7, None),
    }
}

fn schema(node: &mut Thrift, name: &str, dtype: DType) {
    let (kind, meaning) = physical(dtype);
    node.i32(1, kind);
    if dtype == DType::F16 {
        node.i32(2, 2);
    }
    node.i32(3, 0);
    node.text(4, name);
    if let Some(meaning) = meaning {
        node.i32(6, meaning);
    }
    if dtype == DType::F16 {
        node.struct_field(10, |logical| logical.struct_field(15, |_| {}));
    }
}

fn group_rows(layout: &Layout, group_bytes: usize) -> usize {
    (group_bytes / kept_row_bytes(layout).max(1)).max(1)
}

fn kept_row_bytes(layout: &Layout) -> usize {
    layout.fields.iter().map(|field| field.elements() * kept_bytes(field.dtype)).sum()
}

/// Bytes of a value in a buffer.
fn kept_bytes(dtype: DType) -> usize {
    match dtype {
        DType::I8 | DType::U8 | DType::I16 | DType::U16 => 4,
        other => other.bytes(),
    }
}

/// Values as the format keeps them: whole numbers have at least four bytes.
fn append<'a>(dtype: DType, values: impl Iterator<Item = &'a [u8]>, into: &mut Vec<u8>) {
    match dtype {
        DType::I8 => values.for_each(|value| into.extend_from_slice(&i32::from(value[0] as i8).to_le_bytes())),
        DType::U8 => values.for_each(|value| into.extend_from_slice(&u32::from(value[0]).to_le_bytes())),
        DType::I16 => values.for_each(|value| {
            into.extend_from_slice(&i32::from(i16::from_le_bytes([value[0], value[1]])).to_le_bytes())
        }),
        DType::U16 => values.for_each(|value| {
            into.extend_from_slice(&u32::from(u16::from_le_bytes([value[0], value[1]])).to_le_bytes())
        }),
        _ => values.for_each(|value| into.extend_from_slice(value)),
    }
}

/// Booleans of a byte each become bits.
fn pack_bits(buffer: &mut Vec<u8>) {
    let count = buffer.len();
    for at in 0..count.div_ceil(8) {
        let bits = &buffer[at * 8..count.min(at * 8 + 8)];
        let byte = bits.iter().enumerate().fold(0, |sum, (bit, value)| sum | u8::from(*value != 0) << bit);
        buffer[at] = byte;
    }
    buffer.truncate(count.div_ceil(8));
}

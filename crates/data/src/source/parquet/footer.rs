//! What the end of a Parquet file says: columns, row groups, where the chunks lie.
//!
//! In: a file. Out: [`Footer`], of what is needed for reading only; statistics and key-value pairs are passed over. Lengths are held
//! against the size of the file before memory is taken for them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::schema::{Leaf, Node, leaves};
use super::thrift::{TRUE, Thrift};
use crate::DataError;

/// The largest footer that is read. One of a thousand columns and a thousand row groups has about half of this.
const MOST_FOOTER_BYTES: u64 = 128 << 20;
/// More columns than this are no table.
const MOST_COLUMNS: usize = 1 << 17;

/// What is kept of the end of a file.
pub struct Footer {
    pub leaves: Vec<Leaf>,
    pub groups: Vec<GroupMeta>,
    /// Bytes of the file before the footer.
    pub data_bytes: u64,
}

/// A row group.
pub struct GroupMeta {
    pub rows: i64,
    pub chunks: Vec<ChunkMeta>,
}

/// Where the pages of a column in a row group lie.
#[derive(Clone, Copy, Default)]
pub struct ChunkMeta {
    pub codec: i32,
    pub physical: i32,
    pub first_byte: i64,
    pub bytes: i64,
    /// In another file, or encrypted.
    pub elsewhere: bool,
}

/// Reads the end of a file.
pub fn read(file: &File, path: &Path) -> Result<Footer, DataError> {
    let wrong = |reason: &str| DataError::corrupt(path, "", reason);
    let io = |error: std::io::Error| DataError::io(path, &error);
    let size = file.metadata().map_err(io)?.len();
    if size < 12 {
        return Err(wrong(&format!("{size} bytes are too few for a Parquet file: it is cut or was never finished")));
    }
    let mut tail = [0; 8];
    file.read_exact_at(&mut tail, size - 8).map_err(io)?;
    match &tail[4..] {
        b"PAR1" => {}
        b"PARE" => return Err(wrong("its columns are encrypted: decrypt it first")),
        _ => {
            return Err(wrong(
                "does not end as a Parquet file does: it is cut, was never finished, or is another format",
            ));
        }
    }
    let length = u64::from(u32::from_le_bytes(tail[..4].try_into().expect("four bytes")));
    if length > size - 12 {
        return Err(wrong(&format!("its footer would have {length} bytes, the file has {size}")));
    }
    if length > MOST_FOOTER_BYTES {
        return Err(wrong(&format!(
            "a footer of {length} bytes is more than is read here: write fewer, larger row groups"
        )));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, size - 8 - length).map_err(io)?;
    let (nodes, groups, encrypted) =
        file_metadata(&bytes).ok_or_else(|| wrong("its footer makes no sense: the file is damaged"))?;
    if encrypted {
        return Err(wrong("its columns are encrypted: decrypt it first"));
    }
    let leaves = leaves(&nodes).ok_or_else(|| wrong("its footer describes no table: the file is damaged"))?;
    if let Some(group) = groups.iter().position(|group| group.chunks.len() != leaves.len()) {
        let have = groups[group].chunks.len();
        return Err(DataError::corrupt(
            path,
            format!(", row group {group}"),
            format!("has {have} columns, the file says {}", leaves.len()),
        ));
    }
    Ok(Footer { leaves, groups, data_bytes: size - 8 - length })
}

type Metadata = (Vec<Node>, Vec<GroupMeta>, bool);

fn file_metadata(bytes: &[u8]) -> Option<Metadata> {
    let (mut nodes, mut groups, mut encrypted) = (Vec::new(), Vec::new(), false);
    Thrift::new(bytes).structure(|thrift, number, _| {
        match number {
            2 => {
                let count = thrift.list().filter(|count| *count <= MOST_COLUMNS)?;
                for _ in 0..count {
                    nodes.push(node(thrift)?);
                }
            }
            4 => {
                for _ in 0..thrift.list()? {
                    groups.push(group(thrift)?);
                }
            }
            8 => {
                encrypted = true;
                return Some(false);
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some((nodes, groups, encrypted))
}

fn node(thrift: &mut Thrift) -> Option<Node> {
    let mut node = Node::default();
    thrift.structure(|thrift, number, _| {
        match number {
            1 => node.physical = Some(thrift.int32()?),
            2 => node.type_length = thrift.int32()?,
            3 => node.repetition = thrift.int32()?,
            4 => node.name = String::from_utf8_lossy(thrift.binary()?).into_owned(),
            5 => node.children = thrift.int32()?,
            6 => node.converted = Some(thrift.int32()?),
            7 => node.scale = thrift.int32()?,
            10 => logical(thrift, &mut node)?,
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some(node)
}

fn logical(thrift: &mut Thrift, node: &mut Node) -> Option<()> {
    thrift.structure(|thrift, kind, _| {
        node.logical = Some(kind);
        match kind {
            // Decimal numbers, whole numbers.
            5 | 10 => thrift.structure(|thrift, number, wire| {
                match (kind, number) {
                    (5, 1) => node.scale = thrift.int32()?,
                    (10, 1) => node.bit_width = thrift.int8()?,
                    (10, 2) => node.signed = wire == TRUE,
                    _ => return Some(false),
                }
                Some(true)
            })?,
            _ => return Some(false),
        }
        Some(true)
    })
}

fn group(thrift: &mut Thrift) -> Option<GroupMeta> {
    let mut group = GroupMeta { rows: 0, chunks: Vec::new() };
    thrift.structure(|thrift, number, _| {
        match number {
            1 => {
                let count = thrift.list().filter(|count| *count <= MOST_COLUMNS)?;
                group.chunks.reserve_exact(count);
                for _ in 0..count {
                    group.chunks.push(chunk(thrift)?);
                }
            }
            3 => group.rows = thrift.int()?,
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some(group)
}

fn chunk(thrift: &mut Thrift) -> Option<ChunkMeta> {
    let mut chunk = ChunkMeta { elsewhere: true, ..ChunkMeta::default() };
    let (mut other_file, mut dictionary) = (false, 0);
    thrift.structure(|thrift, number, _| {
        match number {
            1 => other_file = !thrift.binary()?.is_empty(),
            3 => {
                chunk.elsewhere = false;
                thrift.structure(|thrift, number, _| {
                    match number {
                        1 => chunk.physical = thrift.int32()?,
                        4 => chunk.codec = thrift.int32()?,
                        7 => chunk.bytes = thrift.int()?,
                        9 => chunk.first_byte = thrift.int()?,
                        11 => dictionary = thrift.int()?,
                        _ => return Some(false),
                    }
                    Some(true)
                })?;
            }
            8 | 9 => {
                other_file = true;
                return Some(false);
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    // Some writers say 0 where there is no dictionary.
    if dictionary > 0 && dictionary < chunk.first_byte {
        chunk.first_byte = dictionary;
    }
    chunk.elsewhere |= other_file;
    Some(chunk)
}

//! Messages of a file, and where the buffers of record batches lie.
//!
//! In: a place in a file. Out: the message's metadata and the range of its body; for a batch, the buffers of the columns that are read.
//! Every place is held against the file, every buffer against the rows that it is for; of compressed buffers the first eight bytes,
//! their unpacked length, are read once.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::codec::Codec;
use super::flat::Table;
use super::schema::{Leaf, Node};

/// The largest metadata that is read: that of a batch with a million columns.
const MOST_METADATA_BYTES: u64 = 64 << 20;

/// What a message is.
pub const SCHEMA: u8 = 1;
pub const DICTIONARY: u8 = 2;
pub const BATCH: u8 = 3;

/// Bytes of a file that are one buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub first: u64,
    pub packed: u64,
    pub bytes: u64,
    pub codec: Codec,
}

const ABSENT: Buffer = Buffer { first: 0, packed: 0, bytes: 0, codec: Codec::None };

/// A batch: for each column a mask per level, then the buffers of its values. A mask of no bytes: nothing is missing.
pub struct Batch {
    pub rows: u64,
    buffers: Box<[Buffer]>,
    /// Where each column's begin, and the end.
    starts: Box<[u32]>,
}

impl Batch {
    pub fn column(&self, column: usize) -> &[Buffer] {
        &self.buffers[self.starts[column] as usize..self.starts[column + 1] as usize]
    }

    pub fn is_packed(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.codec != Codec::None)
    }

    /// What it takes in memory.
    pub fn index_bytes(&self) -> usize {
        size_of::<Batch>() + self.buffers.len() * size_of::<Buffer>() + self.starts.len() * 4
    }
}

/// A message of a file.
pub struct Message<'a> {
    pub kind: u8,
    pub header: Table<'a>,
    /// Written before version 5 of the format.
    pub old: bool,
    pub body: Range<u64>,
}

/// Reads the metadata of the message at a place; nothing at the end of a stream. `memory` is used again and again.
pub fn read<'a>(file: &File, at: u64, size: u64, memory: &'a mut Vec<u8>) -> Result<Option<Message<'a>>, String> {
    const CUT: &str = "the file ends within it: it is cut or was never finished";
    if at == size {
        return Ok(None);
    }
    let get = |bytes: &mut [u8], at: u64| {
        let end = at.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > size) {
            return Err(CUT.to_owned());
        }
        file.read_exact_at(bytes, at).map_err(|error| format!("cannot be read: {error}"))
    };
    let mut word = [0; 4];
    get(&mut word, at)?;
    let mut first = at + 4;
    // Files from before 2019 have the length at once.
    if word == [0xff; 4] {
        get(&mut word, first)?;
        first += 4;
    }
    let length = u64::from(u32::from_le_bytes(word));
    if length == 0 {
        return Ok(None);
    }
    if length > size - first {
        return Err(CUT.to_owned());
    }
    if length > MOST_METADATA_BYTES {
        return Err(format!("its metadata of {length} bytes is more than is read here"));
    }
    memory.resize(length as usize, 0);
    get(memory, first)?;
    let sense = "makes no sense: the file is damaged";
    let table = Table::root(memory).ok_or(sense)?;
    let parts = || Some((table.u8(1)?, table.table(2)??, table.i16(0, 0)? < 4, table.i64(3)?));
    let (kind, header, old, bytes) = parts().ok_or(sense)?;
    let body = first + length;
    let end = u64::try_from(bytes).ok().and_then(|bytes| body.checked_add(bytes)).filter(|end| *end <= size);
    let body = body..end.ok_or(CUT)?;
    Ok(Some(Message { kind, header, old, body }))
}

/// The buffers of the columns of a record batch. `left` is how many may still be kept.
pub fn batch(
    table: Table,
    body: &Range<u64>,
    nodes: &[Node],
    leaves: &[Leaf],
    file: &File,
    left: &mut usize,
) -> Result<Batch, String> {
    const SENSE: &str = "makes no sense: the file is damaged";
    let parts = || Some((table.i64(0)?, table.list(1, 16)?, table.list(2, 16)?, table.table(3)?, table.list(4, 8)?));
    let (rows, lengths, places, compression, variadic) = parts().ok_or(SENSE)?;
    let rows = u64::try_from(rows).map_err(|_| format!("cannot have {rows} rows"))?;
    let codec = match compression {
        Some(table) => Codec::new(table.u8(0).ok_or(SENSE)?)?,
        None => Codec::None,
    };
    let (lengths, places) = (pairs(lengths), pairs(places));
    if lengths.len() != nodes.len() {
        return Err(format!("has {} nodes, its schema has {}", lengths.len(), nodes.len()));
    }
    // The first buffer of each node, and the end.
    let mut starts = Vec::with_capacity(nodes.len() + 1);
    let (mut next, mut variadic) = (0usize, variadic.as_chunks::<8>().0.iter());
    for node in nodes {
        starts.push(next);
        let more = match node.variadic {
            true => variadic.next().and_then(|count| usize::try_from(i64::from_le_bytes(*count)).ok()).ok_or(SENSE)?,
            false => 0,
        };
        next = more.checked_add(node.buffers).and_then(|all| next.checked_add(all)).ok_or(SENSE)?;
    }
    starts.push(next);
    if next != places.len() {
        return Err(format!("has {} buffers, its schema needs {next}", places.len()));
    }
    let mut found = Found { body, file, codec, buffers: Vec::new(), left };
    let mut columns = vec![0];
    for leaf in leaves {
        let wrong = |reason: String| format!("column '{}' {reason}", leaf.name);
        let count = rows.checked_mul(leaf.elements()).ok_or_else(|| wrong(format!("cannot have {rows} rows")))?;
        for (node, repeat) in &leaf.masks {
            let (length, nulls) = pair(&lengths[*node]);
            let told = u64::try_from(length).ok().and_then(|length| length.checked_mul(*repeat));
            if told != Some(count) {
                return Err(wrong(format!("has {length} values, its record batch {rows} rows")));
            }
            let mask = match nulls {
                0 => ABSENT,
                _ => found.buffer(pair(&places[starts[*node]])).map_err(wrong)?,
            };
            if nulls > 0 && mask.bytes < count.div_ceil(*repeat).div_ceil(8) {
                return Err(wrong(format!("has {nulls} values that are missing, and does not say which")));
            }
            // An unknown number of missing values, and no mask: none is missing.
            found.keep(if mask.bytes < count.div_ceil(*repeat).div_ceil(8) { ABSENT } else { mask })?;
        }
        for (at, place) in places[starts[leaf.node] + 1..starts[leaf.node + 1]].iter().enumerate() {
            let buffer = found.buffer(pair(place)).map_err(wrong)?;
            let least = if at == 0 { leaf.values.least_bytes(count) } else { Some(0) };
            if least.is_none_or(|least| buffer.bytes < least) {
                return Err(wrong(format!("has {} bytes of values, too few for {rows} rows", buffer.bytes)));
            }
            found.keep(buffer)?;
        }
        columns.push(found.buffers.len() as u32);
    }
    Ok(Batch { rows, buffers: found.buffers.into_boxed_slice(), starts: columns.into_boxed_slice() })
}

struct Found<'a> {
    body: &'a Range<u64>,
    file: &'a File,
    codec: Codec,
    buffers: Vec<Buffer>,
    left: &'a mut usize,
}

impl Found<'_> {
    fn keep(&mut self, buffer: Buffer) -> Result<(), String> {
        *self.left = self.left.checked_sub(1).ok_or("has more buffers than are kept: write larger record batches")?;
        self.buffers.push(buffer);
        Ok(())
    }

    fn buffer(&self, (offset, length): (i64, i64)) -> Result<Buffer, String> {
        let parts = u64::try_from(offset).ok().zip(u64::try_from(length).ok());
        let first = parts.and_then(|(offset, length)| {
            let first = self.body.start.checked_add(offset)?;
            (first.checked_add(length)? <= self.body.end).then_some((first, length))
        });
        let Some((first, length)) = first else {
            return Err(format!("has a buffer at {offset} with {length} bytes: outside its record batch"));
        };
        if self.codec == Codec::None || length == 0 {
            return Ok(Buffer { first, packed: length, bytes: length, codec: Codec::None });
        }
        let packed = length.checked_sub(8).ok_or("has a compressed buffer that is too short")?;
        let (first, mut told) = (first + 8, [0; 8]);
        self.file.read_exact_at(&mut told, first - 8).map_err(|error| format!("cannot be read: {error}"))?;
        match i64::from_le_bytes(told) {
            // Not compressed, because that would have made it longer.
            -1 => Ok(Buffer { first, packed, bytes: packed, codec: Codec::None }),
            told => match u64::try_from(told).ok().filter(|bytes| *bytes <= self.codec.most_bytes(packed)) {
                Some(bytes) => Ok(Buffer { first, packed, bytes, codec: self.codec }),
                None => Err(format!("has a buffer of {packed} bytes that cannot unpack to {told}")),
            },
        }
    }
}

fn pairs(bytes: &[u8]) -> &[[u8; 16]] {
    bytes.as_chunks().0
}

/// Two whole numbers.
fn pair(bytes: &[u8; 16]) -> (i64, i64) {
    let (first, second) = bytes.split_at(8);
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    (number(first), number(second))
}

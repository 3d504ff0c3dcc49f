//! From the tree of a Parquet schema to columns.
//!
//! In: the schema's nodes. Out: its leaves, each with what its values are, or why it is left out: lists, maps and structures have no
//! fixed place in a row.

use crate::layout::{DType, Kind};

/// A node of the schema, as the file has it.
#[derive(Clone, Default)]
pub struct Node {
    pub name: String,
    pub physical: Option<i32>,
    pub type_length: i32,
    pub repetition: i32,
    pub children: i32,
    pub converted: Option<i32>,
    pub logical: Option<i16>,
    pub scale: i32,
    pub bit_width: i8,
    pub signed: bool,
}

/// How the bytes of a value are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Physical {
    Bool,
    Int32,
    /// As the format keeps it: the upper half may be in use.
    UInt32,
    Int64,
    UInt64,
    /// Nanoseconds since 1970, from a day and a time of day.
    Int96,
    Float,
    Double,
    Half,
    Bytes,
    /// So many bytes of text.
    Fixed(usize),
    /// A whole number, to be divided by a power of ten; big-endian in so many bytes.
    DecimalFixed(usize, f64),
    DecimalBytes(f64),
    DecimalInt32(f64),
    DecimalInt64(f64),
}

/// A leaf of the schema.
#[derive(Clone, PartialEq)]
pub struct Leaf {
    /// `a`, or `a.b` inside a structure.
    pub name: String,
    /// How to read it; nothing where it is left out.
    pub read: Option<(Physical, Kind)>,
    /// The format's own number of the type.
    pub raw: i32,
    /// The definition level of a value that is there. More than 1 for a value inside structures.
    pub max_definition: u8,
}

/// The leaves, in the order of a row group's chunks.
pub fn leaves(nodes: &[Node]) -> Option<Vec<Leaf>> {
    let mut found = Vec::new();
    let root = nodes.first()?;
    let mut at = 1;
    for _ in 0..root.children {
        walk(nodes, &mut at, "", (0, false), 0, &mut found)?;
    }
    (at == nodes.len()).then_some(found)
}

fn walk(
    nodes: &[Node],
    at: &mut usize,
    before: &str,
    (definition, repeated): (u8, bool),
    depth: usize,
    into: &mut Vec<Leaf>,
) -> Option<()> {
    let node = nodes.get(*at)?;
    *at += 1;
    let name = if before.is_empty() { node.name.clone() } else { format!("{before}.{}", node.name) };
    let level = (definition + u8::from(node.repetition != 0), repeated || node.repetition == 2);
    match node.physical {
        None if depth < 64 => {
            for _ in 0..node.children {
                walk(nodes, at, &name, level, depth + 1, into)?;
            }
        }
        None => return None,
        Some(raw) => {
            let read = (!level.1).then(|| kind(node, raw)).flatten();
            into.push(Leaf { name, read, raw, max_definition: level.0 });
        }
    }
    Some(())
}

fn kind(node: &Node, raw: i32) -> Option<(Physical, Kind)> {
    use DType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let number = |physical, dtype| Some((physical, Kind::Number(dtype)));
    let decimal = node.logical == Some(5) || node.converted == Some(5);
    let scale = 10f64.powi(node.scale);
    let length = usize::try_from(node.type_length).unwrap_or(0);
    let (bits, signed) = match (node.logical, node.converted) {
        (Some(10), _) => (node.bit_width, node.signed),
        (None, Some(11)) => (8, false),
        (None, Some(12)) => (16, false),
        (None, Some(13)) => (32, false),
        (None, Some(14)) => (64, false),
        (None, Some(15)) => (8, true),
        (None, Some(16)) => (16, true),
        _ => (if raw == 1 { 32 } else { 64 }, true),
    };
    match raw {
        0 => number(Physical::Bool, Bool),
        1 if decimal => number(Physical::DecimalInt32(scale), F64),
        2 if decimal => number(Physical::DecimalInt64(scale), F64),
        1 => match (bits, signed) {
            (8, true) => number(Physical::Int32, I8),
            (16, true) => number(Physical::Int32, I16),
            (8, false) => number(Physical::UInt32, U8),
            (16, false) => number(Physical::UInt32, U16),
            (_, false) => number(Physical::UInt32, U32),
            _ => number(Physical::Int32, I32),
        },
        2 if signed => number(Physical::Int64, I64),
        2 => number(Physical::UInt64, U64),
        3 => number(Physical::Int96, I64),
        4 => number(Physical::Float, F32),
        5 => number(Physical::Double, F64),
        6 if decimal => number(Physical::DecimalBytes(scale), F64),
        6 => Some((Physical::Bytes, Kind::Text)),
        7 if length == 0 => None,
        7 if decimal => number(Physical::DecimalFixed(length, scale), F64),
        7 if node.logical == Some(15) && length == 2 => number(Physical::Half, F16),
        7 => Some((Physical::Fixed(length), Kind::Text)),
        _ => None,
    }
}

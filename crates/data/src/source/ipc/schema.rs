//! From the fields of an Arrow schema to columns.
//!
//! In: the schema's table. Out: [`Schema`]: its nodes in the order in which record batches have them, each with its buffers, and the
//! columns that are read. Values inside structures are called `a.b`; lists of a fixed length give a column its shape; all others are
//! left out.

use super::flat::Table;
use crate::layout::{DType, Kind};

/// Fields inside fields: more are an attack on the stack.
const DEEPEST: usize = 32;
/// More fields than this are no table; more bytes of names are an attack on the memory.
const MOST_FIELDS: usize = 1 << 17;
const MOST_NAME_BYTES: usize = 16 << 20;
/// The widest value that is read as text of a fixed length, and most numbers of a list.
const MOST_FIXED_BYTES: usize = 64 << 10;
const MOST_ELEMENTS: usize = 1 << 28;

/// How values lie in their buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    Number(DType),
    /// Booleans, eight in a byte.
    Bits,
    /// A whole number of so many bytes, to be divided by a power of ten.
    Decimal(usize, f64),
    /// Places of so many bytes each, and the text that they point into.
    Text(usize),
    /// Text of at most 12 bytes in place, longer text in one of several buffers.
    Views,
    /// Text of so many bytes.
    Fixed(usize),
}

impl Values {
    /// The numbers that values become at first.
    pub fn plain(self) -> DType {
        match self {
            Values::Number(dtype) => dtype,
            Values::Bits => DType::Bool,
            Values::Decimal(..) => DType::F64,
            Values::Text(_) | Values::Views | Values::Fixed(_) => DType::I64,
        }
    }

    pub fn is_text(self) -> bool {
        matches!(self, Values::Text(_) | Values::Views | Values::Fixed(_))
    }

    fn kind(self) -> Kind {
        if self.is_text() { Kind::Text } else { Kind::Number(self.plain()) }
    }

    /// Bytes that the first buffer has at least for so many values.
    pub fn least_bytes(self, count: u64) -> Option<u64> {
        match self {
            Values::Number(dtype) => count.checked_mul(dtype.bytes() as u64),
            Values::Bits => Some(count.div_ceil(8)),
            Values::Decimal(width, _) | Values::Fixed(width) => count.checked_mul(width as u64),
            // Some writers leave out the one place that text without rows would have.
            Values::Text(_) if count == 0 => Some(0),
            Values::Text(width) => count.checked_add(1)?.checked_mul(width as u64),
            Values::Views => count.checked_mul(16),
        }
    }
}

/// A node of a record batch.
pub struct Node {
    /// Buffers, without those that differ from batch to batch.
    pub buffers: usize,
    /// Whether a number of further buffers is told by the batch.
    pub variadic: bool,
}

/// A column that is read.
#[derive(Clone)]
pub struct Leaf {
    pub name: String,
    pub values: Values,
    /// Values are places in this dictionary, whose entries lie like this.
    pub dictionary: Option<(i64, Values)>,
    pub kind: Kind,
    pub shape: Vec<usize>,
    /// Its node.
    pub node: usize,
    /// Nodes whose first buffer says what is missing, each with the number of values that one bit stands for.
    pub masks: Vec<(usize, u64)>,
}

impl Leaf {
    pub fn elements(&self) -> u64 {
        self.shape.iter().product::<usize>() as u64
    }

    /// Whether columns of two files are read in the same way.
    pub fn like(&self, other: &Leaf) -> bool {
        let dictionary = |leaf: &Leaf| leaf.dictionary.map(|(_, values)| values);
        self.values == other.values && self.shape == other.shape && dictionary(self) == dictionary(other)
    }
}

/// What a schema says.
#[derive(Default)]
pub struct Schema {
    pub nodes: Vec<Node>,
    pub leaves: Vec<Leaf>,
    pub left_out: Vec<String>,
    pub big_endian: bool,
    name_bytes: usize,
    fields: usize,
}

/// Where a field lies inside others.
#[derive(Clone, Default)]
struct Above {
    name: String,
    masks: Vec<(usize, u64)>,
    shape: Vec<usize>,
    /// In something without a fixed place in a row.
    loose: bool,
    depth: usize,
}

impl Schema {
    /// Nothing where the table makes no sense. `old`: before version 5, unions had a buffer more.
    pub fn new(table: Table, old: bool) -> Option<Schema> {
        let mut schema = Schema { big_endian: table.i16(0, 0)? != 0, ..Schema::default() };
        for field in table.tables(1)? {
            schema.field(field?, &Above::default(), old)?;
        }
        Some(schema)
    }

    /// The one column of a dictionary's entries.
    pub fn entries(values: Values) -> Schema {
        let (buffers, variadic) = match values {
            Values::Text(_) => (3, false),
            Values::Views => (2, true),
            _ => (2, false),
        };
        let mut schema = Schema { nodes: vec![Node { buffers, variadic }], ..Schema::default() };
        schema.leaf("entries".to_owned(), Some((values, None)), &Above::default(), 0);
        schema
    }

    fn field(&mut self, field: Table, above: &Above, old: bool) -> Option<()> {
        let own = String::from_utf8_lossy(field.list(0, 1)?);
        let name = if above.name.is_empty() { own.into_owned() } else { format!("{}.{own}", above.name) };
        self.name_bytes += name.len();
        self.fields += 1;
        if above.depth > DEEPEST || self.fields > MOST_FIELDS || self.name_bytes > MOST_NAME_BYTES {
            return None;
        }
        let (kind, details) = (field.u8(2)?, field.table(3)?);
        let node = self.nodes.len();
        if let Some(dictionary) = field.table(4)? {
            // The field's own type is the one of the entries, which lie elsewhere.
            self.nodes.push(Node { buffers: 2, variadic: false });
            let index = match dictionary.table(1)? {
                Some(int) => whole(int)?,
                None => Some(DType::I32),
            };
            let entries = values(kind, details)?;
            let id = dictionary.i64(0)?;
            let found = index.zip(entries).filter(|_| above.shape.is_empty());
            self.leaf(name, found.map(|(index, entries)| (Values::Number(index), Some((id, entries)))), above, node);
            return Some(());
        }
        let mode = if kind == 14 { details?.i16(0, 0)? } else { 0 };
        let (buffers, variadic) = buffers(kind, mode, old)?;
        self.nodes.push(Node { buffers, variadic });
        let mut children = field.tables(5)?;
        let mut inner = above.clone();
        inner.depth += 1;
        match kind {
            // A structure.
            13 => {
                inner.name = name;
                inner.masks.push((node, 1));
                inner.loose |= !above.shape.is_empty();
            }
            // A list of a fixed length.
            16 => {
                let size = usize::try_from(details?.i32(0, 0)?).ok()?;
                inner.shape.push(size);
                let elements = inner.shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size))?;
                inner.loose |= !(1..=MOST_ELEMENTS).contains(&elements);
                for mask in &mut inner.masks {
                    mask.1 = mask.1.checked_mul(size as u64)?;
                }
                inner.masks.push((node, size as u64));
                let child = children.next()??;
                self.element(child, inner, name, above.loose, old)?;
                return children.next().is_none().then_some(());
            }
            _ if children.len() > 0 => {
                if !above.loose {
                    self.left_out.push(name.clone());
                }
                inner.name = name;
                inner.loose = true;
            }
            _ => {
                let found = values(kind, details)?.filter(|values| above.shape.is_empty() || !values.is_text());
                self.leaf(name, found.map(|values| (values, None)), above, node);
                return Some(());
            }
        }
        for child in children {
            self.field(child?, &inner, old)?;
        }
        Some(())
    }

    /// What a list of a fixed length has inside, under the list's name: its own is always `item` or the like.
    fn element(&mut self, child: Table, mut inner: Above, name: String, told: bool, old: bool) -> Option<()> {
        let (before, left_out) = (self.leaves.len(), self.left_out.len());
        inner.name.clear();
        self.field(child, &inner, old)?;
        match self.leaves.get_mut(before) {
            Some(leaf) => leaf.name = name,
            None if !told => {
                self.left_out.truncate(left_out);
                self.left_out.push(name);
            }
            None => {}
        }
        Some(())
    }

    fn leaf(&mut self, name: String, found: Option<(Values, Option<(i64, Values)>)>, above: &Above, node: usize) {
        match found {
            Some((values, dictionary)) if !above.loose => {
                let kind = dictionary.map_or(values, |(_, entries)| entries).kind();
                let mut masks = above.masks.clone();
                masks.push((node, 1));
                self.leaves.push(Leaf { name, values, dictionary, kind, shape: above.shape.clone(), node, masks });
            }
            _ if !above.loose => self.left_out.push(name),
            _ => {}
        }
    }
}

/// Buffers of a type's node. Nothing for a type that is not known: what follows it could not be found.
fn buffers(kind: u8, mode: i16, old: bool) -> Option<(usize, bool)> {
    Some(match kind {
        // Nothing at all, runs.
        1 | 22 => (0, false),
        // Numbers, times, text of a fixed length; lists and maps with their places.
        2 | 3 | 6..=12 | 15 | 17 | 18 | 21 => (2, false),
        4 | 5 | 19 | 20 | 25 | 26 => (3, false),
        13 | 16 => (1, false),
        14 => (if mode == 0 { 1 } else { 2 } + usize::from(old), false),
        23 | 24 => (2, true),
        _ => return None,
    })
}

fn whole(int: Table) -> Option<Option<DType>> {
    let signed = int.u8(1)? != 0;
    Some(match (int.i32(0, 0)?, signed) {
        (8, true) => Some(DType::I8),
        (8, false) => Some(DType::U8),
        (16, true) => Some(DType::I16),
        (16, false) => Some(DType::U16),
        (32, true) => Some(DType::I32),
        (32, false) => Some(DType::U32),
        (64, true) => Some(DType::I64),
        (64, false) => Some(DType::U64),
        _ => None,
    })
}

/// How values of a type lie; `Some(None)` where they are not read.
fn values(kind: u8, details: Option<Table>) -> Option<Option<Values>> {
    let number = |dtype| Some(Some(Values::Number(dtype)));
    Some(match kind {
        2 => whole(details?)?.map(Values::Number),
        3 => match details?.i16(0, 0)? {
            0 => Some(Values::Number(DType::F16)),
            1 => Some(Values::Number(DType::F32)),
            2 => Some(Values::Number(DType::F64)),
            _ => None,
        },
        4 | 5 => Some(Values::Text(4)),
        6 => Some(Values::Bits),
        7 => {
            let (scale, bits) = (details?.i32(1, 0)?, details?.i32(2, 128)?);
            let sound = matches!(bits, 32 | 64 | 128) && (-64..=64).contains(&scale);
            sound.then(|| Values::Decimal(bits as usize / 8, 10f64.powi(scale)))
        }
        8 => return number(if details?.i16(0, 1)? == 0 { DType::I32 } else { DType::I64 }),
        9 => return number(if details?.i32(1, 32)? == 32 { DType::I32 } else { DType::I64 }),
        10 | 18 => return number(DType::I64),
        // Months.
        11 if details?.i16(0, 0)? == 0 => return number(DType::I32),
        15 => {
            let width = usize::try_from(details?.i32(0, 0)?).ok()?;
            (1..=MOST_FIXED_BYTES).contains(&width).then_some(Values::Fixed(width))
        }
        19 | 20 => Some(Values::Text(8)),
        23 | 24 => Some(Values::Views),
        _ => None,
    })
}

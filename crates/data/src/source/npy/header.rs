//! The first bytes of an array as NumPy saves it.
//!
//! In: bytes at a place of a file. Out: [`Header`]: rows, what a row holds, where the data begins. Versions 1 to 3. Not read: pickled
//! objects (never), text, complex numbers, arrays without rows.

use std::io::{Error, ErrorKind};

use super::literal::{self, Literal};
use crate::layout::DType;

/// The most that a header may have. NumPy itself reads no more than 10,000 bytes without being asked to.
const MOST_BYTES: u32 = 1 << 18;

/// What an array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Rows.
    pub rows: u64,
    /// Bytes of one row.
    pub row_bytes: u64,
    /// What a row holds: one part without a name, or the named fields of records.
    pub parts: Vec<Part>,
    /// Whether the numbers of one column lie together (`fortran_order`), not those of one row.
    pub by_columns: bool,
    /// Where the data begins, from the array's first byte.
    pub data_at: u64,
}

/// Numbers of one type in every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The field's name; empty where the row is all one array.
    pub name: String,
    /// What the numbers are.
    pub dtype: DType,
    /// Whether their bytes are in the other order than this machine's.
    pub swapped: bool,
    /// Their shape in one row.
    pub shape: Vec<usize>,
    /// Where they begin in the row.
    pub offset: usize,
}

/// Reads a header by `read_at(buffer, offset)`, which fills the buffer or fails.
pub fn read(read_at: &dyn Fn(&mut [u8], u64) -> std::io::Result<()>) -> Result<Header, Error> {
    let wrong = |reason: String| Error::new(ErrorKind::InvalidData, reason);
    let short = |error: Error| match error.kind() {
        ErrorKind::UnexpectedEof => wrong("the file ends within its header: it is not a whole .npy file".to_owned()),
        _ => error,
    };
    let mut start = [0; 8];
    read_at(&mut start, 0).map_err(short)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(wrong("this is not a .npy file: it does not begin as NumPy's files do".to_owned()));
    }
    let (length, first) = match start[6] {
        1 => {
            let mut bytes = [0; 2];
            read_at(&mut bytes, 8).map_err(short)?;
            (u32::from(u16::from_le_bytes(bytes)), 10)
        }
        2 | 3 => {
            let mut bytes = [0; 4];
            read_at(&mut bytes, 8).map_err(short)?;
            (u32::from_le_bytes(bytes), 12)
        }
        version => return Err(wrong(format!("version {version} of the .npy format is not known (1 to 3 are)"))),
    };
    if length > MOST_BYTES {
        return Err(wrong(format!("the header claims {length} bytes; more than {MOST_BYTES} are not read")));
    }
    let mut bytes = vec![0; length as usize];
    read_at(&mut bytes, first).map_err(short)?;
    let text = match start[6] {
        3 => String::from_utf8(bytes).map_err(|_| wrong("the header is not UTF-8".to_owned()))?,
        _ => bytes.iter().map(|byte| *byte as char).collect(),
    };
    let mut header = parse(&text).map_err(wrong)?;
    header.data_at = first + u64::from(length);
    Ok(header)
}

fn parse(text: &str) -> Result<Header, String> {
    let Literal::Dict(entries) =
        literal::parse(text).map_err(|reason| format!("the header cannot be read: {reason}"))?
    else {
        return Err("the header is not a dictionary".to_owned());
    };
    let get = |name: &str| {
        let found = entries.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("the header has no '{name}'"))
    };
    let Literal::Truth(by_columns) = get("fortran_order")? else {
        return Err("'fortran_order' in the header is neither True nor False".to_owned());
    };
    let shape = numbers(get("shape")?)?;
    let Some((&rows, rest)) = shape.split_first() else {
        return Err("the array is a single value without rows: save it with at least one axis".to_owned());
    };
    let rest: Vec<usize> = rest.iter().map(|size| usize::try_from(*size).unwrap_or(usize::MAX)).collect();
    let too_large = || format!("the shape {} is too large", tuple(&shape));
    let mut parts;
    let mut row_bytes: u64 = 0;
    match get("descr")? {
        Literal::Text(text) => {
            let (dtype, swapped) = dtype(text)?;
            row_bytes = bytes_of(dtype, &rest).ok_or_else(too_large)?;
            parts = vec![Part { name: String::new(), dtype, swapped, shape: rest, offset: 0 }];
        }
        Literal::List(fields) => {
            if !rest.is_empty() {
                return Err(format!("records in an array of shape {} are not read: only one axis is", tuple(&shape)));
            }
            parts = Vec::new();
            for field in fields {
                let (name, kind, shape) = record_field(field)?;
                // Gaps between fields are fields without a name.
                if let (true, Some(gap)) = (name.is_empty(), kind.strip_prefix("|V")) {
                    let gap: u64 = gap.parse().map_err(|_| format!("the type '{kind}' is not known"))?;
                    row_bytes = row_bytes.checked_add(gap).ok_or_else(too_large)?;
                    continue;
                }
                let (dtype, swapped) = dtype(&kind).map_err(|reason| format!("field '{name}': {reason}"))?;
                let offset = usize::try_from(row_bytes).map_err(|_| too_large())?;
                let bytes = bytes_of(dtype, &shape).ok_or_else(too_large)?;
                row_bytes = row_bytes.checked_add(bytes).ok_or_else(too_large)?;
                parts.push(Part { name, dtype, swapped, shape, offset });
            }
        }
        _ => return Err("'descr' in the header is neither a type nor a list of fields".to_owned()),
    }
    if row_bytes == 0 || parts.is_empty() {
        return Err(format!("a row of the shape {} holds no number", tuple(&shape)));
    }
    rows.checked_mul(row_bytes).filter(|bytes| *bytes <= i64::MAX as u64).ok_or_else(too_large)?;
    Ok(Header { rows, row_bytes, parts, by_columns: *by_columns && shape.len() > 1, data_at: 0 })
}

fn numbers(value: &Literal) -> Result<Vec<u64>, String> {
    let number = |item: &Literal| match item {
        Literal::Number(number) => Ok(*number),
        _ => Err("a shape in the header has something other than whole numbers".to_owned()),
    };
    match value {
        Literal::List(items) => items.iter().map(number).collect(),
        Literal::Number(number) => Ok(vec![*number]),
        _ => Err("a shape in the header is no tuple".to_owned()),
    }
}

fn record_field(field: &Literal) -> Result<(String, String, Vec<usize>), String> {
    let known = "a field of the records is not (name, type) or (name, type, shape)".to_owned();
    let Literal::List(items) = field else { return Err(known) };
    let name = match items.first() {
        Some(Literal::Text(name)) => name.clone(),
        // (title, name)
        Some(Literal::List(both)) => match both.last() {
            Some(Literal::Text(name)) => name.clone(),
            _ => return Err(known),
        },
        _ => return Err(known),
    };
    let kind = match items.get(1) {
        Some(Literal::Text(kind)) => kind.clone(),
        Some(Literal::List(_)) => return Err(format!("field '{name}' has fields of its own, which are not read")),
        _ => return Err(known),
    };
    let shape = items.get(2).map_or(Ok(Vec::new()), numbers)?;
    Ok((name, kind, shape.into_iter().map(|size| usize::try_from(size).unwrap_or(usize::MAX)).collect()))
}

fn bytes_of(dtype: DType, shape: &[usize]) -> Option<u64> {
    let elements = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size))?;
    Some(elements.checked_mul(dtype.bytes())? as u64)
}

/// `(10, 3)`, `(10,)`, as Python writes a shape.
pub(crate) fn tuple(shape: &[u64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// A type as array formats write it, such as `<f4`: what it is, and whether its bytes are in the other order.
pub(crate) fn dtype(text: &str) -> Result<(DType, bool), String> {
    let (order, kind) = match text.as_bytes().first() {
        Some(order @ (b'<' | b'>' | b'|' | b'=')) => (*order, &text[1..]),
        _ => (b'=', text),
    };
    let dtype = match kind {
        "b1" | "?" => DType::Bool,
        "u1" => DType::U8,
        "i1" => DType::I8,
        "u2" => DType::U16,
        "i2" => DType::I16,
        "u4" => DType::U32,
        "i4" => DType::I32,
        "u8" => DType::U64,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        // Times are counts of their unit.
        _ if kind.starts_with("M8") || kind.starts_with("m8") => DType::I64,
        _ if kind.starts_with('O') => {
            return Err("the array holds Python objects, and pickled objects are never loaded: save it as numbers \
                        (`np.save(path, array.astype(np.float32))`)"
                .to_owned());
        }
        _ if kind.starts_with(['U', 'S', 'a']) => {
            return Err(format!(
                "the array holds text (type '{text}'): save numbers, such as the places in a list of categories"
            ));
        }
        _ if kind.starts_with('c') => {
            return Err(format!(
                "complex numbers (type '{text}') are not read: save `array.view(np.float32)` or float64"
            ));
        }
        _ => return Err(format!("the type '{text}' is not known: save the array as one of NumPy's usual numbers")),
    };
    Ok((dtype, order == b'>' && dtype.bytes() > 1))
}

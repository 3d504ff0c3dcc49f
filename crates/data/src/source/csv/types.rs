//! What the columns of a table are.
//!
//! In: records of a sample, what the caller says. Out: a type for each column. A column of whole numbers with gaps has floats, as only
//! those have "not known"; a column without any value too.

use crate::DataError;
use crate::layout::{Column, DType, Kind};
use crate::source::CsvOptions;
use crate::source::text::number;

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Whole numbers.
    Int,
    /// Numbers.
    Float,
    /// `true` and `false`.
    Bool,
    /// Everything.
    Text,
}

impl Type {
    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Int => "int64",
            Type::Float => "float64",
            Type::Bool => "bool",
            Type::Text => "text",
        }
    }

    /// The type of a name, and of the usual other names for it.
    pub fn parse(name: &str) -> Option<Type> {
        match name {
            "int64" | "int" => Some(Type::Int),
            "float64" | "float32" | "float" => Some(Type::Float),
            "bool" => Some(Type::Bool),
            "text" | "str" | "string" => Some(Type::Text),
            _ => None,
        }
    }

    /// The column that it makes.
    pub fn column(self, name: &str) -> Column {
        let kind = match self {
            Type::Int => Kind::Number(DType::I64),
            Type::Float => Kind::Number(DType::F64),
            Type::Bool => Kind::Number(DType::Bool),
            Type::Text => Kind::Text,
        };
        Column { name: name.to_owned(), kind, shape: Vec::new() }
    }
}

/// A column's type, and whether the caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The type.
    pub of: Type,
    /// Given: what does not fit is bad. Otherwise a fraction among whole numbers is welcome where floats are asked for.
    pub given: bool,
}

/// Text that means "not known".
#[derive(Clone, Debug)]
pub struct Nulls(Vec<Vec<u8>>);

const USUAL_NULLS: [&str; 9] = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"];

impl Nulls {
    /// The usual ones, and those of the caller.
    pub fn new(given: &[String]) -> Nulls {
        let usual = USUAL_NULLS.iter().map(|text| text.as_bytes().to_vec());
        Nulls(usual.chain(given.iter().map(|text| text.as_bytes().to_vec())).collect())
    }

    /// Whether a text, without blanks around it, is one of them.
    pub fn has(&self, text: &[u8]) -> bool {
        text.is_empty() || self.0.iter().any(|null| null == text)
    }
}

/// `true` or `false` as the usual tools write them.
pub fn bool_of(text: &[u8]) -> Option<bool> {
    match text {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// What a sample showed of one column.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    int: bool,
    float: bool,
    bool: bool,
    text: bool,
    null: bool,
}

impl Seen {
    /// One more value.
    pub fn add(&mut self, value: &[u8], nulls: &Nulls) {
        let text = value.trim_ascii();
        match () {
            () if nulls.has(text) => self.null = true,
            () if number::int_of(text).is_some() => self.int = true,
            () if number::float_of(text).is_some() => self.float = true,
            () if bool_of(text).is_some() => self.bool = true,
            () => self.text = true,
        }
    }

    fn of(self) -> Type {
        let numbers = self.int || self.float;
        match self {
            Seen { text: true, .. } => Type::Text,
            Seen { bool: true, .. } if numbers => Type::Text,
            Seen { bool: true, .. } => Type::Bool,
            Seen { int: true, float: false, null: false, .. } => Type::Int,
            _ => Type::Float,
        }
    }
}

/// The types of all columns.
pub fn types(names: &[String], seen: &[Seen], options: &CsvOptions) -> Result<Vec<Typed>, DataError> {
    let mut types: Vec<Typed> = seen.iter().map(|seen| Typed { of: seen.of(), given: false }).collect();
    for (name, given) in &options.types {
        let place = names.iter().position(|column| column == name).ok_or_else(|| {
            DataError::Request(format!("types name a column '{name}', which is none of: {}", some(names)))
        })?;
        let of = Type::parse(given).ok_or_else(|| {
            DataError::Request(format!(
                "column '{name}': there is no type '{given}'; there are float64, int64, bool, text"
            ))
        })?;
        types[place] = Typed { of, given: true };
    }
    Ok(types)
}

fn some(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(12).map(String::as_str).collect();
    format!("{}{}", first.join(", "), if names.len() > 12 { ", …" } else { "" })
}

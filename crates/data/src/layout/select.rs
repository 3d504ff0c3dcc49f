//! From what the caller wants to the fields of a row.
//!
//! In: the columns of a source, a [`Request`]. Out: a [`Layout`], or a sentence that names the column that is missing or cannot be a
//! number. Without a request: every column of numbers in one matrix `x`; a column that is itself an array stays an array.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Column, DType, Field, Kind, Layout, Slot};
use crate::DataError;

/// How the text of a column becomes a number.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Conversion {
    /// It is a number already.
    #[default]
    Number,
    /// The place of the text in this list; other text is a bad value.
    Categories(Arc<BTreeMap<Vec<u8>, i64>>),
    /// A hash below this number.
    Hash(u64),
}

impl Conversion {
    /// The number of a text; nothing where it is none of the categories. The same in every version and for every format.
    pub fn number(&self, text: &[u8]) -> Option<i64> {
        match self {
            Conversion::Number => None,
            Conversion::Categories(places) => places.get(text).copied(),
            Conversion::Hash(below) => Some(((u128::from(hash(text)) * u128::from(*below)) >> 64) as i64),
        }
    }
}

/// FNV-1a, mixed at the end so that every bit of the text counts in the upper ones too.
fn hash(text: &[u8]) -> u64 {
    let mut state = text
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// What the caller wants of each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The columns of the features; none: all that are numbers and no labels.
    pub columns: Option<Vec<String>>,
    /// The columns of the labels.
    pub labels: Vec<String>,
    /// The type of the features; none: `float32` for tables, the file's own for arrays.
    pub dtype: Option<DType>,
    /// The type of the labels; none: the file's own.
    pub label_dtype: Option<DType>,
    /// Each column a field of its own, with the file's type where none is asked for.
    pub separate: bool,
    /// Text columns that become numbers, by name.
    pub conversions: BTreeMap<String, Conversion>,
}

impl Layout {
    /// The fields that a request asks for.
    pub fn new(columns: &[Column], request: &Request) -> Result<Layout, DataError> {
        let labels = find(columns, &request.labels)?;
        let left_out;
        let features = match &request.columns {
            Some(names) => {
                left_out = Vec::new();
                find(columns, names)?
            }
            None => {
                let text = |index: &usize| {
                    columns[*index].kind == Kind::Text && conversion(columns, *index, request).is_none()
                };
                let rest: Vec<usize> = (0..columns.len()).filter(|index| !labels.contains(index)).collect();
                left_out = rest.iter().filter(|index| text(index)).map(|index| columns[*index].name.clone()).collect();
                rest.into_iter().filter(|index| !text(index)).collect()
            }
        };
        if features.is_empty() && labels.is_empty() {
            return Err(DataError::Request(
                "no column of numbers: choose columns, and say how text becomes numbers (categories or hashing)"
                    .to_owned(),
            ));
        }
        let mut layout = Layout { fields: Vec::new(), slots: Vec::new(), left_out };
        if request.separate {
            for index in features {
                let dtype = request.dtype.unwrap_or(own_dtype(columns, index, request)?);
                layout.add(
                    columns,
                    &[index],
                    columns[index].name.clone(),
                    dtype,
                    columns[index].shape.clone(),
                    request,
                )?;
            }
        } else if !features.is_empty() {
            let array = features.len() == 1 && !columns[features[0]].shape.is_empty();
            let own = own_dtype(columns, features[0], request)?;
            let dtype = request.dtype.unwrap_or(if array { own } else { DType::F32 });
            let total = features.iter().map(|index| elements(&columns[*index])).sum();
            let shape = if array { columns[features[0]].shape.clone() } else { vec![total] };
            layout.add(columns, &features, "x".to_owned(), dtype, shape, request)?;
        }
        if !labels.is_empty() {
            let dtype = request.label_dtype.unwrap_or(own_dtype(columns, labels[0], request)?);
            let one = labels.len() == 1;
            let total = labels.iter().map(|index| elements(&columns[*index])).sum();
            let shape = if one { columns[labels[0]].shape.clone() } else { vec![total] };
            layout.add(columns, &labels, "y".to_owned(), dtype, shape, request)?;
        }
        layout.slots.sort_by_key(|slot| slot.column);
        Ok(layout)
    }

    fn add(
        &mut self,
        columns: &[Column],
        chosen: &[usize],
        name: String,
        dtype: DType,
        shape: Vec<usize>,
        request: &Request,
    ) -> Result<(), DataError> {
        let field = self.fields.len();
        let mut first = 0;
        for &column in chosen {
            let conversion = match (columns[column].kind, conversion(columns, column, request)) {
                (Kind::Text, None) => return Err(text_needs_a_number(&columns[column].name)),
                (_, given) => given.cloned().unwrap_or_default(),
            };
            let elements = elements(&columns[column]);
            self.slots.push(Slot { column, field, first, elements, conversion });
            first += elements;
        }
        self.fields.push(Field { name, dtype, shape });
        Ok(())
    }
}

fn elements(column: &Column) -> usize {
    column.shape.iter().product()
}

fn conversion<'a>(columns: &[Column], index: usize, request: &'a Request) -> Option<&'a Conversion> {
    request.conversions.get(&columns[index].name)
}

fn own_dtype(columns: &[Column], index: usize, request: &Request) -> Result<DType, DataError> {
    match (columns[index].kind, conversion(columns, index, request)) {
        (_, Some(Conversion::Categories(_) | Conversion::Hash(_))) => Ok(DType::I64),
        (Kind::Number(dtype), _) => Ok(dtype),
        (Kind::Text, _) => Err(text_needs_a_number(&columns[index].name)),
    }
}

fn text_needs_a_number(name: &str) -> DataError {
    DataError::Request(format!(
        "column '{name}' is text: say how it becomes a number, by its categories or by hashing, or leave it out"
    ))
}

fn find(columns: &[Column], names: &[String]) -> Result<Vec<usize>, DataError> {
    let known = || {
        let names: Vec<&str> = columns.iter().take(12).map(|column| column.name.as_str()).collect();
        format!("{}{}", names.join(", "), if columns.len() > 12 { ", …" } else { "" })
    };
    let place = |name: &String| {
        columns
            .iter()
            .position(|column| column.name == *name)
            .ok_or_else(|| DataError::Request(format!("there is no column '{name}'; there are {}", known())))
    };
    names.iter().map(place).collect()
}

//! What a row looks like in memory.
//!
//! In: the columns of a source and what the caller wants of them. Out: [`Layout`]: fields of fixed size, each a piece of every row;
//! [`Rows`]: memory for rows of that layout. A field's rows lie one after the other (`rows × elements`), so that a batch's field is
//! an array without further copies. Not here: reading, and text of any length: text becomes a number (a category or a hash) or is
//! left out.

mod cells;
mod convert;
mod dtype;
mod own;
mod rows;
mod select;

pub use cells::Cells;
pub use convert::convert;
pub use dtype::DType;
pub use rows::Rows;
pub use select::{Conversion, Request};

/// A column of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name; arrays without one are called `x`.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// The shape of one row's value: empty for a number, `[224, 224, 3]` for a picture.
    pub shape: Vec<usize>,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers of this type.
    Number(DType),
    /// Text.
    Text,
}

/// A part of every row, which becomes one array of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `x`, `y`, or the column's name.
    pub name: String,
    /// What its elements are.
    pub dtype: DType,
    /// The shape of one row.
    pub shape: Vec<usize>,
}

impl Field {
    /// Elements of one row.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.elements().saturating_mul(self.dtype.bytes())
    }
}

/// Where a column's values go.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The column of the source.
    pub column: usize,
    /// The field.
    pub field: usize,
    /// The first element within the field's row.
    pub first: usize,
    /// How many elements.
    pub elements: usize,
    /// How text becomes a number.
    pub conversion: Conversion,
}

/// The fields of a row, and which columns fill them.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// In the order in which a batch has them.
    pub fields: Vec<Field>,
    /// In the order of the source's columns.
    pub slots: Vec<Slot>,
    /// Text columns that nobody chose: left out.
    pub left_out: Vec<String>,
}

/// Arrays begin at multiples of this: TensorFlow ends the process where a borrowed array does not.
const ALIGNMENT: usize = 64;

impl Layout {
    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.fields.iter().map(Field::row_bytes).fold(0, usize::saturating_add)
    }

    /// Where each field begins in memory for so many rows, and at last its end.
    pub fn offsets(&self, rows: usize) -> Vec<usize> {
        let mut offsets = vec![0];
        for field in &self.fields {
            let last = *offsets.last().expect("never empty");
            let end = field.row_bytes().saturating_mul(rows).saturating_add(last);
            offsets.push(end.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX));
        }
        offsets
    }

    /// Bytes of memory for so many rows.
    pub fn bytes(&self, rows: usize) -> usize {
        *self.offsets(rows).last().expect("never empty")
    }
}

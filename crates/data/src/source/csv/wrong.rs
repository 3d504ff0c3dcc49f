//! What is wrong with a record, and the sentence about it.
//!
//! In: the place and the kind of the mistake, noted while parsing without making text of it. Out: a [`BadRow`]-ready reason.

use std::ops::Range;

use super::Table;
use super::field;

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It ends before its last column, or goes on behind it.
    Fields,
    /// A value is not what its column has.
    Value,
    /// Nothing, where the type that was asked for has no "not known".
    Unknown,
    /// A text that is none of the categories.
    Category,
}

/// A mistake and its place.
#[derive(Clone, Debug)]
pub struct Bad {
    /// What.
    pub wrong: Wrong,
    /// Which column.
    pub column: usize,
    /// The field's bytes within the unit.
    pub field: Range<usize>,
    /// The first of the values that could not be read because of it.
    pub first_op: usize,
}

/// How much of a value is shown.
const SHOWN: usize = 40;

/// The sentence. `record` is where the record begins.
pub fn reason(bad: &Bad, table: &Table, bytes: &[u8], record: usize) -> String {
    let name = table.dialect.names.get(bad.column).map_or("", String::as_str);
    let value = field::value(bytes, bad.field.start, bad.field.end);
    let mut shown: String = String::from_utf8_lossy(&value[..value.len().min(SHOWN * 4)]).chars().take(SHOWN).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    match bad.wrong {
        Wrong::Fields => {
            let (found, wanted) = (count(bytes, record, table.dialect.delimiter), table.dialect.names.len());
            let s = if found == 1 { "" } else { "s" };
            format!("{found} field{s} instead of {wanted}")
        }
        Wrong::Value => {
            let typed = table.types[bad.column];
            let fix = if typed.given {
                "correct it, give another type, or say what to do with bad rows".to_owned()
            } else {
                let other = if crate::source::text::number::float_of(value.trim_ascii()).is_some() {
                    "float64"
                } else {
                    "text"
                };
                format!(
                    "the sample showed none such: correct it, give types={{\"{name}\": \"{other}\"}}, or say what to do \
                     with bad rows"
                )
            };
            format!("'{shown}' in column '{name}' is not {}; {fix}", typed.of.name())
        }
        Wrong::Unknown => format!(
            "column '{name}' has no value here, and whole numbers have none for \"not known\": ask for float32 or \
             float64, or say what to do with bad rows"
        ),
        Wrong::Category => {
            format!("'{shown}' in column '{name}' is none of its categories: add it, or say what to do with bad rows")
        }
    }
}

fn count(bytes: &[u8], mut at: usize, delimiter: u8) -> usize {
    let mut fields = 1;
    loop {
        let end = field::end(bytes, at, delimiter);
        if bytes[end] != delimiter {
            return fields;
        }
        fields += 1;
        at = end + 1;
    }
}

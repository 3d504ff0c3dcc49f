//! Which types a file is written with, and what of the numbers does not survive it.
//!
//! In: a source, what was asked for. Out: a layout that loses nothing where that can be; sentences about what is rounded all the same:
//! by type where the user chose it, and counted while rows are written where nobody did.

use brimful_data::layout::{Column, DType, Layout, Rows, Slot};
use brimful_data::source::Source;

use super::{ConvertArgs, Kind};
use crate::commands::data::gaps::ROUNDED_FROM;

/// How many columns are named with their types.
const NAMES_SHOWN: usize = 8;

/// The fields that are written: for Parquet the columns with their own types, for one array the type that has room for all.
pub fn layout(args: &ConvertArgs, kind: Kind, source: &dyn Source) -> anyhow::Result<Layout> {
    let asked = args.source.layout(source, false)?;
    let (columns, dtype) = (source.columns(), args.source.dtype()?);
    match (kind, dtype) {
        (Kind::Npy, Some(_)) => Ok(asked),
        (Kind::Npy, None) => Ok(asked.with_common_types(columns)),
        (Kind::Parquet, None) => Ok(asked.with_own_types(columns)),
        (Kind::Parquet, Some(dtype)) => {
            let mut own = asked.with_own_types(columns);
            // The type is that of the features, not of the labels.
            let features = asked.fields.iter().position(|field| field.name == "x");
            for (slot, own_slot) in asked.slots.iter().zip(own.slots.clone()) {
                if Some(slot.field) == features {
                    own.fields[own_slot.field].dtype = dtype;
                }
            }
            Ok(own)
        }
    }
}

/// What the type that was asked for does not hold.
pub fn narrowed(layout: &Layout, columns: &[Column], dtype: DType) -> Option<String> {
    let lost = |slot: &&Slot| !layout.fields[slot.field].dtype.holds(slot.own_dtype(columns));
    let name = |slot: &Slot| format!("{} ({})", columns[slot.column].name, slot.own_dtype(columns).name());
    let mut names: Vec<String> = layout.slots.iter().filter(lost).map(name).collect();
    if names.is_empty() {
        return None;
    }
    if names.len() > NAMES_SHOWN {
        names.truncate(NAMES_SHOWN);
        names.push("…".to_owned());
    }
    let target = dtype.name();
    Some(format!("numbers that {target} does not have were rounded or cut to it, as asked for: {}", names.join(", ")))
}

/// Counts whole numbers that may have been rounded, where nobody asked for it.
pub struct Rounded {
    /// A slot, the elements of its field's row, and how many there were.
    watched: Vec<(Slot, usize, u64)>,
}

impl Rounded {
    pub fn new(layout: &Layout, columns: &[Column]) -> Rounded {
        let rounds =
            |slot: &&Slot| layout.fields[slot.field].dtype == DType::F64 && !DType::F64.holds(slot.own_dtype(columns));
        let watch = |slot: &Slot| (slot.clone(), layout.fields[slot.field].elements(), 0);
        Rounded { watched: layout.slots.iter().filter(rounds).map(watch).collect() }
    }

    pub fn add(&mut self, rows: &Rows) {
        for (slot, elements, count) in &mut self.watched {
            let numbers: &[f64] = bytemuck::cast_slice(&rows.field(slot.field)[..rows.len() * *elements * 8]);
            for row in numbers.chunks_exact((*elements).max(1)) {
                let large = |value: &&f64| value.abs() >= ROUNDED_FROM;
                *count += row[slot.first..slot.first + slot.elements].iter().filter(large).count() as u64;
            }
        }
    }

    pub fn notes(&self, columns: &[Column]) -> Vec<String> {
        let note = |(slot, _, count): &(Slot, usize, u64)| {
            let numbers = if *count == 1 { "1 number".to_owned() } else { format!("{count} numbers") };
            let (name, dtype) = (&columns[slot.column].name, slot.own_dtype(columns).name());
            format!("{numbers} of '{name}' ({dtype}) of 2^53 or more may have been rounded to float64")
        };
        self.watched.iter().filter(|(.., count)| *count > 0).map(note).collect()
    }
}

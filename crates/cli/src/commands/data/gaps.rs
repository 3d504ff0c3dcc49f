//! Whole numbers that turn out to have gaps.
//!
//! In: fields with the files' own types, something that reads all rows. Out: what it gives; where rows are bad because a column of whole
//! numbers has values that are missing (only floats have "not known") or fractions behind the sample that its type was inferred from, it is
//! done again with `float64` for that column, and that is said. What is good at the first go is read once.

use std::sync::Arc;

use brimful_data::DataError;
use brimful_data::layout::{DType, Field, Layout, Slot};
use brimful_data::loader::Loader;
use brimful_data::plan::BatchOptions;
use brimful_data::source::Source;

use super::args::SourceArgs;

/// Rows that are looked at together.
const ROWS: usize = 1024;
/// Whole numbers from here on are not all floats.
pub const ROUNDED_FROM: f64 = (1u64 << 53) as f64;

/// A column of whole numbers that is read as `float64`.
pub struct Gap {
    name: String,
    dtype: DType,
    missing: u64,
    fractions: u64,
    large: bool,
}

impl Gap {
    /// What the user should know.
    pub fn note(&self) -> String {
        let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (name, dtype) = (&self.name, self.dtype.name());
        let missing = (self.missing > 0).then(|| format!("{} (NaN)", count(self.missing, "missing value")));
        let other =
            (self.fractions > 0).then(|| format!("{} that {dtype} does not have", count(self.fractions, "number")));
        let why = [missing, other].into_iter().flatten().collect::<Vec<_>>().join(" and ");
        format!("'{name}' is float64, not {dtype}: it has {why}")
    }

    /// The same where only the numbers count, and not their type: whether they may have changed.
    pub fn rounding(&self) -> Option<String> {
        let note = self.note();
        self.large.then(|| format!("{note}; its numbers of 2^53 or more may have been rounded"))
    }
}

/// Reads with a layout of own types, and again if there are gaps. What reads says how many rows it found bad.
pub fn reading<T>(
    args: &SourceArgs,
    source: &Arc<dyn Source>,
    layout: Layout,
    stop: &dyn Fn() -> bool,
    mut read: impl FnMut(&Layout) -> anyhow::Result<(T, u64)>,
) -> anyhow::Result<(T, Layout, Vec<Gap>)> {
    let done = read(&layout);
    let doubted = match &done {
        Ok((_, bad_rows)) => *bad_rows > 0,
        Err(error) => matches!(error.downcast_ref(), Some(DataError::Corrupt { .. })),
    };
    if !doubted || args.dtype()?.is_some() {
        return done.map(|(done, _)| (done, layout, Vec::new()));
    }
    let (wider, gaps) = look(args, source, &layout, stop)?;
    if gaps.is_empty() {
        return done.map(|(done, _)| (done, layout, gaps));
    }
    let (done, _) = read(&wider)?;
    Ok((done, wider, gaps))
}

/// Reads the columns of whole numbers as floats, and widens those in which floats show something else.
fn look(
    args: &SourceArgs,
    source: &Arc<dyn Source>,
    layout: &Layout,
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<(Layout, Vec<Gap>)> {
    let columns = source.columns();
    let whole = |slot: &&Slot| !slot.own_dtype(columns).is_float() && !layout.fields[slot.field].dtype.is_float();
    let doubted: Vec<&Slot> = layout.slots.iter().filter(whole).collect();
    let field = |slot: &&Slot| {
        let (name, shape) = (columns[slot.column].name.clone(), columns[slot.column].shape.clone());
        Field { name, dtype: DType::F64, shape }
    };
    let slot = |(field, slot): (usize, &&Slot)| Slot { field, first: 0, ..(*slot).clone() };
    let floats = Layout {
        fields: doubted.iter().map(field).collect(),
        slots: doubted.iter().enumerate().map(slot).collect(),
        left_out: Vec::new(),
    };
    let mut wider = layout.clone();
    let mut gaps = Vec::new();
    if doubted.is_empty() {
        return Ok((wider, gaps));
    }
    let options = BatchOptions {
        batch_rows: ROWS,
        memory_bytes: args.memory()?.0,
        threads: args.threads,
        bad_rows: args.bad_rows.into(),
        ..BatchOptions::default()
    };
    let loader = Loader::new(source.clone(), floats.clone(), options.fitting(&**source, &floats))?;
    let mut batches = loader.epoch(0)?;
    let mut found = vec![(0, 0, false); doubted.len()];
    while let Some(batch) = batches.next(stop)? {
        if stop() {
            return Err(DataError::Interrupted.into());
        }
        for (field, (missing, fractions, large)) in found.iter_mut().enumerate() {
            let whole = |value: f64| value.fract() == 0.0 && value.abs() <= 2f64.powi(64);
            for value in bytemuck::cast_slice::<u8, f64>(batch.field(field)) {
                *missing += u64::from(value.is_nan());
                *large |= value.abs() >= ROUNDED_FROM;
                *fractions += u64::from(!value.is_nan() && !whole(*value));
            }
        }
    }
    for (slot, (missing, fractions, large)) in doubted.iter().zip(found) {
        if missing + fractions > 0 {
            wider.fields[slot.field].dtype = DType::F64;
            let (name, dtype) = (columns[slot.column].name.clone(), slot.own_dtype(columns));
            gaps.push(Gap { name, dtype, missing, fractions, large });
        }
    }
    Ok((wider, gaps))
}

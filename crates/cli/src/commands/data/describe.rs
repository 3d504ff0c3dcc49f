//! `brimful data describe`: what is in the columns. In: a source. Out: a table or JSON with `"schema": 1`. One pass, each column by
//! itself; means and deviations by Welford's method, so large numbers do not lose the small ones.

use std::fmt::Write as _;

use brimful_data::layout::{DType, Kind, Layout};
use brimful_data::loader::{Batch, Loader};
use brimful_data::plan::BatchOptions;
use serde_json::json;

use super::args::DescribeArgs;
use super::bad_rows;
use super::progress::Progress;
use crate::args::Format;
use crate::output::Output;

/// Rows that are looked at together.
const ROWS: usize = 1024;

#[derive(Clone)]
struct Counted {
    known: u64,
    missing: u64,
    least: f64,
    most: f64,
    mean: f64,
    squares: f64,
}

impl Counted {
    fn add(&mut self, value: f64) {
        if value.is_nan() {
            self.missing += 1;
            return;
        }
        self.known += 1;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        let away = value - self.mean;
        self.mean += away / self.known as f64;
        self.squares += away * (value - self.mean);
    }

    fn deviation(&self) -> f64 {
        (self.squares / self.known.max(1) as f64).sqrt()
    }
}

/// Reads all rows and writes the table.
pub fn run(args: &DescribeArgs, output: &Output) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let mut layout = args.source.layout(&*source, true)?;
    if args.source.dtype.is_none() {
        layout.fields.iter_mut().for_each(|field| field.dtype = DType::F64);
    }
    let (memory_bytes, _) = args.source.memory()?;
    let options = BatchOptions {
        batch_rows: ROWS,
        memory_bytes,
        threads: args.source.threads,
        bad_rows: args.source.bad_rows.into(),
        ..BatchOptions::default()
    };
    let columns = source.columns().to_vec();
    let loader = Loader::new(source.clone(), layout.clone(), options)?;
    let empty =
        Counted { known: 0, missing: 0, least: f64::INFINITY, most: f64::NEG_INFINITY, mean: 0.0, squares: 0.0 };
    let mut counted = vec![empty; layout.fields.len()];
    let mut progress = Progress::new(loader.plan().epoch_rows, args.format == Format::Json);
    let mut batches = loader.epoch(0)?;
    let mut rows = 0;
    while let Some(batch) = batches.next(&|| false)? {
        for (field, counted) in counted.iter_mut().enumerate() {
            each(&batch, &layout, field, |value| counted.add(value));
        }
        rows += batch.rows().len() as u64;
        progress.at(rows);
    }
    drop(progress);
    let kind = |name: &str| columns.iter().find(|column| column.name == name).map(|column| column.kind);
    let named = |field: usize| match kind(&layout.fields[field].name) {
        Some(Kind::Number(dtype)) => dtype.name(),
        _ => "text",
    };
    if args.format == Format::Json {
        let one = |(field, counted): (usize, &Counted)| {
            let known = counted.known > 0;
            json!({
                "name": layout.fields[field].name, "dtype": named(field), "shape": layout.fields[field].shape,
                "missing": counted.missing, "min": known.then_some(counted.least), "max": known.then_some(counted.most),
                "mean": known.then_some(counted.mean), "std": known.then(|| counted.deviation()),
            })
        };
        let list: Vec<_> = counted.iter().enumerate().map(one).collect();
        let value = json!({
            "schema": 1, "format": source.format(), "rows": rows, "file_bytes": source.file_bytes(), "columns": list,
            "text_columns": layout.left_out, "bad_rows": loader.figures().bad_rows,
        });
        return output.write(&(serde_json::to_string_pretty(&value)? + "\n"));
    }
    let width = layout.fields.iter().map(|field| field.name.chars().count()).max().unwrap_or(0).clamp(6, 32);
    let mut text = format!("{rows} rows, {} columns of {}\n\n", columns.len(), source.format());
    let _ = writeln!(
        text,
        "{:width$}  {:8} {:>10} {:>12} {:>12} {:>12} {:>12}",
        "column", "type", "missing", "min", "mean", "max", "std"
    );
    for (field, counted) in counted.iter().enumerate() {
        let name: String = layout.fields[field].name.chars().take(width).collect();
        let number = |value: f64| if counted.known > 0 { short(value) } else { String::new() };
        let _ = writeln!(
            text,
            "{name:width$}  {:8} {:>10} {:>12} {:>12} {:>12} {:>12}",
            named(field),
            counted.missing,
            number(counted.least),
            number(counted.mean),
            number(counted.most),
            number(counted.deviation())
        );
    }
    if !layout.left_out.is_empty() {
        let _ = writeln!(text, "\ntext, left out: {}", layout.left_out.join(", "));
    }
    text.push_str(&bad_rows(&loader.figures(), "were counted"));
    output.write(&text)
}

fn short(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e9 {
        format!("{value:.0}")
    } else if (1e-3..1e7).contains(&size) {
        format!("{value:.4}")
    } else {
        format!("{value:.4e}")
    }
}

/// Every number of a field, as a float.
pub(super) fn each(batch: &Batch, layout: &Layout, field: usize, mut take: impl FnMut(f64)) {
    let bytes = batch.field(field);
    macro_rules! numbers {
        ($kind:ty) => {
            bytemuck::cast_slice::<u8, $kind>(bytes).iter().for_each(|value| take(*value as f64))
        };
    }
    match layout.fields[field].dtype {
        DType::Bool | DType::U8 => numbers!(u8),
        DType::I8 => numbers!(i8),
        DType::U16 => numbers!(u16),
        DType::I16 => numbers!(i16),
        DType::U32 => numbers!(u32),
        DType::I32 => numbers!(i32),
        DType::U64 => numbers!(u64),
        DType::I64 => numbers!(i64),
        DType::F32 => numbers!(f32),
        DType::F64 => numbers!(f64),
        DType::F16 => bytemuck::cast_slice::<u8, half::f16>(bytes).iter().for_each(|value| take(value.to_f64())),
    }
}

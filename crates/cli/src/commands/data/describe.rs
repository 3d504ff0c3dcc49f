//! `brimful data describe`: what is in the columns. In: a source. Out: a table or JSON with `"schema": 1`. One pass, each column by
//! itself (`counted`); whole numbers of eight bytes are read as what they are, so that none is rounded.

mod counted;

use std::fmt::Write as _;

use brimful_data::layout::{DType, Kind, Layout};
use brimful_data::loader::{Figures, Loader};
use brimful_data::plan::BatchOptions;
use serde_json::json;

use self::counted::Counted;
use super::args::DescribeArgs;
use super::numbers::{Number, each};
use super::progress::Progress;
use super::{bad_rows, gaps};
use crate::args::Format;
use crate::output::Output;

/// Rows that are looked at together, where so many fit.
const ROWS: usize = 1024;

/// What one pass found.
struct Seen {
    counted: Vec<Counted>,
    rows: u64,
    figures: Figures,
    notes: Vec<String>,
}

/// Floats have room for "not known" and for whole numbers of four bytes; arrays, of which a row may be large, stay what they are.
fn wide(source: &dyn brimful_data::source::Source, mut layout: Layout) -> Layout {
    for slot in &layout.slots {
        let field = &mut layout.fields[slot.field];
        if field.shape.is_empty() && DType::F64.holds(slot.own_dtype(source.columns())) {
            field.dtype = DType::F64;
        }
    }
    layout
}

/// Reads all rows and writes the table.
pub fn run(args: &DescribeArgs, output: &Output) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let mut layout = args.source.layout(&*source, true)?;
    if args.source.dtype.is_none() {
        layout = wide(&*source, layout);
    }
    let options = BatchOptions {
        batch_rows: ROWS,
        memory_bytes: args.source.memory()?.0,
        threads: args.source.threads,
        bad_rows: args.source.bad_rows.into(),
        ..BatchOptions::default()
    };
    let columns = source.columns().to_vec();
    let read = |layout: &Layout| {
        let options = options.clone().fitting(&*source, layout);
        let loader = Loader::new(source.clone(), layout.clone(), options)?;
        let mut counted = vec![Counted::default(); layout.fields.len()];
        let mut progress = Progress::new(loader.plan().epoch_rows, args.format == Format::Json);
        let mut batches = loader.epoch(0)?;
        let mut rows = 0;
        while let Some(batch) = batches.next(&|| false)? {
            for (field, counted) in counted.iter_mut().enumerate() {
                let elements = batch.rows().len() * layout.fields[field].elements();
                each(&batch, layout, field, 0..elements, |number| counted.add(number));
            }
            rows += batch.rows().len() as u64;
            progress.at(rows);
        }
        let figures = loader.figures();
        let bad_rows = figures.bad_rows;
        Ok((Seen { counted, rows, figures, notes: loader.plan().notes.clone() }, bad_rows))
    };
    let (seen, layout, gaps) = gaps::reading(&args.source, &source, layout, &|| false, read)?;
    let Seen { counted, rows, figures, mut notes } = seen;
    let rounded: Vec<String> = gaps.iter().filter_map(gaps::Gap::rounding).collect();
    notes.extend(rounded.iter().cloned());
    let kind = |name: &str| columns.iter().find(|column| column.name == name).map(|column| column.kind);
    let named = |field: usize| match kind(&layout.fields[field].name) {
        Some(Kind::Number(dtype)) => dtype.name(),
        _ => "text",
    };
    if args.format == Format::Json {
        let one = |(field, counted): (usize, &Counted)| {
            json!({
                "name": layout.fields[field].name, "dtype": named(field), "shape": layout.fields[field].shape,
                "missing": counted.missing, "min": counted.least().map(Number::json), "max": counted.most().map(Number::json),
                "mean": counted.mean(), "std": counted.deviation(),
            })
        };
        let list: Vec<_> = counted.iter().enumerate().map(one).collect();
        let value = json!({
            "schema": 1, "format": source.format(), "rows": rows, "file_bytes": source.file_bytes(), "columns": list,
            "text_columns": layout.left_out, "bad_rows": figures.bad_rows, "notes": notes,
        });
        return output.write(&(serde_json::to_string_pretty(&value)? + "\n"));
    }
    let width = layout.fields.iter().map(|field| field.name.chars().count()).max().unwrap_or(0).clamp(6, 32);
    let mut text = format!("{rows} rows, {} columns of {}\n\n", columns.len(), source.format());
    let cells: Vec<[String; 4]> = counted.iter().map(cells).collect();
    let wide: Vec<usize> = (0..4).map(|at| cells.iter().map(|row| row[at].len()).max().unwrap_or(0).max(12)).collect();
    let mut line = |name: &str, kind: &str, missing: &str, cells: [&str; 4]| {
        let _ = write!(text, "{name:width$}  {kind:8} {missing:>10}");
        for (cell, wide) in cells.iter().zip(&wide) {
            let _ = write!(text, " {cell:>wide$}");
        }
        text.push('\n');
    };
    line("column", "type", "missing", ["min", "mean", "max", "std"]);
    for (field, cells) in cells.iter().enumerate() {
        let name: String = layout.fields[field].name.chars().take(width).collect();
        line(&name, named(field), &counted[field].missing.to_string(), cells.each_ref().map(String::as_str));
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    if !layout.left_out.is_empty() {
        let _ = writeln!(text, "text, left out: {}", layout.left_out.join(", "));
    }
    for note in source.notes().iter().chain(&rounded) {
        let _ = writeln!(text, "note: {note}");
    }
    text.push_str(&bad_rows(&figures, "were counted"));
    output.write(&text)
}

fn cells(counted: &Counted) -> [String; 4] {
    let number = |number: Option<Number>| match number {
        Some(Number::Whole(value)) => value.to_string(),
        Some(other) => short(other.float()),
        None => String::new(),
    };
    let float = |value: Option<f64>| value.map(short).unwrap_or_default();
    [number(counted.least()), float(counted.mean()), number(counted.most()), float(counted.deviation())]
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

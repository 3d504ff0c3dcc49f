//! `brimful data sample`: rows drawn at random. In: a source, how many. Out: CSV on standard output, in the order of the files; each set
//! of rows is as likely as every other. Only the units that have a drawn row are read.

use std::io::Write;

use brimful_data::loader::Loader;
use brimful_data::order::{Random, Shuffle};
use brimful_data::plan::BatchOptions;

use super::args::SampleArgs;
use super::describe::each;
use crate::output::Output;

/// Writes the rows.
pub fn run(args: &SampleArgs, output: &Output) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let layout = args.source.layout(&*source, true)?;
    let drawn = draw(source.rows(), args.rows, &mut Random::new(args.seed, &[9]));
    let options = BatchOptions {
        batch_rows: 256,
        memory_bytes: args.source.memory()?.0,
        shuffle: Shuffle::None,
        threads: args.source.threads,
        bad_rows: args.source.bad_rows.into(),
        ..BatchOptions::default()
    };
    let loader = Loader::new(source, layout.clone(), options)?;
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut batches = loader.epoch(0)?;
    let (mut first, mut next) = (0u64, drawn.iter().peekable());
    while next.peek().is_some() {
        let Some(batch) = batches.next(&|| false)? else { break };
        let last = first + batch.rows().len() as u64;
        while let Some(row) = next.next_if(|row| **row < last) {
            let at = (row - first) as usize;
            let mut values = Vec::new();
            for field in 0..layout.fields.len() {
                let elements = layout.fields[field].elements();
                let mut seen = 0;
                each(&batch, &layout, field, |value| {
                    if (at * elements..(at + 1) * elements).contains(&seen) {
                        values.push(value);
                    }
                    seen += 1;
                });
            }
            rows.push(values);
        }
        first = last;
    }
    let name = |field: &brimful_data::layout::Field| match field.elements() {
        1 => vec![quoted(&field.name)],
        count => (0..count).map(|element| quoted(&format!("{}.{element}", field.name))).collect(),
    };
    let names: Vec<String> = layout.fields.iter().flat_map(name).collect();
    output.stream(|out: &mut dyn Write| {
        writeln!(out, "{}", names.join(","))?;
        for row in &rows {
            let values: Vec<String> =
                row.iter().map(|value| if value.is_nan() { String::new() } else { value.to_string() }).collect();
            writeln!(out, "{}", values.join(","))?;
        }
        Ok(())
    })
}

/// So many different numbers below a count, ascending (Floyd's method).
fn draw(below: u64, count: u64, random: &mut Random) -> std::collections::BTreeSet<u64> {
    let mut drawn = std::collections::BTreeSet::new();
    for last in below - count.min(below)..below {
        let one = random.below(last + 1);
        if !drawn.insert(one) {
            drawn.insert(last);
        }
    }
    drawn
}

fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

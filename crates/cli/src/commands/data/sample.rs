//! `brimful data sample`: rows drawn at random. In: a source, how many. Out: CSV on standard output, in the order of the files; each set
//! of rows is as likely as every other. Only the units that have a drawn row are read. Numbers are those of the file; what is left out
//! of it is said on standard error.

use std::io::Write;

use brimful_data::layout::Layout;
use brimful_data::loader::Loader;
use brimful_data::order::{Random, Shuffle};
use brimful_data::plan::BatchOptions;

use super::args::SampleArgs;
use super::gaps;
use super::numbers::{Number, each};
use crate::output::{self, Output};

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
    let read = |layout: &Layout| {
        let loader = Loader::new(source.clone(), layout.clone(), options.clone())?;
        let mut rows: Vec<Vec<Number>> = Vec::new();
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
                    each(&batch, layout, field, at * elements..(at + 1) * elements, |value| values.push(value));
                }
                rows.push(values);
            }
            first = last;
        }
        Ok(((rows, loader.plan().notes.clone()), loader.figures().bad_rows))
    };
    let ((rows, mut notes), layout, gaps) = gaps::reading(&args.source, &source, layout, &|| false, read)?;
    notes.extend(gaps.iter().filter_map(gaps::Gap::rounding));
    let name = |field: &brimful_data::layout::Field| match field.elements() {
        1 => vec![quoted(&field.name)],
        count => (0..count).map(|element| quoted(&format!("{}.{element}", field.name))).collect(),
    };
    let names: Vec<String> = layout.fields.iter().flat_map(name).collect();
    output.stream(|out: &mut dyn Write| {
        writeln!(out, "{}", names.join(","))?;
        for row in &rows {
            let values: Vec<String> = row.iter().map(Number::to_string).collect();
            writeln!(out, "{}", values.join(","))?;
        }
        Ok(())
    })?;
    // Beside the rows, which another program may read.
    notes.iter().for_each(|note| output::tell(&format!("note: {note}\n")));
    Ok(())
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

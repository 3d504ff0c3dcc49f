//! `brimful data sample`: rows drawn at random. In: a source, how many. Out: CSV on standard output, in the order of the files; each set
//! of rows is as likely as every other. Only the units that have a drawn row are read. Numbers are those of the file; what is left out
//! of it is said on standard error.

use std::fmt::Write as _;
use std::io::Write;

use brimful_data::layout::Layout;
use brimful_data::loader::Loader;
use brimful_data::order::{Random, Shuffle};
use brimful_data::plan::BatchOptions;

use super::args::SampleArgs;
use super::gaps;
use super::numbers::each;
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
        let options = options.clone().fitting(&*source, layout);
        let loader = Loader::new(source.clone(), layout.clone(), options)?;
        // As text: a row may have millions of numbers.
        let mut rows: Vec<String> = Vec::new();
        let mut batches = loader.epoch(0)?;
        let (mut first, mut next) = (0u64, drawn.iter().peekable());
        while next.peek().is_some() {
            let Some(batch) = batches.next(&|| false)? else { break };
            let last = first + batch.rows().len() as u64;
            while let Some(row) = next.next_if(|row| **row < last) {
                let at = (row - first) as usize;
                let mut line = String::new();
                for field in 0..layout.fields.len() {
                    let elements = layout.fields[field].elements();
                    each(&batch, layout, field, at * elements..(at + 1) * elements, |value| {
                        let _ = write!(line, "{value},");
                    });
                }
                line.pop();
                rows.push(line);
            }
            first = last;
        }
        Ok(((rows, loader.plan().notes.clone()), loader.figures().bad_rows))
    };
    let ((rows, mut notes), layout, gaps) = gaps::reading(&args.source, &source, layout, &|| false, read)?;
    notes.extend(gaps.iter().filter_map(gaps::Gap::rounding));
    output.stream(|out: &mut dyn Write| {
        let mut comma = "";
        for field in &layout.fields {
            match field.elements() {
                1 => write!(out, "{comma}{}", quoted(&field.name))?,
                count => {
                    for element in 0..count {
                        let comma = if element > 0 { "," } else { comma };
                        write!(out, "{comma}{}", quoted(&format!("{}.{element}", field.name)))?;
                    }
                }
            }
            comma = ",";
        }
        writeln!(out)?;
        rows.iter().try_for_each(|row| writeln!(out, "{row}"))
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

//! `brimful data convert`: rows into another file. In: a source, an order, a name. Out: the file, under its name only when it is whole;
//! one line that says what was written. A signal ends it between two batches, and nothing is left. What a writer holds is small beside
//! the budget and not counted by it.

use brimful_core::bytes::human;
use brimful_data::DataError;
use brimful_data::loader::Loader;
use brimful_data::write::npy::NpyWriter;

use super::args::ConvertArgs;
use super::bad_rows;
use super::interrupt::Interrupt;
use super::progress::Progress;
use crate::exit::Exit;
use crate::output::{self, Output};

/// Reads all rows and writes them.
pub fn run(args: &ConvertArgs, output: &Output) -> anyhow::Result<Exit> {
    let extension = args.output.extension().map(|end| end.to_string_lossy().to_lowercase()).unwrap_or_default();
    let source = args.source.open()?;
    let layout = args.source.layout(&*source, false)?;
    if extension != "npy" {
        anyhow::bail!("{}: only .npy and .parquet are written", args.output.display());
    }
    if layout.fields.len() > 1 {
        anyhow::bail!("a .npy file has one array: leave --labels out, or write a .parquet file");
    }
    let loader = Loader::new(source, layout, args.source.options(&args.order)?)?;
    let interrupt = Interrupt::new()?;
    match write(args, output, &loader, &interrupt) {
        Err(error) if matches!(error.downcast_ref(), Some(DataError::Interrupted)) => {
            output::error(&error.context(format!("{} was not written", args.output.display())));
            Ok(Exit::Job(interrupt.code()))
        }
        other => other.map(|()| Exit::Done),
    }
}

fn write(args: &ConvertArgs, output: &Output, loader: &Loader, interrupt: &Interrupt) -> anyhow::Result<()> {
    let layout = loader.layout();
    let mut progress = Progress::new(loader.plan().epoch_rows, args.quiet);
    let mut writer = NpyWriter::create(&args.output, &layout.fields[0])?;
    let mut batches = loader.epoch(0)?;
    let mut rows = 0;
    while let Some(batch) = batches.next(&|| interrupt.asked())? {
        interrupt.check()?;
        writer.append(batch.rows(), 0)?;
        rows += batch.rows().len() as u64;
        progress.at(rows);
    }
    let rows = writer.finish()?;
    drop(progress);
    let bytes = std::fs::metadata(&args.output).map(|file| file.len()).unwrap_or(0);
    let held = human(loader.figures().ledger.peak_bytes);
    let mut text = format!("{}: {rows} rows, {}, within {held} of memory\n", args.output.display(), human(bytes));
    text.push_str(&bad_rows(&loader.figures(), "were left out or not known"));
    output.write(&text)
}

//! `brimful data convert`: rows into another file. In: a source, an order, a name. Out: the file, under its name only when it is whole;
//! one line that says what was written. What a writer holds is small beside the budget and not counted by it.

use brimful_core::bytes::human;
use brimful_data::layout::{Layout, Rows};
use brimful_data::loader::Loader;
use brimful_data::source::Source;
use brimful_data::write::npy::NpyWriter;
use brimful_data::write::parquet::ParquetWriter;

use super::args::ConvertArgs;
use super::bad_rows;
use super::progress::Progress;
use crate::output::Output;

/// Reads all rows and writes them.
pub fn run(args: &ConvertArgs, output: &Output) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let layout = args.source.layout(&*source, false)?;
    let mut writer = Writer::create(args, &*source, &layout)?;
    let loader = Loader::new(source, layout, args.source.options(&args.order)?)?;
    let mut progress = Progress::new(loader.plan().epoch_rows, args.quiet);
    let mut batches = loader.epoch(0)?;
    let mut rows = 0;
    while let Some(batch) = batches.next(&|| false)? {
        writer.write(batch.rows())?;
        rows += batch.rows().len() as u64;
        progress.at(rows);
    }
    writer.finish()?;
    drop(progress);
    let bytes = std::fs::metadata(&args.output).map(|file| file.len()).unwrap_or(0);
    let held = human(loader.figures().ledger.peak_bytes);
    let mut text = format!("{}: {rows} rows, {}, within {held} of memory\n", args.output.display(), human(bytes));
    text.push_str(&bad_rows(&loader.figures(), "were left out or not known"));
    output.write(&text)
}

/// A file of one of the formats that are written.
enum Writer {
    Npy(NpyWriter),
    Parquet(Box<ParquetWriter>),
}

impl Writer {
    fn create(args: &ConvertArgs, source: &dyn Source, layout: &Layout) -> anyhow::Result<Writer> {
        let path = &args.output;
        match path.extension().and_then(|end| end.to_str()) {
            Some("npy") if layout.fields.len() == 1 => Ok(Writer::Npy(NpyWriter::create(path, &layout.fields[0])?)),
            Some("npy") => anyhow::bail!("a .npy file has one array: leave --labels out, or write a .parquet file"),
            Some("parquet") => Ok(Writer::Parquet(Box::new(ParquetWriter::create(path, layout, source.columns())?))),
            _ => anyhow::bail!("{}: only .npy and .parquet are written", path.display()),
        }
    }

    fn write(&mut self, rows: &Rows) -> anyhow::Result<()> {
        match self {
            Writer::Npy(writer) => writer.append(rows, 0)?,
            Writer::Parquet(writer) => writer.write(rows)?,
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Writer::Npy(writer) => writer.finish().map(|_| ())?,
            Writer::Parquet(writer) => writer.finish()?,
        }
        Ok(())
    }
}

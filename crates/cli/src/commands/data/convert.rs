//! `brimful data convert`: rows into another file. In: a source, an order, a name. Out: the file, under its name only when it is whole;
//! one line that says what was written, and notes on all that is in the files and not in it. Types are the files' own (`kept`). A signal
//! ends it between two batches, and nothing is left. What the writer holds is a part of the budget.

mod kept;

use std::sync::Arc;

use brimful_core::bytes::{MIB, human};
use brimful_data::DataError;
use brimful_data::layout::{Layout, Rows};
use brimful_data::loader::Loader;
use brimful_data::plan::left_out;
use brimful_data::source::Source;
use brimful_data::write::npy::NpyWriter;
use brimful_data::write::parquet::{GROUP_BYTES, ParquetWriter};

use self::kept::Rounded;
use super::args::ConvertArgs;
use super::bad_rows;
use super::gaps::{self, Gap};
use super::interrupt::Interrupt;
use super::progress::Progress;
use crate::exit::Exit;
use crate::output::{self, Output};

/// A row group takes no more of the budget than one part of so many.
const GROUP_SHARE: u64 = 8;

/// Reads all rows and writes them.
pub fn run(args: &ConvertArgs, output: &Output) -> anyhow::Result<Exit> {
    let source = args.source.open()?;
    let kind = Kind::of(args)?;
    let layout = kept::layout(args, kind, &*source)?;
    if matches!(kind, Kind::Npy) && layout.fields.len() != 1 {
        anyhow::bail!("a .npy file has one array: leave --labels out, or write a .parquet file");
    }
    // Until here there is nothing to remove: a signal ends it at once.
    let interrupt = Interrupt::new()?;
    let write = |layout: &Layout| write(args, kind, &source, layout, &interrupt);
    match gaps::reading(&args.source, &source, layout, &|| interrupt.asked(), write) {
        Ok((mut text, layout, gaps)) => {
            notes(args, &*source, &layout, &gaps)?.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
            output.write(&text).map(|()| Exit::Done)
        }
        Err(error) if matches!(error.downcast_ref(), Some(DataError::Interrupted)) => {
            output::error(&error.context(format!("{} was not written", args.output.display())));
            Ok(Exit::Job(interrupt.code()))
        }
        Err(error) => Err(error),
    }
}

/// What of the files is not in what was written, or not as it was.
fn notes(args: &ConvertArgs, source: &dyn Source, layout: &Layout, gaps: &[Gap]) -> anyhow::Result<Vec<String>> {
    let mut notes = left_out(source, layout, usize::MAX);
    notes.extend(gaps.iter().map(Gap::note));
    if let Some(dtype) = args.source.dtype()? {
        notes.extend(kept::narrowed(layout, source.columns(), dtype));
    }
    Ok(notes)
}

/// The writer holds a part of the budget, of which the plan does not know.
fn with_writer(error: DataError, writer_bytes: u64) -> DataError {
    match error {
        DataError::BelowFloor { memory_bytes, floor_bytes, why, fix } => DataError::BelowFloor {
            memory_bytes: memory_bytes + writer_bytes,
            floor_bytes: floor_bytes.saturating_add(writer_bytes),
            why,
            fix,
        },
        other => other,
    }
}

/// Writes the file; what is said about it, and how many rows were bad.
fn write(
    args: &ConvertArgs,
    kind: Kind,
    source: &Arc<dyn Source>,
    layout: &Layout,
    interrupt: &Interrupt,
) -> anyhow::Result<(String, u64)> {
    let mut options = args.source.options(&args.order)?;
    let (group_bytes, writer_bytes) = kind.held(layout, options.memory_bytes);
    options.memory_bytes = options.memory_bytes.saturating_sub(writer_bytes);
    let loader = Loader::stoppable(source.clone(), layout.clone(), options, &|| interrupt.asked())
        .map_err(|error| with_writer(error, writer_bytes))?;
    // Not the loader's layout: rows that went by way of the disk know nothing of the source's columns.
    let mut writer = Writer::create(kind, args, &**source, layout, group_bytes)?;
    let mut rounded = Rounded::new(layout, source.columns());
    let mut progress = Progress::new(loader.plan().epoch_rows, args.quiet);
    let mut batches = loader.epoch(0)?;
    let mut rows = 0;
    while let Some(batch) = batches.next(&|| interrupt.asked())? {
        interrupt.check()?;
        writer.write(batch.rows())?;
        rounded.add(batch.rows());
        rows += batch.rows().len() as u64;
        progress.at(rows);
    }
    writer.finish()?;
    drop(progress);
    let bytes = std::fs::metadata(&args.output).map(|file| file.len()).unwrap_or(0);
    let figures = loader.figures();
    let held = human(figures.ledger.peak_bytes + writer_bytes);
    let mut text = format!("{}: {rows} rows, {}, within {held} of memory\n", args.output.display(), human(bytes));
    text.push_str(&bad_rows(&figures, "were left out or not known"));
    if args.source.dtype()?.is_none() {
        rounded.notes(source.columns()).iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    }
    Ok((text, figures.bad_rows))
}

/// The formats that are written.
#[derive(Clone, Copy)]
enum Kind {
    Npy,
    Parquet,
}

impl Kind {
    /// What the name asks for.
    fn of(args: &ConvertArgs) -> anyhow::Result<Kind> {
        match args.output.extension().and_then(|end| end.to_str()) {
            Some("npy") => Ok(Kind::Npy),
            Some("parquet") => Ok(Kind::Parquet),
            _ => anyhow::bail!("{}: only .npy and .parquet are written", args.output.display()),
        }
    }

    /// Bytes of a row group, or of what may wait for the disk; and what a writer of it takes of a budget.
    fn held(self, layout: &Layout, memory_bytes: u64) -> (usize, u64) {
        match self {
            // What waits for the disk is the system's, and counts against a container's limit all the same.
            Kind::Npy => ((memory_bytes / GROUP_SHARE).clamp(MIB, 64 * MIB) as usize, 0),
            Kind::Parquet => {
                let group_bytes = GROUP_BYTES.min((memory_bytes / GROUP_SHARE) as usize);
                (group_bytes, ParquetWriter::held_bytes(layout, group_bytes))
            }
        }
    }
}

/// A file of one of them.
enum Writer {
    Npy(NpyWriter),
    Parquet(Box<ParquetWriter>),
}

impl Writer {
    fn create(
        kind: Kind,
        args: &ConvertArgs,
        source: &dyn Source,
        layout: &Layout,
        group_bytes: usize,
    ) -> anyhow::Result<Writer> {
        let path = &args.output;
        Ok(match kind {
            Kind::Npy => Writer::Npy(NpyWriter::create(path, &layout.fields[0])?.holding(group_bytes)),
            Kind::Parquet => {
                let writer = ParquetWriter::with_groups(path, layout, source.columns(), group_bytes)?;
                Writer::Parquet(Box::new(writer))
            }
        })
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

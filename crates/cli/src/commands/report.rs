//! `brimful report`: what a recorded job did, for people and for other programs.
//!
//! In: a recording, whole or torn. Out: text, a page, or one of the forms that other programs read. A recording is read once from its
//! beginning, in little memory beside its own bytes: a day of samples is a page of a megabyte. What could not be read is said. Not here: what is
//! written while a job runs.

mod open;
mod thin;
mod series;
mod gather;
mod words;
mod text;
mod page;
mod csv;
mod perfetto;
mod tensorboard;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use self::gather::Gathered;
use crate::args::{ColorWhen, ReportArgs, ReportFormat};
use crate::exit::Exit;
use crate::output::Output;
use crate::runs;

/// Writes what is asked for.
pub fn run(args: &ReportArgs, color: ColorWhen) -> anyhow::Result<Exit> {
    let format = format(args)?;
    let place = match &args.recording {
        Some(path) => path.clone(),
        None => {
            runs::latest().context("no run has been recorded yet: name a recording, or make one with 'brimful run'")?
        }
    };
    let bytes = open::read(&place)?;
    let recording = open::Recording::new(&place, &bytes)?;
    let output = Output::new(target(args, format, &place, &recording)?, color);
    if format == ReportFormat::Tensorboard && output.is_terminal() {
        bail!("an event file is not for a terminal: name a file or a folder with -o");
    }
    if format == ReportFormat::Csv {
        output.stream(|out| csv::write(&recording, out))?;
        recording.say_what_is_missing(args.output.as_deref());
        return Ok(Exit::Done);
    }
    let gathered = Gathered::of(&recording);
    match format {
        ReportFormat::Text => output.write(&text::render(&gathered, &output))?,
        ReportFormat::Html => output.write(&page::render(&gathered))?,
        ReportFormat::Json => output.write(&(serde_json::to_string_pretty(&gathered.summary)? + "\n"))?,
        ReportFormat::Perfetto => output.stream(|out| perfetto::write(&gathered, out))?,
        ReportFormat::Tensorboard => output.stream(|out| tensorboard::write(&gathered, out))?,
        ReportFormat::Csv => {}
    }
    recording.say_what_is_missing(args.output.as_deref());
    Ok(Exit::Done)
}

/// What was asked for, else what the file's ending says.
fn format(args: &ReportArgs) -> anyhow::Result<ReportFormat> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let Some(path) = &args.output else { return Ok(ReportFormat::Text) };
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    Ok(match extension.as_deref() {
        Some("html" | "htm") => ReportFormat::Html,
        Some("csv") => ReportFormat::Csv,
        Some("json") => ReportFormat::Json,
        Some("txt") => ReportFormat::Text,
        _ => bail!("the ending of {} does not say what to write: add --format, such as --format html", path.display()),
    })
}

/// Where it goes. Never over the recording itself.
fn target(
    args: &ReportArgs,
    format: ReportFormat,
    place: &Path,
    recording: &open::Recording<'_>,
) -> anyhow::Result<Option<PathBuf>> {
    let Some(path) = &args.output else { return Ok(None) };
    if path.is_dir() && format != ReportFormat::Tensorboard {
        bail!("{} is a folder: name a file in it", path.display());
    }
    if is_same(path, place) {
        bail!("{} is the recording itself: name another file", path.display());
    }
    if format != ReportFormat::Tensorboard {
        return Ok(Some(path.clone()));
    }
    // TensorBoard reads folders, and in them only files with this in their name.
    if !path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents")) {
        return Ok(Some(path.clone()));
    }
    fs::create_dir_all(path).with_context(|| format!("the folder {} cannot be made", path.display()))?;
    Ok(Some(path.join(tensorboard::file_name(recording))))
}

fn is_same(path: &Path, other: &Path) -> bool {
    matches!((path.canonicalize(), other.canonicalize()), (Ok(path), Ok(other)) if path == other)
}

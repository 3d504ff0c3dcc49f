//! `brimful explain`: from a log to its cause.
//!
//! In: a file or standard input, of any length, read once and in little memory. Out: an explanation, or the manual's pages. With `--plan` the job's
//! model is planned with the memory that the log shows.

mod manual;
mod planned;

use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, bail};
use brimful_core::explain::{Explainer, Explanation};
use brimful_core::report::Style;

use crate::args::{ExplainArgs, Format};
use crate::exit::Exit;
use crate::files;
use crate::output::Output;

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// Explains a log, or prints the manual.
pub fn run(args: &ExplainArgs, output: &Output) -> anyhow::Result<Exit> {
    if args.list {
        output.write(&manual::list(args.format)?)?;
        return Ok(Exit::Done);
    }
    if let Some(code) = &args.cause {
        output.write(&manual::page(code, args.format)?)?;
        return Ok(Exit::Done);
    }
    let mut explanation = explained(args.log.as_deref())?;
    if let Some(model) = &args.plan {
        explanation.planned = Some(planned::plan(args, model, &explanation)?);
    }
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&explanation)? + "\n",
        Format::Text => explanation.to_text(Style { colour: output.colour(), width: output.width() }),
    };
    output.write(&text)?;
    Ok(if explanation.found() { Exit::Done } else { Exit::DoesNotFit })
}

fn explained(log: Option<&Path>) -> anyhow::Result<Explanation> {
    let Some(path) = log.filter(|path| *path != Path::new("-")) else {
        if log.is_none() && io::stdin().is_terminal() {
            bail!("no log is given: name a file, or pass a job's output: python train.py 2>&1 | brimful explain -");
        }
        return read(io::stdin().lock(), "standard input");
    };
    let name = path.display().to_string();
    if path.is_dir() {
        bail!("{name} is a folder: name the log in it");
    }
    read(files::open(path)?, &name)
}

fn read(mut log: impl Read, name: &str) -> anyhow::Result<Explanation> {
    let mut explainer = Explainer::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => explainer.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("{name} cannot be read")),
        }
    }
    let explanation = explainer.finish();
    if let Some(found) = explanation.no_text {
        bail!("{name} is no text but {}: {}", found.what, found.how);
    }
    Ok(explanation)
}

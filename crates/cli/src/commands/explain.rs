//! `brimful explain`: from a log to its cause.
//!
//! In: a file or standard input, of any length, read once. Out: an explanation as text or JSON.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, bail};
use brimful_core::explain::{Explainer, Explanation};
use brimful_core::report::Style;

use crate::args::{ExplainArgs, Format};
use crate::exit::Exit;
use crate::output::Output;

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// Runs it.
pub fn run(args: &ExplainArgs, output: &Output) -> anyhow::Result<Exit> {
    let explanation = match args.log.as_deref() {
        None if io::stdin().is_terminal() => bail!("no log is given: name a file, or pass the output of a job: python train.py 2>&1 | brimful explain -"),
        None => read(io::stdin().lock(), "standard input")?,
        Some(path) if path == Path::new("-") => read(io::stdin().lock(), "standard input")?,
        Some(path) => read(File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?, &path.display().to_string())?,
    };
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&explanation)? + "\n",
        Format::Text => explanation.to_text(Style { colour: output.colour(), width: output.width() }),
    };
    output.write(&text)?;
    Ok(if explanation.found() { Exit::Done } else { Exit::DoesNotFit })
}

fn read(mut log: impl Read, name: &str) -> anyhow::Result<Explanation> {
    let mut explainer = Explainer::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match log.read(&mut buffer) {
            Ok(0) => return Ok(explainer.finish()),
            Ok(count) => explainer.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("{name} cannot be read")),
        }
    }
}

//! Where results and errors go. The only place that writes to the terminal.
//!
//! In: finished text. Out: standard output or a file, errors on standard error. A reader that stops early (`| head`) is not
//! an error.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::args::ColorWhen;

/// Columns where nothing says how many there are.
const DEFAULT_WIDTH: usize = 80;

/// Where a result goes.
#[derive(Clone, Debug)]
pub struct Output {
    file: Option<PathBuf>,
    when: ColorWhen,
}

impl Output {
    /// A file, or standard output.
    pub fn new(file: Option<PathBuf>, when: ColorWhen) -> Output {
        Output { file, when }
    }

    /// Whether somebody looks at it right away.
    pub fn is_terminal(&self) -> bool {
        self.file.is_none() && io::stdout().is_terminal()
    }

    /// Whether to use colours: when asked, or on a terminal that does not forbid it (<https://no-color.org>).
    pub fn colour(&self) -> bool {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match self.when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                self.is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }

    /// The columns of the terminal; none where lines may be of any length.
    pub fn terminal_width(&self) -> Option<usize> {
        if !self.is_terminal() {
            return None;
        }
        terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
    }

    /// The columns to lay text out in.
    pub fn width(&self) -> usize {
        self.terminal_width().unwrap_or(DEFAULT_WIDTH)
    }

    /// Lets a result be written piece by piece: one that is longer than memory should be asked for.
    pub fn stream(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        match &self.file {
            Some(path) => {
                let outcome = File::create(path).and_then(|file| {
                    let mut out = BufWriter::new(file);
                    write(&mut out)?;
                    out.flush()
                });
                outcome.with_context(|| format!("{} cannot be written", path.display()))
            }
            None => {
                let mut out = BufWriter::new(io::stdout().lock());
                let outcome = write(&mut out).and_then(|()| out.flush());
                quiet_when_closed(outcome).context("standard output cannot be written")
            }
        }
    }

    /// Writes one of several results into a file of its own.
    pub fn to_file(path: &Path, text: &str) -> anyhow::Result<()> {
        write_file(path, text)
    }

    /// Writes a result.
    pub fn write(&self, text: &str) -> anyhow::Result<()> {
        match &self.file {
            Some(path) => write_file(path, text),
            None => quiet_when_closed(write_stdout(text)).context("standard output cannot be written"),
        }
    }
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn quiet_when_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// A line about a job of the user's, whose standard output is its own.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "brimful: {text}");
}

/// Several lines about a job of the user's.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Says what went wrong, with its causes, on one line. If even that cannot be written, the exit code has to do.
pub fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "error: {}", sentence(error));
}

/// The error and its causes, as one line without control characters.
fn sentence(error: &anyhow::Error) -> String {
    format!("{error:#}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error() {
        assert!(quiet_when_closed(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert!(quiet_when_closed(Err(ErrorKind::StorageFull.into())).is_err());
    }

    #[test]
    fn causes_follow_on_the_same_line() {
        let error = anyhow::anyhow!("no\nroom").context("report.txt cannot be written");
        assert_eq!(sentence(&error), "report.txt cannot be written: no room");
    }

    #[test]
    fn a_file_gets_no_colours_unless_asked() {
        let file = |when| Output::new(Some(PathBuf::from("report.txt")), when);
        assert!(!file(ColorWhen::Auto).colour() && file(ColorWhen::Always).colour());
        assert_eq!((file(ColorWhen::Auto).width(), file(ColorWhen::Auto).terminal_width()), (80, None));
    }
}

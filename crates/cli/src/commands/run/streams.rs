//! What stands between a job's output and ours.
//!
//! In: a command. Out: it runs, with a terminal of its own in place of ours (`terminal`), and pipes in place of what is none; one for both where ours
//! are the same file, so that lines stay in their order. Its standard input is ours where that is no terminal.

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::fstat;

use super::passing::Passing;
use crate::terminal::shown::Shown;
use crate::terminal::{self, Running, Terminal};

/// How the job's output comes to us.
pub enum Streams {
    /// Each by itself.
    Two,
    /// As one.
    One(PipeReader),
    /// Through a terminal of its own.
    Terminal(Terminal),
}

impl Streams {
    /// Decides.
    pub fn choose() -> io::Result<Streams> {
        // A system that has no terminal left to give is no reason not to run.
        if terminal::is_ours()
            && let Ok(terminal) = Terminal::open()
        {
            return Ok(Streams::Terminal(terminal));
        }
        Ok(Streams::Two)
    }

    /// Whether the job has a terminal of its own.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Streams::Terminal(_))
    }

    /// Starts the command.
    pub fn start(self, mut command: Command) -> (Streams, io::Result<Child>) {
        match self {
            Streams::Terminal(mut terminal) => {
                let child = terminal.start(command);
                (Streams::Terminal(terminal), child)
            }
            _ if is_same(io::stdout(), io::stderr()) => match joined(&mut command) {
                Ok(reader) => (Streams::One(reader), command.spawn()),
                Err(error) => (Streams::Two, Err(error)),
            },
            _ => (Streams::Two, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()),
        }
    }

    /// Begins to pass on what comes; what comes from the job's terminal goes to `shown`.
    pub fn pass(self, child: &mut Child, passing: &mut Passing, shown: &Shown) -> io::Result<Option<Running>> {
        let running = match self {
            Streams::One(reader) => {
                passing.begin_pipe(reader, io::stdout());
                None
            }
            Streams::Two => None,
            Streams::Terminal(terminal) => {
                let (running, output) = terminal.begin(shown)?;
                passing.begin(output, shown.clone());
                Some(running)
            }
        };
        child.stdout.take().into_iter().for_each(|stdout| passing.begin_pipe(stdout, io::stdout()));
        child.stderr.take().into_iter().for_each(|stderr| passing.begin_pipe(stderr, io::stderr()));
        Ok(running)
    }
}

/// One pipe for both.
fn joined(command: &mut Command) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    Ok(reader)
}

fn is_same(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

//! What stands between a job's output and ours.
//!
//! In: a command that is about to be started. Out: pipes in place of its standard output and error, to be passed on; one for both where ours are the
//! same file, so that lines stay in their order. Its standard input is ours.

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::fstat;

use super::passing::Passing;

/// How the job's output comes to us.
pub enum Streams {
    /// Each by itself.
    Two,
    /// As one.
    One(PipeReader),
}

impl Streams {
    /// Puts the pipes in place.
    pub fn of(command: &mut Command) -> io::Result<Streams> {
        if is_same(io::stdout(), io::stderr()) {
            let (reader, writer) = io::pipe()?;
            command.stdout(writer.try_clone()?).stderr(writer);
            return Ok(Streams::One(reader));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Streams::Two)
    }

    /// Begins to pass on what comes.
    pub fn pass(self, child: &mut Child, passing: &mut Passing) {
        match self {
            Streams::One(reader) => passing.begin(reader, io::stdout()),
            Streams::Two => {
                child.stdout.take().into_iter().for_each(|stdout| passing.begin(stdout, io::stdout()));
                child.stderr.take().into_iter().for_each(|stderr| passing.begin(stderr, io::stderr()));
            }
        }
    }
}

fn is_same(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

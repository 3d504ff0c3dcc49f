//! The user's job: started, listened for, waited for.
//!
//! In: a command. Out: how it ended, and its exit code: 128 + n if signal n ended it, as shells say it. Signals go through `relay`.
//! What the job reads and writes is its own business, or that of who starts it.

mod pause;
mod relay;
#[cfg(unix)]
mod witness;

use std::env;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{anyhow, bail};

use crate::output;
pub use relay::Caught;
use relay::Relay;

/// A job that runs.
pub struct Job {
    /// Its first process.
    pub child: Child,
    relay: Option<Relay>,
}

fn no_command(program: &OsStr) -> anyhow::Error {
    anyhow!("there is no command '{}': nothing was started", program.display())
}

/// Whether there is such a command, before anything else is asked of the machine; whether it can be started only the start tells.
pub fn there(program: &OsStr) -> anyhow::Result<()> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let by_path = Path::new(program).components().count() > 1;
    let found = if by_path {
        Path::new(program).exists()
    } else {
        env::split_paths(&folders).any(|folder| folder.join(program).exists())
    };
    if found { Ok(()) } else { Err(no_command(program)) }
}

impl Job {
    /// Starts a command in this terminal.
    pub fn start(mut command: Command, program: &OsStr) -> anyhow::Result<Job> {
        let caught = Caught::new();
        Job::of(command.spawn(), caught, program, false)
    }

    /// Follows a command that was started, or not, after signals were caught for it. With a terminal of its own, signals that ours sends do not reach it.
    pub fn of(child: io::Result<Child>, caught: Caught, program: &OsStr, own_terminal: bool) -> anyhow::Result<Job> {
        let child = match child {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_command(program)),
            Err(error) => bail!("{} cannot be started: {error}", program.display()),
        };
        let relay = Relay::to(&child, caught, own_terminal);
        Ok(Job { child, relay })
    }

    /// A child of ours that is not the job's: it tells what is sent to our whole group.
    pub fn witness(&self) -> Option<u32> {
        self.with_witness(|witness| witness)
    }

    /// The same for as long as `read` takes: signals replace it by another.
    pub fn with_witness<T>(&self, read: impl FnOnce(Option<u32>) -> T) -> T {
        match &self.relay {
            Some(relay) => relay.with_witness(read),
            None => read(None),
        }
    }

    /// Waits for a moment, or until its end if that is sooner; gives whether it has ended.
    pub fn ends_within(&mut self, moment: Duration) -> io::Result<bool> {
        if self.child.try_wait()?.is_some() {
            return Ok(true);
        }
        pause::until_ended(&self.child, moment);
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        drop(self.relay.take());
        status
    }
}

/// The signal that ended a job.
#[cfg(unix)]
pub fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// There are none.
#[cfg(not(unix))]
pub fn signal(_: ExitStatus) -> Option<i32> {
    None
}

/// What a signal is called.
pub fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        _ => return format!("signal {number}"),
    };
    format!("signal {number} ({name})")
}

/// Its exit code, as shells say it.
pub fn code(status: ExitStatus) -> u8 {
    let code = signal(status).map(|signal| 128 + signal).or(status.code());
    code.and_then(|code| code.try_into().ok()).unwrap_or(255)
}

/// Says what ended a job that a signal ended. The shell would, but sees an exit code; what users or a closed pipe end needs no words.
pub fn say_signal(status: ExitStatus) {
    // SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM.
    const OF_USERS: [i32; 5] = [1, 2, 3, 13, 15];
    if let Some(signal) = signal(status).filter(|signal| !OF_USERS.contains(signal)) {
        let why = if signal == 9 { ", as the system does when memory runs out" } else { "" };
        output::say(&format!("the job was ended by signal {signal}{why}"));
    }
}

//! The user's job: started, listened for, waited for.
//!
//! In: a program, its arguments, what is added to its environment. Out: its exit code, 128 + n if signal n ended it, as
//! shells say it. A signal that the terminal sends reaches the job by itself; one that a process sends to Brimful alone is
//! passed on. Nothing is read from or written to the job.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::process::{Child, Command, ExitStatus};

use anyhow::bail;

use crate::exit::Exit;
use crate::output;

/// Runs the job to its end.
pub fn run(program: &OsStr, arguments: &[OsString], variables: &[(&str, OsString)]) -> anyhow::Result<Exit> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (*name, value)));
    let mut job = match command.spawn() {
        Ok(job) => job,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no command '{}': nothing was started", program.display())
        }
        Err(error) => bail!("{} cannot be started: {error}", program.display()),
    };
    // Only now, so that the job has inherited what the user lets it ignore (nohup).
    let relay = Relay::to(&job);
    let status = job.wait();
    drop(relay);
    Ok(Exit::Job(code(status?)))
}

#[cfg(unix)]
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM};

    let Some(signal) = status.signal() else {
        return status.code().and_then(|code| code.try_into().ok()).unwrap_or(255);
    };
    // The shell would say so, but sees an exit code; what users or a closed pipe end needs no words.
    if ![SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM].contains(&signal) {
        let why = if signal == SIGKILL { ", as the system does when memory runs out" } else { "" };
        output::say(&format!("the job was ended by signal {signal}{why}"));
    }
    u8::try_from(128 + signal).unwrap_or(255)
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => u8::try_from(code).unwrap_or(255),
        None => 255,
    }
}

/// Keeps Brimful alive while the job deals with a signal, and passes on what the job has not got.
#[cfg(unix)]
struct Relay {
    handle: signal_hook::iterator::Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[cfg(unix)]
impl Relay {
    /// None where the system has no room for handlers: the job runs all the same.
    fn to(job: &Child) -> Option<Relay> {
        use rustix::process::{Pid, Signal, kill_process};
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        use signal_hook::iterator::SignalsInfo;
        use signal_hook::iterator::exfiltrator::origin::WithOrigin;
        use signal_hook::low_level::siginfo::Cause;

        let job = Pid::from_child(job);
        let caught = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        let mut signals = SignalsInfo::<WithOrigin>::new(caught).ok()?;
        let handle = signals.handle();
        let thread = std::thread::spawn(move || {
            for origin in &mut signals {
                // The terminal's go to its whole group, of which the job is one.
                if matches!(origin.cause, Cause::Sent(_))
                    && let Some(signal) = Signal::from_named_raw(origin.signal)
                {
                    // It may have ended in this moment.
                    let _ = kill_process(job, signal);
                }
            }
        });
        Some(Relay { handle, thread: Some(thread) })
    }
}

#[cfg(unix)]
impl Drop for Relay {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The console tells the job itself.
#[cfg(not(unix))]
struct Relay;

#[cfg(not(unix))]
impl Relay {
    fn to(_: &Child) -> Relay {
        Relay
    }
}

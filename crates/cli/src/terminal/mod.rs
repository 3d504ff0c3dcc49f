//! A terminal of its own for a job that is started in one, so that what it prints can be read on its way.
//!
//! In: a command, and the terminal that Brimful runs in. Out: the job inside a terminal of the same size, keys on their way to it, bytes on
//! their way from it. Ours is raw meanwhile: keys such as Ctrl-C mean something to the job's terminal, which sends it the signal. Only those of the
//! job's streams that would be a terminal without us are one. Ctrl-Z stops both (`suspend`).

pub mod shown;
mod suspend;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pty_process::blocking;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Termios, Winsize, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
    tcsetwinsize,
};

use crate::live;
use shown::Shown;

/// Keys are looked for as often, so that the end of a job is noticed.
const KEYS_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Between two looks whether we are in front again.
const BACKGROUND_WAIT: Duration = Duration::from_millis(100);

/// The job's terminal.
pub struct Terminal {
    ours: File,
    theirs: blocking::Pts,
    size: Option<Winsize>,
    raw: Option<Raw>,
}

/// Whether Brimful runs in the foreground of a terminal that it may take over: keys come from it and output goes to it. Where only one of both is so, the
/// terminal also belongs to others, such as a pager.
pub fn is_ours() -> bool {
    let is_whole = io::stdin().is_terminal() && io::stdout().is_terminal();
    is_whole && tcgetpgrp(io::stdout()).is_ok_and(|owner| owner == rustix::process::getpgrp())
}

impl Terminal {
    /// Makes one.
    pub fn open() -> io::Result<Terminal> {
        let (ours, theirs) = blocking::open().map_err(as_io)?;
        let ours = File::from(OwnedFd::from(ours));
        let mut terminal = Terminal { ours, theirs, size: None, raw: None };
        terminal.resize(current_size());
        Ok(terminal)
    }

    /// Starts the command in it; what is no terminal of ours stays what it is. Keys that are typed from now on wait for `begin`: were ours made raw
    /// only then, a Ctrl-Z between the two would stop us and not the job, which is in another session.
    pub fn start(&mut self, command: Command) -> io::Result<Child> {
        let mut command = blocking::Command::from(command);
        if io::stdin().is_terminal() {
            self.raw = Some(Raw::make()?);
        } else {
            command = command.stdin(Stdio::inherit());
        }
        if !io::stdout().is_terminal() {
            command = command.stdout(Stdio::piped());
        }
        if !io::stderr().is_terminal() {
            command = command.stderr(Stdio::piped());
        }
        command.spawn_borrowed(&self.theirs).map_err(as_io)
    }

    /// The job has started: keys go to it from now on. Gives the end from which its output is read.
    pub fn begin(self, shown: &Shown) -> io::Result<(Running, File)> {
        // With our copy of the job's end open, its output would never end.
        let Terminal { ours, size, raw, .. } = self;
        let output = ours.try_clone()?;
        let to_job = raw.map(|raw| Ok::<_, io::Error>(Keys::to(ours.try_clone()?, shown.clone(), raw))).transpose()?;
        Ok((Running { ours, size, _keys: to_job }, output))
    }

    fn resize(&mut self, size: Option<Winsize>) {
        resize(&self.ours, &mut self.size, size);
    }
}

/// A terminal whose job runs.
pub struct Running {
    ours: File,
    size: Option<Winsize>,
    _keys: Option<Keys>,
}

impl Running {
    /// Follows the size of ours, or takes another.
    pub fn resize(&mut self, size: Option<Winsize>) {
        resize(&self.ours, &mut self.size, size.or(current_size()));
    }
}

fn resize(terminal: &File, known: &mut Option<Winsize>, size: Option<Winsize>) {
    let pair = |size: &Winsize| (size.ws_row, size.ws_col);
    if let Some(size) = size.filter(|size| known.as_ref().map(pair) != Some(pair(size))) {
        // The job gets SIGWINCH.
        let _ = tcsetwinsize(terminal, size);
        *known = Some(size);
    }
}

/// The size of the terminal that we run in.
pub fn current_size() -> Option<Winsize> {
    [tcgetwinsize(io::stdout()), tcgetwinsize(io::stderr())].into_iter().flatten().find(|size| size.ws_col > 0)
}

/// Our terminal, which leaves all keys to the job's. Given back as it was when this is dropped.
struct Raw {
    before: Termios,
    raw: Termios,
}

impl Raw {
    fn make() -> io::Result<Raw> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // Our own lines end as they always do; the job's own line ends are not changed by it.
        raw.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        raw.local_modes &= !LocalModes::ISIG;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw { before, raw })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // In the background the shell has set it, and setting it would stop us.
        if suspend::is_in_front() {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// Keys on their way. Ends when it is dropped; then the terminal is given back, too.
struct Keys {
    _raw: Raw,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    fn to(mut job: File, shown: Shown, terminal: Raw) -> Keys {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, usual, raw) = (Arc::clone(&stop), terminal.before.clone(), terminal.raw.clone());
        let thread = thread::spawn(move || {
            let (mut keys, mut split) = ([0; 1024], live::Keys::default());
            let (mut is_raw, mut had_screen) = (true, false);
            while !stopped.load(Ordering::Relaxed) {
                // In the background, reading would stop us.
                if !suspend::is_in_front() {
                    is_raw = false;
                    thread::sleep(BACKGROUND_WAIT);
                    continue;
                }
                if !is_raw {
                    is_raw = tcsetattr(io::stdin(), OptionalActions::Now, &raw).is_ok();
                    if std::mem::take(&mut had_screen) {
                        shown.toggle();
                    }
                }
                let count = if is_ready(io::stdin()) {
                    // Not through the standard library's buffer, which would hide from `poll` what it holds.
                    match rustix::io::read(io::stdin(), &mut keys) {
                        Ok(count) if count > 0 => count,
                        Err(rustix::io::Errno::INTR) => continue,
                        _ => break,
                    }
                } else {
                    // Escape alone is a key, too: it has waited long enough.
                    0
                };
                let (to_job, commands) = split.split(&keys[..count]);
                commands.iter().for_each(|live::Command::Toggle| shown.toggle());
                let mut rest = &to_job[..];
                while let Some(at) = suspend::place(&job, rest) {
                    let _ = job.write_all(&rest[..=at]);
                    had_screen |= suspend::suspend(&job, &shown, &usual);
                    (rest, is_raw) = (&rest[at + 1..], false);
                }
                // Without an end that the job has open there is an error, which comes only when something was typed.
                if job.write_all(rest).is_err() && count > 0 {
                    break;
                }
            }
        });
        Keys { _raw: terminal, stop, thread: Some(thread) }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether there is something to read, or will be within a tenth of a second.
pub fn is_ready(input: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    poll(&mut fds, Some(&KEYS_WAIT)).is_ok_and(|count| count > 0)
}

fn as_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}

//! Ctrl-Z, and `fg` or `bg` after it.
//!
//! In: keys on their way to the job's terminal. Out: the job stopped, and Brimful with it, so that the shell has its terminal back; both go on when the
//! shell says so. The job's terminal sends it the signal itself, but the system lets no process be stopped by it that has no shell in its
//! session: after whatever the job does about it, it is stopped for certain. A shell inside the job's terminal deals with its own jobs: there nothing
//! is done here. While both are stopped nothing is read or recorded.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group, kill_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetsid, tcsetattr,
};

use super::shown::Shown;

/// The time that a job has to deal with the signal before it is stopped.
const MOMENT: Duration = Duration::from_millis(50);
/// The longest that a signal takes to stop us: another thread may be the one that gets it, and on a busy machine it has to wait for its turn.
/// Where we have no shell nothing stops us, and the job stands still for so long.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);

/// Where in these keys the one stands that stops the job; none if its terminal takes it for a key like any other.
pub fn place(job: &File, keys: &[u8]) -> Option<usize> {
    let modes = tcgetattr(job).ok()?;
    let key = modes.special_codes[SpecialCodeIndex::VSUSP];
    // 0 is for none.
    let at = keys.iter().position(|&byte| byte == key && byte != 0)?;
    (modes.local_modes.contains(LocalModes::ISIG) && lone_group(job).is_some()).then_some(at)
}

/// The group that has the job's terminal, if it is that of the job's first process, which nobody in there could let go on.
fn lone_group(job: &File) -> Option<Pid> {
    tcgetpgrp(job).ok().filter(|group| tcgetsid(job).is_ok_and(|session| session == *group))
}

/// Stops the job and us; comes back when the shell lets us go on, and gives whether there was a screen. Where we have no shell either, that is
/// soon, as if nothing had been.
pub fn suspend(job: &File, shown: &Shown, before: &Termios) -> bool {
    let Some(group) = lone_group(job) else { return false };
    thread::sleep(MOMENT);
    let _ = kill_process_group(group, Signal::STOP);
    let had_screen = shown.leave();
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    let goes_on = Arc::new(AtomicBool::new(false));
    let noticed = signal_hook::flag::register(signal_hook::consts::SIGCONT, Arc::clone(&goes_on));
    // All of ours, as the terminal would: there may be a script around us.
    let _ = kill_current_process_group(Signal::TSTP);
    // The job must not go on before we have been stopped: nobody would stop it again.
    let sent = Instant::now();
    while !goes_on.load(Ordering::Relaxed) && sent.elapsed() < STOPPED_WITHIN {
        thread::sleep(MOMENT / 10);
    }
    if let Ok(noticed) = noticed {
        signal_hook::low_level::unregister(noticed);
    }
    let _ = kill_process_group(group, Signal::CONT);
    had_screen
}

/// Whether the terminal is ours to read from and to set: not after `bg`. One that does not say, or has gone, is as good as ours.
pub fn is_in_front() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |owner| owner == getpgrp())
}

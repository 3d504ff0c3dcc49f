//! A pause that the end of a process cuts short: who waits for a job is not to be late by the time between two looks.

use std::process::Child;
use std::thread;
use std::time::Duration;

/// Waits so long, or until the process has ended.
pub fn until_ended(child: &Child, moment: Duration) {
    if !is_told(child, moment) {
        thread::sleep(moment);
    }
}

/// Whether the system could tell of the end (Linux 5.3 and later).
#[cfg(target_os = "linux")]
fn is_told(child: &Child, moment: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let (Ok(process), Ok(timeout)) =
        (pidfd_open(Pid::from_child(child), PidfdFlags::empty()), Timespec::try_from(moment))
    else {
        return false;
    };
    // Cut short by a signal, it has waited long enough.
    let answer = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout));
    matches!(answer, Ok(_) | Err(rustix::io::Errno::INTR))
}

#[cfg(not(target_os = "linux"))]
fn is_told(_: &Child, _: Duration) -> bool {
    false
}

//! Whether a signal was meant for us alone, or for the whole process group.
//!
//! In: a signal that we got. Out: whether others of our group got it as well. The system does not say, so a process in the group that does nothing
//! and that every signal ends is looked at. It ends with us. Not told apart: two different signals to the group within milliseconds.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::pause;

/// How long the other's end is waited for: a busy machine takes its time, and whoever sends to us alone waits as long.
const WAIT: Duration = Duration::from_millis(100);

/// The other process.
pub struct Witness {
    child: Option<Child>,
    pid: Arc<Mutex<u32>>,
}

impl Witness {
    /// Starts it. Where it cannot be, every signal seems meant for us.
    pub fn start() -> Witness {
        let mut witness = Witness { child: None, pid: Arc::default() };
        witness.renew();
        witness
    }

    /// Its number, now and later; 0 if there is none. While it is locked, no other one begins.
    pub fn pid(&self) -> Arc<Mutex<u32>> {
        Arc::clone(&self.pid)
    }

    /// Whether it got this signal, too.
    pub fn got(&mut self, signal: i32) -> bool {
        let Some(child) = &mut self.child else { return false };
        pause::until_ended(child, WAIT);
        let ended = child.try_wait().ok().flatten();
        if ended.is_some() {
            self.renew();
        }
        ended.and_then(|status| status.signal()) == Some(signal)
    }

    /// Reads from us, and ends when there is nobody left to write to it.
    fn renew(&mut self) {
        let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        self.child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok();
        *pid = self.child.as_ref().map_or(0, Child::id);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

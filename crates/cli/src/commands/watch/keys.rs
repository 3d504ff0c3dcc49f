//! Keys while a job is watched on a terminal: the job does not get them.
//!
//! In: the terminal's keys. Out: q and Ctrl-C end the watching, F9 hides and shows the screen.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::live;
use crate::terminal::shown::Shown;
use crate::terminal::{is_ours, is_ready};

/// What the terminal sends for Ctrl-C when it does not make a signal of it.
const CTRL_C: u8 = 3;

/// Whether there are keys, and a screen to be shown.
pub fn can_be_read() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && is_ours()
}

/// Reads keys until it is told to stop, or tells so itself.
pub struct Keys {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// Begins.
    pub fn until(stop: &Arc<AtomicBool>, screen: &Shown) -> Keys {
        let (stopped, screen) = (Arc::clone(stop), screen.clone());
        let thread = thread::spawn(move || {
            let (mut bytes, mut split) = ([0; 256], live::Keys::default());
            while !stopped.load(Ordering::Relaxed) {
                let count =
                    if is_ready(io::stdin()) { rustix::io::read(io::stdin(), &mut bytes).unwrap_or(0) } else { 0 };
                let (typed, commands) = split.split(&bytes[..count]);
                commands.iter().for_each(|live::Command::Toggle| screen.toggle());
                if typed.iter().any(|key| [b'q', b'Q', CTRL_C].contains(key)) {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
        });
        Keys { stop: Arc::clone(stop), thread: Some(thread) }
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

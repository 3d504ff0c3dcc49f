//! Ctrl-C while a file is written.
//!
//! In: SIGINT, SIGTERM, SIGHUP. Out: whether to stop, asked between batches, so that what is half written is removed. The second signal
//! ends the process at once, as the first would without this.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use brimful_data::DataError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Signals that came since this was made.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on, a signal asks instead of ending the process.
    pub fn new() -> std::io::Result<Interrupt> {
        let found = Interrupt { asked: Arc::default(), signal: Arc::default() };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            flag::register_conditional_default(signal, found.asked.clone())?;
            flag::register_usize(signal, found.signal.clone(), signal as usize)?;
            flag::register(signal, found.asked.clone())?;
        }
        Ok(found)
    }

    /// Whether somebody wants an end.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The exit code that shells expect.
    pub fn code(&self) -> u8 {
        128 + self.signal.load(Ordering::Relaxed) as u8
    }

    /// An error as soon as somebody wants an end.
    pub fn check(&self) -> Result<(), DataError> {
        if self.asked() { Err(DataError::Interrupted) } else { Ok(()) }
    }
}

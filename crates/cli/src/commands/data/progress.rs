//! A line that says how far it is, on a terminal only.
//!
//! In: rows done, of how many. Out: one line on standard error, written again at most ten times a second and wiped at the end. The
//! clock is only looked at here.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

const BAR: usize = 24;

/// How far it is.
pub struct Progress {
    total: u64,
    began: Instant,
    shown: Option<Instant>,
    quiet: bool,
}

impl Progress {
    /// Nothing is shown where nobody looks.
    pub fn new(total: u64, quiet: bool) -> Progress {
        Progress { total: total.max(1), began: Instant::now(), shown: None, quiet: quiet || !stderr().is_terminal() }
    }

    /// So many rows are done.
    pub fn at(&mut self, rows: u64) {
        let now = Instant::now();
        if self.quiet || self.shown.is_some_and(|shown| now - shown < Duration::from_millis(100)) {
            return;
        }
        self.shown = Some(now);
        let share = (rows as f64 / self.total as f64).min(1.0);
        let seconds = (now - self.began).as_secs_f64();
        let full = (share * BAR as f64) as usize;
        let left = if share > 0.0 { seconds / share - seconds } else { 0.0 };
        let speed = rows as f64 / seconds.max(1e-9);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
        let _ = write!(stderr(), "\r\x1b[K{bar} {:3.0} %  {speed:.0} rows/s  {left:.0} s left", share * 100.0);
        let _ = stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

//! Whether to go on, asked while files are looked at.
//!
//! In: a question of the caller's, such as whether a signal came. Out: [`DataError::Interrupted`] when the answer is yes. One may check
//! for every file and every block: the question is asked at most every 20 ms.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::DataError;

const PAUSE_MS: u64 = 20;

/// Whether somebody wants an end; nobody does by default.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<Asked>>);

struct Asked {
    wanted: Box<dyn Fn() -> bool + Send + Sync>,
    began: Instant,
    next_ms: AtomicU64,
}

impl Stop {
    /// `wanted` says whether somebody wants an end.
    pub fn new(wanted: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
        Stop(Some(Arc::new(Asked { wanted: Box::new(wanted), began: Instant::now(), next_ms: AtomicU64::new(0) })))
    }

    /// An error as soon as somebody wants an end.
    pub fn check(&self) -> Result<(), DataError> {
        let Some(asked) = &self.0 else { return Ok(()) };
        let now_ms = asked.began.elapsed().as_millis() as u64;
        if now_ms < asked.next_ms.load(Ordering::Relaxed) {
            return Ok(());
        }
        asked.next_ms.store(now_ms + PAUSE_MS, Ordering::Relaxed);
        if (asked.wanted)() { Err(DataError::Interrupted) } else { Ok(()) }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Stop(when asked)" } else { "Stop(never)" })
    }
}

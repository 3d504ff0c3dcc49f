//! The time that a test has computed, which other work of the machine does not lengthen.
//!
//! In: nothing. Out: durations of CPU time. A part of a test, not a test of its own. Not counted: other threads.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A clock of this thread.
pub struct CpuClock(Duration);

impl CpuClock {
    /// Starts.
    pub fn start() -> CpuClock {
        CpuClock(now())
    }

    /// What the thread has computed since.
    pub fn elapsed(&self) -> Duration {
        now() - self.0
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

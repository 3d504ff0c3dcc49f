//! Signals on their way to a job.
//!
//! In: signals that Brimful gets. Out: the same ones at the job, unless it has got them itself: what a terminal sends goes to its whole group, and so
//! does what somebody sends to the group (`witness`). The job is in ours unless it has a terminal of its own. Brimful itself lives on while
//! the job deals with them.

#[cfg(unix)]
pub use unix::Relay;

#[cfg(unix)]
mod unix {
    use std::process::Child;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::{self, JoinHandle};

    use rustix::process::{Pid, Signal, kill_process};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::exfiltrator::origin::WithOrigin;
    use signal_hook::iterator::{Handle, SignalsInfo};
    use signal_hook::low_level::siginfo::Cause;

    use super::super::witness::Witness;

    /// Passes them on until it is dropped.
    pub struct Relay {
        handle: Handle,
        thread: Option<JoinHandle<()>>,
        witness: Option<Arc<AtomicU32>>,
    }

    impl Relay {
        /// None where the system has no room for handlers: the job runs all the same.
        pub fn to(job: &Child, own_terminal: bool) -> Option<Relay> {
            let job = Pid::from_child(job);
            let caught = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
            let mut witness = (!own_terminal).then(Witness::start);
            let witness_pid = witness.as_ref().map(Witness::pid);
            let mut signals = SignalsInfo::<WithOrigin>::new(caught).ok()?;
            let handle = signals.handle();
            let thread = thread::spawn(move || {
                for origin in &mut signals {
                    // Asked in any case: it ends with whatever the group gets, and is started anew.
                    let has_got_it = witness.as_mut().is_some_and(|witness| witness.got(origin.signal));
                    let is_ours_alone = own_terminal || (matches!(origin.cause, Cause::Sent(_)) && !has_got_it);
                    if is_ours_alone && let Some(signal) = Signal::from_named_raw(origin.signal) {
                        // It may have ended in this moment.
                        let _ = kill_process(job, signal);
                    }
                }
            });
            Some(Relay { handle, thread: Some(thread), witness: witness_pid })
        }

        /// A process that is not the job's, though a child of ours.
        pub fn witness(&self) -> Option<u32> {
            self.witness.as_ref().map(|pid| pid.load(Ordering::Relaxed)).filter(|&pid| pid > 0)
        }
    }

    impl Drop for Relay {
        fn drop(&mut self) {
            self.handle.close();
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// The console tells the job itself.
#[cfg(not(unix))]
pub struct Relay;

#[cfg(not(unix))]
impl Relay {
    /// Nothing to pass on.
    pub fn to(_: &std::process::Child, _: bool) -> Option<Relay> {
        None
    }

    /// There is none.
    pub fn witness(&self) -> Option<u32> {
        None
    }
}

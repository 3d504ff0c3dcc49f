//! Signals on their way to a job.
//!
//! In: signals that Brimful gets. Out: the same ones at the job, unless it has got them itself: what a terminal sends goes to its whole group, and so
//! does what somebody sends to the group (`witness`). The job is in ours unless it has a terminal of its own. Brimful itself lives on while
//! the job deals with them.

#[cfg(unix)]
pub use unix::{Caught, Relay};

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::process::Child;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::thread::{self, JoinHandle};

    use rustix::process::{Pid, Signal, kill_process};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::exfiltrator::origin::WithOrigin;
    use signal_hook::iterator::{Handle, SignalsInfo};
    use signal_hook::low_level::siginfo::Cause;

    use super::super::witness::Witness;

    /// Signals that are kept from now on, for a job that is about to start: one that comes as soon as it runs is not lost.
    pub struct Caught(Option<SignalsInfo<WithOrigin>>);

    impl Caught {
        /// What is ignored stays so: the job inherits what the user lets it ignore (nohup), and what is caught it does not.
        pub fn new() -> Caught {
            let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
            let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
            Caught(SignalsInfo::new(all.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0)).ok())
        }
    }

    /// The signals that a process ignores, as bits from the lowest: `SigIgn: 0000000000000001` is SIGHUP.
    fn ignored(status: &str) -> u64 {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }

    #[cfg(test)]
    #[test]
    fn ignored_signals_are_bits() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 1 << 12 | 1);
        assert_eq!(ignored("SigIgn: what"), 0);
        assert_eq!(ignored(""), 0);
    }

    /// Passes them on until it is dropped.
    pub struct Relay {
        handle: Handle,
        thread: Option<JoinHandle<()>>,
        witness: Option<Arc<Mutex<u32>>>,
    }

    impl Relay {
        /// None where the system has no room for handlers: the job runs all the same.
        pub fn to(job: &Child, caught: Caught, own_terminal: bool) -> Option<Relay> {
            let job = Pid::from_child(job);
            let mut signals = caught.0?;
            let mut witness = (!own_terminal).then(Witness::start);
            let witness_pid = witness.as_ref().map(Witness::pid);
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

        /// Gives a process that is not the job's, though a child of ours. Until `read` is done, it is the only one.
        pub fn with_witness<T>(&self, read: impl FnOnce(Option<u32>) -> T) -> T {
            let pid = self.witness.as_ref().map(|pid| pid.lock().unwrap_or_else(PoisonError::into_inner));
            read(pid.as_deref().copied().filter(|&pid| pid > 0))
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

/// Nothing is caught.
#[cfg(not(unix))]
pub struct Caught;

#[cfg(not(unix))]
impl Caught {
    /// Nothing to catch.
    pub fn new() -> Caught {
        Caught
    }
}

/// The console tells the job itself.
#[cfg(not(unix))]
pub struct Relay;

#[cfg(not(unix))]
impl Relay {
    /// Nothing to pass on.
    pub fn to(_: &std::process::Child, _: Caught, _: bool) -> Option<Relay> {
        None
    }

    /// There is none.
    pub fn with_witness<T>(&self, read: impl FnOnce(Option<u32>) -> T) -> T {
        read(None)
    }
}

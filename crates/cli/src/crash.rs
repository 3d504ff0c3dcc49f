//! The last resort: a bug ends in one sentence too, and in the exit code for input that cannot be used.
//!
//! With `RUST_BACKTRACE` set, a panic looks as usual.

use std::panic::{self, PanicHookInfo, UnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;

use crate::exit::Exit;
use crate::output;

/// Runs a command; a panic in it, on any thread, is said once.
pub fn contained(command: impl FnOnce() -> Exit + UnwindSafe) -> Exit {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value == "0") {
        panic::set_hook(Box::new(say));
    }
    panic::catch_unwind(command).unwrap_or(Exit::Unusable)
}

fn say(info: &PanicHookInfo<'_>) {
    // A thread that fails takes the one that waits for it along: the first panic is the one to report.
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::SeqCst) {
        let place = info.location().map_or(String::new(), |place| format!(" at {}:{}", place.file(), place.line()));
        let text = info.payload().downcast_ref::<&str>().copied();
        let text = text.or_else(|| info.payload().downcast_ref::<String>().map(String::as_str));
        let reason = text.unwrap_or("for an unknown reason");
        output::error(&anyhow!(
            "Brimful itself failed{place}: {reason}; please report this, with the command and the model file"
        ));
    }
}

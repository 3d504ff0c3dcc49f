//! What the agent inside a Python job says: steps, phases, and what frameworks' allocators hold.
//!
//! In: datagrams of the protocol's version 1, one JSON object each, from any process of the job. Out: [`Message`]s, and what they mean for
//! the job as a whole ([`Ranks`]): frames for the recording, and the phase it is in. Nothing is sent back, nothing is waited for, and bytes
//! that are no message are skipped. Not known here: jobs that are not Python, or that threw the agent's environment away.

pub mod message;
pub mod ranks;
#[cfg(unix)]
pub mod listener;

#[cfg(unix)]
pub use listener::{Listener, monotonic_ns};
pub use message::{Message, Phase, Said};
pub use ranks::Ranks;

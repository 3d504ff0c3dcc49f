//! `brimful run` around a command: what passes through, what is recorded, how each end is told, and what happens when things go wrong. What Python
//! jobs say of their steps is tested with Python (`tests/test_run.py`).
#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

mod following;
mod job;
mod limits;
mod places;
mod streams;
#[path = "../support/mod.rs"]
mod support;

//! Lets Python jobs tell of their steps, without a change to them.
//!
//! In: a command. Out: two settings in its environment, by which every Python of the job starts `brimful.agent`, and the socket that these send to.
//! A job without Python, or whose Python has no Brimful, runs as it is: it is seen from outside only.

use std::env;
use std::ffi::OsStr;
use std::process::Command;

use brimful_monitor::agent::Listener;
use serde_json::json;

use crate::python::{BOOTSTRAP, Python, in_front};

/// What the agent reads: the version of the protocol, and where to send to.
pub const VARIABLE: &str = "BRIMFUL_RUN";

/// Puts the settings into a command's environment; gives where messages come in, if there is a way.
pub fn put_in(program: &OsStr, command: &mut Command) -> Option<Listener> {
    let python = Python::of_command(program).unwrap_or_else(Python::choose);
    let package = python.package().ok()?;
    let path = in_front(&package.join(BOOTSTRAP), env::var_os("PYTHONPATH").as_deref()).ok()?;
    let listener = Listener::open().ok()?;
    let request = json!({ "socket": listener.path().to_str()?, "v": 1 });
    command.env(VARIABLE, request.to_string()).env("PYTHONPATH", path);
    Some(listener)
}

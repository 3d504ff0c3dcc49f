//! `brimful data check -- COMMAND`: which lines of a script hold the host's memory.
//!
//! In: a command. Out: its own exit code, and afterwards, for the moment at which its Python processes held most, what each line of the
//! user's code holds. The looking is done by `brimful.holding` inside the job, which comes in by the environment; it writes one file for
//! each process, in a folder of our own. A job without Python cannot be looked into.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use brimful_core::bytes::human;
use serde_json::{Value, json};

use super::args::CheckArgs;
use crate::args::Format;
use crate::exit::Exit;
use crate::job::{self, Job};
use crate::output::{Output, say, tell};
use crate::python::{BOOTSTRAP, Python, in_front};

const VARIABLE: &str = "BRIMFUL_CHECK";
/// Lines that are shown; what the others hold is one line.
const LINES: usize = 8;

/// Runs the command to its end, then tells.
pub fn run(args: &CheckArgs, output: &Output) -> anyhow::Result<Exit> {
    let Some((program, arguments)) = args.command.split_first() else { bail!("there is no command behind --") };
    let package = Python::of_command(program).unwrap_or_else(Python::choose).package()?;
    let path = in_front(&package.join(BOOTSTRAP), env::var_os("PYTHONPATH").as_deref())?;
    let folder = tempfile::tempdir().context("there is no folder for what is seen")?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, folder.path()).env("PYTHONPATH", path);
    let status = Job::start(command, program)?.wait()?;
    job::say_signal(status);
    let mut processes = seen(folder.path());
    processes.sort_by_key(|process| std::cmp::Reverse(process["peak_bytes"].as_u64()));
    if args.format == Format::Json {
        let value = json!({ "schema": 1, "exit_code": job::code(status), "processes": processes });
        output.write(&(serde_json::to_string_pretty(&value)? + "\n"))?;
    } else if processes.is_empty() {
        say("no Python of the job could be looked into: nothing to tell");
    } else {
        tell(&processes.iter().take(4).map(text).collect::<Vec<_>>().join(""));
    }
    Ok(Exit::Job(job::code(status)))
}

fn seen(folder: &Path) -> Vec<Value> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |file: fs::DirEntry| serde_json::from_str(&fs::read_to_string(file.path()).ok()?).ok();
    files.filter_map(read).collect()
}

fn text(process: &Value) -> String {
    let bytes = |value: &Value| value.as_u64().unwrap_or(0);
    let peak_bytes = bytes(&process["peak_bytes"]);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "brimful: process {} held {} at most, {} of it before the script's first line",
        process["pid"],
        human(peak_bytes),
        human(bytes(&process["before_bytes"]))
    );
    let none = Vec::new();
    let holders = process["holders"].as_array().unwrap_or(&none);
    for holder in holders.iter().take(LINES) {
        let held = bytes(&holder["bytes"]);
        let share = 100.0 * held as f64 / peak_bytes.max(1) as f64;
        let (place, stage) = (holder["place"].as_str().unwrap_or("?"), holder["stage"].as_str().unwrap_or(""));
        let _ = writeln!(text, "  {:>9} {share:3.0} %  {place}  {stage}", human(held));
        if let Some(source) = holder["source"].as_str().filter(|source| !source.is_empty()) {
            let _ = writeln!(text, "                   {source}");
        }
        if let Some(advice) = holder["advice"].as_str() {
            let _ = writeln!(text, "                   -> {advice}");
        }
    }
    let rest: u64 = holders.iter().skip(LINES).map(|holder| bytes(&holder["bytes"])).sum();
    if rest > 0 {
        let _ = writeln!(text, "  {:>9}        {} other lines", human(rest), holders.len() - LINES);
    }
    text
}

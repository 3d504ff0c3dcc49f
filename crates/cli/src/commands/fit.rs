//! `brimful fit -- COMMAND`: runs a command as it stands, with the take-over of training put in by the environment.
//!
//! In: a command, a budget, what may change. Out: the command's own exit code. The command keeps its arguments, its
//! terminal and its folder; what it gets is `BRIMFUL_FIT` and one folder in front of `PYTHONPATH`, from which Python starts
//! `brimful.takeover`. What that does is Python's (`python/brimful/takeover`).

use std::env;
use std::ffi::OsString;
use std::process::Command;

use anyhow::bail;
use brimful_core::bytes;
use brimful_core::plan::budget;
use serde_json::json;

use crate::args::FitArgs;
use crate::exit::Exit;
use crate::job::{self, Job};
use crate::python::{BOOTSTRAP, Python, in_front};

/// What the take-over reads: `memory`, in bytes or `auto`, and `allow`.
const VARIABLE: &str = "BRIMFUL_FIT";

/// Runs the command to its end.
pub fn run(args: &FitArgs) -> anyhow::Result<Exit> {
    let memory = match args.memory.as_deref() {
        None | Some("auto") => json!("auto"),
        Some(text) => json!(budget(text, bytes::parse(text)?)?),
    };
    let Some((program, arguments)) = args.command.split_first() else { bail!("there is no command behind --") };
    let python = Python::of_command(program);
    if python.is_some()
        && let Some(option) = without_environment(arguments)
    {
        let program = program.display();
        bail!("{program} {option} leaves out the environment by which Brimful comes in: run it without {option}");
    }
    if python.is_none() {
        job::there(program)?;
    }
    let package = python.unwrap_or_else(Python::choose).package()?;
    let request = json!({ "memory": memory, "allow": args.allow.name() });
    let path = in_front(&package.join(BOOTSTRAP), env::var_os("PYTHONPATH").as_deref())?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, request.to_string()).env("PYTHONPATH", path);
    let status = Job::start(command, program)?.wait()?;
    job::say_signal(status);
    Ok(Exit::Job(job::code(status)))
}

/// The option of Python's by which it would not read `PYTHONPATH` or start without `site`.
fn without_environment(arguments: &[OsString]) -> Option<&'static str> {
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
            // The script, or an option in words: of these only one takes a value, and its value begins with no dash.
            if argument.starts_with("--") && argument.len() > 2 {
                continue;
            }
            return None;
        };
        for (at, letter) in letters.char_indices() {
            match letter {
                'I' => return Some("-I"),
                'E' => return Some("-E"),
                'S' => return Some("-S"),
                'c' | 'm' => return None,
                // These take what follows, in the same word or the next.
                'W' | 'X' => {
                    if at + 1 == letters.len() {
                        arguments.next();
                    }
                    break;
                }
                _ => {}
            }
        }
        if letters.is_empty() {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_shut_the_environment_out_are_found_before_the_script_only() {
        let found = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            without_environment(&words)
        };
        assert_eq!(found("-I train.py"), Some("-I"));
        assert_eq!(found("-uE -m train"), Some("-E"));
        assert_eq!(found("-W ignore -S train.py"), Some("-S"));
        for fine in ["train.py -I", "-m train -E", "-c -S", "-X Importtime train.py", "-XE train.py", "- -I", "-u", ""]
        {
            assert_eq!(found(fine), None, "{fine}");
        }
    }
}

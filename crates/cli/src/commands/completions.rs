//! `brimful completions`: what lets a shell complete the command's words.
//!
//! In: a shell's name. Out: a script for it, made of the same definitions as the help. Names of devices, layers and the like
//! are not completed.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Writes the script.
pub fn run(args: &CompletionsArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "brimful", &mut script);
    output.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

//! `brimful man`: the manual pages.
//!
//! In: nothing, or a folder. Out: the page of `brimful`, or a page for each command, all made of the same definitions as the
//! help (`page`). Commands that the help hides have none.

mod page;

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::args::{Cli, ManArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Writes the first page, or all of them into the folder.
pub fn run(args: &ManArgs, output: &Output) -> anyhow::Result<Exit> {
    // `brimful help plan` is the page of `brimful plan`.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &args.folder {
        None => output.write(&page::render(command)?)?,
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
            let count = write_all(&command, folder)?;
            output.write(&format!("{count} pages are in {}.\n", folder.display()))?;
        }
    }
    Ok(Exit::Done)
}

/// Writes the page of a command and those below it, and gives how many.
fn write_all(command: &Command, folder: &Path) -> anyhow::Result<u64> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let file = folder.join(format!("{name}.1"));
    Output::to_file(&file, &page::render(command.clone())?)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write_all(below, folder)?;
    }
    Ok(count)
}

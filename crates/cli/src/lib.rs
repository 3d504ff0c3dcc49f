//! The `brimful` command: will a machine-learning job fit into memory?
//!
//! In: arguments, model files and this machine. Out: reports, and the exit codes of `exit`. What a report says is made
//! in `brimful-core`; only `output` writes. It is a library so that cargo's binary and the Python package's command are the
//! same.

mod args;
mod commands;
mod crash;
mod exit;
mod files;
mod job;
#[doc(hidden)]
pub mod live;
mod machine;
mod model_file;
mod output;
mod python;
mod runs;
mod serve;
mod summary;
#[cfg(unix)]
mod terminal;
mod version;
#[cfg(unix)]
mod watching;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use crate::args::{Cli, Command, Format};
use crate::exit::Exit;
use crate::output::Output;

pub use crate::version::BuiltAs;

/// Runs the command with these arguments, the program's name first, and gives its exit code. Results and errors are written
/// as usual.
pub fn main(arguments: impl IntoIterator<Item = OsString>, built_as: BuiltAs) -> u8 {
    let cli = match parse(arguments, built_as) {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version come this way too; a reader that stops early is no matter.
            let _ = message.print();
            return if message.use_stderr() { Exit::Unusable } else { Exit::Done }.code();
        }
    };
    let exit = crash::contained(|| {
        run(&cli).unwrap_or_else(|error| {
            output::error(&error);
            Exit::Unusable
        })
    });
    exit.code()
}

fn parse(arguments: impl IntoIterator<Item = OsString>, built_as: BuiltAs) -> Result<Cli, clap::Error> {
    let mut command = Cli::command().long_version(built_as.long_version());
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.command {
        Command::Plan(args) => commands::plan::run(args, &Output::new(args.output.clone(), cli.color)),
        Command::Accuracy(args) => {
            Output::new(None, cli.color).write(&commands::accuracy::run(&args.fixtures)?)?;
            Ok(Exit::Done)
        }
        Command::Calibrate(args) => commands::calibrate::run(args, &Output::new(None, cli.color)),
        Command::Fit(args) => commands::fit::run(args),
        #[cfg(unix)]
        Command::Run(args) => commands::run::run(args, &Output::new(None, cli.color)),
        #[cfg(unix)]
        Command::Watch(args) => commands::watch::run(args, &Output::new(None, cli.color)),
        Command::Explain(args) => commands::explain::run(args, &Output::new(None, cli.color)),
        Command::Report(args) => commands::report::run(args, cli.color),
        #[cfg(unix)]
        Command::Data(args) => commands::data::run(args, cli.color),
        Command::Completions(args) => commands::completions::run(args, &Output::new(None, cli.color)),
        Command::Man(args) => commands::man::run(args, &Output::new(None, cli.color)),
        Command::Devices(args) => {
            let output = Output::new(None, cli.color);
            let mut list = Vec::new();
            commands::devices::run(
                args.name.as_deref(),
                args.format == Format::Json,
                output.terminal_width(),
                &mut list,
            )?;
            output.write(&String::from_utf8_lossy(&list))?;
            Ok(Exit::Done)
        }
    }
}

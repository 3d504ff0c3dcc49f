//! `brimful data`: from files larger than memory to batches, inside a budget.
//!
//! In: files, a budget. Out: what reading takes, what is in them, rows, other files. The work is done in `brimful-data`; here is what
//! is asked and what is said.

pub mod args;
mod bench;
mod check;
mod convert;
mod describe;
mod gaps;
mod interrupt;
mod numbers;
mod plan;
mod progress;
mod sample;

use brimful_data::DataError;

use crate::args::ColorWhen;
use crate::exit::Exit;
use crate::output::{self, Output};
use args::{DataArgs, DataCommand};

/// Does what was asked. A budget that is too small is an answer, with the exit code of what does not fit.
pub fn run(args: &DataArgs, color: ColorWhen) -> anyhow::Result<Exit> {
    let output = Output::new(None, color);
    let done = match &args.what {
        DataCommand::Plan(args) => plan::run(args, &output).map(|()| Exit::Done),
        DataCommand::Describe(args) => describe::run(args, &output).map(|()| Exit::Done),
        DataCommand::Sample(args) => sample::run(args, &output).map(|()| Exit::Done),
        DataCommand::Convert(args) => convert::run(args, &output),
        DataCommand::Check(args) => check::run(args, &output),
        DataCommand::Bench(args) => bench::run(args, &output).map(|()| Exit::Done),
    };
    match done {
        Err(error)
            if matches!(error.downcast_ref(), Some(DataError::BelowFloor { .. } | DataError::HeldByCaller { .. })) =>
        {
            output::error(&with_options(error));
            Ok(Exit::DoesNotFit)
        }
        other => other,
    }
}

/// What to change, with the options of this command: Python calls them by other names.
fn with_options(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(DataError::BelowFloor { memory_bytes, floor_bytes, why, fix }) => {
            let fix = fix.replace("that much memory", "that much memory (--memory)");
            let fix = fix.replace("smaller batches", "smaller batches (--batch)");
            let fix = fix.replace("fewer columns", "fewer columns (--columns)");
            DataError::BelowFloor { memory_bytes, floor_bytes, why, fix }.into()
        }
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

/// What the user should know about rows that could not be read.
fn bad_rows(figures: &brimful_data::loader::Figures, what: &str) -> String {
    let mut text = String::new();
    if figures.bad_rows > 0 {
        let rows = if figures.bad_rows == 1 { "1 row".to_owned() } else { format!("{} rows", figures.bad_rows) };
        text.push_str(&format!("{rows} could not be read and {what}, such as\n"));
        for bad in figures.first_bad.iter().take(3) {
            text.push_str(&format!("  {}, {}: {}\n", bad.file.display(), bad.place, bad.reason));
        }
    }
    text
}

//! What can be asked on the command line.
//!
//! In: arguments. Out: [`Cli`]. Only the form is checked here; what a name or a size means is for the commands. Each verb has a
//! file of its own; those of `data` are in `commands::data::args`.

mod explain;
mod fit;
mod machine;
mod plan;
mod report;
mod setting_up;
mod watching;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

#[cfg(unix)]
use crate::commands::data::args::DataArgs;
use crate::version;

pub use explain::ExplainArgs;
pub use fit::FitArgs;
pub use machine::{CalibrateArgs, DevicesArgs};
pub use plan::{FrameworkName, PlanArgs, PlanFormat, Precision};
pub use report::{ReportArgs, ReportFormat};
pub use setting_up::{CompletionsArgs, ManArgs};
pub use watching::{RunArgs, WatchArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0  it fits, or the command did what was asked
  1  it does not fit
  2  bad usage, or an input that cannot be read";

/// Will a machine-learning job fit into memory? Know before it runs.
#[derive(Debug, Parser)]
#[command(name = "brimful", version = version::SHORT, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Whether to use colours; auto: on a terminal
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, display_order = 900)]
    pub color: ColorWhen,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether a model fits, where the memory goes, the largest batch, and what to change
    Plan(Box<PlanArgs>),
    /// Run a training script as it stands, inside a memory budget
    Fit(FitArgs),
    /// Run a job and watch its memory: what it uses, whether it grows, why it died
    #[cfg(unix)]
    Run(RunArgs),
    /// Watch a job that runs already
    #[cfg(unix)]
    Watch(WatchArgs),
    /// Say what a dead job ran out of, why, and what to change
    Explain(ExplainArgs),
    /// Show what a recorded job did: as text, as a page with plots, or for other programs
    Report(ReportArgs),
    /// Read data larger than memory inside a budget: plan, describe, sample, convert, measure
    #[cfg(unix)]
    Data(Box<DataArgs>),
    /// List the devices that are known, and what this machine has
    Devices(DevicesArgs),
    /// Measure what this machine's GPU holds beside PyTorch's allocator, for later plans
    Calibrate(CalibrateArgs),
    /// Write completions of commands and options for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Compare predictions with the measured runs of a fixtures folder (for developers)
    #[command(hide = true)]
    Accuracy(AccuracyArgs),
}

/// `brimful accuracy`.
#[derive(Debug, Args)]
pub struct AccuracyArgs {
    /// The repository's fixtures: measured/*.jsonl and models/*/NAME.json
    #[arg(default_value = "fixtures")]
    pub fixtures: PathBuf,
}

/// A number of samples, tokens or parts: at least one, and few enough that what they need is a number of bytes that a pool can be made of.
fn count(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 24;
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("write a whole number, from 1 to {MOST}"))
}

// The help lists the variants of these; documentation on them would turn each list into a paragraph.

/// When to use colours: `auto` is on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// The formats of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}

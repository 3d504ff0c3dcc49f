//! What `brimful report` can be asked.
//!
//! In: arguments. Out: [`ReportArgs`]. Which format a file's ending means is for the command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  brimful report job.brimful
  brimful report job.brimful -o report.html
  brimful report job.brimful -o samples.csv
  brimful report job.brimful --format perfetto -o trace.json
  brimful report job.brimful --format tensorboard -o runs/job
  brimful report job.brimful --format json | jq .peak

Formats:
  text         what happened, in words
  html         one page with plots, for any browser; it needs no network
  csv          one row for each sample, with everything that was recorded
  json         what happened, for programs
  perfetto     for https://ui.perfetto.dev or chrome://tracing
  tensorboard  scalars, for TensorBoard; FILE is a folder, or has tfevents in its name

Without --format, FILE's ending says it.

Exit codes:
  0  written
  2  bad usage, or a recording that cannot be read";

/// `brimful report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recording that 'brimful run' wrote [default: the latest in ~/.local/state/brimful/runs]
    #[arg(value_name = "RUN")]
    pub recording: Option<PathBuf>,

    /// What to write [default: text, or what FILE's ending says]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,

    /// Write to a file instead of the terminal
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

// The help lists the variants of this; documentation on them would turn the list into a paragraph.

/// The formats of a report on a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    #[default]
    Text,
    Html,
    Csv,
    Json,
    Perfetto,
    Tensorboard,
}

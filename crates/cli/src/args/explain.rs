//! What `brimful explain` can be asked.
//!
//! In: arguments. Out: [`ExplainArgs`].

use std::path::PathBuf;

use clap::Args;

use super::Format;

const EXAMPLES: &str = "\
Examples:
  brimful explain train.log
  python train.py 2>&1 | brimful explain -
  dmesg -T | brimful explain -
  brimful explain train.log --format json | jq .cause
  brimful explain train.log --plan model.keras --device t4
  brimful explain --list
  brimful explain --cause fragmentation

Exit codes:
  0  a cause was found
  1  none was: the answer says which fact is missing
  2  bad usage, or a log that cannot be read";

/// `brimful explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The job's output: a file, or - for standard input
    pub log: Option<PathBuf>,

    /// The job's model, a Keras file: its plan says which batch failed and which would have fitted
    #[arg(long, value_name = "MODEL")]
    pub plan: Option<PathBuf>,

    /// With --plan: samples per step, where the log does not show it
    #[arg(long, value_name = "N", requires = "plan", value_parser = super::count)]
    pub batch: Option<u64>,

    /// With --plan: the device it ran on; 'brimful devices' lists them
    #[arg(long, value_name = "NAME", requires = "plan")]
    pub device: Option<String>,

    /// With --plan: the memory it had, such as 15GiB [default: what the log says]
    #[arg(long, value_name = "SIZE", requires = "plan")]
    pub memory: Option<String>,

    /// List the causes that are known
    #[arg(long, conflicts_with_all = ["log", "plan", "cause"])]
    pub list: bool,

    /// Show the manual page of a cause
    #[arg(long, value_name = "CODE", conflicts_with_all = ["log", "plan"])]
    pub cause: Option<String>,

    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

//! What `brimful fit` can be asked.
//!
//! In: arguments. Out: [`FitArgs`]. Whether the command can be started is for the command.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  brimful fit -- python train.py --epochs 5
  brimful fit --memory 3GiB -- python -m project.train
  brimful fit --allow numerics -- ./train.sh

The command runs as it stands, in this terminal. Keras's model.fit, evaluate and
predict keep the batch that was asked for, and take it in parts that fit; a
training loop of your own runs as it is, and the last lines say which two lines
would change that. Brimful must be installed in the Python that the command runs.

Exit codes: the command's own; 128 + n if signal n ended it; and
  2  bad usage, or a command that cannot be started: nothing was run";

/// `brimful fit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "brimful fit [OPTIONS] -- COMMAND...")]
pub struct FitArgs {
    /// How much training may use, such as 3GiB [default: what is free when it starts]
    #[arg(short, long, value_name = "SIZE")]
    pub memory: Option<String>,

    /// What may change: nothing in the result (exact), or also the precision (numerics)
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub allow: Allow,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

// The help lists the variants of this; documentation on them would turn the list into a paragraph.

/// What `brimful fit` may change about a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    #[default]
    Exact,
    Numerics,
}

impl Allow {
    /// As Python takes it.
    pub fn name(self) -> &'static str {
        match self {
            Allow::Exact => "exact",
            Allow::Numerics => "numerics",
        }
    }
}

//! What `brimful run` and `brimful watch` can be asked: the same of a job, which one starts and the other finds.
//!
//! In: arguments. Out: [`RunArgs`], [`WatchArgs`], and [`WatchingArgs`] in both.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::Format;

const RUN_EXAMPLES: &str = "\
Examples:
  brimful run -- python train.py --epochs 5
  brimful run --limit 8GiB -- python train.py
  brimful run -o today.run -- ./train.sh

The command runs as it stands: its output, exit code, signals and terminal are
its own. It is looked at ten times a second: memory of all its processes, the
limits that hold it, GPUs, disks, CPU. In Python jobs also the training steps.
What is seen is recorded, and can be read after anything was killed. With
--format json the end is one line, the last one on standard error.

Exit codes: the command's own; 128 + n if signal n ended it; and
  2  bad usage, or a command that cannot be started: nothing was run";

const WATCH_EXAMPLES: &str = "\
Examples:
  brimful watch 4321
  brimful watch $(pgrep -f train.py) -o today.run

It goes on until the job has ended; Ctrl-C ends it earlier and leaves the job alone.

Exit codes:
  0  watched
  2  bad usage, or no such process";

/// `brimful run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, override_usage = "brimful run [OPTIONS] -- COMMAND...")]
pub struct RunArgs {
    /// Hold the job to so much memory, such as 8GiB
    #[arg(short, long, value_name = "SIZE")]
    pub limit: Option<String>,

    /// Compare with a plan: the JSON of 'brimful plan --format json'
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// How it is watched.
    #[command(flatten)]
    pub watching: WatchingArgs,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `brimful watch`.
#[derive(Debug, Args)]
#[command(after_help = WATCH_EXAMPLES)]
pub struct WatchArgs {
    /// The job's first process: its descendants are watched with it
    #[arg(value_name = "PID")]
    pub pid: u32,

    /// How it is watched.
    #[command(flatten)]
    pub watching: WatchingArgs,

    /// Where the job's agent sends to (for brimful.watch() in Python)
    #[arg(long, value_name = "PATH", hide = true)]
    pub socket: Option<PathBuf>,
}

/// What is said of a job that is watched, and where it is kept.
#[derive(Debug, Args)]
pub struct WatchingArgs {
    /// Record to this file [default: one in ~/.local/state/brimful/runs]
    #[arg(short, long, value_name = "RUN")]
    pub output: Option<PathBuf>,

    /// Serve the figures to Prometheus at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,

    /// No live screen on a terminal
    #[arg(long)]
    pub plain: bool,

    /// Say nothing until the end; with run, not then either
    #[arg(short, long)]
    pub quiet: bool,

    /// The end for people (text), or for programs (json), who are told nothing before
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

impl WatchingArgs {
    /// Whether nothing is said while the job runs.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.format == Format::Json
    }
}

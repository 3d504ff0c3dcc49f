//! What can be asked on the command line.
//!
//! In: arguments. Out: [`Cli`]. Only the form is checked here; what a name or a size means is for the commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

#[cfg(unix)]
use crate::commands::data::args::DataArgs;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BRIMFUL_TARGET"), ")");

const EXIT_CODES: &str = "\
Exit codes:
  0  it fits, or the command did what was asked
  1  it does not fit
  2  bad usage, or an input that cannot be read";

const PLAN_EXAMPLES: &str = "\
Examples:
  brimful plan model.keras --batch 128 --device t4
  brimful plan model.json --batch 64 --device cpu --memory 3GiB
  brimful plan model.keras --precision mixed_float16 --optimizer sgd
  brimful plan model.keras --set input.shape=256,256,3 --set dense.units=128
  brimful plan model.keras --format json | jq .peak
  brimful plan model.keras --format html -o plan.html
  brimful plan train.py:make_model --input 3x224x224 --batch 64 --device t4
  brimful plan config.json --seq 512 --batch 8 --precision bfloat16 --device a100
  brimful plan snapshot.pickle

MODEL is one of
  FILE.py:NAME     a PyTorch model, its class, or a function that returns it; also
                   package.module:NAME. It runs in your own Python:
                   $BRIMFUL_PYTHON, else the one that has this command, else
                   the active virtual environment's, else python3
  config.json      of transformers, or a folder with one: built without weights
  model.keras      written by model.save('model.keras'), or the text of
                   model.to_json(). Only its layers are read, not its weights
  snapshot.pickle  from torch.cuda.memory._dump_snapshot('snapshot.pickle')

Exit codes:
  0  it fits (a tight fit included)
  1  it does not fit
  2  bad usage, a file that cannot be read, or a model that cannot be run to the end";

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  brimful calibrate
  brimful calibrate --format json | jq .context_bytes

It takes a few seconds and about 1 GiB of the GPU, in your own Python, which is
chosen as for 'brimful plan train.py:make_model'. The figures are kept in
$XDG_CACHE_HOME/brimful/calibration.json, or ~/.cache/brimful/calibration.json.

Exit codes:
  0  measured and kept
  2  no GPU, no PyTorch, or the figures cannot be kept";

const FIT_EXAMPLES: &str = "\
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

const EXPLAIN_EXAMPLES: &str = "\
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

const REPORT_EXAMPLES: &str = "\
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

const DEVICES_EXAMPLES: &str = "\
Examples:
  brimful devices
  brimful devices --format json | jq '.devices[].id'";

/// Will a machine-learning job fit into memory? Know before it runs.
#[derive(Debug, Parser)]
#[command(name = "brimful", version = VERSION, after_help = EXIT_CODES, arg_required_else_help = true)]
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

/// `brimful explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// The job's output: a file, or - for standard input
    pub log: Option<PathBuf>,

    /// The job's model, a Keras file: its plan says which batch failed and which would have fitted
    #[arg(long, value_name = "MODEL")]
    pub plan: Option<PathBuf>,

    /// With --plan: samples per step, where the log does not show it
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
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

/// `brimful plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub struct PlanArgs {
    /// The model: FILE.py:NAME, a config.json of transformers, a .keras file, or a memory snapshot of PyTorch
    pub model: PathBuf,

    /// Samples per step [default: that of the model's own inputs, else 32; 8 for a config.json]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub batch: Option<u64>,

    /// The optimizer, such as adam or sgd [default: as the file says, else adam; adamw for PyTorch]
    #[arg(long, value_name = "NAME")]
    pub optimizer: Option<String>,

    /// The loss, such as mean_squared_error; for PyTorch such as cross_entropy, or a function in FILE.py
    /// [default: as the file or the model says, else by the last layer]
    #[arg(long, value_name = "NAME")]
    pub loss: Option<String>,

    /// The types of weights and results [default: as the file says]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub precision: Option<Precision>,

    /// What runs the model [default: tensorflow for a Keras file, else torch]
    #[arg(long, value_enum, value_name = "NAME")]
    pub framework: Option<FrameworkName>,

    /// Where it runs, such as t4, rtx-4090 or cpu; 'brimful devices' lists them [default: this machine]
    #[arg(short, long, value_name = "NAME")]
    pub device: Option<String>,

    /// How much the framework may use, such as 15GiB [default: what the device leaves it]
    #[arg(short, long, value_name = "SIZE")]
    pub memory: Option<String>,

    /// PyTorch: an input without its batch, such as 3x224x224, 512:int64 or input_ids=512:int64; can be given several times
    #[arg(short, long = "input", value_name = "[NAME=]SHAPE[:DTYPE]")]
    pub inputs: Vec<String>,

    /// config.json: tokens in a sequence [default: 512, or as many as the model takes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub seq: Option<u64>,

    /// PyTorch: micro-batches whose gradients are accumulated in a step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub accumulate: Option<u64>,

    /// config.json: with gradient_checkpointing_enable()
    #[arg(long)]
    pub checkpointing: bool,

    /// PyTorch: the model goes through torch.compile
    #[arg(long)]
    pub compile: bool,

    /// Keras: change a setting of a layer first; can be given several times
    #[arg(long = "set", value_name = "LAYER.ATTR=VALUE")]
    pub set: Vec<String>,

    /// Plan a forward pass only: no gradients, no optimizer
    #[arg(long)]
    pub inference: bool,

    /// For people (text, or a page for the browser: html) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: PlanFormat,

    /// Write the report to a file instead of the terminal
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl PlanArgs {
    /// The first option that was given and that only a PyTorch model has a use for.
    pub fn only_for_torch(&self) -> Option<&'static str> {
        let given = [
            ("--input", !self.inputs.is_empty()),
            ("--seq", self.seq.is_some()),
            ("--accumulate", self.accumulate.is_some()),
            ("--checkpointing", self.checkpointing),
            ("--compile", self.compile),
        ];
        given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }
}

/// `brimful fit`.
#[derive(Debug, Args)]
#[command(after_help = FIT_EXAMPLES, override_usage = "brimful fit [OPTIONS] -- COMMAND...")]
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

/// `brimful report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
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

/// `brimful calibrate`.
#[derive(Debug, Args)]
#[command(after_help = CALIBRATE_EXAMPLES)]
pub struct CalibrateArgs {
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// `brimful devices`.
#[derive(Debug, Args)]
#[command(after_help = DEVICES_EXAMPLES)]
pub struct DevicesArgs {
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
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

/// The formats of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

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

/// The formats of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    #[default]
    Text,
    Json,
    Html,
}

/// Keras's dtype policies, and for PyTorch autocast or the dtype of all weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Precision {
    Float32,
    MixedFloat16,
    MixedBfloat16,
    Bfloat16,
    Float16,
    Float64,
}

impl Precision {
    /// Keras's name for it.
    pub fn policy(self) -> &'static str {
        match self {
            Precision::Float32 => "float32",
            Precision::MixedFloat16 => "mixed_float16",
            Precision::MixedBfloat16 => "mixed_bfloat16",
            Precision::Bfloat16 => "bfloat16",
            Precision::Float16 => "float16",
            Precision::Float64 => "float64",
        }
    }
}

/// The frameworks, by the names of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FrameworkName {
    #[value(alias = "tf")]
    Tensorflow,
    #[value(alias = "pytorch")]
    Torch,
    Jax,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn names_of_policies_are_those_of_the_options() {
        for precision in Precision::value_variants() {
            assert_eq!(precision.to_possible_value().unwrap().get_name(), precision.policy());
        }
    }
}

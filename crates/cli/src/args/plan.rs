//! What `brimful plan` can be asked.
//!
//! In: arguments. Out: [`PlanArgs`]. Whether an option suits the model is for the command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
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
  model.keras      written by model.save('model.keras'), an older model.h5, or
                   the text of model.to_json(). Its weights are not read
  snapshot.pickle  from torch.cuda.memory._dump_snapshot('snapshot.pickle')

Exit codes:
  0  it fits (a tight fit included)
  1  it does not fit
  2  bad usage, a file that cannot be read, or a model that cannot be run to the end";

/// `brimful plan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// The model: FILE.py:NAME, a config.json of transformers, a .keras file, or a memory snapshot of PyTorch
    pub model: PathBuf,

    /// Samples per step [default: that of the model's own inputs, else 32; 8 for a config.json]
    #[arg(short, long, value_name = "N", value_parser = super::count, allow_negative_numbers = true)]
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
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub seq: Option<u64>,

    /// PyTorch: micro-batches whose gradients are accumulated in a step
    #[arg(long, value_name = "N", value_parser = super::count)]
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

// The help lists the variants of these; documentation on them would turn each list into a paragraph.

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
    use super::*;

    #[test]
    fn names_of_policies_are_those_of_the_options() {
        for precision in Precision::value_variants() {
            assert_eq!(precision.to_possible_value().unwrap().get_name(), precision.policy());
        }
    }
}

//! `brimful plan`: will it fit, where does the memory go, and what is the cheapest change that makes it fit?
//!
//! In: a model file and what the options ask of it. Out: a report, and 1 as the exit code if it does not fit. What the
//! options leave open comes from the file, then from Keras's defaults; a note says which.

mod place;

use anyhow::{Context, anyhow, bail};
use brimful_core::framework::Framework;
use brimful_core::model::{Model, OptimizerConfig};
use brimful_core::report::{NoteReport, Report, Style, Verdict};
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{Document, Options, Override};

use self::place::Place;
use crate::args::{FrameworkName, PlanArgs, PlanFormat};
use crate::exit::Exit;
use crate::machine::Machine;
use crate::model_file;
use crate::output::Output;

/// What Keras's `fit` takes when nothing is said.
const DEFAULT_BATCH: u64 = 32;

/// Plans and writes the report.
pub fn run(args: &PlanArgs, output: &Output) -> anyhow::Result<Exit> {
    refuse_what_is_not_there(args)?;
    let framework = Framework::TensorFlow;
    let overrides = args.set.iter().map(|text| change(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let place = Place::choose(args.device.as_deref(), args.memory.as_deref(), framework, Machine::read)?;
    let document = model_file::read(&args.model)?;
    let policy = args.precision.map(|precision| precision.policy().to_owned());
    let options = Options { overrides, policy, ..Options::default() };
    todo!()
}

/// What other versions will have: said before anything is read.
fn refuse_what_is_not_there(args: &PlanArgs) -> anyhow::Result<()> {
    let (title, instead) = match args.framework {
        FrameworkName::Tensorflow => ("", ""),
        FrameworkName::Torch => ("PyTorch", "the file holds Keras layers, and only TensorFlow's way to run them is known"),
        FrameworkName::Jax => ("JAX", "its compiler decides what is kept, and that is not modelled"),
    };
    if !title.is_empty() {
        bail!("Planning a Keras file for {title} is not there yet: {instead}; use --framework tensorflow");
    }
    if args.format == PlanFormat::Html {
        bail!("HTML reports are not there yet: use --format text or --format json");
    }
    Ok(())
}

/// Reads `LAYER.ATTR=VALUE`. A layer's path may have dots; a setting has none.
fn change(text: &str) -> anyhow::Result<Override> {
    let parts = text.split_once('=').and_then(|(name, value)| Some((name.rsplit_once('.')?, value)));
    match parts {
        Some(((layer, attr), value)) if !layer.is_empty() && !attr.is_empty() => {
            Ok(Override { layer: layer.trim().to_owned(), attr: attr.trim().to_owned(), value: value.to_owned() })
        }
        _ => Err(anyhow!("'{text}' is not a setting: write LAYER.ATTR=VALUE, such as --set dense.units=128")),
    }
}

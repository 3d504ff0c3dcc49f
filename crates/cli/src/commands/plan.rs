//! `brimful plan`: will it fit, where does the memory go, and what is the cheapest change that makes it fit?
//!
//! In: a model file and what the options ask of it. Out: a report, and 1 as the exit code if it does not fit. What the
//! options leave open comes from the file, then from Keras's defaults; a note says which.

mod place;
mod snapshot;
mod torch;

use anyhow::{anyhow, bail};
use brimful_core::framework::Framework;
use brimful_core::model::{Compiled, Loss, Model, OptimizerConfig};
use brimful_core::plan::{ModelChange, ModelSource, Request, plan};
use brimful_core::report::{NoteReport, Report, Style, Verdict};
use brimful_core::step::tensorflow::{OPTIMIZERS, is_known_loss, is_known_optimizer};
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{Document, Options, Override};

use self::place::Place;
use crate::args::{FrameworkName, PlanArgs, PlanFormat, Precision};
use crate::exit::Exit;
use crate::machine::Machine;
use crate::model_file;
use crate::output::Output;

/// What can be planned for today.
const FRAMEWORK: Framework = Framework::TensorFlow;
/// What Keras's `fit` takes when nothing is said.
const DEFAULT_BATCH: u64 = 32;

/// Plans and writes the report.
pub fn run(args: &PlanArgs, output: &Output) -> anyhow::Result<Exit> {
    if snapshot::is_snapshot(&args.model) {
        return snapshot::run(args, output);
    }
    if let Some(source) = torch::Source::of(&args.model)? {
        return torch::run(args, &source, output);
    }
    refuse_what_is_not_there(args)?;
    let overrides = args.set.iter().map(|text| change(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let place = Place::choose(args.device.as_deref(), args.memory.as_deref(), FRAMEWORK, Machine::read)?;
    let source = KerasFile(model_file::read(&args.model)?);
    let base = ModelChange { policy: args.precision.map(|precision| precision.policy().to_owned()), overrides };
    let named = |error: String| anyhow!("{}: {error}", args.model.display());
    let compiled = source.0.compiled().clone();
    let precision = base.policy.clone().unwrap_or_else(|| source.0.policy().to_owned());
    let (job, mut notes) = job(args, compiled, &precision, &place);
    notes.extend(place.notes);
    let request = Request {
        source: &source,
        base,
        job,
        framework: FRAMEWORK,
        device: place.device,
        limit_bytes: place.limit_bytes,
        held_by_others_bytes: place.held_by_others_bytes,
        precision,
    };
    let mut report = plan(&request).map_err(|error| named(error.to_string()))?;
    report.assumptions = notes;
    output.write(&render(&report, args.format, output)?)?;
    Ok(if report.verdict == Verdict::DoesNotFit { Exit::DoesNotFit } else { Exit::Done })
}

/// A file that was read once and is built as often as the plan asks.
pub(super) struct KerasFile(pub(super) Document);

impl ModelSource for KerasFile {
    fn model(&self, change: &ModelChange) -> Result<Model, String> {
        let overrides = change
            .overrides
            .iter()
            .map(|(layer, attr, value)| Override { layer: layer.clone(), attr: attr.clone(), value: value.clone() })
            .collect();
        let options = Options { overrides, policy: change.policy.clone(), ..Options::default() };
        self.0.model(&options).map_err(|error| error.to_string())
    }
}

fn render(report: &Report, format: PlanFormat, output: &Output) -> anyhow::Result<String> {
    Ok(match format {
        PlanFormat::Json => serde_json::to_string_pretty(report)? + "\n",
        PlanFormat::Text | PlanFormat::Html => report.to_text(Style { colour: output.colour(), width: output.width() }),
    })
}

/// The job that the options describe, and what they left open.
fn job(args: &PlanArgs, compiled: Compiled, precision: &str, place: &Place) -> (Job, Vec<NoteReport>) {
    let mut notes = Vec::new();
    let mut note = |code: &str, text: &str| {
        notes.push(NoteReport { code: code.to_owned(), layer: None, text: text.to_owned() });
    };
    if args.batch.is_none() {
        note("default_batch", "No --batch was given: 32 is assumed, the default of Keras's fit().");
    }
    let mode = if args.inference { Mode::Inference } else { Mode::Training };
    let losses = args.loss.as_deref().map_or(compiled.losses, |loss| vec![Loss::named(loss)]);
    if mode == Mode::Training {
        match (args.optimizer.is_none() && compiled.optimizer.is_none(), losses.is_empty()) {
            (true, true) => note(
                "not_compiled",
                "The file names no optimizer and no loss: adam is assumed, and a loss that suits the last layer.",
            ),
            (true, false) => note("default_optimizer", "The file names no optimizer: adam is assumed."),
            (false, true) => note("default_loss", "The file names no loss: one that suits the last layer is assumed."),
            (false, false) => {}
        }
    }
    // What the file asks for itself is in the plan's notes; this is what Keras does when it does not say.
    if place.processor == Processor::Gpu && compiled.jit.is_none() {
        note(
            "xla_default",
            "Keras compiles with XLA on a GPU unless compile() has jit_compile=False: planned is without XLA.",
        );
    }
    let asked = args.optimizer.as_ref().map(|name| OptimizerConfig::named(name));
    let mut optimizer = match (asked, compiled.optimizer) {
        // The same one by name: the file knows its settings.
        (Some(asked), Some(saved)) if asked.name == saved.name => saved,
        (Some(asked), _) => asked,
        (None, saved) => saved.unwrap_or_else(|| OptimizerConfig::named("adam")),
    };
    // Keras wraps the optimizer itself under this policy, and only under this one.
    optimizer.loss_scaling = precision == "mixed_float16" || (optimizer.loss_scaling && args.precision.is_none());
    let batch = args.batch.unwrap_or(DEFAULT_BATCH);
    (Job { batch, optimizer, losses, mode, processor: place.processor, micro_batches: 1 }, notes)
}

/// What other versions will have: said before anything is read.
fn refuse_what_is_not_there(args: &PlanArgs) -> anyhow::Result<()> {
    let framework = match args.framework {
        None | Some(FrameworkName::Tensorflow) => Framework::TensorFlow,
        Some(FrameworkName::Torch) => Framework::Torch,
        Some(FrameworkName::Jax) => Framework::Jax,
    };
    if framework != FRAMEWORK {
        bail!(
            "Planning a Keras file for {} is not there yet: only TensorFlow's way to run Keras layers is modelled; use \
             --framework tensorflow",
            framework.title()
        );
    }
    if let Some(option) = args.only_for_torch() {
        bail!("{option} is for PyTorch models, and {} is not one: leave the option out", args.model.display());
    }
    if args.precision == Some(Precision::Float16) {
        bail!("--precision float16 is for PyTorch models: for a Keras file use --precision mixed_float16");
    }
    // An unknown name in a file is a custom class and gets a note; on the command line it is a slip.
    if let Some(name) = args.optimizer.as_deref().filter(|name| !is_known_optimizer(name)) {
        bail!("'{name}' is not an optimizer that is known: write one of {}", OPTIMIZERS.join(", "));
    }
    if let Some(name) = args.loss.as_deref().filter(|name| !is_known_loss(name)) {
        bail!(
            "'{name}' is not a loss of Keras: write its name, such as sparse_categorical_crossentropy, with _from_logits \
             behind it if the last layer has no softmax"
        );
    }
    if args.format == PlanFormat::Html {
        bail!("HTML reports are not there yet: use --format text or --format json");
    }
    Ok(())
}

/// Reads `LAYER.ATTR=VALUE`. A layer's name may have dots in it; a setting's has none.
fn change(text: &str) -> anyhow::Result<(String, String, String)> {
    let parts = text.split_once('=').and_then(|(name, value)| Some((name.rsplit_once('.')?, value)));
    match parts {
        Some(((layer, attr), value)) if !layer.trim().is_empty() && !attr.trim().is_empty() => {
            Ok((layer.trim().to_owned(), attr.trim().to_owned(), value.to_owned()))
        }
        _ => Err(anyhow!("'{text}' is not a setting: write LAYER.ATTR=VALUE, such as --set dense.units=128")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_apart() {
        let parts = |layer: &str, attr: &str, value: &str| (layer.to_owned(), attr.to_owned(), value.to_owned());
        assert_eq!(change("dense.units=128").unwrap(), parts("dense", "units", "128"));
        assert_eq!(change("enc/v1.2/conv.name = a=b.c").unwrap(), parts("enc/v1.2/conv", "name", " a=b.c"));
        for wrong in ["", "=", "dense=3", ".units=3", "dense.=3", "dense.units"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}

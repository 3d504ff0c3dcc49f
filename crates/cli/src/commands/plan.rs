//! `brimful plan`: will it fit, where does the memory go, and what is the cheapest change that makes it fit?
//!
//! In: a model file and what the options ask of it. Out: a report, and 1 as the exit code if it does not fit. What the
//! options leave open comes from the file, then from Keras's defaults; a note says which.

pub mod place;
mod snapshot;
mod torch;

use anyhow::{anyhow, bail};
use brimful_core::framework::Framework;
use brimful_core::plan::ModelChange;
use brimful_core::plan::keras::{Choices, FRAMEWORK, plan};
use brimful_core::report::{Report, Style, Verdict};

use crate::args::{FrameworkName, PlanArgs, PlanFormat};
use crate::exit::Exit;
use crate::machine::Machine;
use crate::model_file;
use crate::output::Output;

/// Plans and writes the report.
pub fn run(args: &PlanArgs, output: &Output) -> anyhow::Result<Exit> {
    if snapshot::is_snapshot(&args.model) {
        return snapshot::run(args, output);
    }
    if let Some(source) = torch::Source::of(&args.model)? {
        return torch::run(args, &source, output);
    }
    refuse_what_is_not_there(args)?;
    let choices = choices(args)?;
    choices.check()?;
    let place = place::choose(args.device.as_deref(), args.memory.as_deref(), FRAMEWORK, Machine::read)?;
    let source = model_file::read(&args.model)?;
    let report = plan(&source, source.compiled().clone(), source.policy(), &choices, place)
        .map_err(|error| anyhow!("{}: {error}", args.model.display()))?;
    output.write(&render(&report, args.format, output)?)?;
    Ok(if report.verdict == Verdict::DoesNotFit { Exit::DoesNotFit } else { Exit::Done })
}

/// What the options ask of the model.
fn choices(args: &PlanArgs) -> anyhow::Result<Choices> {
    let overrides = args.set.iter().map(|text| change(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let policy = args.precision.map(|precision| precision.policy().to_owned());
    Ok(Choices {
        batch: args.batch,
        optimizer: args.optimizer.clone(),
        loss: args.loss.clone(),
        change: ModelChange { policy, overrides, ..ModelChange::default() },
        inference: args.inference,
        detail: args.format == PlanFormat::Html,
    })
}

fn render(report: &Report, format: PlanFormat, output: &Output) -> anyhow::Result<String> {
    Ok(match format {
        PlanFormat::Json => serde_json::to_string_pretty(report)? + "\n",
        PlanFormat::Html => report.to_html(),
        PlanFormat::Text => report.to_text(Style { colour: output.colour(), width: output.width() }),
    })
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
            "planning a Keras file for {} is not there yet: only TensorFlow's way to run Keras layers is modelled; use \
             --framework tensorflow",
            framework.title()
        );
    }
    if let Some(option) = args.only_for_torch() {
        bail!("{option} is for PyTorch models, and {} is not one: leave the option out", args.model.display());
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

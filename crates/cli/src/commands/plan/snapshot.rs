//! `brimful plan snapshot.pickle`: what a PyTorch memory snapshot says.
//!
//! In: a pickle from `torch.cuda.memory._dump_snapshot`, and a limit if one is asked about. Out: a report, and 1 as the
//! exit code if the run ran out of memory or does not keep within the limit. The pickle is never run.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use brimful_core::bytes;
use brimful_core::report::Style;
use brimful_core::snapshot::{Question, analyse};
use brimful_import::torch_snapshot::MAX_SNAPSHOT_BYTES;
use brimful_import::{is_pickle, read_snapshot};

use crate::args::{FrameworkName, PlanArgs, PlanFormat};
use crate::exit::Exit;
use crate::output::Output;

/// What pickles are called.
const EXTENSIONS: [&str; 2] = ["pickle", "pkl"];

/// Whether a file is a pickle, by its first bytes, else by its name. A pipe is not looked into: what is taken out of it is
/// gone. A file that cannot be opened is for others to name.
pub fn is_snapshot(path: &Path) -> bool {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(2).read_to_end(&mut start));
    let named = path.extension().is_some_and(|name| EXTENSIONS.iter().any(|known| name.eq_ignore_ascii_case(known)));
    read.is_ok() && (is_pickle(&start) || named)
}

/// Analyses a snapshot and writes the report.
pub fn run(args: &PlanArgs, output: &Output) -> anyhow::Result<Exit> {
    refuse_what_makes_no_sense(args)?;
    let limit_bytes = args.memory.as_deref().map(bytes::parse).transpose()?;
    let name = args.model.display();
    let unreadable = || format!("{name} cannot be read");
    let file = File::open(&args.model).with_context(unreadable)?;
    let mut content = Vec::new();
    // One byte more than is accepted: the importer says so itself.
    file.take(MAX_SNAPSHOT_BYTES + 1).read_to_end(&mut content).with_context(unreadable)?;
    let snapshot = read_snapshot(&content).with_context(|| name.to_string())?;
    drop(content);
    let report = analyse(&snapshot, &Question { limit_bytes });
    let text = match args.format {
        PlanFormat::Json => serde_json::to_string_pretty(&report)? + "\n",
        PlanFormat::Text | PlanFormat::Html => report.to_text(Style { colour: output.colour(), width: output.width() }),
    };
    output.write(&text)?;
    Ok(if report.does_not_fit() { Exit::DoesNotFit } else { Exit::Done })
}

/// A snapshot is of a run that has been: nothing about it can be chosen.
fn refuse_what_makes_no_sense(args: &PlanArgs) -> anyhow::Result<()> {
    let given = [
        ("--batch", args.batch.is_some()),
        ("--optimizer", args.optimizer.is_some()),
        ("--loss", args.loss.is_some()),
        ("--precision", args.precision.is_some()),
        ("--set", !args.set.is_empty()),
        ("--inference", args.inference),
        ("--framework", args.framework.is_some_and(|name| name != FrameworkName::Torch)),
    ];
    let given = given.iter().find(|(_, given)| *given).map(|(option, _)| *option);
    if let Some(option) = given.or(args.only_for_torch()) {
        bail!("{option} makes no sense with a memory snapshot: it shows a PyTorch run as it was; leave the option out");
    }
    if args.device.is_some() {
        bail!(
            "--device makes no sense with a memory snapshot, which was recorded on a device of its own; to compare it with a \
             limit, use --memory, such as --memory 15GiB"
        );
    }
    if args.format == PlanFormat::Html {
        bail!("there is no page of a memory snapshot yet: use --format text or --format json");
    }
    Ok(())
}

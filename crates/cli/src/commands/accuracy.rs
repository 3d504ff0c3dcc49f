//! `brimful accuracy`: every measured run against its prediction.
//!
//! A row that was measured in several starts of the program stands for the middle one.
//!
//! In: `measured/tensorflow_*.jsonl` and `models/*/NAME.json` (or `.keras`) under a folder of fixtures. Out: a table in Markdown: error of each row,
//! then median, 90th percentile, worst, how many are predicted too low, and how many need more than the range has; at the end the same of all files, a line each. Rows are
//! predicted as `plan --device cpu` does, those that name another last-level cache than its with that one.
//! Small jobs are judged in MiB, because a few hundred kilobytes would dominate a percentage.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use brimful_core::bytes::MIB;
use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::model::{Compiled, OptimizerConfig};
use brimful_core::plan::{CPU_CACHE_BYTES, CPU_THREADS, ModelChange, Request, plan};
use brimful_core::report::Peak;
use brimful_core::step::{Job, Mode, Processor};
use serde_json::Value;

use crate::model_file;

/// Rows with a smaller peak are judged by their difference, not by a percentage.
const SMALL_BYTES: u64 = 32 * MIB;

/// The files in the order in which they were measured; others come behind them.
const ORDER: [&str; 12] = [
    "tensorflow_cpu_bfc.jsonl", "tensorflow_cpu_bfc_more.jsonl", "tensorflow_cpu_bfc_third.jsonl",
    "tensorflow_cpu_bfc_fourth.jsonl", "tensorflow_cpu_bfc_fifth.jsonl", "tensorflow_cpu_bfc_sixth.jsonl",
    "tensorflow_cpu_bfc_seventh.jsonl", "tensorflow_cpu_bfc_eighth.jsonl", "tensorflow_cpu_bfc_ninth.jsonl",
    "tensorflow_cpu_bfc_tenth.jsonl", "tensorflow_cpu_bfc_eleventh.jsonl", "tensorflow_cpu_bfc_twelfth.jsonl",
];

/// One measured run and its prediction.
struct Row {
    model: String,
    batch: u64,
    optimizer: String,
    precision: String,
    /// The middle of its starts.
    measured_bytes: u64,
    starts: usize,
    predicted_bytes: u64,
    /// The upper end of the range, which a verdict uses.
    high_bytes: u64,
}

impl Row {
    fn error(&self) -> f64 {
        self.predicted_bytes as f64 / self.measured_bytes as f64 - 1.0
    }

    fn difference_mib(&self) -> f64 {
        (self.predicted_bytes as f64 - self.measured_bytes as f64) / MIB as f64
    }

    fn small(&self) -> bool {
        self.measured_bytes < SMALL_BYTES
    }
}

/// Predicts every measured row under `fixtures` and gives the tables.
pub fn run(fixtures: &Path) -> anyhow::Result<String> {
    let folder = fixtures.join("measured");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| format!("{} has no measured runs: give the repository's fixtures folder", folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        // Those of PyTorch are compared in Python, where the models are: `tools/torch_accuracy.py`.
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("tensorflow") && name.ends_with(".jsonl")
        })
        .collect();
    let place = |path: &PathBuf| ORDER.iter().position(|name| path.ends_with(name)).unwrap_or(ORDER.len());
    files.sort_by_key(|path| (place(path), path.clone()));
    let mut text = String::new();
    let mut all = Vec::new();
    let mut together = String::new();
    for file in files {
        let rows = std::fs::read_to_string(&file)?
            .lines()
            .enumerate()
            .map(|(line, row)| read_row(fixtures, row).with_context(|| format!("{} line {}", file.display(), line + 1)))
            .collect::<anyhow::Result<Vec<Row>>>()?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table(&mut text, &name, &rows)?;
        writeln!(together, "{}", Summary::of(&rows).line(&name))?;
        all.extend(rows);
    }
    writeln!(
        text,
        "## Together\n\n| file | rows | median error | 90th percentile | worst | too low by over 10 % | rows below 32 MiB |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- |\n{together}{}",
        Summary::of(&all).line("all"),
    )?;
    Ok(text)
}

fn read_row(fixtures: &Path, line: &str) -> anyhow::Result<Row> {
    let row: Value = serde_json::from_str(line)?;
    let text = |key: &str| row[key].as_str().map(str::to_owned).ok_or_else(|| anyhow!("no {key}"));
    let name = text("model")?.replace('@', "-");
    let batch = row["batch"].as_u64().context("no batch")?;
    let (optimizer, precision) = (text("opt")?, text("dtype")?);
    let steps = row["steps"].as_array().context("no steps")?;
    let first = steps.iter().filter_map(|step| step["peak"].as_u64()).max().context("no peak")?;
    let further = row["further_peaks"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let mut starts: Vec<u64> = further.chain([first]).collect();
    starts.sort_unstable();
    let (measured_bytes, starts) = (starts[starts.len() / 2], starts.len());
    let path = ["keras", "keras_measured"]
        .iter()
        .flat_map(|folder| ["json", "keras"].map(|ending| (folder, ending)))
        .map(|(folder, ending)| fixtures.join("models").join(folder).join(format!("{name}.{ending}")))
        .find(|path| path.is_file());
    let Some(path) = path else { bail!("the model {name}.json is not under {}/models", fixtures.display()) };
    let with_settings = row.get("settings").is_some();
    let cache_bytes = row["cache"].as_u64().unwrap_or(CPU_CACHE_BYTES);
    let processor = Processor::Cpu { threads: CPU_THREADS, cache_bytes };
    let Peak { allocated_bytes, high_bytes, .. } =
        predict(&path, batch, &optimizer, with_settings, &precision, processor)?;
    Ok(Row {
        model: name,
        batch,
        optimizer,
        precision,
        measured_bytes,
        starts,
        predicted_bytes: allocated_bytes,
        high_bytes,
    })
}

/// What `brimful plan --device cpu` answers. The settings of the row's optimizer, where it has any, are those that the file is compiled with.
fn predict(
    path: &Path,
    batch: u64,
    optimizer: &str,
    with_settings: bool,
    precision: &str,
    processor: Processor,
) -> anyhow::Result<Peak> {
    let source = model_file::read(path)?;
    let policy = (precision != "float32").then(|| precision.to_owned());
    let base = ModelChange { policy, ..ModelChange::default() };
    let Compiled { losses, metrics, .. } = source.compiled().clone();
    let compiled = source.compiled().optimizer.clone().filter(|compiled| with_settings && compiled.name == optimizer);
    let device = Device::find("cpu")?.clone();
    let job = Job {
        batch,
        optimizer: compiled.unwrap_or_else(|| OptimizerConfig::named(optimizer)),
        losses,
        metrics,
        mode: Mode::Training,
        processor,
        micro_batches: 1,
    };
    let report = plan(&Request {
        source: &source,
        base,
        job,
        framework: Framework::TensorFlow,
        device,
        limit_bytes: None,
        held_by_others_bytes: 0,
        precision: precision.to_owned(),
    })?;
    Ok(report.peak)
}

fn table(text: &mut String, name: &str, rows: &[Row]) -> anyhow::Result<()> {
    writeln!(text, "## {name}\n")?;
    writeln!(text, "| model | batch | optimizer | precision | measured MiB | predicted MiB | error |")?;
    writeln!(text, "| --- | ---: | --- | --- | ---: | ---: | ---: |")?;
    for row in rows {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let error = if row.small() {
            format!("{:+.1} MiB", row.difference_mib())
        } else {
            format!("{:+.1} %", row.error() * 100.0)
        };
        let Row { model, batch, optimizer, precision, .. } = row;
        let (measured, predicted) = (mib(row.measured_bytes), mib(row.predicted_bytes));
        let of = if row.starts > 1 { format!(" of {}", row.starts) } else { String::new() };
        writeln!(
            text,
            "| {model} | {batch} | {optimizer} | {precision} | {measured:.1}{of} | {predicted:.1} | {error} |"
        )?;
    }
    let Summary { large, median, most, worst, too_low, far_too_low, .. } = Summary::of(rows);
    writeln!(
        text,
        "\n{large} rows above 32 MiB: median error {median:.1} %, 90th percentile {most:.1} %, worst {worst:.1} %; {too_low} \
         predicted too low, {far_too_low} of them by more than 10 %.\n",
    )?;
    let above = |factor: f64| {
        let needed_more = |row: &&Row| !row.small() && row.measured_bytes as f64 > row.high_bytes as f64 * factor;
        rows.iter().filter(needed_more).count()
    };
    writeln!(
        text,
        "A verdict uses the upper end of the range: {} of them needed more than that, {} by more than 5 %.\n",
        above(1.0),
        above(1.05),
    )?;
    Ok(())
}

/// How far the predictions of some rows are off. Percentages are of the rows above 32 MiB, of which there are `large`.
struct Summary {
    large: usize,
    median: f64,
    /// Nine rows of ten are at most so far off.
    most: f64,
    worst: f64,
    too_low: usize,
    /// By more than a tenth.
    far_too_low: usize,
    small: usize,
    /// The one that is farthest off.
    small_worst_mib: f64,
}

impl Summary {
    fn of(rows: &[Row]) -> Summary {
        let errors: Vec<f64> = rows.iter().filter(|row| !row.small()).map(Row::error).collect();
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs() * 100.0).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = ((sizes.len() as f64 * share).ceil() as usize).saturating_sub(1);
            sizes.get(place).copied().unwrap_or(0.0)
        };
        let small = rows.iter().filter(|row| row.small()).map(|row| row.difference_mib().abs());
        Summary {
            large: errors.len(),
            median: at(0.5),
            most: at(0.9),
            worst: at(1.0),
            too_low: errors.iter().filter(|&&error| error < 0.0).count(),
            far_too_low: errors.iter().filter(|&&error| error < -0.1).count(),
            small: small.clone().count(),
            small_worst_mib: small.fold(0.0, f64::max),
        }
    }

    /// A line of the table of all files.
    fn line(&self, name: &str) -> String {
        let Summary { large, median, most, worst, far_too_low, small, small_worst_mib, .. } = self;
        let below = match small {
            0 => String::new(),
            _ => format!("{small}, at most {small_worst_mib:.1} MiB off"),
        };
        format!("| {name} | {large} | {median:.1} % | {most:.1} % | {worst:.1} % | {far_too_low} | {below} |")
    }
}

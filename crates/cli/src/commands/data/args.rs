//! What `brimful data` can be asked.
//!
//! In: arguments. Out: what the data crate takes: open options, a request, batch options. Only the form is checked here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use brimful_core::bytes;
use brimful_data::budget::available;
use brimful_data::layout::{Conversion, DType, Layout, Request};
use brimful_data::order::{Shard, Shuffle};
use brimful_data::plan::BatchOptions;
use brimful_data::source::{self, BadRows, CsvOptions, OpenOptions, Source};
use clap::{Args, Subcommand, ValueEnum};

use crate::args::Format;

const EXAMPLES: &str = "\
Examples:
  brimful data plan train.csv --memory 256MiB --batch 256 --shuffle block
  brimful data describe 'train/*.parquet'
  brimful data sample train.csv -n 5
  brimful data convert train.csv -o train.npy --memory 128MiB
  brimful data bench train.parquet --batch 256 --shuffle global
  brimful data check -- python train.py

SRC is a file, several, a pattern in quotes, or a folder of pictures: CSV, JSON
lines (both also .gz and .zst), Parquet, Arrow IPC, .npy, .npz, Zarr, JPEG, PNG.

Exit codes:
  0  done, or it fits
  1  the budget is too small: the answer says how much is needed
  2  bad usage, or data that cannot be read";

/// `brimful data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: DataCommand,
}

/// What can be done with data.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Say how much memory reading takes, and whether it fits, before anything is read
    Plan(PlanArgs),
    /// Columns with their types, missing values, ranges and means, in one pass
    Describe(DescribeArgs),
    /// Rows drawn at random, as CSV
    Sample(SampleArgs),
    /// Write rows to .npy or .parquet, in the order that is asked for
    Convert(ConvertArgs),
    /// Read whole epochs and say how fast, with how much memory
    Bench(BenchArgs),
    /// Run a training script and name the lines that hold the host's memory
    Check(CheckArgs),
}

/// Which rows, and how much memory.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Files, patterns, or a folder of pictures
    #[arg(required = true, value_name = "SRC")]
    pub sources: Vec<String>,

    /// Bytes that reading may hold, such as 256MiB [default: a quarter of what the machine or the container leaves]
    #[arg(short, long, value_name = "SIZE")]
    pub memory: Option<String>,

    /// The columns that are read, with commas [default: all that are numbers]
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,

    /// The columns of the labels, with commas
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub labels: Vec<String>,

    /// The type of the features, such as float32 [default: float32 for tables, the file's own for arrays; `describe`, `sample` and `convert`: the file's own]
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<String>,

    /// The format of the files, where their names do not tell
    #[arg(long, value_name = "NAME")]
    pub source_format: Option<String>,

    /// CSV: what separates values [default: found out]
    #[arg(long, value_name = "CHAR")]
    pub delimiter: Option<char>,

    /// CSV and JSON lines: the type of a column, float64, int64, bool or text; can be given several times
    #[arg(long = "type", value_name = "COLUMN=TYPE")]
    pub types: Vec<String>,

    /// A column of text as a number below N; can be given several times
    #[arg(long = "hash", value_name = "COLUMN=N")]
    pub hashed: Vec<String>,

    /// Arrays of an .npz archive or a Zarr group, with commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub keys: Vec<String>,

    /// Pictures: their height and width, such as 224x224
    #[arg(long, value_name = "HxW")]
    pub image_size: Option<String>,

    /// What to do with rows that cannot be read
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub bad_rows: BadRowsWhat,

    /// Where compressed files are unpacked and rows of a global shuffle are kept [default: the system's folder for that]
    #[arg(long, value_name = "FOLDER")]
    pub scratch: Option<PathBuf>,

    /// Threads that read [default: as many as there are processors, at most 8]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Batches and their order.
#[derive(Debug, Args)]
pub struct OrderArgs {
    /// Rows of a batch
    #[arg(short, long, value_name = "N", default_value_t = 256)]
    pub batch: usize,

    /// How strongly rows are mixed
    #[arg(short, long, value_enum, value_name = "HOW", default_value_t)]
    pub shuffle: ShuffleHow,

    /// The seed of the order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// As `--shuffle` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ShuffleHow {
    /// In the order of the files
    #[default]
    None,
    /// In the order of the files, mixed within windows
    Window,
    /// Pieces of the files in random order, mixed within windows
    Block,
    /// Every order of all rows is as likely as every other
    Global,
}

/// As `--bad-rows` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BadRowsWhat {
    /// Stop, and say where
    #[default]
    Fail,
    /// Leave them out, and count them
    Skip,
    /// Keep them; what cannot be read is not known
    Null,
}

/// `brimful data plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub order: OrderArgs,
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// `brimful data describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// `brimful data sample`.
#[derive(Debug, Args)]
pub struct SampleArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// How many rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub rows: u64,
    /// The seed of the draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// `brimful data convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub order: OrderArgs,
    /// The file that is written: .npy or .parquet
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// `brimful data bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub order: OrderArgs,
    /// How many epochs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub epochs: u64,
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// `brimful data check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// The command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl SourceArgs {
    /// Opens the files.
    pub fn open(&self) -> anyhow::Result<Arc<dyn Source>> {
        let delimiter =
            self.delimiter.map(u8::try_from).transpose().context("--delimiter must be one ASCII character")?;
        let types = self.types.iter().map(|text| pair(text, "--type")).collect::<anyhow::Result<_>>()?;
        let image_size = self.image_size.as_deref().map(size).transpose()?;
        let options = OpenOptions {
            format: self.source_format.clone(),
            csv: CsvOptions { delimiter, types, ..CsvOptions::default() },
            keys: self.keys.clone(),
            image_size,
            scratch: self.scratch.clone(),
            ..OpenOptions::default()
        };
        Ok(source::open(&self.sources, &options)?)
    }

    /// The type of the features, if one was asked for.
    pub fn dtype(&self) -> anyhow::Result<Option<DType>> {
        let parse =
            |name: &String| DType::parse(name).with_context(|| format!("--dtype {name}: no such type; try float32"));
        self.dtype.as_ref().map(parse).transpose()
    }

    /// What of each row is wanted; `separate`: each column by itself.
    pub fn layout(&self, source: &dyn Source, separate: bool) -> anyhow::Result<Layout> {
        let dtype = self.dtype()?;
        let mut conversions = BTreeMap::new();
        for text in &self.hashed {
            let (name, count) = pair(text, "--hash")?;
            let count: u64 =
                count.parse().ok().filter(|count| *count > 0).context("--hash COLUMN=N: N is a number above 0")?;
            conversions.insert(name, Conversion::Hash(count));
        }
        let (columns, labels) = (self.columns.clone(), self.labels.clone());
        let request = Request { columns, labels, dtype, separate, conversions, ..Request::default() };
        Ok(source::layout(source, &request)?)
    }

    /// The budget, and where it comes from if nobody gave it.
    pub fn memory(&self) -> anyhow::Result<(u64, Option<String>)> {
        match &self.memory {
            Some(text) => Ok((bytes::parse(text)?, None)),
            None => {
                let found = available(Path::new("/"));
                Ok((found.memory_bytes, Some(found.reason)))
            }
        }
    }

    /// Settings of batches.
    pub fn options(&self, order: &OrderArgs) -> anyhow::Result<BatchOptions> {
        Ok(BatchOptions {
            batch_rows: order.batch,
            memory_bytes: self.memory()?.0,
            shuffle: order.shuffle.into(),
            seed: order.seed,
            shard: Shard::default(),
            threads: self.threads,
            bad_rows: self.bad_rows.into(),
            scratch: self.scratch.clone(),
            ..BatchOptions::default()
        })
    }
}

impl From<ShuffleHow> for Shuffle {
    fn from(how: ShuffleHow) -> Shuffle {
        match how {
            ShuffleHow::None => Shuffle::None,
            ShuffleHow::Window => Shuffle::Window,
            ShuffleHow::Block => Shuffle::Block,
            ShuffleHow::Global => Shuffle::Global,
        }
    }
}

impl From<BadRowsWhat> for BadRows {
    fn from(what: BadRowsWhat) -> BadRows {
        match what {
            BadRowsWhat::Fail => BadRows::Fail,
            BadRowsWhat::Skip => BadRows::Skip,
            BadRowsWhat::Null => BadRows::Null,
        }
    }
}

fn pair(text: &str, option: &str) -> anyhow::Result<(String, String)> {
    match text.rsplit_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => bail!("{option} {text}: write COLUMN=VALUE"),
    }
}

fn size(text: &str) -> anyhow::Result<(usize, usize)> {
    let parse = |text: &str| text.parse().ok().filter(|pixels| (1..=1 << 16).contains(pixels));
    let found = text.split_once('x').and_then(|(height, width)| Some((parse(height)?, parse(width)?)));
    found.with_context(|| format!("--image-size {text}: write height and width, such as 224x224"))
}

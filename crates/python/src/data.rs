//! Files, loaders and batches, as Python holds them.
//!
//! In: dictionaries whose keys are those of the structures below; `brimful.data` makes them, and every key is there. Out: objects,
//! plans and figures as JSON, exceptions of `brimful.data.errors`. A batch's arrays are borrowed by way of `__array_interface__`: the
//! object that lends them owns the batch, and its memory returns to the budget when the last array is gone. The interpreter is let
//! go of while something is waited for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use brimful_data::DataError;
use brimful_data::budget::available;
use brimful_data::layout::{Conversion, DType, Kind, Layout, Request};
use brimful_data::loader::{Batch, Batches, Loader, Position};
use brimful_data::order::Shard;
use brimful_data::plan::{BatchOptions, Plan};
use brimful_data::source::{self, CsvOptions, OpenOptions, Source, Stop, open};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// How files are opened.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Opening {
    format: Option<String>,
    delimiter: Option<String>,
    header: Option<bool>,
    types: Vec<(String, String)>,
    nulls: Vec<String>,
    keys: Vec<String>,
    image_size: Option<(usize, usize)>,
    image_channels: Option<usize>,
    scratch: Option<PathBuf>,
}

/// Which columns are wanted, and how.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Wanted {
    columns: Option<Vec<String>>,
    labels: Vec<String>,
    dtype: Option<String>,
    label_dtype: Option<String>,
    separate: bool,
    categories: BTreeMap<String, Vec<String>>,
    hashed: BTreeMap<String, u64>,
}

/// Which batches are wanted.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Batching {
    batch_rows: usize,
    memory_bytes: u64,
    shuffle: String,
    seed: u64,
    window_rows: Option<u64>,
    rank: u64,
    world: u64,
    keep_remainder: bool,
    threads: Option<usize>,
    drop_last: bool,
    bad_rows: String,
    patience_ms: u64,
    scratch: Option<PathBuf>,
}

impl Opening {
    fn options(self, stop: Stop) -> Result<OpenOptions, DataError> {
        let delimiter = match self.delimiter.as_deref().map(str::as_bytes) {
            None => None,
            Some([byte]) => Some(*byte),
            Some(_) => return Err(DataError::Request("the delimiter must be one ASCII character".to_owned())),
        };
        Ok(OpenOptions {
            format: self.format,
            csv: CsvOptions { delimiter, header: self.header, types: self.types, nulls: self.nulls },
            keys: self.keys,
            image_size: self.image_size,
            image_channels: self.image_channels,
            scratch: self.scratch,
            stop,
        })
    }
}

impl Wanted {
    fn layout(self, source: &dyn Source) -> Result<Layout, DataError> {
        let number = |(at, text): (usize, String)| (text.into_bytes(), at as i64);
        let categories = self.categories.into_iter().map(|(name, list)| {
            let places = list.into_iter().enumerate().map(number).collect();
            (name, Conversion::Categories(Arc::new(places)))
        });
        let hashed = self.hashed.into_iter().map(|(name, below)| (name, Conversion::Hash(below)));
        let request = Request {
            columns: self.columns,
            labels: self.labels,
            dtype: self.dtype.as_deref().map(dtype).transpose()?,
            label_dtype: self.label_dtype.as_deref().map(dtype).transpose()?,
            separate: self.separate,
            conversions: categories.chain(hashed).collect(),
        };
        source::layout(source, &request)
    }
}

impl Batching {
    fn options(self) -> Result<BatchOptions, DataError> {
        Ok(BatchOptions {
            batch_rows: self.batch_rows,
            memory_bytes: self.memory_bytes,
            shuffle: named("shuffle", &self.shuffle)?,
            seed: self.seed,
            window_rows: self.window_rows,
            shard: Shard { rank: self.rank, world: self.world, keep_remainder: self.keep_remainder },
            threads: self.threads,
            drop_last: self.drop_last,
            bad_rows: named("bad_rows", &self.bad_rows)?,
            patience: Duration::from_millis(self.patience_ms),
            scratch: self.scratch,
        })
    }
}

fn dtype(name: &str) -> Result<DType, DataError> {
    DType::parse(name).ok_or_else(|| {
        let all: Vec<&str> = DType::ALL.into_iter().map(DType::name).collect();
        DataError::Request(format!("there is no type '{name}'; there are {}", all.join(", ")))
    })
}

/// One of the names that a setting may have.
fn named<T: serde::de::DeserializeOwned>(setting: &str, name: &str) -> Result<T, DataError> {
    serde_json::from_value(name.into()).map_err(|error| DataError::Request(format!("{setting} is '{name}': {error}")))
}

/// The exception of `brimful.data.errors` for what went wrong.
fn raised(py: Python<'_>, error: DataError) -> PyErr {
    let (class, more) = match &error {
        DataError::BelowFloor { floor_bytes, memory_bytes, .. } => ("BelowFloor", (*floor_bytes, *memory_bytes)),
        DataError::HeldByCaller { batches, memory_bytes } => ("BudgetHeldByCaller", (*batches as u64, *memory_bytes)),
        DataError::Io { .. } | DataError::Path { .. } => ("FileUnreadable", (0, 0)),
        _ => ("DataError", (0, 0)),
    };
    let text = error.to_string();
    let made = py.import("brimful.data.errors").and_then(|errors| {
        let class_ = errors.getattr(class)?;
        if more == (0, 0) { class_.call1((text,)) } else { class_.call1((text, more.0, more.1)) }
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Signals that came while the interpreter was let go of: Ctrl-C is heard while something is waited for.
#[derive(Default)]
struct Signals(Mutex<Option<PyErr>>);

impl Signals {
    fn came(&self) -> bool {
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(error) => {
                *self.0.lock().expect("nobody panics with it") = Some(error);
                true
            }
        }
    }

    fn raise(&self) -> PyResult<()> {
        self.0.lock().expect("nobody panics with it").take().map_or(Ok(()), Err)
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// Files of one format with the same columns.
#[pyclass(frozen, module = "brimful._native")]
pub struct DataSource(Arc<dyn Source>);

#[pymethods]
impl DataSource {
    /// Opens files, folders and patterns.
    #[new]
    fn new(py: Python<'_>, paths: Vec<String>, opening: Opening) -> PyResult<DataSource> {
        let signals = Arc::new(Signals::default());
        let heard = signals.clone();
        let opened = py.detach(|| open(&paths, &opening.options(Stop::new(move || heard.came()))?));
        signals.raise()?;
        opened.map(DataSource).map_err(|error| raised(py, error))
    }

    /// The format's name.
    #[getter]
    fn format(&self) -> &'static str {
        self.0.format()
    }

    /// All rows.
    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows()
    }

    /// What the numbers of the column `label` mean, where folders name the classes.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    /// Bytes of all files.
    #[getter]
    fn file_bytes(&self) -> u64 {
        self.0.file_bytes()
    }

    /// Name, type (`text` for text) and shape of each column.
    #[getter]
    fn columns(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let kind = |kind| match kind {
            Kind::Number(dtype) => DType::name(dtype),
            Kind::Text => "text",
        };
        self.0.columns().iter().map(|column| (column.name.clone(), kind(column.kind), column.shape.clone())).collect()
    }

    /// How a budget would be used, as JSON, before anything is read.
    fn plan(&self, py: Python<'_>, wanted: Wanted, batching: Batching) -> PyResult<String> {
        let plan = || {
            let layout = wanted.layout(&*self.0)?;
            Plan::new(&*self.0, &layout, &batching.options()?)
        };
        json(&py.detach(plan).map_err(|error| raised(py, error))?)
    }

    /// Batches inside a budget.
    fn loader(&self, py: Python<'_>, wanted: Wanted, batching: Batching) -> PyResult<DataLoader> {
        let signals = Signals::default();
        let make = || {
            let layout = wanted.layout(&*self.0)?;
            Loader::stoppable(self.0.clone(), layout, batching.options()?, &|| signals.came())
        };
        let made = py.detach(make);
        signals.raise()?;
        made.map(DataLoader).map_err(|error| raised(py, error))
    }
}

/// Batches of a source, epoch by epoch.
#[pyclass(frozen, module = "brimful._native")]
pub struct DataLoader(Loader);

#[pymethods]
impl DataLoader {
    /// How the budget is used, as JSON.
    fn plan(&self) -> PyResult<String> {
        json(self.0.plan())
    }

    /// What was counted so far, as JSON.
    fn figures(&self) -> PyResult<String> {
        json(&self.0.figures())
    }

    /// Name, type and shape of one row of each array of a batch.
    #[getter]
    fn fields(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let fields = &self.0.layout().fields;
        fields.iter().map(|field| (field.name.clone(), field.dtype.name(), field.shape.clone())).collect()
    }

    /// The beginning of an epoch, as JSON.
    fn position(&self, epoch: u64) -> PyResult<String> {
        json(&self.0.position(epoch))
    }

    /// The batches that follow a position.
    fn batches(&self, py: Python<'_>, position_json: &str) -> PyResult<DataBatches> {
        let from = |error: serde_json::Error| DataError::Request(format!("this is no position of a loader: {error}"));
        let start = || self.0.resume(&serde_json::from_str::<Position>(position_json).map_err(from)?);
        let batches = py.detach(start).map_err(|error| raised(py, error))?;
        Ok(DataBatches(Mutex::new(Some(batches))))
    }
}

/// An epoch on its way.
#[pyclass(frozen, module = "brimful._native")]
pub struct DataBatches(Mutex<Option<Batches>>);

#[pymethods]
impl DataBatches {
    /// The arrays of the next batch; nothing when the epoch is over.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Vec<DataField>>> {
        let signals = Signals::default();
        let next = py.detach(|| match &mut *self.0.lock().expect("nobody panics with it") {
            Some(batches) => batches.next(&|| signals.came()),
            None => Err(DataError::Request("this epoch was ended: the loader has begun another one".to_owned())),
        });
        signals.raise()?;
        let batch = next.map_err(|error| raised(py, error))?;
        Ok(batch.map(|batch| {
            let batch = Arc::new(batch);
            let fields = 0..batch.rows().layout().fields.len();
            fields.map(|field| DataField { batch: batch.clone(), field }).collect()
        }))
    }

    /// Where the next batch begins, as JSON; nothing after `close`.
    fn position(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let lock = || self.0.lock().expect("nobody panics with it").as_ref().map(Batches::position);
        py.detach(lock).map(|position| json(&position)).transpose()
    }

    /// Ends the threads that read.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().expect("nobody panics with it").take()));
    }
}

/// An array of a batch. It owns the batch together with the batch's other arrays.
#[pyclass(frozen, module = "brimful._native")]
pub struct DataField {
    batch: Arc<Batch>,
    field: usize,
}

#[pymethods]
impl DataField {
    /// Where the array lies, for `numpy.asarray`, which keeps this object for as long as the array lives.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.batch.rows();
        let field = &rows.layout().fields[self.field];
        let kind = match field.dtype {
            DType::Bool => 'b',
            dtype if dtype.is_float() => 'f',
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
            _ => 'i',
        };
        let order = if cfg!(target_endian = "little") { '<' } else { '>' };
        let order = if field.dtype.bytes() == 1 { '|' } else { order };
        let shape = std::iter::once(rows.len()).chain(field.shape.iter().copied());
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", format!("{order}{kind}{}", field.dtype.bytes()))?;
        interface.set_item("shape", PyTuple::new(py, shape.collect::<Vec<_>>())?)?;
        interface.set_item("data", (rows.address(self.field), false))?;
        Ok(interface)
    }
}

/// The budget that is taken when nobody gives one, and why.
#[pyfunction]
pub fn data_memory() -> (u64, String) {
    let found = available(std::path::Path::new("/"));
    (found.memory_bytes, found.reason)
}

//! A recorded job, as Python holds it.

use brimful_core::allocator::place;
use brimful_core::allocator::torch_caching::{Options, TorchCaching};
use brimful_core::capture;
use brimful_core::plan::torch::{Request, plan, plan_in_detail};
use brimful_core::report::{Report, Style};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What a few training steps ask of PyTorch's CUDA allocator.
#[pyclass(frozen, module = "brimful._native")]
pub struct Capture {
    inner: capture::Capture,
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Capture {
    fn report(&self, request_json: &str) -> PyResult<Report> {
        let request = Request::from_json(request_json).map_err(refused)?;
        plan(&self.inner, &request).map_err(refused)
    }
}

#[pymethods]
impl Capture {
    /// Reads rows recorded at `batch_a`, and at `batch_b` where `rows_b` is given.
    #[new]
    #[pyo3(signature = (strings, batch_a, rows_a, batch_b, rows_b))]
    fn new(
        py: Python<'_>,
        strings: Vec<String>,
        batch_a: u64,
        rows_a: &[u8],
        batch_b: u64,
        rows_b: Option<&[u8]>,
    ) -> PyResult<Capture> {
        let read = || capture::Capture::new(strings, batch_a, rows_a, batch_b, rows_b);
        Ok(Capture { inner: py.detach(read).map_err(refused)? })
    }

    /// Whether sizes are known for other batches than the recorded one.
    #[getter]
    fn paired(&self) -> bool {
        self.inner.paired
    }

    /// The report for a request, both as JSON (`docs/json.md` has their fields).
    fn plan(&self, py: Python<'_>, request_json: &str) -> PyResult<String> {
        let report = py.detach(|| self.report(request_json))?;
        serde_json::to_string(&report).map_err(refused)
    }

    /// The report for a request, as text for people.
    fn text(&self, py: Python<'_>, request_json: &str, width: usize, colour: bool) -> PyResult<String> {
        Ok(py.detach(|| self.report(request_json))?.to_text(Style { colour, width }))
    }

    /// The report for a request, as a page that needs nothing but a browser.
    fn html(&self, py: Python<'_>, request_json: &str) -> PyResult<String> {
        let request = Request::from_json(request_json).map_err(refused)?;
        Ok(py.detach(|| plan_in_detail(&self.inner, &request)).map_err(refused)?.to_html())
    }

    /// The peaks in bytes of a replay: `allocated`, `reserved` and `requested`, and `failed`, which is true if the replay
    /// ran out of the limit. `conf` is a PYTORCH_ALLOC_CONF string.
    #[pyo3(signature = (batch, conf=None, limit_bytes=None))]
    fn peaks<'py>(
        &self,
        py: Python<'py>,
        batch: u64,
        conf: Option<&str>,
        limit_bytes: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if !self.inner.knows(batch) {
            return Err(refused(format!(
                "the recording says nothing about batch {batch}: record it, or ask for batch {}",
                self.inner.batch
            )));
        }
        let mut options: Options = conf.unwrap_or("").parse().map_err(refused)?;
        if let Some(limit_bytes) = limit_bytes {
            options.capacity_bytes = limit_bytes;
        }
        let placement = py.detach(|| place(&self.inner.recording.trace(batch), batch, &mut TorchCaching::new(options)));
        let peaks = PyDict::new(py);
        peaks.set_item("allocated", placement.peak_allocated_bytes)?;
        peaks.set_item("reserved", placement.peak_reserved_bytes)?;
        peaks.set_item("requested", placement.floor_peak_bytes)?;
        peaks.set_item("failed", placement.failure.is_some())?;
        Ok(peaks)
    }
}

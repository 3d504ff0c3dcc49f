//! Explanations of failures, as Python asks for them.

use brimful_core::explain;
use brimful_core::report::Style;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Reads a log, a piece at a time.
#[pyclass(frozen)]
pub struct Explainer(std::sync::Mutex<explain::Explainer>);

/// What a log says about a failure.
#[pyclass(frozen)]
pub struct Explanation(explain::Explanation);

#[pymethods]
impl Explainer {
    #[new]
    fn new() -> Explainer {
        Explainer(std::sync::Mutex::new(explain::Explainer::new()))
    }

    /// Takes more of the log.
    fn push(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.lock().map(|mut explainer| explainer.push(data)).map_err(|_| broken()))
    }

    /// The log has ended: its explanation. The next piece begins another log.
    fn finish(&self, py: Python<'_>) -> PyResult<Explanation> {
        let taken = self.0.lock().map(|mut explainer| std::mem::take(&mut *explainer)).map_err(|_| broken())?;
        Ok(Explanation(py.detach(|| taken.finish())))
    }
}

#[pymethods]
impl Explanation {
    /// As `brimful explain --format json` prints it.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// For people.
    fn text(&self, width: usize, colour: bool) -> String {
        self.0.to_text(Style { colour, width })
    }
}

fn broken() -> PyErr {
    PyValueError::new_err("this log could not be read to its end")
}

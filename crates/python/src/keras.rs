//! Plans of Keras models, as Python asks for them.

use std::num::NonZero;

use brimful_core::plan::CPU_THREADS;
use brimful_core::plan::keras::{Question, plan};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The plan of a model by the text of its `to_json()`, as `brimful plan model.json --format json` prints it. The request is
/// JSON: `batch`, `optimizer`, `loss`, `device` (null: a CPU), `memory_bytes`, `precision`, `inference` and `jit`; what is
/// null is as the model was compiled, else as Keras does.
#[pyfunction]
pub fn keras_plan(py: Python<'_>, model_json: &str, request_json: &str) -> PyResult<String> {
    py.detach(|| answer(model_json, request_json)).map_err(PyValueError::new_err)
}

fn answer(model_json: &str, request_json: &str) -> Result<String, String> {
    let mut question = Question::from_json(request_json).map_err(|error| error.to_string())?;
    let threads = std::thread::available_parallelism().map_or(CPU_THREADS, |count| NonZero::get(count) as u64);
    question.place.note_limits(threads);
    let mut model = brimful_import::read(model_json.as_bytes()).map_err(|error| error.to_string())?;
    if question.jit.is_some() {
        model.compiled_mut().jit = question.jit;
    }
    let report = plan(&model, model.compiled().clone(), model.policy(), &question.choices, question.place);
    let report = report.map_err(|error| error.to_string())?;
    serde_json::to_string(&report).map_err(|error| error.to_string())
}

//! The catalogue of devices, as Python asks for it.

use brimful_core::device::Device;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A device of the catalogue by its name, as JSON: `id`, `name`, `compute_capability` and `capacity_bytes`, null if unknown,
/// and `bare_context_bytes`, which CUDA holds before the first kernel is loaded.
#[pyfunction]
pub fn device(name: &str) -> PyResult<String> {
    let device = Device::find(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let found = serde_json::json!({
        "id": device.id,
        "name": device.name,
        "compute_capability": device.compute_capability.map(|capability| capability.to_string()),
        "capacity_bytes": device.capacity_bytes,
        "bare_context_bytes": device.context.as_ref().map_or(0, |context| context.bare_bytes),
    });
    Ok(found.to_string())
}

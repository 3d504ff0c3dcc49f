//! What is asked about a recorded PyTorch job, as JSON.
//!
//! In: the text that `brimful.torch` writes (`docs/json.md` lists its fields). Out: [`Request`], with the device looked up
//! and the limit known, or a [`RequestError`]. The recording itself comes beside it.

use serde::Deserialize;

use crate::allocator::torch_caching::{ConfError, Options};
use crate::bytes;
use crate::device::{ComputeCapability, Context, Device};
use crate::framework::Framework;
use crate::plan::MAX_BATCH;
use crate::report::NoteReport;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Not the JSON that is expected.
    #[error("the request cannot be read: {0}")]
    Json(String),
    /// No such device.
    #[error("{0}")]
    Device(String),
    /// A size that is none.
    #[error("memory: {0}")]
    Memory(String),
    /// PyTorch would refuse the allocator's settings, or they are not simulated.
    #[error("alloc_conf: {0}")]
    AllocConf(#[from] ConfError),
    /// CUDA would hold more than there is.
    #[error("context_bytes: {0} is more than {1} has")]
    Context(String, String),
    /// A batch without samples, or beyond what is searched.
    #[error("batch {0} cannot be planned: it must be between 1 and {MAX_BATCH}")]
    Batch(u64),
    /// The recording does not say what that batch needs.
    #[error("batch {asked} was not recorded, and sizes for it are not known: record it, or ask for batch {recorded}")]
    UnknownBatch {
        /// What was asked.
        asked: u64,
        /// What was recorded.
        recorded: u64,
    },
    /// A range that is no range.
    #[error("widen is {0}, but must be a share from 0 to 1")]
    Widen(f64),
    /// The same, on the other side.
    #[error("lower is {0}, but must be a share from 0 to 1")]
    Lower(f64),
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Samples per step.
    pub batch: u64,
    /// Where it runs.
    pub device: Device,
    /// The most that the allocator may hold, without the context; none if nothing limits it.
    pub limit_bytes: Option<u64>,
    /// What other processes hold of the device and the limit leaves out.
    pub held_by_others_bytes: u64,
    /// Whether it trains.
    pub training: bool,
    /// Whether autograd was on while it was recorded.
    pub autograd: bool,
    /// The optimizer's name in lower case; empty without one.
    pub optimizer: String,
    /// `float32`, `bfloat16`, `autocast_bfloat16`, …
    pub precision: String,
    /// The model's name.
    pub model: String,
    /// Its modules.
    pub modules: Vec<Module>,
    /// The allocator's settings.
    pub options: Options,
    /// Micro-batches in a recorded step.
    pub accumulate: u64,
    /// What the question left open.
    pub assumptions: Vec<NoteReport>,
    /// What to know about the recording.
    pub notes: Vec<NoteReport>,
    /// The share by which the upper end lies above the prediction.
    pub widen: f64,
    /// The share by which the lower end lies below what is allocated at the peak.
    pub lower: f64,
}

/// A module of the model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its path, such as `layer1.0.conv1`; empty for the model itself.
    pub path: String,
    /// Its class, such as `Conv2d`.
    pub class: String,
    /// Elements of its own parameters, without those of its children.
    #[serde(default)]
    pub parameters: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    batch: u64,
    #[serde(default)]
    device: Option<WrittenDevice>,
    #[serde(default)]
    memory: Option<Amount>,
    #[serde(default)]
    limit_bytes: Option<u64>,
    #[serde(default)]
    held_by_others_bytes: u64,
    #[serde(default)]
    context_bytes: Option<u64>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    autograd: Option<bool>,
    #[serde(default)]
    optimizer: Option<String>,
    #[serde(default)]
    precision: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    modules: Vec<Module>,
    #[serde(default)]
    alloc_conf: Option<String>,
    #[serde(default)]
    accumulate: Option<u64>,
    #[serde(default)]
    assumptions: Vec<Note>,
    #[serde(default)]
    notes: Vec<Note>,
    #[serde(default)]
    widen: f64,
    #[serde(default)]
    lower: f64,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Training,
    Inference,
}

/// A device of the catalogue by its name, or one as its driver reports it.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenDevice {
    Named(String),
    Reported {
        name: String,
        capacity_bytes: u64,
        #[serde(default)]
        compute_capability: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Bytes(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    code: String,
    #[serde(default)]
    layer: Option<String>,
    text: String,
}

impl From<Note> for NoteReport {
    fn from(note: Note) -> NoteReport {
        NoteReport { code: note.code, layer: note.layer, text: note.text }
    }
}

/// A name for what has no device: nothing limits it, and no context is known.
const ANY_GPU: &str = "a CUDA device";

impl Request {
    /// Reads a request.
    pub fn from_json(text: &str) -> Result<Request, RequestError> {
        let written: Written = serde_json::from_str(text).map_err(|error| RequestError::Json(error.to_string()))?;
        if !(1..=MAX_BATCH).contains(&written.batch) {
            return Err(RequestError::Batch(written.batch));
        }
        if !(0.0..=1.0).contains(&written.widen) {
            return Err(RequestError::Widen(written.widen));
        }
        if !(0.0..=1.0).contains(&written.lower) {
            return Err(RequestError::Lower(written.lower));
        }
        let mut device = written.device.map(device).transpose()?;
        if let (Some(device), Some(context_bytes)) = (&mut device, written.context_bytes) {
            if device.capacity_bytes.is_some_and(|capacity| context_bytes > capacity) {
                return Err(RequestError::Context(bytes::human(context_bytes), device.name.clone()));
            }
            device.context = Some(Context::measured(context_bytes));
        }
        let given = match written.memory {
            None => written.limit_bytes,
            Some(memory) => {
                let memory = amount(memory, device.as_ref())?;
                Some(written.limit_bytes.map_or(memory, |limit| limit.min(memory)))
            }
        };
        let usable = device.as_ref().and_then(|device| device.usable_bytes(Framework::Torch));
        let left = usable.map(|usable| usable.saturating_sub(written.held_by_others_bytes));
        Ok(Request {
            batch: written.batch,
            limit_bytes: given.or(left),
            // Who names a limit means it, whatever others hold.
            held_by_others_bytes: if given.is_some() { 0 } else { written.held_by_others_bytes },
            device: device.unwrap_or_else(|| Device::custom(ANY_GPU, 0, None)),
            autograd: written.autograd.unwrap_or(written.mode == Mode::Training),
            training: written.mode == Mode::Training,
            optimizer: written.optimizer.unwrap_or_default().to_lowercase(),
            precision: written.precision.unwrap_or_else(|| "float32".to_owned()),
            model: written.model.unwrap_or_default(),
            modules: written.modules,
            options: written.alloc_conf.as_deref().unwrap_or("").parse()?,
            accumulate: written.accumulate.unwrap_or(1).max(1),
            assumptions: written.assumptions.into_iter().map(NoteReport::from).collect(),
            notes: written.notes.into_iter().map(NoteReport::from).collect(),
            widen: written.widen,
            lower: written.lower,
        })
    }

    /// The class of a module by its path; empty if it is not known.
    pub fn class(&self, path: &str) -> &str {
        self.modules.iter().find(|module| module.path == path).map_or("", |module| &module.class)
    }

    /// What the process holds beside the allocator.
    pub fn context_bytes(&self) -> u64 {
        self.device.context_bytes(Framework::Torch)
    }
}

fn device(written: WrittenDevice) -> Result<Device, RequestError> {
    match written {
        WrittenDevice::Named(name) => {
            Device::find(&name).cloned().map_err(|error| RequestError::Device(error.to_string()))
        }
        WrittenDevice::Reported { name, capacity_bytes, compute_capability } => {
            let capability = compute_capability.as_deref().map(str::parse::<ComputeCapability>).transpose();
            let capability = capability.map_err(|error| {
                RequestError::Device(format!("compute_capability of {name} is not such as 7.5: {error}"))
            })?;
            let mut device = match Device::matching(&name, capacity_bytes) {
                Some(known) => known.clone(),
                None => Device::custom(&name, capacity_bytes, capability),
            };
            // What the driver says of this very device comes before the catalogue.
            device.capacity_bytes = Some(capacity_bytes);
            Ok(device)
        }
    }
}

fn amount(memory: Amount, device: Option<&Device>) -> Result<u64, RequestError> {
    let memory = match memory {
        Amount::Bytes(bytes) => bytes,
        Amount::Text(text) => bytes::parse(&text).map_err(|error| RequestError::Memory(error.to_string()))?,
    };
    if memory < bytes::MIB {
        let text = format!("{} is too little: write a size with its unit, such as 15GiB", bytes::human(memory));
        return Err(RequestError::Memory(text));
    }
    match device.and_then(|device| Some((device, device.capacity_bytes?))) {
        Some((device, capacity)) if memory > capacity => {
            let (memory, has) = (bytes::human(memory), bytes::human(capacity));
            Err(RequestError::Memory(format!("{memory} is more than {} has: {has}", device.name)))
        }
        _ => Ok(memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{GIB, MIB};

    #[test]
    fn a_request_says_where_and_how_much() {
        let request = Request::from_json(r#"{"batch": 8, "device": "t4", "optimizer": "AdamW"}"#).unwrap();
        let device = Device::find("t4").unwrap();
        assert_eq!(request.limit_bytes, device.usable_bytes(Framework::Torch));
        assert_eq!((request.optimizer.as_str(), request.training, request.accumulate), ("adamw", true, 1));
        let request = Request::from_json(r#"{"batch": 8, "device": "t4", "held_by_others_bytes": 1048576}"#).unwrap();
        assert_eq!(request.limit_bytes, device.usable_bytes(Framework::Torch).map(|usable| usable - MIB));
        let request = Request::from_json(r#"{"batch": 8, "device": "t4", "memory": "10GiB"}"#).unwrap();
        assert_eq!((request.limit_bytes, request.context_bytes() > 0), (Some(10 * GIB), true));
        let request = Request::from_json(r#"{"batch": 8, "memory": 4194304, "mode": "inference"}"#).unwrap();
        assert_eq!((request.limit_bytes, request.training, request.context_bytes()), (Some(4 * MIB), false, 0));
        let reported = r#"{"batch": 8, "device": {"name": "Tesla T4", "capacity_bytes": 15843721216, "compute_capability": "7.5"}}"#;
        let request = Request::from_json(reported).unwrap();
        assert_eq!((request.device.id.as_str(), request.device.capacity_bytes), ("t4", Some(15_843_721_216)));
        let reported = r#"{"batch": 8, "device": {"name": "Some GPU", "capacity_bytes": 15843721216, "compute_capability": "9.0"}}"#;
        assert!(Request::from_json(reported).unwrap().context_bytes() > 0);
        assert_eq!(Request::from_json(r#"{"batch": 8}"#).unwrap().limit_bytes, None);
    }

    #[test]
    fn a_measured_context_takes_the_place_of_the_catalogue_s() {
        let request = Request::from_json(r#"{"batch": 8, "device": "t4", "context_bytes": 104857600}"#).unwrap();
        let capacity = Device::find("t4").unwrap().capacity_bytes.unwrap();
        assert_eq!((request.context_bytes(), request.limit_bytes), (100 * MIB, Some(capacity - 100 * MIB)));
        let nowhere = Request::from_json(r#"{"batch": 8, "context_bytes": 104857600}"#).unwrap();
        assert_eq!((nowhere.context_bytes(), nowhere.limit_bytes), (0, None));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("", "cannot be read"),
            ("[]", "cannot be read"),
            (r#"{"batch": 0}"#, "batch 0"),
            (r#"{"batch": -1}"#, "cannot be read"),
            (r#"{"batch": 8, "colour": 1}"#, "colour"),
            (r#"{"batch": 8, "device": "t44"}"#, "t44"),
            (r#"{"batch": 8, "device": {"name": "x", "capacity_bytes": 1, "compute_capability": "new"}}"#, "7.5"),
            (r#"{"batch": 8, "memory": "lots"}"#, "'lots' is not a size"),
            (r#"{"batch": 8, "memory": 16}"#, "too little"),
            (r#"{"batch": 8, "device": "t4", "memory": "99GiB"}"#, "more than Tesla T4 has"),
            (r#"{"batch": 8, "alloc_conf": "backend:cudaMallocAsync"}"#, "not simulated"),
            (r#"{"batch": 8, "widen": 2.0}"#, "widen is 2"),
            (r#"{"batch": 8, "lower": -0.5}"#, "lower is -0.5"),
            (r#"{"batch": 8, "device": "t4", "context_bytes": 17179869184}"#, "more than Tesla T4 has"),
            (r#"{"batch": 8, "mode": "sleeping"}"#, "sleeping"),
        ] {
            let error = Request::from_json(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: '{error}' lacks '{said}'");
        }
    }
}

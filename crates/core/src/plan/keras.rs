//! A plan for a Keras model: what is asked of it, the rest from how it was compiled, then from Keras's defaults.
//!
//! In: a [`ModelSource`], how it says it was compiled, [`Choices`] and a [`Place`]. Out: a [`Report`] whose assumptions say
//! what was left open. [`Question::from_json`] is the same question from a program. Not here: files, this machine.

use serde::Deserialize;

use super::place::{Place, PlaceError, budget};
use super::{ModelChange, ModelSource, PlanError, Request};
use crate::device::Device;
use crate::framework::Framework;
use crate::model::{Compiled, Loss, OptimizerConfig};
use crate::report::{NoteReport, Report};
use crate::step::tensorflow::{OPTIMIZERS, is_known_loss, is_known_optimizer};
use crate::step::{Job, Mode, Processor};

/// What runs Keras's layers in every plan today.
pub const FRAMEWORK: Framework = Framework::TensorFlow;
/// What Keras's `fit` takes when nothing is said.
const DEFAULT_BATCH: u64 = 32;
/// More samples than this are a slip, not a batch, and may need more than the pools of a simulation have addresses for.
const MAX_ASKED_BATCH: u64 = 1 << 24;

/// What is asked of a model. `None`: as it was compiled, else as Keras does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Samples per step.
    pub batch: Option<u64>,
    /// The optimizer's name.
    pub optimizer: Option<String>,
    /// The loss's name, as [`Loss::named`] reads it.
    pub loss: Option<String>,
    /// The model's dtype policy, and settings of its layers.
    pub change: ModelChange,
    /// A forward pass only.
    pub inference: bool,
    /// With [`Report::detail`].
    pub detail: bool,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Not the JSON that is expected.
    #[error("the request cannot be read: {0}")]
    Json(String),
    /// No batch.
    #[error("batch {0} cannot be planned: it must be between 1 and {MAX_ASKED_BATCH}")]
    Batch(u64),
    /// An unknown name in a file is a custom class and gets a note; where the user writes it, it is a slip.
    #[error("'{0}' is not an optimizer that is known: write one of {known}", known = OPTIMIZERS.join(", "))]
    Optimizer(String),
    /// The same.
    #[error(
        "'{0}' is not a loss of Keras: write its name, such as sparse_categorical_crossentropy, with _from_logits behind it \
         if the last layer has no softmax"
    )]
    Loss(String),
    /// A dtype of PyTorch's.
    #[error("--precision float16 is for PyTorch models: for a Keras file use --precision mixed_float16")]
    Float16,
    /// No such device.
    #[error("{0}")]
    Device(String),
    /// No such budget.
    #[error(transparent)]
    Memory(#[from] PlaceError),
}

/// A question as a program writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    batch: Option<u64>,
    #[serde(default)]
    optimizer: Option<String>,
    #[serde(default)]
    loss: Option<String>,
    #[serde(default)]
    device: Option<String>,
    #[serde(default)]
    memory_bytes: Option<u64>,
    #[serde(default)]
    precision: Option<String>,
    #[serde(default)]
    inference: bool,
    #[serde(default)]
    jit: Option<bool>,
}

/// What a program asks: of the model, where, and whether XLA compiles the step where the program knows it better than
/// the model's text.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is asked of the model.
    pub choices: Choices,
    /// Where it runs.
    pub place: Place,
    /// `jit_compile`, if it is known.
    pub jit: Option<bool>,
}

impl Question {
    /// Reads a question (`docs/json.md` lists its fields). Without a device it is about a CPU.
    pub fn from_json(text: &str) -> Result<Question, ChoiceError> {
        let written: Written = serde_json::from_str(text).map_err(|error| ChoiceError::Json(error.to_string()))?;
        if let Some(batch) = written.batch.filter(|batch| !(1..=MAX_ASKED_BATCH).contains(batch)) {
            return Err(ChoiceError::Batch(batch));
        }
        let choices = Choices {
            batch: written.batch,
            optimizer: written.optimizer,
            loss: written.loss,
            change: ModelChange { policy: written.precision, ..ModelChange::default() },
            inference: written.inference,
            detail: false,
        };
        choices.check()?;
        let memory = written.memory_bytes.map(|bytes| budget(&bytes.to_string(), bytes)).transpose()?;
        let device = Device::find(written.device.as_deref().unwrap_or("cpu"));
        let device = device.map_err(|error| ChoiceError::Device(error.to_string()))?;
        let mut place = Place::of(device.clone(), FRAMEWORK);
        place.hold_to(memory)?;
        Ok(Question { choices, place, jit: written.jit })
    }
}

impl Choices {
    /// Refuses names that mean nothing, before anything is read.
    pub fn check(&self) -> Result<(), ChoiceError> {
        if self.change.policy.as_deref() == Some("float16") {
            return Err(ChoiceError::Float16);
        }
        if let Some(name) = self.optimizer.as_deref().filter(|name| !is_known_optimizer(name)) {
            return Err(ChoiceError::Optimizer(name.to_owned()));
        }
        if let Some(name) = self.loss.as_deref().filter(|name| !is_known_loss(name)) {
            return Err(ChoiceError::Loss(name.to_owned()));
        }
        Ok(())
    }

    /// The job that was asked for, and what the question left open.
    fn job(&self, compiled: Compiled, precision: &str, processor: Processor) -> (Job, Vec<NoteReport>) {
        let mut notes = Vec::new();
        let mut note = |code: &str, text: &str| {
            notes.push(NoteReport { code: code.to_owned(), layer: None, text: text.to_owned() });
        };
        if self.batch.is_none() {
            note("default_batch", "No --batch was given: 32 is assumed, the default of Keras's fit().");
        }
        let mode = if self.inference { Mode::Inference } else { Mode::Training };
        let losses = self.loss.as_deref().map_or(compiled.losses, |loss| vec![Loss::named(loss)]);
        if mode == Mode::Training {
            match (self.optimizer.is_none() && compiled.optimizer.is_none(), losses.is_empty()) {
                (true, true) => note(
                    "not_compiled",
                    "The file names no optimizer and no loss: adam is assumed, and a loss that suits the last layer.",
                ),
                (true, false) => note("default_optimizer", "The file names no optimizer: adam is assumed."),
                (false, true) => {
                    note("default_loss", "The file names no loss: one that suits the last layer is assumed.");
                }
                (false, false) => {}
            }
        }
        // What the file asks for itself is in the plan's notes; this is what Keras does when it does not say.
        if processor == Processor::Gpu && compiled.jit.is_none() {
            note(
                "xla_default",
                "Keras compiles with XLA on a GPU unless compile() has jit_compile=False: planned is without XLA.",
            );
        }
        let asked = self.optimizer.as_ref().map(|name| OptimizerConfig::named(name));
        let mut optimizer = match (asked, compiled.optimizer) {
            // The same one by name: the file knows its settings.
            (Some(asked), Some(saved)) if asked.name == saved.name => saved,
            (Some(asked), _) => asked,
            (None, saved) => saved.unwrap_or_else(|| OptimizerConfig::named("adam")),
        };
        // Keras wraps the optimizer itself under this policy, and only under this one.
        let kept = optimizer.loss_scaling && self.change.policy.is_none();
        optimizer.loss_scaling = precision == "mixed_float16" || kept;
        let batch = self.batch.unwrap_or(DEFAULT_BATCH);
        (Job { batch, optimizer, losses, metrics: compiled.metrics, mode, processor, micro_batches: 1 }, notes)
    }
}

/// Plans a model that was compiled so and has this dtype policy.
pub fn plan(
    source: &dyn ModelSource,
    compiled: Compiled,
    policy: &str,
    choices: &Choices,
    place: Place,
) -> Result<Report, PlanError> {
    let precision = choices.change.policy.clone().unwrap_or_else(|| policy.to_owned());
    let (job, mut notes) = choices.job(compiled, &precision, place.processor);
    notes.extend(place.notes);
    let request = Request {
        source,
        base: ModelChange { batch: Some(job.batch), ..choices.change.clone() },
        job,
        framework: FRAMEWORK,
        device: place.device,
        limit_bytes: place.limit_bytes,
        held_by_others_bytes: place.held_by_others_bytes,
        precision,
    };
    let mut report = if choices.detail { super::plan_in_detail(&request)? } else { super::plan(&request)? };
    report.assumptions = notes;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::GIB;

    fn refused(text: &str) -> String {
        Question::from_json(text).unwrap_err().to_string()
    }

    #[test]
    fn a_question_without_a_device_is_about_a_cpu() {
        let question = Question::from_json(r#"{"batch": 64, "memory_bytes": 3221225472, "jit": false}"#).unwrap();
        assert_eq!((question.choices.batch, question.jit), (Some(64), Some(false)));
        assert_eq!((question.place.device.id.as_str(), question.place.limit_bytes), ("cpu", Some(3 * GIB)));
    }

    #[test]
    fn a_wrong_question_says_what_is_wrong() {
        assert!(refused("[").starts_with("the request cannot be read"));
        assert!(refused(r#"{"bach": 3}"#).contains("unknown field `bach`"));
        assert!(refused(r#"{"batch": 0}"#).starts_with("batch 0 cannot be planned"));
        assert!(refused(r#"{"optimizer": "addam"}"#).starts_with("'addam' is not an optimizer that is known"));
        assert!(refused(r#"{"loss": "mee"}"#).starts_with("'mee' is not a loss of Keras"));
        assert!(refused(r#"{"precision": "float16"}"#).contains("use --precision mixed_float16"));
        assert!(refused(r#"{"device": "rtx4900"}"#).contains("did you mean rtx-4090"));
        assert!(refused(r#"{"memory_bytes": 3}"#).contains("write a size with its unit"));
        assert!(refused(r#"{"device": "t4", "memory_bytes": 1000000000000}"#).contains("is more than"));
    }

    #[test]
    fn settings_of_the_saved_optimizer_are_kept_where_its_name_is_asked_for() {
        let saved = OptimizerConfig { amsgrad: true, ..OptimizerConfig::named("adam") };
        let compiled = Compiled { optimizer: Some(saved), ..Compiled::default() };
        let optimizer = |name: &str| {
            let choices = Choices { optimizer: Some(name.to_owned()), ..Choices::default() };
            choices.job(compiled.clone(), "float32", Processor::Gpu).0.optimizer
        };
        assert!(optimizer("adam").amsgrad);
        assert_eq!(optimizer("sgd"), OptimizerConfig::named("sgd"));
    }
}

//! Will it fit, what is the largest batch, and what is the cheapest change that makes it fit?
//!
//! In: a [`Request`]: a model that can be imported again with other settings, a job, a device and a limit. Out: the whole
//! [`Report`]. Each remedy is one file in `remedies/` and is simulated again, never estimated. Not counted: what other
//! processes hold, and host memory outside the framework's allocator.

mod batch;
mod inspect;
pub mod keras;
mod place;
pub mod remedies;
mod search;
mod sets;
mod setup;
mod simulate;
mod time;
pub mod torch;

use std::sync::{Arc, OnceLock};

use crate::device::Device;
use crate::framework::Framework;
use crate::model::Model;
use crate::report::{Detail, DeviceSummary, JobSummary, ModelSummary, Peak, Report, SCHEMA, Verdict};
use crate::step::{Job, Mode, Processor};

pub use batch::MAX_BATCH;
pub use place::{CPU_CACHE_BYTES, CPU_THREADS, Place, PlaceError, budget};
pub use setup::{ModelChange, Pool, Setup};

use self::batch::Largest;
use self::remedies::Context;
use self::simulate::{Orders, Outcome, Simulator};

/// A model that can be had with other settings: a file that was read, or a live object.
pub trait ModelSource: Sync {
    /// The model with these changes, or why it cannot be built so.
    fn model(&self, change: &ModelChange) -> Result<Model, String>;
}

/// What is asked.
#[derive(Clone)]
pub struct Request<'a> {
    /// Where the model comes from.
    pub source: &'a dyn ModelSource,
    /// What the user changes in it: `--set` and `--precision`.
    pub base: ModelChange,
    /// The job.
    pub job: Job,
    /// What runs it.
    pub framework: Framework,
    /// Where it runs.
    pub device: Device,
    /// The most that the framework's allocator may hold, without the context: [`Device::usable_bytes`], or less. None:
    /// nothing limits it.
    pub limit_bytes: Option<u64>,
    /// What other processes hold of the device and the limit leaves out; 0 if it is not known.
    pub held_by_others_bytes: u64,
    /// The dtype policy that the model has with `base`, such as `float32`.
    pub precision: String,
}

impl Request<'_> {
    /// Whether the job runs on a GPU.
    fn gpu(&self) -> bool {
        self.job.processor == Processor::Gpu
    }

    /// Whether the job trains.
    fn training(&self) -> bool {
        self.job.mode == Mode::Training
    }

    /// Whether the GPU is of this generation or newer; false on a CPU.
    fn capability(&self, major: u32) -> bool {
        self.gpu() && self.device.compute_capability.is_some_and(|capability| capability.major >= major)
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The source could not build the model.
    #[error("{0}")]
    Model(String),
    /// The framework's step is not modelled.
    #[error("plans for {} are not implemented: write --framework tensorflow", .0.title())]
    Framework(Framework),
    /// A batch without samples.
    #[error("a batch needs at least one sample")]
    EmptyBatch,
}

/// With less than a twentieth of the limit to spare, a fit is [`Verdict::Tight`]: most measured rows are predicted to
/// within a twentieth (`docs/accuracy.md`), so beyond it a fit will most likely hold.
const TIGHT_DIVISOR: u64 = 20;

/// Predicts a job, and looks for what would make it fit.
pub fn plan(request: &Request<'_>) -> Result<Report, PlanError> {
    Ok(planned(request)?.0)
}

/// The same with all layers and the step's timeline, which take some time and room more.
pub fn plan_in_detail(request: &Request<'_>) -> Result<Report, PlanError> {
    let (mut report, outcome) = planned(request)?;
    let at_once = outcome.setup.at_once();
    let holders = outcome.runs.holders(&outcome.prediction, at_once);
    report.detail = Some(Detail {
        timeline: outcome.runs.timeline(&outcome.prediction, at_once),
        layers: inspect::heaviest_layers(inspect::layer_classes(&outcome.model), &holders, usize::MAX),
    });
    Ok(report)
}

fn planned(request: &Request<'_>) -> Result<(Report, Arc<Outcome>), PlanError> {
    if request.framework != Framework::TensorFlow {
        return Err(PlanError::Framework(request.framework));
    }
    if request.job.batch == 0 {
        return Err(PlanError::EmptyBatch);
    }
    let setup = Setup::of(request);
    let simulator = Simulator::new(request.source, &setup);
    let context = OnceLock::new();
    let asked = || Ok(Context::new(request, &simulator, simulator.run(&setup, Orders::One)?));
    let ahead = || remedies::ahead(request, &setup).is_some_and(|ahead| simulator.run(&ahead, Orders::One).is_ok());
    let (judged, remedies) = search::all(&context, asked, ahead).map_err(PlanError::Model)?;
    let (outcome, largest) = judged.map_err(PlanError::Model)?;
    let verdict = verdict(&outcome);
    let context = context.get().expect("made by the search");
    let (remedies, cheapest_fit) = search::rank(context, remedies, verdict);
    Ok((report(request, &outcome, verdict, largest, remedies, cheapest_fit), outcome))
}

fn verdict(outcome: &Outcome) -> Verdict {
    if outcome.fits_leaving(outcome.spare_bytes()) {
        Verdict::Fits
    } else if outcome.fits || outcome.prediction_fits() {
        Verdict::Tight
    } else {
        Verdict::DoesNotFit
    }
}

fn report(
    request: &Request<'_>,
    outcome: &Arc<Outcome>,
    verdict: Verdict,
    largest: Largest,
    remedies: Vec<crate::report::RemedyReport>,
    cheapest_fit: Option<crate::report::FitPlan>,
) -> Report {
    let context_bytes = request.device.context_bytes(request.framework);
    let prediction = &outcome.prediction;
    let holders = outcome.runs.holders(prediction, outcome.setup.at_once());
    let mode = match request.job.mode {
        Mode::Training => "training",
        Mode::Inference => "inference",
    };
    Report {
        schema: SCHEMA,
        model: ModelSummary {
            name: outcome.model.name.clone(),
            layers: outcome.model.layers.len() as u64,
            parameters: outcome.model.parameter_count(),
        },
        job: JobSummary {
            framework: request.framework.to_string(),
            batch: request.job.batch,
            optimizer: request.job.optimizer.name.clone(),
            precision: request.precision.clone(),
            mode: mode.to_owned(),
        },
        device: DeviceSummary {
            name: request.device.name.clone(),
            capacity_bytes: request.device.capacity_bytes,
            // The peak that is shown has the context in it, so what it is compared with has it too.
            usable_bytes: request.limit_bytes.map(|limit| limit.saturating_add(context_bytes)),
            measured: request.device.measured(request.framework),
        },
        peak: Peak {
            allocated_bytes: prediction.allocated_bytes,
            reserved_bytes: outcome.reserved_bytes(),
            device_bytes: prediction.allocated_bytes.saturating_add(context_bytes),
            low_bytes: prediction.low_bytes.saturating_add(context_bytes),
            high_bytes: prediction.high_bytes.saturating_add(context_bytes),
            floor_bytes: prediction.floor_bytes,
            at: inspect::moment(outcome),
        },
        breakdown: inspect::breakdown(prediction.allocated_bytes, &holders, context_bytes),
        layers: inspect::heaviest_layers(inspect::layer_classes(&outcome.model), &holders, inspect::SHOWN_LAYERS),
        // A model file does not say where its layers come from.
        lines: Vec::new(),
        verdict,
        max_batch: largest.batch,
        safe_batches: largest.safe,
        remedies,
        cheapest_fit,
        // A request leaves nothing open: those who make one from a question say what they took.
        assumptions: Vec::new(),
        notes: inspect::notes(request, outcome),
        detail: None,
    }
}

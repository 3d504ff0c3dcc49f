//! The plan of a job whose log was explained.
//!
//! In: the options, the model's file and the explanation. Out: the batch that failed and the largest that would have fitted. The memory is that of
//! the options, else what the log says; the batch that of the options, else what the failed shape shows.

use std::path::Path;

use anyhow::{anyhow, bail};
use brimful_core::explain::batch::{Planned, failed_batch};
use brimful_core::explain::{Explanation, Resource};
use brimful_core::plan::keras::{Choices, FRAMEWORK, plan as plan_keras};
use brimful_core::plan::{ModelChange, ModelSource};

use crate::args::ExplainArgs;
use crate::commands::plan::place;
use crate::machine::Machine;
use crate::model_file;

/// Plans the job.
pub fn plan(args: &ExplainArgs, path: &Path, explanation: &Explanation) -> anyhow::Result<Planned> {
    if path.extension().is_some_and(|extension| extension != "keras" && extension != "json") {
        bail!(
            "{}: --plan takes a Keras model (model.keras, or the text of model.to_json()); for others, use 'brimful plan'",
            path.display()
        );
    }
    let source = model_file::read(path)?;
    let model =
        ModelSource::model(&source, &ModelChange::default()).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let failed = explanation.numbers.shape.as_deref().and_then(|shape| failed_batch(&model, shape));
    let memory = args.memory.clone().or_else(|| Some(explanation.numbers.limit_bytes()?.to_string()));
    // TensorFlow's own pool, as the log tells it, is a CPU's unless it says otherwise.
    let on_host = explanation.resource != Some(Resource::GpuMemory);
    let device = args.device.as_deref().or(on_host.then_some("cpu"));
    if args.device.is_none() && memory.is_none() {
        bail!("the log does not say how much memory there was: give --memory, or --device");
    }
    let place = place::choose(device, memory.as_deref(), FRAMEWORK, Machine::read)?;
    let memory_bytes = place.limit_bytes.unwrap_or(0);
    let Some(batch) = args.batch.or(failed.as_ref().map(|failed| failed.batch)) else {
        bail!("the log shows no tensor of this model, and so not its batch: give --batch");
    };
    let choices = Choices { batch: Some(batch), ..Choices::default() };
    choices.check()?;
    let report = plan_keras(&source, source.compiled().clone(), source.policy(), &choices, place)
        .map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(Planned {
        failed,
        memory_bytes,
        peak_bytes: report.peak.device_bytes,
        batch: report.job.batch,
        max_batch: report.max_batch,
    })
}

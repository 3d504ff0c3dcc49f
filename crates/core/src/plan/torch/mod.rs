//! A plan for a PyTorch job whose steps were recorded: will it fit, what is the largest batch, what helps?
//!
//! In: a [`Capture`] and a [`Request`]. Out: the same [`Report`] as any plan. Nothing is lowered here: the framework itself
//! said what it asks for, the replica of its allocator says what that takes. Not counted: what other processes hold, and host
//! memory.

mod batch;
mod blocks;
mod edit;
mod floor;
mod inspect;
mod passes;
pub mod remedies;
mod request;
mod search;
mod setup;
mod simulate;
#[cfg(test)]
mod tests;
mod time;

pub use request::{Module, Request, RequestError};

use self::remedies::Context;
use self::setup::Setup;
use self::simulate::Outcome;
use super::TIGHT_DIVISOR;
use super::inspect::{SHOWN_LAYERS, breakdown, heaviest_layers, named_moment};
use crate::capture::Capture;
use crate::framework::Framework;
use crate::predict::moment;
use crate::report::{Detail, DeviceSummary, JobSummary, ModelSummary, Peak, Report, SCHEMA, Verdict};

/// Plans a recorded job.
pub fn plan(capture: &Capture, request: &Request) -> Result<Report, RequestError> {
    Ok(planned(capture, request)?.1)
}

/// The same with all modules and the steps' timeline, which take some time and room more.
pub fn plan_in_detail(capture: &Capture, request: &Request) -> Result<Report, RequestError> {
    let (context, mut report) = planned(capture, request)?;
    let holders = inspect::at_peak(&context.base);
    report.detail = Some(Detail {
        timeline: context.base.timeline(),
        layers: heaviest_layers(|path| request.class(path).to_owned(), &holders, usize::MAX),
    });
    Ok(report)
}

fn planned<'a>(capture: &'a Capture, request: &'a Request) -> Result<(Context<'a>, Report), RequestError> {
    if !capture.knows(request.batch) {
        return Err(RequestError::UnknownBatch { asked: request.batch, recorded: capture.batch });
    }
    let outcome = Outcome::new(Setup::of(capture, request), request.widen);
    let verdict = verdict(&outcome);
    let context = Context::new(capture, request, outcome);
    let found = search::all(&context, verdict);
    let report = report(&context, verdict, found);
    Ok((context, report))
}

fn verdict(outcome: &Outcome) -> Verdict {
    let Some(limit) = outcome.setup.limit_bytes else { return Verdict::Fits };
    if !outcome.prediction_fits {
        return Verdict::DoesNotFit;
    }
    // What fits only because cached memory is given back has nothing to spare.
    let spare = limit.saturating_sub(outcome.high_bytes());
    let roomy = outcome.fits && outcome.without_retries && spare >= limit / TIGHT_DIVISOR;
    if roomy { Verdict::Fits } else { Verdict::Tight }
}

fn report(context: &Context<'_>, verdict: Verdict, found: search::Found) -> Report {
    let (request, outcome) = (context.request, &context.base);
    let context_bytes = request.context_bytes();
    let placement = &outcome.placement;
    let holders = inspect::at_peak(outcome);
    let device_bytes = placement.peak_reserved_bytes.saturating_add(context_bytes);
    let mode = if request.training { "training" } else { "inference" };
    Report {
        schema: SCHEMA,
        model: ModelSummary {
            name: request.model.clone(),
            layers: request.modules.iter().filter(|module| !module.path.is_empty()).count() as u64,
            parameters: request.modules.iter().fold(0, |sum, module| sum.saturating_add(module.parameters)),
        },
        job: JobSummary {
            framework: Framework::Torch.to_string(),
            batch: request.batch,
            optimizer: request.optimizer.clone(),
            precision: request.precision.clone(),
            mode: mode.to_owned(),
        },
        device: DeviceSummary {
            name: request.device.name.clone(),
            capacity_bytes: request.device.capacity_bytes.filter(|&bytes| bytes > 0),
            usable_bytes: request.limit_bytes.map(|limit| limit.saturating_add(context_bytes)),
            measured: request.device.measured(Framework::Torch),
        },
        peak: Peak {
            allocated_bytes: placement.peak_allocated_bytes,
            reserved_bytes: placement.peak_reserved_bytes,
            device_bytes,
            low_bytes: lowered(placement.peak_allocated_bytes, request.lower).saturating_add(context_bytes),
            high_bytes: outcome.high_bytes().saturating_add(context_bytes),
            floor_bytes: placement.floor_peak_bytes,
            at: placement.peak_event.and_then(|event| {
                let at_once = outcome.setup.at_once();
                let trace = outcome.setup.steps.trace(at_once);
                let found = moment(trace, event, at_once, placement.peak_allocated_bytes);
                found.map(|(phase, cause)| named_moment(phase, &cause))
            }),
        },
        breakdown: breakdown(placement.peak_reserved_bytes, &holders, context_bytes),
        layers: heaviest_layers(|path| request.class(path).to_owned(), &holders, SHOWN_LAYERS),
        lines: inspect::heaviest_lines(&holders),
        verdict,
        max_batch: found.largest.batch,
        safe_batches: found.largest.safe,
        remedies: found.remedies,
        cheapest_fit: found.cheapest,
        assumptions: request.assumptions.clone(),
        notes: inspect::notes(context.capture, request, outcome, &found.bounded),
        detail: None,
    }
}

fn lowered(bytes: u64, lower: f64) -> u64 {
    bytes.saturating_sub((bytes as f64 * lower) as u64)
}

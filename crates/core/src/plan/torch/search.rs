//! Tries the remedies, ranks them, and looks for the cheapest set that fits.
//!
//! In: the job as it was asked for. Out: each remedy's own outcome, and the cheapest set
//! (`plan::sets`). A set is applied one remedy after the other and replayed like any other job.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::batch::{Largest, Precision, largest, largest_at_once};
use super::floor::floor;
use super::remedies::{Change, Context, Effect, REGISTRY, Remedy};
use super::simulate::Outcome;
use crate::plan::sets::{self, Member};
use crate::report::{Apply, FitChange, FitPlan, RemedyReport, Verdict};

/// Threads that replay side by side.
const THREADS: usize = 2;

/// One remedy, replayed.
struct Tried {
    remedy: &'static dyn Remedy,
    change: Change,
    outcome: Outcome,
    max_batch: Option<u64>,
}

/// What the search found.
pub struct Found {
    /// The largest batch of the job as it was asked for.
    pub largest: Largest,
    /// The reports of the remedies, best first.
    pub remedies: Vec<RemedyReport>,
    /// The ids of those whose figures are bounds.
    pub bounded: Vec<&'static str>,
    /// The cheapest set, if the job does not fit as it is.
    pub cheapest: Option<FitPlan>,
}

/// Looks for the largest batch and tries every remedy.
pub fn all(context: &Context<'_>, verdict: Verdict) -> Found {
    let next = AtomicUsize::new(0);
    let tried: Mutex<Vec<(usize, Tried)>> = Mutex::default();
    let found: Mutex<Largest> = Mutex::default();
    let work = || {
        loop {
            // The first task is the longest.
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task == 0 {
                let largest = largest(context.capture, &context.base);
                *found.lock().expect("no thread panics while it holds this") = largest;
            } else if let Some(&remedy) = REGISTRY.get(task - 1) {
                if let Some(found) = alone(context, remedy) {
                    tried.lock().expect("no thread panics while it holds this").push((task, found));
                }
            } else {
                break;
            }
        }
    };
    // This thread works too.
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(work);
        }
        work();
    });
    let mut tried = tried.into_inner().expect("no thread panics while it holds this");
    tried.sort_by_key(|(task, _)| *task);
    let tried: Vec<Tried> = tried.into_iter().map(|(_, tried)| tried).collect();
    let cheapest = if verdict == Verdict::DoesNotFit { cheapest(context, &tried) } else { None };
    let largest = found.into_inner().expect("no thread panics while it holds this");
    let (remedies, bounded) = rank(context, tried);
    Found { largest, remedies, bounded, cheapest }
}

fn alone(context: &Context<'_>, remedy: &'static dyn Remedy) -> Option<Tried> {
    let (change, outcome) = apply(context, remedy, &context.base)?;
    let at_once = largest_at_once(context.capture, &outcome, Precision::Coarse);
    let max_batch = at_once.map(|at_once| at_once.saturating_mul(outcome.setup.parts()));
    // What fits as it is may be more than a coarse search finds.
    let max_batch = max_batch.max(Some(outcome.setup.batch).filter(|_| max_batch.is_some() && outcome.fits));
    Some(Tried { remedy, change, outcome, max_batch })
}

/// The gentlest form of a remedy that fits, or its strongest; none if it does not apply or saves nothing.
fn apply(context: &Context<'_>, remedy: &dyn Remedy, from: &Outcome) -> Option<(Change, Outcome)> {
    let mut chosen: Option<(Change, Outcome)> = None;
    let rungs = remedy.options(context, &from.setup);
    let last = rungs.len().saturating_sub(1);
    for (index, mut change) in rungs.into_iter().enumerate() {
        let setup = &change.setup;
        if change.only_batch && index < last {
            let hopeless = |limit| floor(&setup.steps.recording, setup.at_once()).bytes > limit;
            if setup.limit_bytes.is_some_and(hopeless) {
                continue;
            }
        }
        change.setup.applied.push(remedy.id());
        let outcome = context.run(change.setup.clone());
        let fits = outcome.fits;
        chosen = Some((change, outcome));
        if fits {
            break;
        }
    }
    chosen.filter(|(change, outcome)| saves(outcome, from) || change.setup.limit_bytes > from.setup.limit_bytes)
}

/// Whether it needs less: takes less from the device, or, where the limit decides what is taken, makes it fit.
fn saves(after: &Outcome, before: &Outcome) -> bool {
    after.high_bytes() < before.high_bytes()
        || (after.fits && !before.fits)
        || (before.prediction_fits
            && !before.without_retries
            && after.placement.peak_allocated_bytes < before.placement.peak_allocated_bytes)
}

fn rank(context: &Context<'_>, mut tried: Vec<Tried>) -> (Vec<RemedyReport>, Vec<&'static str>) {
    tried.sort_by(|a, b| {
        let rank = |tried: &Tried| (!tried.outcome.fits, tried.change.effect, tried.change.needs_hardware);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| context.time_cost(&a.outcome).total_cmp(&context.time_cost(&b.outcome)))
            .then_with(|| a.outcome.high_bytes().cmp(&b.outcome.high_bytes()))
    });
    let bounded = tried.iter().filter(|tried| tried.change.bounded).map(|tried| tried.remedy.id()).collect();
    let remedies = tried.into_iter().map(|tried| RemedyReport {
        id: tried.remedy.id().to_owned(),
        title: tried.change.title,
        peak_bytes: context.device_bytes(&tried.outcome),
        fits: tried.outcome.fits,
        max_batch: tried.max_batch,
        same_result: tried.change.effect.same_result(),
        time_cost: context.time_cost(&tried.outcome),
        apply: Apply { keras: None, torch: Some(tried.change.code) },
    });
    (remedies.collect(), bounded)
}

fn cheapest(context: &Context<'_>, tried: &[Tried]) -> Option<FitPlan> {
    let members = tried.iter().map(|tried| Member {
        effect: tried.change.effect,
        fits: tried.outcome.fits,
        needs_hardware: tried.change.needs_hardware,
        time_cost: context.time_cost(&tried.outcome),
    });
    let all_together = |pool: &[usize]| all_together_fit(context, tried, pool);
    sets::cheapest(members.collect(), all_together, |set, effect| try_set(context, tried, set, effect))
}

/// A set applied one remedy after the other, in the order of the registry.
fn try_set(context: &Context<'_>, tried: &[Tried], set: &[usize], effect: Effect) -> Option<FitPlan> {
    let mut reached: Option<Outcome> = None;
    let mut changes = Vec::new();
    for &index in set {
        let from = reached.as_ref().unwrap_or(&context.base);
        let (change, outcome) = apply(context, tried[index].remedy, from)?;
        changes.push(FitChange { title: change.title, apply: Apply { keras: None, torch: Some(change.code) } });
        reached = Some(outcome);
    }
    let outcome = reached.filter(|outcome| outcome.fits)?;
    Some(FitPlan {
        remedies: set.iter().map(|&index| tried[index].remedy.id().to_owned()).collect(),
        changes,
        peak_bytes: context.device_bytes(&outcome),
        same_result: effect.same_result(),
        time_cost: context.time_cost(&outcome),
    })
}

/// Whether the strongest forms of all these remedies together fit.
fn all_together_fit(context: &Context<'_>, tried: &[Tried], pool: &[usize]) -> bool {
    let mut setup = context.base.setup.clone();
    for &index in pool {
        if let Some(strongest) = tried[index].remedy.options(context, &setup).pop() {
            setup = strongest.setup;
            setup.applied.push(tried[index].remedy.id());
        }
    }
    context.run(setup).fits
}

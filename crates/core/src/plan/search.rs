//! Tries the remedies, ranks them, and looks for the cheapest set that fits.
//!
//! In: the job as it was asked for. Out: each remedy's own outcome, and the set with the smallest effect on the result, then
//! the smallest time, that fits. A set is applied one remedy after the other and simulated like any other job; the number
//! of simulations is bounded, so a set of more than three remedies, or an unlikely one of three, may be missed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::batch::{self, Largest, Precision, largest_at_once};
use super::remedies::{Change, Context, Effect, REGISTRY, Remedy};
use super::simulate::{Orders, Outcome};
use crate::report::{FitPlan, RemedyReport, Verdict};

/// Threads that simulate side by side.
const THREADS: usize = 2;

/// Sets that are simulated at most, beyond the single remedies.
const MAX_SETS: usize = 8;

/// One remedy, simulated.
pub struct Tried {
    remedy: &'static dyn Remedy,
    change: Change,
    outcome: Arc<Outcome>,
    max_batch: Option<u64>,
    fits: bool,
}

type Judged = Result<(Arc<Outcome>, Largest), String>;

/// The job in several orders with its largest batch, and every remedy that needs less memory.
pub fn all(context: &Context<'_>) -> (Judged, Vec<Tried>) {
    let next = AtomicUsize::new(0);
    let judged: Mutex<Option<Judged>> = Mutex::new(None);
    let tried: Mutex<Vec<(usize, Tried)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    // The first task is the longest.
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task == 0 {
                        *judged.lock().expect("unpoisoned") = Some(judge(context));
                    } else if let Some(&remedy) = REGISTRY.get(task - 1) {
                        if let Some(found) = alone(context, remedy) {
                            tried.lock().expect("unpoisoned").push((task, found));
                        }
                    } else {
                        break;
                    }
                }
            });
        }
    });
    let mut tried = tried.into_inner().expect("unpoisoned");
    tried.sort_by_key(|(task, _)| *task);
    let judged = judged.into_inner().expect("unpoisoned").expect("the first task ran");
    (judged, tried.into_iter().map(|(_, tried)| tried).collect())
}

fn judge(context: &Context<'_>) -> Judged {
    let several = context.simulator.run(&context.base.setup, Orders::Several)?;
    let largest = batch::largest(context.simulator, &context.base, &several);
    Ok((several, largest))
}

fn alone(context: &Context<'_>, remedy: &'static dyn Remedy) -> Option<Tried> {
    let (change, outcome) = apply(context, remedy, &context.base)?;
    let at_once = largest_at_once(&outcome, 1.0, Precision::Coarse);
    let max_batch = at_once.map(|at_once| at_once.saturating_mul(change.setup.parts()));
    let fits = outcome.fits;
    Some(Tried { remedy, change, outcome, max_batch, fits })
}

/// The gentlest form of a remedy that fits, or its strongest; none if it does not apply or saves nothing.
fn apply(context: &Context<'_>, remedy: &dyn Remedy, from: &Arc<Outcome>) -> Option<(Change, Arc<Outcome>)> {
    let mut chosen: Option<(Change, Arc<Outcome>)> = None;
    let rungs = remedy.options(context, &from.setup);
    let last = rungs.len().saturating_sub(1);
    for (index, change) in rungs.into_iter().enumerate() {
        // The kernels stay the same, so what they ask for at the new batch is known without another simulation.
        let hopeless = |limit| from.floor_at(change.setup.at_once()) > limit;
        if change.only_batch && index < last && change.setup.limit_bytes.is_some_and(hopeless) {
            continue;
        }
        let Ok(outcome) = context.simulator.run(&change.setup, Orders::One) else { continue };
        let fits = outcome.fits;
        chosen = Some((change, outcome));
        if fits {
            break;
        }
    }
    chosen.filter(|(change, outcome)| {
        outcome.high_bytes() < from.high_bytes() || change.setup.limit_bytes > from.setup.limit_bytes
    })
}

/// The reports of the remedies, best first, and the cheapest set if the job does not fit as it is.
pub fn rank(context: &Context<'_>, mut tried: Vec<Tried>, verdict: Verdict) -> (Vec<RemedyReport>, Option<FitPlan>) {
    let cheapest = if verdict == Verdict::DoesNotFit { cheapest(context, &mut tried) } else { None };
    tried.sort_by(|a, b| {
        let rank = |tried: &Tried| (!tried.fits, tried.change.effect, tried.change.needs_hardware);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| context.time_cost(&a.outcome).total_cmp(&context.time_cost(&b.outcome)))
            .then_with(|| a.outcome.high_bytes().cmp(&b.outcome.high_bytes()))
    });
    let reports = tried.into_iter().map(|tried| RemedyReport {
        id: tried.remedy.id().to_owned(),
        title: tried.change.title,
        peak_bytes: context.device_bytes(&tried.outcome),
        fits: tried.fits,
        max_batch: tried.max_batch,
        same_result: tried.change.effect.same_result(),
        time_cost: context.time_cost(&tried.outcome),
        apply: tried.change.apply,
    });
    (reports.collect(), cheapest)
}

/// A set of remedies by their places in the list, with what it would cost if costs multiplied.
struct Set {
    members: Vec<usize>,
    effect: Effect,
    time_cost: f64,
}

fn cheapest(context: &Context<'_>, tried: &mut [Tried]) -> Option<FitPlan> {
    let mut left = MAX_SETS;
    let usable: Vec<usize> = (0..tried.len()).filter(|&index| !tried[index].change.needs_hardware).collect();
    for set in sets(context, tried, &usable) {
        if set.members.len() > 1 {
            // A set with a member that fits alone was dealt with when that member was.
            if left == 0 || set.members.iter().any(|&index| tried[index].fits) {
                continue;
            }
            left -= 1;
        }
        let remedies: Vec<&'static dyn Remedy> = set.members.iter().map(|&index| tried[index].remedy).collect();
        let Some(outcome) = together(context, &remedies) else { continue };
        if !outcome.fits {
            continue;
        }
        let Ok(outcome) = context.simulator.run(&outcome.setup, Orders::Several) else { continue };
        if let [single] = set.members[..] {
            tried[single].fits = outcome.fits;
        }
        if outcome.fits {
            return Some(FitPlan {
                remedies: remedies.iter().map(|remedy| remedy.id().to_owned()).collect(),
                peak_bytes: context.device_bytes(&outcome),
                same_result: set.effect.same_result(),
                time_cost: context.time_cost(&outcome),
            });
        }
    }
    None
}

/// Single remedies, pairs and triples: by effect, then by size, then by time.
fn sets(context: &Context<'_>, tried: &[Tried], usable: &[usize]) -> Vec<Set> {
    let set = |members: &[usize]| Set {
        members: members.to_vec(),
        effect: members.iter().map(|&index| tried[index].change.effect).max().unwrap_or(Effect::Exact),
        time_cost: members.iter().map(|&index| context.time_cost(&tried[index].outcome)).product(),
    };
    let mut sets = Vec::new();
    for (place, &first) in usable.iter().enumerate() {
        if tried[first].fits {
            sets.push(set(&[first]));
        }
        for (next, &second) in usable.iter().enumerate().skip(place + 1) {
            sets.push(set(&[first, second]));
            sets.extend(usable[next + 1..].iter().map(|&third| set(&[first, second, third])));
        }
    }
    sets.sort_by(|a, b| {
        (a.effect, a.members.len())
            .cmp(&(b.effect, b.members.len()))
            .then_with(|| a.time_cost.total_cmp(&b.time_cost))
            .then_with(|| a.members.cmp(&b.members))
    });
    sets
}

/// The remedies applied one after the other, in the order of the registry.
fn together(context: &Context<'_>, remedies: &[&'static dyn Remedy]) -> Option<Arc<Outcome>> {
    let mut outcome = context.base.clone();
    for remedy in remedies {
        outcome = apply(context, *remedy, &outcome)?.1;
    }
    Some(outcome)
}

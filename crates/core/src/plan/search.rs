//! Tries the remedies, ranks them, and looks for the cheapest set that fits.
//!
//! In: the job as it was asked for. Out: each remedy's own outcome, and the set with the smallest effect on the result, then
//! the fewest remedies, then the smallest time, that fits. A set is applied one remedy after the other and simulated like any
//! other job, in the end in several orders. The number of simulations is bounded: a set of more than three remedies, or one
//! behind many that do not fit, may be missed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::batch::{self, Largest, Precision, largest_at_once};
use super::remedies::{Change, Context, Effect, REGISTRY, Remedy};
use super::setup::Setup;
use super::simulate::{Orders, Outcome};
use crate::report::{FitPlan, RemedyReport, Verdict};

/// Threads that simulate side by side.
const THREADS: usize = 2;

/// Sets of one effect that are simulated at most, beyond the single remedies.
const MAX_SETS: usize = 8;

/// One remedy, simulated.
pub struct Tried {
    remedy: &'static dyn Remedy,
    change: Change,
    outcome: Arc<Outcome>,
    max_batch: Option<u64>,
    fits: bool,
}

/// The job in several orders, and the largest batch it could have.
type Judged = Result<(Arc<Outcome>, Largest), String>;

/// The job as it was asked for, and every remedy that needs less memory.
pub fn all(context: &Context<'_>) -> (Judged, Vec<Tried>) {
    let next = AtomicUsize::new(0);
    let judged: Mutex<Option<Judged>> = Mutex::new(None);
    let tried: Mutex<Vec<(usize, Tried)>> = Mutex::default();
    let work = || {
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
    };
    // This thread works too: each further one has memory of its own to fill.
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(work);
        }
        work();
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
    let (change, outcome) = apply(context, remedy, &context.base, Orders::One)?;
    let (max_batch, fits) = (largest_batch(&change, &outcome), outcome.fits);
    Some(Tried { remedy, change, outcome, max_batch, fits })
}

fn largest_batch(change: &Change, outcome: &Outcome) -> Option<u64> {
    let at_once = largest_at_once(outcome, 1.0, Precision::Coarse)?;
    Some(at_once.saturating_mul(change.setup.parts()))
}

/// The gentlest form of a remedy that fits in these orders, or its strongest; none if it does not apply or saves nothing.
/// The outcome is that of one order, for comparing.
fn apply(
    context: &Context<'_>,
    remedy: &dyn Remedy,
    from: &Arc<Outcome>,
    orders: Orders,
) -> Option<(Change, Arc<Outcome>)> {
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
        let fits = outcome.fits && (orders == Orders::One || fits_surely(context, &change.setup));
        chosen = Some((change, outcome));
        if fits {
            break;
        }
    }
    chosen.filter(|(change, outcome)| {
        outcome.high_bytes() < from.high_bytes() || change.setup.limit_bytes > from.setup.limit_bytes
    })
}

fn fits_surely(context: &Context<'_>, setup: &Setup) -> bool {
    context.simulator.run(setup, Orders::Several).is_ok_and(|outcome| outcome.fits)
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

/// A set of remedies, by their places in the list.
struct Set {
    members: Vec<usize>,
    effect: Effect,
    /// What it would cost if costs multiplied.
    time_cost: f64,
}

fn cheapest(context: &Context<'_>, tried: &mut [Tried]) -> Option<FitPlan> {
    let usable: Vec<usize> = (0..tried.len()).filter(|&index| !tried[index].change.needs_hardware).collect();
    let mut effects: Vec<Effect> = usable.iter().map(|&index| tried[index].change.effect).collect();
    effects.sort_unstable();
    effects.dedup();
    for effect in effects {
        let mut pool = usable.clone();
        pool.retain(|&index| tried[index].change.effect <= effect);
        // Where all of them together do not fit, no set of them does.
        if !pool.iter().any(|&index| tried[index].fits) && !all_together_fit(context, tried, &pool) {
            continue;
        }
        let mut left = MAX_SETS;
        for set in sets(context, tried, &pool, effect) {
            // A set with a member that fits alone was dealt with when that member was.
            if set.members.len() > 1 && (left == 0 || set.members.iter().any(|&index| tried[index].fits)) {
                continue;
            }
            left -= usize::from(set.members.len() > 1);
            if let Some(found) = try_set(context, tried, &set) {
                return Some(found);
            }
        }
    }
    None
}

/// A set applied one remedy after the other, in the order of the registry; the last one until it fits in several orders.
fn try_set(context: &Context<'_>, tried: &mut [Tried], set: &Set) -> Option<FitPlan> {
    let (&last, before) = set.members.split_last()?;
    let mut outcome = context.base.clone();
    for &index in before {
        outcome = apply(context, tried[index].remedy, &outcome, Orders::One)?.1;
    }
    let (change, outcome) = apply(context, tried[last].remedy, &outcome, Orders::Several)?;
    let surely = context.simulator.run(&change.setup, Orders::Several).ok().filter(|surely| surely.fits);
    if before.is_empty() {
        // What the list says of it is then known for several orders, too.
        let max_batch = largest_batch(&change, &outcome);
        tried[last] = Tried { change, outcome, max_batch, fits: surely.is_some(), ..tried[last] };
    }
    let surely = surely?;
    Some(FitPlan {
        remedies: set.members.iter().map(|&index| tried[index].remedy.id().to_owned()).collect(),
        peak_bytes: context.device_bytes(&surely),
        same_result: set.effect.same_result(),
        time_cost: context.time_cost(&surely),
    })
}

/// Whether the strongest forms of all these remedies together fit, in one order.
fn all_together_fit(context: &Context<'_>, tried: &[Tried], pool: &[usize]) -> bool {
    let mut setup = context.base.setup.clone();
    for &index in pool {
        if let Some(strongest) = tried[index].remedy.options(context, &setup).pop() {
            setup = strongest.setup;
        }
    }
    context.simulator.run(&setup, Orders::One).is_ok_and(|outcome| outcome.fits)
}

/// Single remedies, pairs and triples with this effect: by size, then by time.
fn sets(context: &Context<'_>, tried: &[Tried], pool: &[usize], effect: Effect) -> Vec<Set> {
    let mut sets = Vec::new();
    let mut add = |members: &[usize]| {
        let time_cost = members.iter().map(|&index| context.time_cost(&tried[index].outcome)).product();
        if members.iter().any(|&index| tried[index].change.effect == effect) {
            sets.push(Set { members: members.to_vec(), effect, time_cost });
        }
    };
    for (place, &first) in pool.iter().enumerate() {
        if tried[first].fits {
            add(&[first]);
        }
        for (next, &second) in pool.iter().enumerate().skip(place + 1) {
            add(&[first, second]);
            pool[next + 1..].iter().for_each(|&third| add(&[first, second, third]));
        }
    }
    sets.sort_by(|a, b| {
        let size = a.members.len().cmp(&b.members.len());
        size.then_with(|| a.time_cost.total_cmp(&b.time_cost)).then_with(|| a.members.cmp(&b.members))
    });
    sets
}

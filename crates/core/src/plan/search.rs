//! Tries the remedies, ranks them, and looks for the cheapest set that fits.
//!
//! In: the job as it was asked for. Out: each remedy's own outcome, and the cheapest set (`sets`).
//! A set is applied one remedy after the other and simulated like any other job, in the end in several orders.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use super::batch::{self, Largest, Precision, largest_at_once};
use super::remedies::{Change, Context, Effect, REGISTRY, Remedy};
use super::sets::{self, Member};
use super::setup::Setup;
use super::simulate::{Orders, Outcome};
use crate::report::{FitChange, FitPlan, RemedyReport, Verdict};

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

/// The job as it was asked for, and every remedy that needs less memory. `asked` runs the job for the context, which is made
/// once; at the same time, `ahead` may run what remedies will ask for.
pub fn all<'a>(
    context: &OnceLock<Context<'a>>,
    asked: impl FnOnce() -> Result<Context<'a>, String>,
    ahead: impl FnOnce() -> bool + Send,
) -> Result<(Judged, Vec<Tried>), String> {
    let work = Work::new();
    let (ready, wait) = mpsc::channel();
    // This thread works too: each further one has memory of its own to fill.
    std::thread::scope(|scope| {
        let work = &work;
        let other = scope.spawn(move || {
            ahead();
            if let Ok(context) = wait.recv() {
                work.take_part(context);
            }
        });
        // Dropped when the job cannot be run: nobody then waits for it.
        let ready = ready;
        let made = asked()?;
        let context = context.get_or_init(|| made);
        ready.send(context).expect("the other thread waits");
        work.take_part(context);
        // To its very end: the memory that it had goes to the next thread, which would else begin with new one.
        other.join().expect("what is tried does not panic");
        Ok::<(), String>(())
    })?;
    Ok(work.done())
}

/// What is to be tried and what was found, shared by the threads that work on it.
struct Work {
    /// Places in [`REGISTRY`], those that take long first: the quick ones then fill up the time of the thread that is done first.
    remedies: Vec<usize>,
    next: AtomicUsize,
    judged: Mutex<Option<Judged>>,
    tried: Mutex<Vec<(usize, Tried)>>,
}

impl Work {
    fn new() -> Work {
        let mut remedies: Vec<usize> = (0..REGISTRY.len()).collect();
        remedies.sort_by_key(|&place| REGISTRY[place].keeps_kernels());
        Work { remedies, next: AtomicUsize::new(0), judged: Mutex::default(), tried: Mutex::default() }
    }

    fn take_part(&self, context: &Context<'_>) {
        loop {
            // The first task is the longest.
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task == 0 {
                *self.judged.lock().expect("unpoisoned") = Some(judge(context));
            } else if let Some(&place) = self.remedies.get(task - 1) {
                if let Some(found) = alone(context, REGISTRY[place]) {
                    self.tried.lock().expect("unpoisoned").push((place, found));
                }
            } else {
                break;
            }
        }
    }

    /// When no thread works on it any more.
    fn done(self) -> (Judged, Vec<Tried>) {
        let mut tried = self.tried.into_inner().expect("unpoisoned");
        tried.sort_by_key(|(place, _)| *place);
        let judged = self.judged.into_inner().expect("unpoisoned").expect("the first task ran");
        (judged, tried.into_iter().map(|(_, tried)| tried).collect())
    }
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
    let leaving = |spare_bytes| largest_at_once(outcome, spare_bytes, 1.0, Precision::Coarse);
    let at_once = leaving(outcome.spare_bytes()).or_else(|| leaving(0))?;
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
    // Sets are looked for when all else is done.
    context.simulator.run_side_by_side(setup).is_ok_and(|outcome| outcome.fits)
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

fn cheapest(context: &Context<'_>, tried: &mut [Tried]) -> Option<FitPlan> {
    let members = tried.iter().map(|tried| Member {
        effect: tried.change.effect,
        fits: tried.fits,
        needs_hardware: tried.change.needs_hardware,
        time_cost: context.time_cost(&tried.outcome),
    });
    let members = members.collect();
    let remedies: Vec<&'static dyn Remedy> = tried.iter().map(|tried| tried.remedy).collect();
    let all_together = |pool: &[usize]| all_together_fit(context, &remedies, pool);
    sets::cheapest(members, all_together, |set, effect| try_set(context, tried, set, effect))
}

/// A set applied one remedy after the other, in the order of the registry; the last one until it fits in several orders.
fn try_set(context: &Context<'_>, tried: &mut [Tried], set: &[usize], effect: Effect) -> Option<FitPlan> {
    let (&last, before) = set.split_last()?;
    let mut outcome = context.base.clone();
    let mut changes = Vec::new();
    for &index in before {
        let (change, after) = apply(context, tried[index].remedy, &outcome, Orders::One)?;
        changes.push(FitChange { title: change.title, apply: change.apply });
        outcome = after;
    }
    let (change, outcome) = apply(context, tried[last].remedy, &outcome, Orders::Several)?;
    let surely = context.simulator.run(&change.setup, Orders::Several).ok().filter(|surely| surely.fits);
    changes.push(FitChange { title: change.title.clone(), apply: change.apply.clone() });
    if before.is_empty() {
        // What the list says of it is then known for several orders, too, and its peak is the set's.
        let known = change.setup == tried[last].change.setup;
        let max_batch = if known { tried[last].max_batch } else { largest_batch(&change, &outcome) };
        let fits = surely.is_some();
        let outcome = surely.clone().unwrap_or(outcome);
        tried[last] = Tried { change, outcome, max_batch, fits, ..tried[last] };
    }
    let surely = surely?;
    Some(FitPlan {
        remedies: set.iter().map(|&index| tried[index].remedy.id().to_owned()).collect(),
        changes,
        peak_bytes: context.device_bytes(&surely),
        same_result: effect.same_result(),
        time_cost: context.time_cost(&surely),
    })
}

/// Whether the strongest forms of all these remedies together fit, in one order.
fn all_together_fit(context: &Context<'_>, remedies: &[&'static dyn Remedy], pool: &[usize]) -> bool {
    let mut setup = context.base.setup.clone();
    for &index in pool {
        if let Some(strongest) = remedies[index].options(context, &setup).pop() {
            setup = strongest.setup;
        }
    }
    context.simulator.run(&setup, Orders::One).is_ok_and(|outcome| outcome.fits)
}

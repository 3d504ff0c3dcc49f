//! From a model and a job to a prediction: lower, order, place.
//!
//! In: a model, a job, and the memory it runs in. Out: [`Prediction`]. The executor's order is not fixed, so several orders
//! are run; the prediction is their median and the range their spread. On a CPU some more belong to a machine with other work
//! to do, which puts threads off: only the upper end of the range has them. Not counted: what other processes hold.

mod floor;
mod order;
mod side_by_side;

use std::ops::Range;
use std::sync::Arc;

use crate::allocator::timeline::Timeline;
use crate::allocator::{Holder, holders};
use crate::model::{Model, Note};
use crate::step::cost::StepCost;
use crate::step::executor::{Execution, Prepared};
use crate::step::tensorflow::Network;
use crate::step::{Job, Processor};
use crate::trace::{Cause, Event, Phase, Trace};

pub use self::floor::{FloorLine, FloorLines};
pub use self::order::Order;
use self::order::Placed;
use self::side_by_side::side_by_side;

/// How thoroughly a job is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Orders {
    /// One step in one order, in the steady state: for comparing jobs with each other.
    One,
    /// Several orders, from the first step on: for a verdict with its range.
    Several,
}

/// Orders of a CPU that has nothing else to do: as many as these have so many kernels together, so that a large model, whose orders differ less,
/// is planned as fast. A choice: 51 orders of a small model take a few milliseconds
/// (docs/accuracy.md says what 15, 31 and 101 give).
const QUIET_KERNELS: usize = 60_000;
/// At least and at most so many. Odd numbers have a median.
const QUIET_ORDERS: (usize, usize) = (5, 51);

/// Orders of a CPU that has.
const BUSY_ORDERS: u64 = 3;

/// A job's kernels, not yet ordered. For a large model they take some 3 MB.
#[derive(Clone, Debug)]
pub struct Lowered {
    prepared: Prepared,
    notes: Vec<Note>,
}

impl Lowered {
    /// Lowers a job.
    pub fn new(model: &Model, job: &Job) -> Lowered {
        Lowered::of(Network::new(model, job), model, job)
    }

    /// Lowers the update of a job whose network is lowered.
    pub fn of(network: Network, model: &Model, job: &Job) -> Lowered {
        let (graph, notes) = network.with_update(model, job);
        let layers = model.layers.iter().map(|layer| layer.path.as_str().into()).collect();
        let batch = match job.processor {
            Processor::Cpu { .. } => Some(job.micro_batch()),
            // Host threads queue kernels on one stream; how long that takes does not depend on the batch.
            Processor::Gpu => None,
        };
        Lowered { prepared: Prepared::new(&graph, batch, layers), notes }
    }

    /// How many orders of a quiet machine tell enough.
    fn quiet_orders(&self) -> usize {
        (QUIET_KERNELS / self.prepared.node_count().max(1)).clamp(QUIET_ORDERS.0, QUIET_ORDERS.1) | 1
    }

    /// Runs one order.
    fn order(&self, job: &Job, orders: Orders, seed: u64) -> Order {
        let threads = match job.processor {
            Processor::Cpu { threads, .. } => threads.max(1) as usize,
            Processor::Gpu => 2,
        };
        let steps = match (orders, job.processor) {
            // What was measured is the largest of the first three steps; the executor's threads make each another one.
            (Orders::Several, Processor::Cpu { .. }) => 3,
            // The first step needs less than the others.
            (Orders::One, _) | (Orders::Several, Processor::Gpu) => 1,
        };
        // A GPU's kernels are only queued by the threads.
        let busy = seed >= self.quiet_orders() as u64 && matches!(job.processor, Processor::Cpu { .. });
        let trace = self.prepared.run(Execution { threads, steps, from_start: steps > 1, seed, busy });
        Order::new(trace, job.processor)
    }
}

/// The orders that are there, and the seeds of those that are not.
fn known_and_missing(
    lowered: &Lowered,
    job: &Job,
    orders: Orders,
    one: Option<&Runs>,
) -> (Vec<Arc<Order>>, Range<u64>) {
    let seeds = match (orders, job.processor) {
        (Orders::One, _) => 1,
        (Orders::Several, Processor::Cpu { .. }) => lowered.quiet_orders() as u64 + BUSY_ORDERS,
        // Without running times there is less to vary.
        (Orders::Several, Processor::Gpu) => 3,
    };
    let known = one.filter(|_| job.processor == Processor::Gpu).map_or_else(Vec::new, |one| one.orders.clone());
    let missing = known.len() as u64..seeds;
    (known, missing)
}

/// What the job's kernels are lowered to, run in several orders.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The orders.
    pub orders: Vec<Arc<Order>>,
    /// How many of them, the first ones, are those of a quiet machine.
    quiet: usize,
    /// What was bounded rather than modelled.
    pub notes: Vec<Note>,
    /// What the kernels cost, for those who ask how long a step takes.
    pub cost: StepCost,
}

/// A peak and what made it.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Most bytes handed out by the allocator at once.
    pub allocated_bytes: u64,
    /// Most bytes the allocator takes from the device.
    pub reserved_bytes: u64,
    /// The same over the orders of a quiet machine: smallest.
    pub low_bytes: u64,
    /// The same over all orders: largest. The verdict uses it.
    pub high_bytes: u64,
    /// The largest without the orders of a busy machine.
    pub quiet_high_bytes: u64,
    /// Most bytes asked for at once.
    pub floor_bytes: u64,
    /// Bytes that the allocator holds at the peak beyond what was asked for.
    pub slack_bytes: u64,
    /// A fixed pool of this size serves every order; 0 for a pool that grows.
    pub sufficient_bytes: u64,
    /// The order that stands for the others, and its peak.
    order: usize,
    peak_event: Option<usize>,
}

impl Runs {
    /// Lowers a job and runs it.
    pub fn new(model: &Model, job: &Job, orders: Orders) -> Runs {
        Runs::of(&Lowered::new(model, job), job, orders, None)
    }

    /// Runs what was lowered for this job. If it was run in one order before, a GPU's several orders begin with that one.
    pub fn of(lowered: &Lowered, job: &Job, orders: Orders, one: Option<&Runs>) -> Runs {
        let (known, seeds) = known_and_missing(lowered, job, orders, one);
        let missing = seeds.map(|seed| Arc::new(lowered.order(job, orders, seed)));
        Runs { orders: known.into_iter().chain(missing).collect(), ..Runs::without_orders(lowered) }
    }

    /// The same on two threads, which also place the new orders at the job's batch: for one who has nothing else to do meanwhile.
    pub fn side_by_side(lowered: &Lowered, job: &Job, orders: Orders, one: Option<&Runs>) -> Runs {
        let (known, seeds) = known_and_missing(lowered, job, orders, one);
        let missing = side_by_side(seeds, |seed| {
            let order = lowered.order(job, orders, seed);
            order.unlimited(job.micro_batch());
            Arc::new(order)
        });
        Runs { orders: known.into_iter().chain(missing).collect(), ..Runs::without_orders(lowered) }
    }

    fn without_orders(lowered: &Lowered) -> Runs {
        let (notes, cost) = (lowered.notes.clone(), lowered.prepared.cost);
        Runs { orders: Vec::new(), quiet: lowered.quiet_orders(), notes, cost }
    }

    /// Places the runs at a batch size, in a pool without limit.
    pub fn predict(&self, batch: u64) -> Prediction {
        let placed = self.orders.iter().map(|order| order.unlimited(batch));
        let mut placed: Vec<(Placed, usize)> = placed.zip(0..).collect();
        let sufficient_bytes = placed.iter().map(|(placed, _)| placed.sufficient_bytes).max().unwrap_or(0);
        let peak = |(placed, _): &(Placed, usize)| placed.placement.peak_allocated_bytes;
        let high_bytes = placed.iter().map(peak).max().unwrap_or(0);
        placed.truncate(self.quiet);
        placed.sort_by_key(peak);
        let (low_bytes, quiet_high_bytes) = (peak(&placed[0]), peak(&placed[placed.len() - 1]));
        // Which of the orders a model has, no file tells: as many of them need less as need more.
        let (Placed { placement, .. }, order) = &placed[placed.len() / 2];
        Prediction {
            allocated_bytes: placement.peak_allocated_bytes,
            reserved_bytes: placement.peak_reserved_bytes,
            low_bytes,
            high_bytes,
            quiet_high_bytes,
            floor_bytes: placement.floor_peak_bytes,
            slack_bytes: placement.peak_allocated_bytes.saturating_sub(placement.requested_at_peak_bytes),
            sufficient_bytes,
            order: *order,
            peak_event: placement.peak_event,
        }
    }

    /// Who holds memory at the peak of a prediction for this batch.
    pub fn holders(&self, prediction: &Prediction, batch: u64) -> Vec<(Cause, Holder)> {
        let trace = &self.orders[prediction.order].trace;
        let Some(event) = prediction.peak_event else { return Vec::new() };
        let holders = holders(trace, event, batch, &[]).into_iter();
        holders.map(|holder| (trace.causes.get(holder.cause), holder)).collect()
    }

    /// The request that made the peak of a prediction for this batch, and its phase.
    pub fn moment(&self, prediction: &Prediction, batch: u64) -> Option<(Phase, Cause)> {
        moment(&self.orders[prediction.order].trace, prediction.peak_event?, batch, prediction.allocated_bytes)
    }

    /// What is held after each event of the order that stands for the others.
    pub fn timeline(&self, prediction: &Prediction, batch: u64) -> Timeline {
        self.orders[prediction.order].timeline(batch)
    }

    /// The orders without those of a busy machine.
    pub fn quiet_orders(&self) -> &[Arc<Order>] {
        &self.orders[..self.orders.len().min(self.quiet)]
    }

    /// The share of a quiet machine's orders that get through in a pool of this size, from 0 to 1: the prediction is of those.
    pub fn fitting_share(&self, batch: u64, limit_bytes: u64) -> f64 {
        let orders = self.quiet_orders();
        let fitting = orders.iter().filter(|order| order.peak_in(batch, limit_bytes).is_some());
        fitting.count() as f64 / orders.len().max(1) as f64
    }
}

/// The most that any of these orders has at once in a pool of this size; none if one of them does not get through.
pub fn peak_in(orders: &[Arc<Order>], batch: u64, limit_bytes: u64) -> Option<u64> {
    orders.iter().try_fold(0, |peak, order| order.peak_in(batch, limit_bytes).map(|own| own.max(peak)))
}

/// The request that made the peak: the last one of weight before it, for the very last may be a few bytes of another layer.
pub(crate) fn moment(trace: &Trace, peak_event: usize, batch: u64, peak_bytes: u64) -> Option<(Phase, Cause)> {
    let before = &trace.events[..=peak_event];
    let weighty = |event: &Event| matches!(event, Event::Alloc { size, .. } if size.at(batch) >= peak_bytes / 256);
    let at = before.iter().rposition(weighty).unwrap_or(peak_event);
    let phase = before[..=at].iter().rev().find_map(|event| match *event {
        Event::Mark { phase } => Some(phase),
        _ => None,
    });
    match before[at] {
        Event::Alloc { cause, .. } => Some((phase?, trace.causes.get(cause))),
        _ => None,
    }
}

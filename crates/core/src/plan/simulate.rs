//! Runs setups: import, lower, order, place; each setup once.
//!
//! In: a [`Setup`]. Out: an [`Outcome`], kept so that the search may ask again. Several threads may share it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use super::remedies::int8_weights;
use super::setup::{ModelChange, Pool, Setup};
use super::time;
use super::{ModelSource, TIGHT_DIVISOR};
use crate::bytes::MIB;
use crate::model::{Model, OptimizerConfig};
pub use crate::predict::Orders;
use crate::predict::{Lowered, Order, Prediction, Runs, peak_in};
use crate::step::tensorflow::Network;
use crate::step::{Job, Processor};

/// The driver's pool takes memory in pieces of this size. Measured on an NVIDIA H200 with driver 580
/// (`CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT` while 22 sizes were allocated).
const CUDA_POOL_PIECE_BYTES: u64 = 32 * MIB;

/// What a setup does.
#[derive(Debug)]
pub struct Outcome {
    /// The setup.
    pub setup: Setup,
    /// Its model.
    pub model: Arc<Model>,
    /// Its kernels, in one or several orders.
    pub runs: Arc<Runs>,
    /// Its peak.
    pub prediction: Prediction,
    /// Whether every order fits.
    pub fits: bool,
    /// Estimated time for one sample.
    pub sample_ns: f64,
}

impl Outcome {
    fn new(setup: &Setup, model: Arc<Model>, runs: Arc<Runs>) -> Outcome {
        let at_once = setup.at_once();
        let prediction = predict(setup, &runs, at_once);
        let sample_ns = time::sample_ns(setup, &model, &runs.cost);
        let mut outcome = Outcome { setup: setup.clone(), model, runs, prediction, fits: true, sample_ns };
        outcome.fits = setup.limit_bytes.is_none_or(|limit| {
            let alone = outcome.prediction.sufficient_bytes;
            let sufficient = alone.saturating_add(setup.extra.at(at_once));
            let surely = alone > 0 && setup.pool == Pool::Framework && sufficient <= limit;
            surely || (outcome.high_bytes() <= limit && outcome.fits_at(at_once, 0))
        });
        outcome
    }

    /// The most that an order needs, with what is held beside the trace.
    pub fn high_bytes(&self) -> u64 {
        self.prediction.high_bytes.saturating_add(self.setup.extra.at(self.setup.at_once()))
    }

    /// The same without the orders of a busy machine.
    pub fn quiet_high_bytes(&self) -> u64 {
        self.prediction.quiet_high_bytes.saturating_add(self.setup.extra.at(self.setup.at_once()))
    }

    /// What a fit leaves free that is not [`Verdict::Tight`](crate::report::Verdict::Tight).
    pub fn spare_bytes(&self) -> u64 {
        self.setup.limit_bytes.map_or(0, |limit| limit / TIGHT_DIVISOR)
    }

    /// Whether every order fits and leaves as much.
    pub fn fits_leaving(&self, spare_bytes: u64) -> bool {
        let most = self.setup.limit_bytes.map(|limit| limit.saturating_sub(spare_bytes));
        self.fits && most.is_none_or(|most| self.high_bytes() <= most)
    }

    /// What the allocator takes from the device: on a GPU, TensorFlow's takes the whole limit at the first request.
    pub fn reserved_bytes(&self) -> u64 {
        match (self.setup.job.processor, self.setup.limit_bytes) {
            (Processor::Gpu, Some(limit)) => limit,
            (Processor::Gpu, None) => self.prediction.allocated_bytes,
            (Processor::Cpu { .. }, _) => self.prediction.reserved_bytes,
        }
    }

    /// Whether the same kernels get through with another number of samples at once, and leave as much.
    pub fn fits_at(&self, at_once: u64, spare_bytes: u64) -> bool {
        self.fits_in(&self.runs.orders, at_once, spare_bytes)
    }

    /// The same on a machine that has nothing else to do.
    pub fn fits_quietly_at(&self, at_once: u64, spare_bytes: u64) -> bool {
        self.fits_in(self.runs.quiet_orders(), at_once, spare_bytes)
    }

    fn fits_in(&self, orders: &[Arc<Order>], at_once: u64, spare_bytes: u64) -> bool {
        let Some(limit) = self.setup.limit_bytes else { return true };
        let left = limit.saturating_sub(self.setup.extra.at(at_once));
        let most = left.saturating_sub(spare_bytes);
        match self.setup.pool {
            // The floor is cheaper than a placement that fails.
            Pool::Framework => {
                floor_of(orders, at_once) <= most && peak_in(orders, at_once, left).is_some_and(|peak| peak <= most)
            }
            Pool::CudaAsync => cuda_pool_bytes(floor_of(orders, at_once)) <= most,
        }
    }

    /// Whether the prediction itself fits, if not the upper end of its range: most orders get through.
    pub fn prediction_fits(&self) -> bool {
        let at_once = self.setup.at_once();
        let extra = self.setup.extra.at(at_once);
        self.setup.limit_bytes.is_none_or(|limit| {
            self.prediction.allocated_bytes.saturating_add(extra) <= limit
                && self.runs.fitting_share(at_once, limit.saturating_sub(extra)) > 0.5
        })
    }

    /// Bytes asked for at once: no allocator can do with less.
    pub fn floor_at(&self, at_once: u64) -> u64 {
        floor_of(&self.runs.orders, at_once)
    }
}

/// Bytes that these orders ask for at once: no allocator can do with less.
fn floor_of(orders: &[Arc<Order>], at_once: u64) -> u64 {
    orders.iter().map(|order| order.floor.at(at_once).bytes).max().unwrap_or(0)
}

fn predict(setup: &Setup, runs: &Runs, at_once: u64) -> Prediction {
    let mut prediction = runs.predict(at_once);
    if setup.pool == Pool::CudaAsync {
        let needs = || runs.orders.iter().map(|order| cuda_pool_bytes(order.floor.at(at_once).bytes));
        prediction.low_bytes = needs().min().unwrap_or(0);
        prediction.high_bytes = needs().max().unwrap_or(0);
        prediction.quiet_high_bytes = prediction.high_bytes;
        prediction.allocated_bytes = cuda_pool_bytes(prediction.floor_bytes);
        prediction.reserved_bytes = prediction.allocated_bytes;
    }
    prediction
}

/// What the driver's pool takes for a trace with this floor. It maps memory piecewise, so little fragments: six traces of
/// this crate, replayed on that H200 in pools of ever smaller maximum size, needed the floor rounded up to whole pieces, or
/// one piece more.
fn cuda_pool_bytes(floor: u64) -> u64 {
    floor.div_ceil(CUDA_POOL_PIECE_BYTES).saturating_add(1).saturating_mul(CUDA_POOL_PIECE_BYTES)
}

type Kept<K, V> = Mutex<Vec<(K, Result<Arc<V>, String>)>>;

/// What a job's kernels depend on: the model, and the job without what they do not depend on.
type Kernels = (ModelChange, bool, Job);

/// Setups that differ in the pool or the limit alone share their kernels; on a GPU, also those that differ in the batch, on
/// which neither kernels nor their order depend there.
fn kernels(setup: &Setup) -> Kernels {
    let job = setup.device_job();
    let batch = if job.processor == Processor::Gpu { 1 } else { job.micro_batch() };
    (setup.change.clone(), setup.int8_weights, Job { batch, micro_batches: 1, ..job })
}

/// What the network alone depends on.
fn without_optimizer((change, int8_weights, job): Kernels) -> Kernels {
    (change, int8_weights, Job { optimizer: OptimizerConfig::named(""), ..job })
}

/// Jobs of which the kernels are kept: one for each of two threads.
const KEPT_LOWERED: usize = 2;

/// Runs setups and keeps what they gave.
pub struct Simulator<'a> {
    source: &'a dyn ModelSource,
    models: Kept<ModelChange, Model>,
    /// What the network of the job as it was asked for depends on, and that network: some remedies change the optimizer alone.
    asked: Kernels,
    network: OnceLock<Network>,
    last: Mutex<VecDeque<(Kernels, Arc<Lowered>)>>,
    runs: Kept<(Kernels, Orders), Runs>,
    outcomes: Kept<(Setup, Orders), Outcome>,
}

impl<'a> Simulator<'a> {
    /// Nothing run yet; `asked` is the job as it was asked for.
    pub fn new(source: &'a dyn ModelSource, asked: &Setup) -> Simulator<'a> {
        Simulator {
            source,
            models: Mutex::default(),
            asked: without_optimizer(kernels(asked)),
            network: OnceLock::new(),
            last: Mutex::default(),
            runs: Mutex::default(),
            outcomes: Mutex::default(),
        }
    }

    /// The model with some settings changed.
    pub fn model(&self, change: &ModelChange) -> Result<Arc<Model>, String> {
        kept(&self.models, change, || self.source.model(change))
    }

    /// A job's kernels. Those that were lowered last are kept for a while: a job that is run in one order is often run in several
    /// soon after. More of them would take too much room.
    fn lowered(&self, key: Kernels, model: &Model, job: &Job) -> Arc<Lowered> {
        let last = || self.last.lock().expect("no thread panics while it holds this");
        let known = |last: &mut VecDeque<(Kernels, Arc<Lowered>)>| {
            let at = last.iter().position(|(known, _)| *known == key)?;
            last.remove(at)
        };
        if let Some((_, lowered)) = known(&mut last()) {
            return lowered;
        }
        last().truncate(KEPT_LOWERED - 1);
        let lowered = Arc::new(Lowered::of(self.network(&key, model, job), model, job));
        last().push_front((key, lowered.clone()));
        lowered
    }

    fn network(&self, key: &Kernels, model: &Model, job: &Job) -> Network {
        let network = || Network::new(model, job);
        if without_optimizer(key.clone()) != self.asked {
            return network();
        }
        self.network.get_or_init(network).copied(model)
    }

    /// What several orders can begin with.
    fn runs_in_one_order(&self, (kernels, orders): &(Kernels, Orders)) -> Option<Arc<Runs>> {
        if *orders == Orders::One {
            return None;
        }
        let runs = self.runs.lock().expect("no thread panics while it holds this");
        let same = |(known, orders): &(Kernels, Orders)| *orders == Orders::One && known == kernels;
        runs.iter().find(|(known, _)| same(known)).and_then(|(_, runs)| runs.clone().ok())
    }

    /// Runs a setup, unless it was run before.
    pub fn run(&self, setup: &Setup, orders: Orders) -> Result<Arc<Outcome>, String> {
        self.run_by(setup, orders, Runs::of)
    }

    /// The same in several orders, on two threads: for when no other thread has anything to do.
    pub fn run_side_by_side(&self, setup: &Setup) -> Result<Arc<Outcome>, String> {
        self.run_by(setup, Orders::Several, Runs::side_by_side)
    }

    fn run_by(
        &self,
        setup: &Setup,
        orders: Orders,
        run: impl FnOnce(&Lowered, &Job, Orders, Option<&Runs>) -> Runs,
    ) -> Result<Arc<Outcome>, String> {
        kept(&self.outcomes, &(setup.clone(), orders), || {
            let mut model = self.model(&setup.change)?;
            if setup.int8_weights {
                model = Arc::new(int8_weights::quantized(&model));
            }
            let job = setup.device_job();
            let key = (kernels(setup), orders);
            let runs = kept(&self.runs, &key, || {
                let one = self.runs_in_one_order(&key);
                Ok(run(&self.lowered(key.0.clone(), &model, &job), &job, orders, one.as_deref()))
            })?;
            Ok(Outcome::new(setup, model, runs))
        })
    }
}

/// The value for a key, made at most once by each thread that asks at the same time. There are tens of keys, not thousands.
fn kept<K: PartialEq + Clone, V>(
    store: &Kept<K, V>,
    key: &K,
    make: impl FnOnce() -> Result<V, String>,
) -> Result<Arc<V>, String> {
    let find = |entries: &[(K, Result<Arc<V>, String>)]| {
        entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    if let Some(known) = find(&store.lock().expect("no thread panics while it holds this")) {
        return known;
    }
    let made = make().map(Arc::new);
    let mut entries = store.lock().expect("no thread panics while it holds this");
    if let Some(known) = find(&entries) {
        return known;
    }
    entries.push((key.clone(), made.clone()));
    made
}

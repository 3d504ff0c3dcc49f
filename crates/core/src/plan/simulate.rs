//! Runs setups: import, lower, order, place; each setup once.
//!
//! In: a [`Setup`]. Out: an [`Outcome`], kept so that the search may ask again. Several threads may share it.

use std::sync::{Arc, Mutex};

use super::ModelSource;
use super::remedies::int8_weights;
use super::setup::{ModelChange, Pool, Setup};
use super::time;
use crate::allocator::floor::Floor;
use crate::allocator::place;
use crate::bytes::MIB;
use crate::model::Model;
use crate::predict::{Prediction, Runs};
use crate::step::Processor;

/// In how many orders the kernels are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orders {
    /// One: for comparing.
    One,
    /// Several: for a verdict.
    Several,
}

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
    pub runs: Runs,
    /// Its peak.
    pub prediction: Prediction,
    /// Whether every order fits.
    pub fits: bool,
    /// Estimated time for one sample.
    pub sample_ns: f64,
}

impl Outcome {
    fn new(setup: &Setup, model: Arc<Model>, orders: Orders) -> Outcome {
        let runs = Runs::new(&model, &setup.device_job(), orders == Orders::Several);
        let at_once = setup.at_once();
        let prediction = predict(setup, &runs, at_once);
        let sample_ns = time::sample_ns(setup, &model, &runs.graph);
        let mut outcome = Outcome { setup: setup.clone(), model, runs, prediction, fits: true, sample_ns };
        outcome.fits = outcome.fits_with(at_once, outcome.high_bytes());
        outcome
    }

    /// The most that an order needs, with what is held beside the trace.
    pub fn high_bytes(&self) -> u64 {
        self.prediction.high_bytes.saturating_add(self.setup.extra.at(self.setup.at_once()))
    }

    /// What the allocator takes from the device: on a GPU, TensorFlow's takes the whole limit at the first request.
    pub fn reserved_bytes(&self) -> u64 {
        match (self.setup.job.processor, self.setup.limit_bytes) {
            (Processor::Gpu, Some(limit)) => limit,
            (Processor::Gpu, None) => self.prediction.allocated_bytes,
            (Processor::Cpu { .. }, _) => self.prediction.reserved_bytes,
        }
    }

    /// Whether the same kernels fit with another number of samples at once.
    pub fn fits_at(&self, at_once: u64) -> bool {
        let Some(limit) = self.setup.limit_bytes else { return true };
        // A failing placement ends early, and the floor is cheaper still: the sure answers come first.
        self.floor_at(at_once).saturating_add(self.setup.extra.at(at_once)) <= limit && {
            let high = predict(&self.setup, &self.runs, at_once).high_bytes;
            self.fits_with(at_once, high.saturating_add(self.setup.extra.at(at_once)))
        }
    }

    /// Whether the prediction itself fits, if not the upper end of its range.
    pub fn median_fits(&self) -> bool {
        let extra = self.setup.extra.at(self.setup.at_once());
        self.setup.limit_bytes.is_none_or(|limit| self.prediction.allocated_bytes.saturating_add(extra) <= limit)
    }

    /// Bytes asked for at once: no allocator can do with less.
    pub fn floor_at(&self, at_once: u64) -> u64 {
        let floor = |trace| place(trace, at_once, &mut Floor::new());
        let peak = |placement: crate::allocator::Placement| match placement.failure {
            Some(_) => u64::MAX,
            None => placement.floor_peak_bytes,
        };
        self.runs.traces.iter().map(|trace| peak(floor(trace))).max().unwrap_or(0)
    }

    fn fits_with(&self, at_once: u64, high_bytes: u64) -> bool {
        let Some(limit) = self.setup.limit_bytes else { return true };
        if high_bytes > limit {
            return false;
        }
        match self.setup.pool {
            Pool::Framework => self.runs.fit(at_once, limit.saturating_sub(self.setup.extra.at(at_once))),
            Pool::CudaAsync => true,
        }
    }
}

fn predict(setup: &Setup, runs: &Runs, at_once: u64) -> Prediction {
    let mut prediction = runs.predict(at_once);
    if setup.pool == Pool::CudaAsync {
        // The driver maps memory piecewise, so what fragments is less than a piece: six traces of this crate, replayed on
        // that H200 in pools of ever smaller maximum size, needed the floor rounded up to pieces, or one piece more.
        let floors = runs.traces.iter().map(|trace| place(trace, at_once, &mut Floor::new()).floor_peak_bytes);
        let bound = |floor: u64| {
            floor.div_ceil(CUDA_POOL_PIECE_BYTES).saturating_add(1).saturating_mul(CUDA_POOL_PIECE_BYTES)
        };
        let needs: Vec<u64> = floors.map(bound).collect();
        prediction.low_bytes = needs.iter().copied().min().unwrap_or(0);
        prediction.high_bytes = needs.iter().copied().max().unwrap_or(0);
        prediction.allocated_bytes = bound(prediction.floor_bytes);
        prediction.reserved_bytes = prediction.allocated_bytes;
    }
    prediction
}

type Kept<K, V> = Mutex<Vec<(K, Result<Arc<V>, String>)>>;

/// Runs setups and keeps what they gave.
pub struct Simulator<'a> {
    source: &'a dyn ModelSource,
    models: Kept<ModelChange, Model>,
    outcomes: Kept<(Setup, Orders), Outcome>,
}

impl<'a> Simulator<'a> {
    /// Nothing run yet.
    pub fn new(source: &'a dyn ModelSource) -> Simulator<'a> {
        Simulator { source, models: Mutex::default(), outcomes: Mutex::default() }
    }

    /// The model with some settings changed.
    pub fn model(&self, change: &ModelChange) -> Result<Arc<Model>, String> {
        kept(&self.models, change, || self.source.model(change))
    }

    /// Runs a setup, unless it was run before.
    pub fn run(&self, setup: &Setup, orders: Orders) -> Result<Arc<Outcome>, String> {
        kept(&self.outcomes, &(setup.clone(), orders), || {
            let mut model = self.model(&setup.change)?;
            if setup.int8_weights {
                model = Arc::new(int8_weights::quantized(&model));
            }
            Ok(Outcome::new(setup, model, orders))
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

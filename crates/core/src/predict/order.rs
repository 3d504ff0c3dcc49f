//! One order of a job's kernels, and what was found out about it.
//!
//! In: a trace. Out: its floor at any batch, and its placements in a pool without limit, each made once: the search asks for
//! both again and again.

use std::sync::Mutex;

use super::floor::FloorLines;
use crate::allocator::bfc::{Bfc, BfcOptions, Growth, MAX_INTERNAL_FRAGMENTATION_BYTES};
use crate::allocator::timeline::{Timeline, watch};
use crate::allocator::{Placement, place};
use crate::step::Processor;
use crate::trace::Trace;

/// A trace in one of the orders that the executor may choose.
#[derive(Debug)]
pub struct Order {
    /// What the allocator is asked for.
    pub trace: Trace,
    /// What no allocator can do without.
    pub floor: FloorLines,
    processor: Processor,
    placed: Mutex<Vec<(u64, Placed)>>,
    /// Its peak if it gets through, by batch and limit.
    fitted: Mutex<Vec<(u64, u64, Option<u64>)>>,
}

/// A trace in a pool without limit.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) placement: Placement,
    /// A fixed pool of this size serves the same requests at the same places; 0 for a pool that grows.
    pub(super) sufficient_bytes: u64,
}

impl Order {
    pub(super) fn new(trace: Trace, processor: Processor) -> Order {
        Order { floor: FloorLines::of(&trace), trace, processor, placed: Mutex::default(), fitted: Mutex::default() }
    }

    /// Places the trace in a pool without limit, unless that was done before.
    pub(super) fn unlimited(&self, batch: u64) -> Placed {
        if let Some(known) = self.known(batch) {
            return known;
        }
        let (placement, pool) = self.place(batch, u64::MAX >> 8);
        let sufficient_bytes = match self.processor {
            Processor::Cpu { .. } => 0,
            Processor::Gpu => pool.span_bytes() + MAX_INTERNAL_FRAGMENTATION_BYTES,
        };
        let placed = Placed { placement, sufficient_bytes };
        self.placed.lock().expect("no thread panics while it holds this").push((batch, placed.clone()));
        placed
    }

    /// What is held after each event, in a pool without limit.
    pub(super) fn timeline(&self, batch: u64) -> Timeline {
        watch(&self.trace, batch, &mut self.pool(u64::MAX >> 8)).0
    }

    /// The most that is handed out at once in a pool of this size; none if the trace does not get through.
    pub(super) fn peak_in(&self, batch: u64, limit_bytes: u64) -> Option<u64> {
        let sufficient = |placed: &Placed| (1..=limit_bytes).contains(&placed.sufficient_bytes);
        if let Some(placed) = self.known(batch).filter(sufficient) {
            return Some(placed.placement.peak_allocated_bytes);
        }
        let fitted = || self.fitted.lock().expect("no thread panics while it holds this");
        let asked = |(known, limit, _): &&(u64, u64, Option<u64>)| (*known, *limit) == (batch, limit_bytes);
        if let Some(&(_, _, peak)) = fitted().iter().find(asked) {
            return peak;
        }
        let placement = self.place(batch, limit_bytes).0;
        let peak = placement.failure.is_none().then_some(placement.peak_allocated_bytes);
        fitted().push((batch, limit_bytes, peak));
        peak
    }

    fn known(&self, batch: u64) -> Option<Placed> {
        let placed = self.placed.lock().expect("no thread panics while it holds this");
        placed.iter().find(|(known, _)| *known == batch).map(|(_, placed)| placed.clone())
    }

    fn place(&self, batch: u64, limit_bytes: u64) -> (Placement, Bfc) {
        let mut pool = self.pool(limit_bytes);
        // Of a large model's buffers, up to every second one is alive at once.
        pool.reserve(self.trace.buffer_count as usize / 2);
        (place(&self.trace, batch, &mut pool), pool)
    }

    fn pool(&self, limit_bytes: u64) -> Bfc {
        let options = match self.processor {
            Processor::Cpu { .. } => BfcOptions::tensorflow_cpu(limit_bytes),
            Processor::Gpu => BfcOptions::tensorflow_gpu(limit_bytes, Growth::Fixed),
        };
        Bfc::new(options)
    }
}

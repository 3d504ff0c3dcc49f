//! The executor's threads: what each runs next, and what waits in its queue.
//!
//! In: kernels that became ready. Out: which thread takes up which kernel, and when one ends. A thread that has nothing to do looks around for what
//! others have queued, then sleeps, and takes its time to wake: small kernels have often run one after the other by then
//! (the thread pool of Eigen, `NonBlockingThreadPool.h`).

use std::collections::VecDeque;

use super::prepared::Prepared;
use crate::step::graph::NodeId;

#[derive(Default)]
struct Worker {
    /// Kernels that this thread runs next, without asking the queue.
    inline: VecDeque<NodeId>,
    queue: VecDeque<NodeId>,
    /// Since when it has nothing to do.
    idle_since_ns: u64,
    /// When it takes up what it has noticed in another's queue.
    comes_ns: Option<u64>,
}

pub(super) struct Workers {
    workers: Vec<Worker>,
    /// When the kernel that each of them runs ends, and which one it is; [`IDLE`] for those that run nothing.
    running: Vec<(u64, NodeId)>,
    /// How many of them run nothing.
    idle: usize,
    /// Kernels that somebody is to run next, or that are queued.
    waiting: usize,
}

/// For so long one of two programs that share a core runs before the other. Linux: 0.75 ms and as much again for twice the cores
/// (`sysctl_sched_base_slice` in kernel/sched/fair.c); there are two of them where predictions were measured.
const SLICE_NS: u64 = 1_500_000;

/// So long a thread that has nothing to do looks around before it sleeps, what it takes to come while it does, and what it takes to wake: read off
/// TensorFlow's profiler (`tools/measure_kernel_pace.py`: 25 to 46 us after a quarter of a millisecond and more).
const LOOKS_AROUND_NS: u64 = 250_000;
const COMES_NS: u64 = 4_000;
const WAKES_NS: u64 = 35_000;

/// What happens next.
pub(super) enum Next {
    /// A kernel ends on a thread.
    Ends(usize, NodeId),
    /// A thread comes for what others have queued.
    Comes,
}

/// Ends after everything that runs.
const IDLE: (u64, NodeId) = (u64::MAX, NodeId(0));

impl Workers {
    pub(super) fn new(threads: usize) -> Workers {
        let workers = (0..threads).map(|_| Worker::default()).collect();
        Workers { workers, running: vec![IDLE; threads], idle: threads, waiting: 0 }
    }

    /// A kernel that waits for nothing, at the start of a step.
    pub(super) fn enqueue(&mut self, node: NodeId) {
        let threads = self.workers.len();
        self.workers[node.0 as usize % threads].queue.push_back(node);
        self.waiting += 1;
    }

    /// An idle thread and the kernel it takes up now.
    #[inline]
    pub(super) fn next(&mut self, now_ns: u64, random: &mut Random) -> Option<(usize, NodeId)> {
        let first = random.below(self.workers.len());
        // After every kernel, each thread asks once in vain.
        if self.idle == 0 || self.waiting == 0 { None } else { self.take(now_ns, first) }
    }

    fn take(&mut self, now_ns: u64, first: usize) -> Option<(usize, NodeId)> {
        let threads = self.workers.len();
        for offset in 0..threads {
            let index = wrapped(first + offset, threads);
            if self.running[index] != IDLE {
                continue;
            }
            let worker = &mut self.workers[index];
            let own = worker.inline.pop_front().or_else(|| worker.queue.pop_front());
            if let Some(node) = own.or_else(|| self.take_from_others(now_ns, index)) {
                self.waiting -= 1;
                return Some((index, node));
            }
        }
        None
    }

    /// What an idle thread finds in the others' queues, once it has come.
    fn take_from_others(&mut self, now_ns: u64, index: usize) -> Option<NodeId> {
        let threads = self.workers.len();
        let mut others = (1..threads).map(|other| wrapped(index + other, threads));
        let full = others.find(|&other| !self.workers[other].queue.is_empty());
        let worker = &mut self.workers[index];
        // It came, and somebody else had been faster: it has looked around since.
        let in_vain = |&comes_ns: &u64| comes_ns < now_ns || (full.is_none() && comes_ns == now_ns);
        if let Some(came_ns) = worker.comes_ns.filter(in_vain) {
            (worker.idle_since_ns, worker.comes_ns) = (came_ns, None);
        }
        let full = full?;
        let asleep = now_ns - worker.idle_since_ns > LOOKS_AROUND_NS;
        let comes_ns = *worker.comes_ns.get_or_insert(now_ns + if asleep { WAKES_NS } else { COMES_NS });
        if comes_ns > now_ns { None } else { self.workers[full].queue.pop_back() }
    }

    pub(super) fn start(&mut self, worker: usize, node: NodeId, end: u64) {
        self.running[worker] = (end, node);
        self.workers[worker].comes_ns = None;
        self.idle -= 1;
    }

    /// What happens first after `now_ns`, and when.
    pub(super) fn advance(&mut self, now_ns: u64) -> Option<(u64, Next)> {
        // Of those that end together the first thread's.
        let mut worker = 0;
        for (index, (end, _)) in self.running.iter().enumerate() {
            if *end < self.running[worker].0 {
                worker = index;
            }
        }
        let end = self.running[worker].0;
        let comes_ns =
            self.workers.iter().filter_map(|worker| worker.comes_ns).filter(|&comes_ns| comes_ns > now_ns).min();
        if let Some(comes_ns) = comes_ns.filter(|&comes_ns| comes_ns < end && self.waiting > 0) {
            return Some((comes_ns, Next::Comes));
        }
        let (end, node) = std::mem::replace(&mut self.running[worker], IDLE);
        if (end, node) == IDLE {
            return None;
        }
        self.idle += 1;
        self.workers[worker].idle_since_ns = end;
        Some((end, Next::Ends(worker, node)))
    }

    /// Hands out what a kernel made ready: cheap kernels and the last dear one to the same thread, the rest to its queue.
    pub(super) fn hand_out(&mut self, worker: usize, ready: &[NodeId], prepared: &Prepared) {
        self.waiting += ready.len();
        let worker = &mut self.workers[worker];
        let mut dear = None;
        for &node in ready {
            if !prepared.call(node).dear {
                worker.inline.push_back(node);
            } else if let Some(previous) = dear.replace(node) {
                worker.queue.push_front(previous);
            }
        }
        if let Some(node) = dear {
            if worker.inline.is_empty() {
                worker.inline.push_back(node);
            } else {
                worker.queue.push_front(node);
            }
        }
    }
}

/// An index that went once around at most.
fn wrapped(index: usize, length: usize) -> usize {
    if index >= length { index - length } else { index }
}

/// A small deterministic generator (SplitMix64): the same seed gives the same order on every machine.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, step: u32) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(step) << 32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number without meaning, to sort by.
    pub(super) fn any(&mut self) -> u64 {
        self.next()
    }

    fn below(&mut self, bound: usize) -> usize {
        let number = self.next();
        // The usual two threads need no division; this runs several times for each kernel.
        if bound == 2 { (number & 1) as usize } else { (number % bound as u64) as usize }
    }

    /// How long a kernel that runs so long waits meanwhile, if another program wants its core all the time: with every slice that it
    /// runs there comes one that it does not.
    pub(super) fn waits(&mut self, runs_ns: u64) -> u64 {
        (runs_ns / SLICE_NS + u64::from(self.next() % SLICE_NS < runs_ns % SLICE_NS)) * SLICE_NS
    }

    /// A running time between half and twice the estimate: what sharing two cores with other work does.
    pub(super) fn jitter(&mut self, cost: u64) -> u64 {
        let factor = 128 + self.next() % 384;
        cost / 256 * factor + cost % 256
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Size;
    use crate::model::{DType, Shape};
    use crate::step::graph::{Graph, InPlace, Kernel, NewNode};

    /// Two kernels read what another one of this length has made, and run 10 us each. Which thread runs the first of them, and when it begins.
    fn second_reader(idle_ns: u64) -> (usize, u64) {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::fixed(&[1]), DType::Float32);
        let readers = ["Square", "Sub"].map(|name| {
            let (kernel, output) = (Kernel { name, attr: 0 }, (Shape::fixed(&[1]), DType::Float32));
            let (in_place, scratch, work) = (InPlace::No, vec![], Size::ZERO);
            let made = graph.add(NewNode { kernel, inputs: &[x], output, in_place, scratch, work, after: &[] });
            graph.value(made).producer
        });
        let prepared = Prepared::new(&graph, Some(1), Vec::new());
        let (mut workers, mut random) = (Workers::new(2), Random::new(0, 0));
        workers.start(0, NodeId(0), idle_ns);
        let Some((mut now_ns, Next::Ends(0, _))) = workers.advance(0) else { panic!("it ends") };
        workers.hand_out(0, &readers, &prepared);
        assert_eq!(workers.next(now_ns, &mut random), Some((0, readers[1])));
        workers.start(0, readers[1], now_ns + 10_000);
        loop {
            if let Some((worker, node)) = workers.next(now_ns, &mut random) {
                assert_eq!(node, readers[0]);
                return (worker, now_ns - idle_ns);
            }
            (now_ns, _) = workers.advance(now_ns).unwrap();
        }
    }

    #[test]
    fn a_thread_that_sleeps_comes_too_late_for_small_kernels() {
        assert_eq!(second_reader(LOOKS_AROUND_NS / 2), (1, COMES_NS));
        assert_eq!(second_reader(LOOKS_AROUND_NS * 2), (0, 10_000));
    }

    #[test]
    fn a_thread_that_came_in_vain_has_to_come_again() {
        let mut workers = Workers::new(2);
        workers.start(0, NodeId(0), 1_000_000);
        let queue = |workers: &mut Workers, node| workers.workers[0].queue.push_front(NodeId(node));
        queue(&mut workers, 1);
        let idle_ns = 2 * LOOKS_AROUND_NS;
        assert_eq!(workers.take_from_others(idle_ns, 1), None);
        // It wakes, and what it was called for is gone.
        workers.workers[0].queue.clear();
        let came_ns = idle_ns + WAKES_NS;
        queue(&mut workers, 2);
        // Called again while it looks around, and when it sleeps.
        assert_eq!(workers.take_from_others(came_ns + LOOKS_AROUND_NS, 1), None);
        assert_eq!(workers.take_from_others(came_ns + LOOKS_AROUND_NS + COMES_NS, 1), Some(NodeId(2)));
        queue(&mut workers, 3);
        workers.workers[1].comes_ns = Some(came_ns);
        let late_ns = came_ns + 2 * LOOKS_AROUND_NS;
        assert_eq!(workers.take_from_others(late_ns, 1), None);
        assert_eq!(workers.take_from_others(late_ns + WAKES_NS, 1), Some(NodeId(3)));
    }

    #[test]
    fn beside_another_program_a_kernel_waits_as_long_as_it_runs() {
        let mut random = Random::new(0, 0);
        for runs_ns in [0, 10_000, SLICE_NS / 3, SLICE_NS, 5 * SLICE_NS / 2] {
            let waits: Vec<u64> = (0..4000).map(|_| random.waits(runs_ns)).collect();
            assert!(waits.iter().all(|wait| wait % SLICE_NS == 0 && wait.abs_diff(runs_ns) < SLICE_NS));
            let mean_ns = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
            assert!((mean_ns - runs_ns as f64).abs() < 0.05 * SLICE_NS as f64, "{runs_ns}: {mean_ns}");
        }
    }
}

//! The order in which a dataflow executor runs the kernels of a step, and so the trace its allocator sees.
//!
//! In: a [`Graph`](super::graph::Graph). Out: a [`Trace`]: set-up, then the same step as often as asked. The rules are those of TensorFlow's
//! executor (tensorflow/core/common_runtime/executor.cc, `ScheduleReady`): a kernel runs as soon as its inputs are there;
//! of the kernels that one result makes ready, the last runs on the same thread and the others go to the front of the
//! thread's queue, from whose back an idle thread steals. A buffer is freed when its last reader has run, and a kernel
//! takes over an input's buffer when it is the last reader. A result with many readers hands them out in an order that differs
//! from one start of the program to the next. A GPU's kernels, which the host only queues, all stay on the thread that made them
//! ready and run first come, first served.
//!
//! How long each kernel runs is an estimate, so the order is one of several that really happen: `seed` picks one. Not
//! counted: bookkeeping of the executor itself, and tensors of a few bytes such as shapes and loop counters.

mod many_readers;
mod prepared;
mod run;
mod successors;
mod workers;

pub use prepared::Prepared;

use crate::trace::Trace;

/// How to run the graph.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// Threads that run kernels side by side.
    pub threads: usize,
    /// How many steps follow each other.
    pub steps: u32,
    /// Whether the first of them is the job's first, when slots of one shape still share one buffer of zeros.
    pub from_start: bool,
    /// Which of the possible orders.
    pub seed: u64,
    /// Whether other programs take turns with the threads, which then run ahead of each other.
    pub busy: bool,
}

impl Prepared {
    /// Runs the graph and records what its allocator is asked for.
    pub fn run(&self, execution: Execution) -> Trace {
        let mut run = run::Run::new(self, execution);
        run.set_up();
        for step in 0..execution.steps {
            run.step(step);
        }
        run.into_trace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Size;
    use crate::model::{DType, Shape};
    use crate::step::graph::{Graph, InPlace, Kernel, NewNode, ValueId, Variable};
    use crate::trace::{Event, Role};

    fn tensor(graph: &mut Graph, name: &'static str, input: ValueId, elements: u64) -> ValueId {
        graph.add(NewNode {
            kernel: Kernel { name, attr: 0 },
            inputs: &[input],
            output: (Shape::fixed(&[elements]), DType::Float32),
            in_place: InPlace::No,
            scratch: vec![],
            work: Size::ZERO,
            after: &[],
        })
    }

    /// The sizes of what is made, in order: one result has three readers, and what each makes has one.
    fn order_of_three(batch: Option<u64>, threads: usize, seed: u64) -> Vec<u64> {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::fixed(&[1]), DType::Float32);
        let root = tensor(&mut graph, "Neg", x, 1);
        let first = [110, 120, 130].map(|elements| tensor(&mut graph, "Neg", root, elements));
        for (index, value) in first.into_iter().enumerate() {
            tensor(&mut graph, "Neg", value, 111 + 10 * index as u64);
        }
        let trace = Prepared::new(&graph, batch, Vec::new()).run(Execution {
            threads,
            steps: 1,
            from_start: false,
            seed,
            busy: false,
        });
        let made = trace.events.iter().filter_map(|event| match event {
            Event::Alloc { size, .. } if size.at(1) >= 400 => Some(size.at(1) / 4),
            _ => None,
        });
        made.collect()
    }

    #[test]
    fn a_gpus_kernels_run_first_come_first_served_and_a_cpus_follow_the_last_reader() {
        for seed in 0..5 {
            let gpu = order_of_three(None, 2, seed);
            let (first, then) = gpu.split_at(3);
            assert_eq!(then, [first[0] + 1, first[1] + 1, first[2] + 1], "{gpu:?}");
            let cpu: Vec<u64> = first.iter().rev().flat_map(|&reader| [reader, reader + 1]).collect();
            assert_eq!(order_of_three(Some(1), 1, seed), cpu);
        }
    }

    /// Sizes of what the readers of one result make, in the order of each of two steps.
    fn order_of(readers: u64, seed: u64) -> [Vec<u64>; 2] {
        let mut graph = Graph::default();
        let x = graph.feed(Shape::fixed(&[1]), DType::Float32);
        let parts = tensor(&mut graph, "Unpack", x, 1);
        for reader in 0..readers {
            tensor(&mut graph, "Neg", parts, 100 + reader);
        }
        let prepared = Prepared::new(&graph, Some(1), Vec::new());
        let trace = prepared.run(Execution { threads: 1, steps: 2, from_start: false, seed, busy: false });
        let mut sizes = trace.events.iter().filter_map(|event| match event {
            Event::Alloc { size, .. } if size.at(1) >= 400 => Some(size.at(1) / 4 - 100),
            _ => None,
        });
        [sizes.by_ref().take(readers as usize).collect(), sizes.collect()]
    }

    /// What three steps ask for, in order, that read a table of 4000 bytes, look up 2000 bytes of it and write to it.
    fn asked_for_by_a_table(write: &'static str, from_start: bool) -> Vec<u64> {
        let mut graph = Graph::default();
        let shape = Shape::fixed(&[1000]);
        let (role, dtype) = (Role::Parameter, DType::Float32);
        let table = graph.variable(Variable { layer: None, role, shape, dtype, random: false, created: 0 });
        let whole = graph.read(table, false);
        let rows = tensor(&mut graph, "GatherV2", whole, 500);
        graph.assign(write, table, rows, &[]);
        let steps = Execution { threads: 2, steps: 3, from_start, seed: 0, busy: false };
        let trace = Prepared::new(&graph, Some(1), Vec::new()).run(steps);
        let made = trace.events.iter().filter_map(|event| match event {
            Event::Alloc { size, .. } if size.at(1) >= 2000 => Some(size.at(1)),
            _ => None,
        });
        made.skip(1).collect()
    }

    #[test]
    fn a_table_that_is_changed_in_rows_is_copied_by_whoever_reads_it() {
        // Not before its first change.
        assert_eq!(asked_for_by_a_table("ResourceScatterSub", true), [2000, 4000, 2000, 4000, 2000]);
        assert_eq!(asked_for_by_a_table("ResourceScatterSub", false), [4000, 2000, 4000, 2000, 4000, 2000]);
        assert_eq!(asked_for_by_a_table("AssignSubVariableOp", true), [2000, 2000, 2000]);
    }

    #[test]
    fn each_seed_has_an_order_of_its_own_for_all_of_its_steps() {
        for readers in [3, 8, 9] {
            let orders: Vec<_> = (0..5).map(|seed| order_of(readers, seed)).collect();
            assert!(orders.iter().all(|steps| steps[0] == steps[1]), "{orders:?}");
            assert!(orders[1..].iter().any(|steps| steps[0] != orders[0][0]), "{orders:?}");
            for steps in orders {
                let mut all = steps[0].clone();
                all.sort_unstable();
                assert_eq!(all, (0..readers).collect::<Vec<_>>());
            }
        }
    }
}

//! The order in which a dataflow executor runs the kernels of a step, and so the trace its allocator sees.
//!
//! In: a [`Graph`](super::graph::Graph). Out: a [`Trace`]: set-up, then the same step as often as asked. The rules are those of TensorFlow's
//! executor (tensorflow/core/common_runtime/executor.cc, `ScheduleReady`): a kernel runs as soon as its inputs are there;
//! of the kernels that one result makes ready, the last runs on the same thread and the others go to the front of the
//! thread's queue, from whose back an idle thread steals. A buffer is freed when its last reader has run, and a kernel
//! takes over an input's buffer when it is the last reader.
//!
//! How long each kernel runs is an estimate, so the order is one of several that really happen: `seed` picks one. Not
//! counted: bookkeeping of the executor itself, and tensors of a few bytes such as shapes and loop counters.

mod prepared;
mod run;
mod successors;
mod workers;

pub use prepared::{Prepared, causes};

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

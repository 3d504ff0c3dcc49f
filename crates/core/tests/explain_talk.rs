//! Texts in which people speak of running out of memory: pages, wishes, titles, questions, and reports in their own words.
//!
//! In: sentences of our own, with names and figures of our own, each beside one that does report a failure. Checked: that what holds for any job
//! names nothing, and that whoever had it is believed.

#[path = "support/explained.rs"]
mod explained;

use brimful_core::explain::{Code, Resource};
use explained::{cause, nothing, said};

const STEP: &str = "slurmstepd: error: Detected 1 oom-kill event(s) in step 8812.batch cgroup\n";

#[test]
fn what_holds_for_any_job_has_happened_to_none() {
    assert!(nothing("It would help to see at once when a pod is OOMKilled, and by whom it was started.\n"));
    assert!(nothing("Workers that take more than their share usually end with exit code 137 on this cluster.\n"));
    assert!(nothing("If you get a CUDA out of memory error here, you can lower the number of frames.\n"));
    assert!(nothing("Errors like \"No space left on device\" can happen on the second day of such a run.\n"));
    assert!(nothing("The column on the right shows OOMKilled in red, and the limit below it.\n"));
    assert_eq!(cause("After ten minutes my pod is OOMKilled.\n"), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause("trainer-2   0/1   OOMKilled   4   31m\n"), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause("trainer-2 exited with code 137\n"), Some(Code::KernelOomKill));
}

#[test]
fn who_asks_or_wishes_reports_nothing() {
    assert!(nothing("# What is the exit code 137 of a container?\n"));
    assert!(nothing("The status should have said OOMKilled\n"));
    assert!(nothing("Looks like you have too many open files: which system is it?\n"));
    assert!(nothing("I wonder whether our server would answer with OOMKilled then\n"));
    assert!(nothing("Exit status 137 implies that the process was ended from outside, most often for its memory.\n"));
    assert_eq!(
        said("Hello, I get \"cuda runtime error: out of memory\"; where do I set the batch, please?\n").resource,
        Some(Resource::GpuMemory)
    );
    assert_eq!(
        cause("The server said OOMKilled when I asked it.\nLast state: OOMKilled\n"),
        Some(Code::ContainerOrSchedulerLimit)
    );
}

#[test]
fn pages_show_what_an_error_looks_like() {
    let page = |above: &str| format!("{above}\n\n{STEP}\nAsk for more memory then.\n");
    assert!(nothing(&page("Jobs that need more than they asked for end with an error such as this:")));
    assert!(nothing(&page("What does \"oom-kill\" mean?")));
    assert!(nothing(&page("## Example errors")));
    assert_eq!(cause(&page("My job ends like this:")), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause(&page("I get an error such as this:")), Some(Code::ContainerOrSchedulerLimit));
    assert!(nothing(
        "States of a job\n\n• OUT_OF_MEMORY (in a table OUT_OF_ME+): the job took more than it had asked for\n"
    ));
    assert_eq!(cause(STEP), Some(Code::ContainerOrSchedulerLimit));
}

#[test]
fn titles_of_changes_wishes_and_lessons_are_no_reports() {
    let wished = |title: &str| format!("{title}\n\nA worker that was OOMKilled leaves a line without a reason.\n");
    assert!(nothing(&wished("[Feature] Say why a worker is gone")));
    assert!(nothing(&wished("feat(scheduler): a state of its own for full nodes")));
    assert!(nothing(&wished("# fix: the state of workers that are gone")));
    assert_eq!(cause(&wished("[Bug] Why is a worker gone?")), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause(&wished("fix(values) = 3")), Some(Code::ContainerOrSchedulerLimit));
    assert!(nothing("Troubleshooting CUDA out of memory in ten steps\n"));
    assert!(nothing("# Better words for CUDA out of memory\n"));
    assert_eq!(said("# CUDA out of memory on two cards\n").resource, Some(Resource::GpuMemory));
    // A title that begins small is no comment of a script where it has the figures.
    let title = "# on both cards: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 1; 5.79 GiB total capacity; 4.02 GiB already allocated)\n";
    assert_eq!(said(title).numbers.requested_bytes, Some(96 << 20));
}

#[test]
fn a_report_counts_more_than_what_is_said_of_it() {
    let log = "After a while it complains that there is not enough memory, saying:\n  what():  Error while calling cudaMalloc(&data, size) in file \
               gpu.cpp:88. code: 2, reason: out of memory\n";
    assert_eq!(said(log).resource, Some(Resource::GpuMemory));
    let job = "The job ended because it ran out of memory on the second node, I think.\nrun.sh: line 41: 4107 Killed   python rows.py\n";
    assert_eq!(cause(job), Some(Code::KernelOomKill));
    assert_eq!(
        cause("On the larger folder my script ends with the word \"killed\", and no more.\n"),
        Some(Code::KernelOomKill)
    );
    let changed = "I met RuntimeError: CUDA out of the memory. Tried to allocate 2.10GiB(GPU 0; 9.77GiB total capacity; 5.10GiB already allocated)\n";
    assert_eq!(
        (said(changed).resource, said(changed).numbers.capacity_bytes.is_some()),
        (Some(Resource::GpuMemory), true)
    );
}

#[test]
fn whoever_watched_it_says_how_it_came() {
    let full = "RuntimeError: CUDA out of memory. Tried to allocate 24.00 MiB (GPU 0; 10.76 GiB total capacity; 9.61 GiB already allocated; \
                12.00 MiB free; 9.71 GiB reserved in total by PyTorch)\n";
    assert_eq!(
        cause(&format!("The GPU memory keeps growing from epoch to epoch, and then:\n{full}")),
        Some(Code::Leak)
    );
    assert_ne!(cause(&format!("The loss keeps growing from epoch to epoch, and then:\n{full}")), Some(Code::Leak));
    // Growth alone is no failure, and what is read into memory grows until it is killed.
    assert!(nothing("The GPU memory keeps growing from epoch to epoch. Is that meant to be?\n"));
    assert_eq!(cause("Reading takes more and more memory.\nKilled\n"), Some(Code::KernelOomKill));
    let bare = "RuntimeError: CUDA out of memory";
    assert_eq!(cause(&format!("{bare} during validation\n")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&format!("{bare} when saving the model\n")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause("# CUDA OOM during checkpoint saving\n"), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&format!("{bare} during training\n")), None);
    // Whoever is testing something tries it out.
    let tried = "When I was testing it on longer films I had:\n";
    let pad = "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 41.9 GiB for an array with shape (150000, 150000) and data type uint16\n";
    assert_eq!(cause(&format!("{tried}{pad}")), Some(Code::TensorTooLarge));
}

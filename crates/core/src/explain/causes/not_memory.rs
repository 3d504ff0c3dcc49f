//! Not a memory failure at all: a bad index, a version, a quota, any other exception.

use super::super::case::Case;
use super::super::ended;
use super::super::sign::Weight;
use super::{Cause, Claim, Code};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::NotMemory,
    name: "not_memory",
    title: "Not a memory failure",
    remedies: &["read_the_error"],
    page: include_str!("../../../../../docs/causes/not_memory.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let failure = case.failure()?;
    let full = case.numbers.free_bytes.zip(case.numbers.capacity_bytes);
    if let Some((free, total)) = full.filter(|(free, total)| {
        case.saw("cuda.handle_memory") && failure.sign.weight == Weight::Symptom && *free > total / 2
    }) {
        return Claim::certain(format!(
            "{} of {} were free when the handle could not be made: versions or the driver, not memory",
            human(free),
            human(total)
        ));
    }
    let denial = case.denial()?;
    denial.sign.cause?;
    if let Some(name) = ended::name(&denial.text).filter(|_| denial.sign.id == "python.ended") {
        return Claim::certain(format!("the job ended with {name}, and nothing in the log says that memory ran out"));
    }
    let because = match denial.sign.id {
        "cuda.assert" => {
            "an assertion failed on the device: an index or a label is out of range; whatever fails after it says nothing"
        }
        "cuda.illegal" => "a kernel used a wrong address; the device had memory left",
        "cuda.versions" => "driver, CUDA and libraries do not match, or there is no usable GPU",
        "api.quota" => "a service refused a request because of a quota or a rate, not because of memory",
        "allocator.nothing" => "nothing was asked for: a tensor without elements, or a size that overflowed",
        "nccl.timeout" => {
            "a process waited for another one or for the network and gave up; look at the first rank that failed"
        }
        "scheduler.time" | "job.timed_out" => "the job was ended because its time was over",
        "scheduler.preempted" => "the scheduler took the machine for another job",
        "kubernetes.probe" => {
            "Kubernetes restarted the container because it did not answer; why it did not is not said"
        }
        "native.instruction" => "the program has instructions that this processor does not know",
        "scheduler.cancelled" => "the job was cancelled, by a person or by the scheduler",
        "machine.preempted" => "the machine was taken for somebody else, or shut down",
        "user.killed" => "somebody ended it by hand (kill, docker stop)",
        "service.stopping" | "service.kills" => "it was told to stop, and killed because it did not",
        "user.interrupt" => "somebody ended it by hand (Ctrl-C)",
        "launcher.kill" => "a launcher ended the process itself; why it did so is not said",
        "system.forbidden" => {
            "the system forbids memory of this kind, or a loader's table is full: that there is too little is not said"
        }
        "system.inotify" => "the limit is of watched files (fs.inotify.max_user_watches), not of memory or disk",
        "triton.resources" => {
            "a kernel needs more of a GPU core's own shared memory than it has: a matter of block sizes, not of memory"
        }
        _ => "the error is of another kind, and nothing in the log says that memory ran out",
    };
    Claim::certain(because)
}

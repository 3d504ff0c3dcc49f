//! The kernel killed the process because the whole machine had no memory left; often nothing but `Killed` remains.

use super::super::case::{Case, Sighting, is_eviction};
use super::super::sign::Resource;
use super::super::sizes::{has_any, size_after};
use super::{Cause, Claim, Code, Instead, said};
use crate::bytes::human;

pub(super) const CAUSE: Cause = Cause {
    code: Code::KernelOomKill,
    name: "kernel_oom_kill",
    title: "The kernel killed the process: the machine ran out of memory",
    remedies: &["stream_data", "fewer_workers", "smaller_types", "raise_limit"],
    page: include_str!("../../../../../docs/causes/kernel_oom_kill.md"),
    judge,
};

/// What is said and done where Kubernetes made room on a node before the kernel had to.
const EVICTED: Instead = Instead {
    title: "The node ran out of memory, and Kubernetes evicted the pod",
    remedies: &["raise_requests", "stream_data", "fewer_workers", "smaller_types"],
};

fn judge(case: &Case) -> Option<Claim> {
    if let Some(failure) = case.failure().filter(|failure| is_eviction(failure)) {
        return evicted(case, failure);
    }
    if let Some(mut claim) =
        said(case, Code::KernelOomKill, "the kernel says that it ran out of memory and whom it killed")
    {
        if let Some(bytes) = case.numbers.process_bytes {
            claim.because.push(format!("the killed process held {}", human(bytes)));
        }
        return Some(claim);
    }
    let failure = case.failure()?;
    if case.resource.is_some_and(|resource| resource != Resource::HostMemory) {
        return None;
    }
    match failure.sign.id {
        "shell.killed" | "process.killed" | "process.exit_code" if case.saw("docker.not_oom") => Claim::possible(
            "the process was ended by SIGKILL; Docker says that the container's limit was not the reason, so that the machine may have been",
        ),
        "shell.killed" | "process.killed" | "process.exit_code" | "torch.elastic_killed" | "gunicorn.killed" => {
            Claim::likely(
                "the process was ended by SIGKILL (9; 128 + 9 = 137) with no word of its own, as the kernel does when memory runs out; a person or a scheduler could have done it, too",
            )
        }
        "kernel.invoked" if case.saw("kernel.machine_trace") => Claim::likely(
            "the kernel found no page in the whole machine and looked for a process to kill; whom is not said",
        ),
        "kernel.invoked" => Claim::possible(
            "the kernel looked for a process to kill; whether the machine or a cgroup was full is not said",
        ),
        "torch.worker_killed" if case.numbers.exit_code == Some(-9) => Claim::likely(
            "a worker was ended by SIGKILL with no word of its own, as the kernel does when memory runs out",
        ),
        "torch.worker_killed" | "python.pool_broken"
            if case.saw("process.killed") || case.saw("process.exit_code") || case.saw("shell.killed") =>
        {
            Claim::likely(
                "a worker was ended by SIGKILL with no word of its own, as the kernel does when memory runs out",
            )
        }
        "jupyter.kernel_died" if case.saw("tcmalloc.reported") => Claim::likely(
            "the kernel vanished without a word after a single large allocation, as when the machine runs out of memory",
        ),
        "torch.worker_gone" | "python.pool_broken" | "jupyter.kernel_died" | "actions.shutdown" => {
            Claim::possible("a process vanished without a word; the kernel's log says whether memory was the reason")
        }
        _ => None,
    }
}

fn evicted(case: &Case, failure: &Sighting) -> Option<Claim> {
    let mut claim = Claim::certain(
        "Kubernetes says that the node was short of memory, and evicted the pod to get some back; that the container reached its own limit is not said",
    )?;
    let asked = size_after(&failure.text, "request is").or_else(|| size_after(&failure.text, "its request of"));
    let none = has_any(&failure.text, &["request is 0,", "its request of 0."]);
    let asked = if none { Some("nothing".to_owned()) } else { asked.map(human) };
    if let Some((used, asked)) = case.numbers.process_bytes.zip(asked) {
        claim.because.push(format!(
            "the container used {} and had asked for {asked}: whoever uses more than it asked for goes first",
            human(used)
        ));
    }
    Some(Claim { instead: Some(EVICTED), ..claim })
}

//! What containers, schedulers and distributed frameworks say: Kubernetes, Docker, Slurm, LSF, HTCondor, YARN, Spark, Dask, Ray, clouds.

use super::super::causes::Code;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{
    Quantity, after, bytes_after, has, has_any, number_after, quantity, size_after, size_before,
};
use crate::bytes::MIB;

const LIMIT: Option<Resource> = Some(Resource::ContainerLimit);
const CODE: Option<Code> = Some(Code::ContainerOrSchedulerLimit);

/// How Dask warns of memory that it cannot spill.
const DASK_HIGH: &[&str] =
    &["Unmanaged memory use is high", "Memory use is high but worker has no data to store to disk"];

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: kubernetes,
        // What holds for any container has happened to none: `If a container is OOMKilled, its reason is shown`.
        check: |text| !["If a ", "If an ", "When a ", "When an "].iter().any(|start| text.starts_with(start)),
        ..Sign::new("kubernetes.oom_killed", &["OOMKilled", "OOMKilling", "OOM Killed", "OOM-killed"], Weight::Failure)
            .oom_flag()
    },
    Sign {
        read: limits,
        check: is_limit,
        ..Sign::new("kubernetes.figures", &["memory:  ", "\"Memory\": ", "\"memory\": \""], Weight::Context)
    },
    // The node itself is short of memory; what its containers may have is not said.
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        read: evicted,
        ..Sign::new("kubernetes.evicted", &["low on resource: memory", "condition: [MemoryPressure"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::Disk),
        cause: Some(Code::DiskFull),
        read: storage,
        ..Sign::new(
            "kubernetes.storage",
            &[
                "low on resource: ephemeral-storage", "ephemeral local storage usage exceeds the total limit",
                "condition: [DiskPressure",
            ],
            Weight::Failure,
        )
    },
    // The kubelet's own log names what it wants back, in newer versions as a field.
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        check: |text| {
            has_any(text, &["to reclaim memory", "resourceName=\"memory", "resourceName=\"allocatableMemory"])
        },
        ..Sign::new("kubernetes.evicts", &["must evict pod(s) to reclaim"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::Disk),
        cause: Some(Code::DiskFull),
        check: |text| has_any(text, &["ephemeral-storage", "nodefs", "imagefs", "containerfs"]),
        ..Sign::new("kubernetes.evicts_disk", &["must evict pod(s) to reclaim"], Weight::Failure)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: slurm,
        ..Sign::new(
            "slurm.limit",
            &[
                "oom-kill event",
                "oom_kill event",
                "Exceeded job memory limit",
                "Exceeded step memory limit",
                "exceeded memory limit",
                "OUT_OF_MEMORY",
                "OUT_OF_ME+",
                "Some of your processes may have been killed by the cgroup out-of-memory handler",
            ],
            Weight::Failure,
        )
        .slurm()
    },
    // As people say it: `all jobs were killed because of a Slurm out-of-memory error`.
    Sign {
        resource: LIMIT,
        cause: CODE,
        also: &["killed", "failed", "crashed"],
        ..Sign::new("slurm.told", &["slurm out-of-memory", "slurm out of memory", "slurm OOM"], Weight::Failure)
    },
    // What a job's script asked for is what it has.
    Sign {
        resource: LIMIT,
        read: |text, numbers| {
            let asked = after(text, "--mem=").or_else(|| after(text, "--mem ")).and_then(quantity);
            let limit =
                asked.map(|found| found.bytes().saturating_mul(if found.unit_bytes.is_some() { 1 } else { MIB }));
            numbers.capacity_bytes = numbers.capacity_bytes.or(limit);
        },
        check: |text| has_any(text, &["#SBATCH", "sbatch ", "srun ", "salloc "]),
        ..Sign::new("slurm.asked", &["--mem=", "--mem "], Weight::Context)
    },
    // `seff`, of a job that has ended: `Memory Efficiency: 99.75% of 48.00 GB`, in newer versions `48.00 GB (48.00 GB/node)`.
    Sign {
        resource: LIMIT,
        read: |text, numbers| {
            let limit = after(text, "Memory Efficiency:").and_then(|tail| size_after(tail, "% of"));
            numbers.capacity_bytes = numbers.capacity_bytes.or(limit);
        },
        ..Sign::new("slurm.efficiency", &["Memory Efficiency:"], Weight::Context)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        check: |text| text.contains("Out Of Memory"),
        ..Sign::new("slurm.task", &["srun: error", "task 0: Out Of Memory"], Weight::Failure)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: lsf,
        ..Sign::new(
            "lsf.limit",
            &[
                "TERM_MEMLIMIT", "job killed: mem", "job killed: vmem", "exceeded a memory resource limit",
                "h_vmem limit", "exceeded MEM usage hard limit", "job hard limit \"h_vmem\"",
                "job hard limit \"h_rss\"",
            ],
            Weight::Failure,
        )
    },
    Sign { read: lsf, ..Sign::new("lsf.figures", &["Total Requested Memory", "total_memory.0="], Weight::Context) },
    Sign {
        resource: Some(Resource::Threads),
        cause: Some(Code::Threads),
        ..Sign::new("lsf.threads", &["TERM_THREADLIMIT"], Weight::Failure)
    },
    Sign { ..Sign::new("slurm.touched", &["memory limit at some point"], Weight::Warning) },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: yarn,
        ..Sign::new(
            "yarn.limit",
            &[
                "killed by YARN for exceeding", "running beyond physical memory limits",
                "running beyond virtual memory limits", "Container killed on request. Exit code is 143",
                "Container killed on request. Exit code is 137", "Consider boosting spark",
                "killed for exceeding memory limits", "bigger than spark.driver.maxResultSize",
            ],
            Weight::Failure,
        )
    },
    // The heap is memory of the process; how much of the machine's it may have was set when it was started.
    Sign {
        resource: Some(Resource::HostMemory),
        cause: CODE,
        ..Sign::new(
            "java.heap",
            &[
                "java.lang.OutOfMemoryError", "GC overhead limit exceeded", "SparkOutOfMemoryError", "Java heap space",
                "OutOfMemorySparkException", "Not enough memory to build and broadcast the table",
            ],
            Weight::Failure,
        )
        .heap()
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: dask,
        ..Sign::new(
            "dask.limit",
            &["exceeded 95% memory budget", "memory budget. Restarting", "Worker exceeded"],
            Weight::Failure,
        )
        .dask_limit()
    },
    // What a worker says of itself when it starts: `distributed.worker - INFO -   Memory:   3.00 GB`.
    Sign {
        resource: LIMIT,
        read: |text, numbers| {
            let limit = after(text, "INFO").and_then(|tail| size_after(tail, "Memory:"));
            numbers.capacity_bytes = numbers.capacity_bytes.or(limit);
        },
        also: &["Memory:"],
        ..Sign::new("dask.started", &["distributed.worker - INFO"], Weight::Context)
    },
    // A task whose workers all died while they ran it: of its memory in most cases, of a crash or a stopped machine in others.
    Sign { resource: LIMIT, cause: CODE, read: dask, ..Sign::new("dask.died", &["KilledWorker"], Weight::Symptom) },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: dask_inputs,
        ..Sign::new("dask.inputs", &["worth of input dependencies, but worker"], Weight::Failure)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: dask,
        also: &["Pausing worker"],
        ..Sign::new("dask.paused", &["Worker is at "], Weight::Symptom)
    },
    Sign { ..Sign::new("dask.resumed", &["Resuming worker"], Weight::Warning) },
    // Paused at 80 %, terminated at 95 %.
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: dask,
        check: near_limit,
        ..Sign::new("dask.near_limit", DASK_HIGH, Weight::Symptom)
    },
    Sign {
        resource: LIMIT,
        read: dask,
        ..Sign::new(
            "dask.high",
            &[
                "Unmanaged memory use is high", "Memory use is high but worker has no data to store to disk",
                "unmanaged memory", "Worker memory limit:",
            ],
            Weight::Context,
        )
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: ray,
        ..Sign::new(
            "ray.limit",
            &[
                "ray.exceptions.OutOfMemoryError", "Task was killed due to the node running low on memory",
                "node running low on memory", "exceeds the memory usage threshold", "killed due to memory pressure",
                "RayOutOfMemoryError", "More than 95% of the memory on node", "memory usage threshold of",
                "documentation on how to address the out of memory issue",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::SharedMemory),
        cause: CODE,
        ..Sign::new(
            "ray.store",
            &[
                "ObjectStoreFullError", "object store is full", "The object store is full",
                "does not fit in the plasma store", "PlasmaStoreFull",
            ],
            Weight::Failure,
        )
        .store()
    },
    Sign { read: store, ..Sign::new("ray.store_figures", &["(global lru) capacity:"], Weight::Context) },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: condor,
        ..Sign::new(
            "condor.limit",
            &["job has gone over memory limit of", "Job has encountered an out-of-memory event"],
            Weight::Failure,
        )
    },
    // Spark on Kubernetes has a limit for each executor; Redis is given one.
    Sign {
        resource: LIMIT,
        cause: CODE,
        ..Sign::new(
            "service.limit",
            &["possible container OOM", "command not allowed when used memory > 'maxmemory'"],
            Weight::Failure,
        )
    },
    // Amazon's ECS and Batch, Google's training service: a task has the memory that it was given.
    Sign {
        resource: LIMIT,
        cause: CODE,
        check: |text| has_any(text, &["Container killed due to memory", "replica", "instance type with more memory"]),
        ..Sign::new(
            "cloud.limit",
            &[
                "Container killed due to memory usage", "ran out-of-memory and exited with a non-zero status",
                "use an instance type with more memory",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        ..Sign::new(
            "docker.limit",
            &[
                "exceeded its memory limit", "memory limit exceeded", "Memory limit exceeded",
                "exceeded memory limit of", "killed because it exceeded", "exceed memory limit of",
            ],
            Weight::Failure,
        )
        .cloud()
    },
];

impl Sign {
    const fn slurm(self) -> Sign {
        Sign { check: by_slurm, unless: &["at some point"], ..self }
    }

    /// `OOMKilled: false` denies it, and a comment in a file of settings says nothing.
    const fn oom_flag(self) -> Sign {
        Sign {
            unless: &[
                // Such as a program is to care for.
                "OOM-killed jobs", "OOM-killed pods", "OOM-killed containers", "OOM-killed tasks", "OOMKilled pods",
                "OOM-killed processes", "# OOMKilled", "\"OOMKilled\": false", "\"OOMKilled\":false",
                "OOMKilled: false", "OOMKilled:false", "OOMKilled=false", "OOMKilled = false",
            ],
            ..self
        }
    }

    const fn store(self) -> Sign {
        Sign { read: store, ..self }
    }

    const fn heap(self) -> Sign {
        Sign {
            unless: &[
                // What is not Java's own heap: RAPIDS' pool on a device.
                "RMM failure", "HeapDumpOnOutOfMemoryError", "unable to create new native thread",
                "unable to create native thread",
            ],
            ..self
        }
    }

    const fn dask_limit(self) -> Sign {
        Sign { also: &["memory"], ..self }
    }

    const fn cloud(self) -> Sign {
        Sign {
            also: &["memory limit", "its memory", "Memory limit", "killed because"],
            unless: &["Exceeded job", "Exceeded step"],
            ..self
        }
    }
}

fn storage(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "limit of containers"));
}

/// `OUT_OF_MEMORY` is a state of Slurm's in a table of its own, and a name of many errors elsewhere.
fn by_slurm(text: &str) -> bool {
    let state = has(text, "OUT_OF_ME");
    !state || text.contains("OUT_OF_ME+") || has_any(text, &["0:125", "State", "slurm", "sacct"])
}

fn kubernetes(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "memory:"));
}

/// `The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container a was using 15Gi, request is 4Gi, …`
fn evicted(text: &str, numbers: &mut Numbers) {
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "was using"));
    numbers.free_bytes = numbers.free_bytes.or_else(|| size_after(text, ", available:"));
}

/// HTCondor: `Job has gone over memory limit of 2048 megabytes. Peak usage: 2101 megabytes.`, `… memory limit of 16384 Mb`; its megabytes are MiB.
fn condor(text: &str, numbers: &mut Numbers) {
    let megabytes = |phrase: &str| number_after(text, phrase).and_then(|count| count.checked_mul(MIB));
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| megabytes("memory limit of"));
    numbers.process_bytes = numbers.process_bytes.or_else(|| megabytes("Peak usage:"));
}

/// `slurmstepd: error: Exceeded job memory limit (4206736 > 4194304)`; the figures are KiB.
/// Without a unit Slurm means kilobytes, in some versions bytes: no job has a limit of terabytes in kilobytes.
fn slurm_bytes(found: Quantity) -> u64 {
    let kilobytes = found.unit_bytes.is_none() && found.bytes() < 1 << 33;
    found.bytes().saturating_mul(if kilobytes { 1024 } else { 1 })
}

/// What a job asked for, in a row of `sacct`: `771204  preproc  OUT_OF_ME+  64G  0:125`, in older versions `64Gn` (of a node). What it used is there
/// in kilobytes, or with a point.
fn asked_in_row(text: &str) -> Option<u64> {
    let row = after(text, "OUT_OF_ME")?;
    let asked = |word: &&str| {
        let figure = word.trim_end_matches('n');
        let count = figure.trim_end_matches(['M', 'G', 'T']);
        count.len() + 1 == figure.len() && !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut found = row.split([' ', '|']).filter(asked);
    let first = found.next()?;
    // A second one would be what it used.
    found.next().is_none().then(|| quantity(first.trim_end_matches('n')).map(|found| found.bytes()))?
}

fn slurm(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| asked_in_row(text));
    let tail = after(text, "memory limit");
    if let Some((used, limit)) = tail.and_then(|tail| tail.split_once('>')) {
        numbers.capacity_bytes = quantity(limit).map(slurm_bytes);
        let used = used.trim_end().rsplit([' ', '(']).next().unwrap_or("");
        numbers.process_bytes = quantity(used).map(slurm_bytes);
    }
}

/// `Limits:` of `kubectl describe` come before `Requests:`, and the first figure is kept.
fn limits(text: &str, numbers: &mut Numbers) {
    let figure = after(text, "memory:").or_else(|| after(text, "Memory\":")).and_then(quantity);
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| figure.map(|found| found.bytes()));
}

fn is_limit(text: &str) -> bool {
    let line = text.trim_start();
    // In JSON, as Kubernetes writes quantities: `"memory": "8Gi"`.
    let quantity = line.split_once("\"memory\": \"").and_then(|(_, tail)| tail.split('"').next());
    let of_kubernetes = quantity.is_some_and(|quantity| quantity.ends_with("Gi") || quantity.ends_with("Mi"));
    line.starts_with("memory:") || line.contains("\"Memory\":") || of_kubernetes
}

fn store(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "Object size is"));
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| bytes_after(text, "(global lru) capacity:"));
}

fn lsf(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| size_after(text, "Total Requested Memory :"))
        .or_else(|| size_after(text, "total_memory.0="));
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| bytes_after(text, "exceeded limit"));
    // Grid Engine: exceeds job hard limit "h_vmem" of queue "all.q@n3" (17201102848.00000 > limit:17179869184.00000) - sending SIGKILL
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| bytes_after(text, "> limit:"));
    // PBS: job killed: mem 8394752kb exceeded limit 8388608kb
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "exceeded limit"));
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_before(text, "exceeded limit"));
}

/// `5.5 GB of 5.5 GB physical memory used`
fn yarn(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| size_before(text, "physical memory used"))
        .or_else(|| size_before(text, "virtual memory used"));
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "spark.driver.maxResultSize"));
    let used = after(text, "memory limits.").or_else(|| after(text, "Current usage:"));
    numbers.process_bytes = numbers
        .process_bytes
        .or_else(|| used.and_then(quantity).filter(|found| found.unit_bytes.is_some()).map(|found| found.bytes()));
}

fn dask(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| size_after(text, "Worker memory limit:"))
        .or_else(|| size_after(text, "Worker memory limit:"));
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "Process memory:"));
}

/// Whether a worker that Dask warns of has hardly anything left.
fn near_limit(text: &str) -> bool {
    let figures = size_after(text, "Process memory:").zip(size_after(text, "Worker memory limit:"));
    figures.is_some_and(|(process, limit)| process >= limit / 10 * 9)
}

/// `Task 'sum-7' has 30.61 GiB worth of input dependencies, but worker tcp://… has memory_limit set to 14.90 GiB.`
fn dask_inputs(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_before(text, "worth of input"));
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "memory_limit set to"));
}

/// `Memory on the node (IP: …) where the task … was running was 62.01GB / 64.00GB (0.97), which exceeds …`
fn ray(text: &str, numbers: &mut Numbers) {
    // More than 95% of the memory on node NAME is used (15.9 / 16.7 GB).
    if let Some((_, total)) = after(text, "is used (").and_then(|tail| tail.split_once('/')) {
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| quantity(total).map(|found| found.bytes()));
    }
    // Memory on the node (…) was 3.13GB used / 23.54GB limit
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_before(text, "limit ("));
    if let Some((used, total)) =
        after(text, "was running was").or_else(|| after(text, "node has used")).and_then(|tail| tail.split_once('/'))
    {
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| quantity(total).map(|found| found.bytes()));
        numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| quantity(used).map(|found| found.bytes()));
    }
}

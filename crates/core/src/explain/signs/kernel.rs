//! What the kernel, shells and process managers say when a process is killed.
//!
//! Origin of the wordings: `mm/oom_kill.c` of Linux 3.x–6.x, systemd-oomd, earlyoom, bash, Python's `subprocess` and `multiprocessing`.

use super::super::causes::Code;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{after, number_after, quantity, size_after};

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::ContainerLimit),
        cause: Some(Code::ContainerOrSchedulerLimit),
        read: killed,
        ..Sign::new("kernel.cgroup_kill", &["Memory cgroup out of memory", "CONSTRAINT_MEMCG", "Memory limit reached of cgroup", "memory: usage "], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        read: killed,
        unless: &["Memory cgroup"],
        ..Sign::new("kernel.kill", &["Out of memory: Kill", "Out of memory (oom_kill_allocating_task)", "CONSTRAINT_NONE", "oom_reaper: reaped process", "Killed process"], Weight::Failure)
    },
    Sign { read: killed, ..Sign::new("kernel.invoked", &["invoked oom-killer"], Weight::Context) },
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        read: killed,
        ..Sign::new("systemd.oomd", &["systemd-oomd", "earlyoom", "low memory! at or below SIGTERM", "result 'oom-kill'", "A process of this unit has been killed by the OOM killer"], Weight::Failure).when_killing()
    },
    Sign { resource: Some(Resource::HostMemory), read: exit, ..Sign::new("shell.killed", &["Killed"], Weight::Symptom).as_shell() },
    Sign {
        resource: Some(Resource::HostMemory),
        read: exit,
        ..Sign::new(
            "process.killed",
            &[
                "exit code 137", "exit code: 137", "exited with code 137", "exit status 137", "status 137", "returned 137", "(137)", "code 137", "exit code -9", "exitcode -9", "exitcode=-9", "Exit status: -9",
                "returned non-zero exit status -9", "died with <Signals.SIGKILL", "<Signals.SIGKILL: 9>", "signal: 9", "SIGKILL", "signal 9", "returned -9", "return code: -9", "died with signal 9", "exit code: -9", "exit status: 9",
                "terminated by signal 9", "terminated by signal SIGKILL", "killed by signal 9", "exits with return code = -9",
            ],
            Weight::Symptom,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        ..Sign::new("python.pool_broken", &["BrokenProcessPool", "A process in the process pool was terminated abruptly", "TerminatedWorkerError", "A worker process managed by the executor was unexpectedly terminated"], Weight::Symptom)
    },
];

impl Sign {
    const fn when_killing(self) -> Sign {
        Sign { also: &["kill", "Kill", "SIGTERM", "SIGKILL", "sending"], unless: &["Started", "Starting", "mem avail:"], ..self }
    }

    /// A shell's own line, and not prose.
    const fn as_shell(self) -> Sign {
        Sign { unless: &["Killed process", "OOMKilled", "killed by user", "SIGKILL", "Memory cgroup", "Killed by signal 15", "SIGTERM", "KilledWorker", "TaskKilled", "was killed:", "Killed by external"], ..self }
    }
}

/// `Out of memory: Killed process 1234 (python3) total-vm:…kB, anon-rss:…kB`
fn killed(text: &str, numbers: &mut Numbers) {
    let tail = after(text, "illed process ").or_else(|| after(text, "Kill process ")).or_else(|| after(text, "reaped process "));
    if let Some(tail) = tail {
        numbers.pid = numbers.pid.or_else(|| quantity(tail).map(|found| found.value as u64));
        numbers.process = numbers.process.take().or_else(|| after(tail, "(").and_then(|name| name.split(')').next()).map(str::to_owned));
    }
    numbers.process = numbers.process.take().or_else(|| after(text, "task=").and_then(|name| name.split([',', ' ']).next()).map(str::to_owned));
    numbers.pid = numbers.pid.or_else(|| number_after(text, ",pid="));
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "anon-rss:")).filter(|&bytes| bytes > 0);
    // memory: usage 8388608kB, limit 8388608kB, failcnt 1234
    if text.contains("failcnt") && text.contains("memory: usage") {
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "limit"));
        numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| size_after(text, "usage"));
    }
}

fn exit(text: &str, numbers: &mut Numbers) {
    numbers.exit_code = numbers.exit_code.or(if text.contains("137") { Some(137) } else { Some(-9) });
}

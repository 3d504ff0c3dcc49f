//! What the kernel, shells and process managers say when a process is killed.
//!
//! Origin of the wordings: `mm/oom_kill.c` of Linux 3.x–6.x, systemd-oomd, earlyoom, bash, Python's `subprocess` and `multiprocessing`.

use super::super::causes::Code;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{Quantity, after, has_any, has_word, number_after, quantity, size_after};
use super::talk::is_own;

/// How a shell says in its own language that a process was killed: English, Chinese, German, Russian, French, Italian, Polish, Japanese, Korean.
const KILLED: &[&str] = &[
    "Killed", "已杀死", "Getötet", "Убито", "Tué", "Processus arrêté", "Ucciso", "Unicestwiony", "強制終了", "죽었음",
    "已砍掉",
];

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::ContainerLimit),
        cause: Some(Code::ContainerOrSchedulerLimit),
        read: killed,
        ..Sign::new(
            "kernel.cgroup_kill",
            &[
                "Memory cgroup out of memory", "CONSTRAINT_MEMCG", "Memory limit reached of cgroup",
                "killed as a result of limit of /", "Cgroup OOM encountered",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        read: killed,
        unless: &["Memory cgroup"],
        check: names_the_victim,
        ..Sign::new(
            "kernel.kill",
            &[
                "Out of memory: Kill", "Out of memory (oom_kill_allocating_task)", "CONSTRAINT_NONE",
                "oom_reaper: reaped process", "Killed process",
            ],
            Weight::Failure,
        )
    },
    // The kubelet's events of a node and of a pod, the latter above: what it reads in the kernel's log.
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        ..Sign::new("kubelet.machine_oom", &["System OOM encountered"], Weight::Failure)
    },
    // Functions in the kernel's call trace, and Docker's events, where the line that names the victim was cut off.
    Sign {
        resource: Some(Resource::ContainerLimit),
        cause: Some(Code::ContainerOrSchedulerLimit),
        ..Sign::new(
            "kernel.cgroup_trace",
            &["mem_cgroup_oom_synchronize", "mem_cgroup_out_of_memory", "topic=/tasks/oom", " container oom "],
            Weight::Symptom,
        )
    },
    // The kernel counts a cgroup out only when it found no page for it.
    Sign {
        resource: Some(Resource::ContainerLimit),
        cause: Some(Code::ContainerOrSchedulerLimit),
        read: killed,
        check: at_its_limit,
        ..Sign::new("kernel.cgroup_full", &["memory: usage "], Weight::Symptom)
    },
    Sign { read: killed, ..Sign::new("kernel.cgroup_figures", &["memory: usage "], Weight::Context) },
    Sign { read: docker_stats, ..Sign::new("docker.stats", &["MEM USAGE / LIMIT"], Weight::Context) },
    // The first line of the kernel's report, which may be all that is left of it.
    Sign {
        resource: Some(Resource::HostMemory),
        read: killed,
        ..Sign::new("kernel.invoked", &["invoked oom-killer"], Weight::Symptom)
    },
    // Below it, who asked the killer for help: whoever looks for a page of the machine. A cgroup's limit is found elsewhere.
    Sign { ..Sign::new("kernel.machine_trace", &["__alloc_pages_slowpath", "__alloc_pages_may_oom"], Weight::Context) },
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        read: killed,
        ..Sign::new(
            "systemd.oomd",
            &[
                "systemd-oomd", "earlyoom", "low memory! at or below SIGTERM", "result 'oom-kill'",
                "A process of this unit has been killed by the OOM killer",
            ],
            Weight::Failure,
        )
        .when_killing()
    },
    // As people tell it.
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::KernelOomKill),
        unless: &["cgroup", "pod", "container", "?"],
        ..Sign::new(
            "told.oom_killer",
            &[
                "OOM killer was triggered", "OOM killer was invoked", "OOM killer got triggered",
                "OOM-killer was triggered", "triggered the OOM killer", "killed by OOM killer",
                "killed by the OOM killer", "killed by OOM-killer", "killed by the OOM-killer",
                "killed by the kernel's OOM", "killed by the Linux OOM killer", "OOM killer killed",
            ],
            Weight::Failure,
        )
    },
    Sign { read: available, ..Sign::new("earlyoom.figures", &["mem avail:"], Weight::Context) },
    Sign {
        cause: Some(Code::NotMemory),
        ..Sign::new("launcher.kill", &["forcefully exiting via", "WORKER TIMEOUT"], Weight::Denial)
    },
    // gunicorn says so of every worker that was killed; of those that it killed itself it says before that they timed out.
    Sign {
        resource: Some(Resource::HostMemory),
        ..Sign::new(
            "gunicorn.killed",
            &["was sent SIGKILL! Perhaps out of memory", "was terminated due to signal 9"],
            Weight::Symptom,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: exit,
        ..Sign::new("shell.killed", KILLED, Weight::Symptom).of_a_shell()
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: exit,
        check: |text| killed_code(text).is_some(),
        ..Sign::new("process.exit_code", &["137", "-9"], Weight::Symptom).unexplained()
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: exit,
        check: killed_signal,
        ..Sign::new(
            "process.killed",
            &[
                "SIGKILL", "signal 9", "signal: 9", "exit status: 9", "died through signal KILL",
                "non-zero status of 9", "status=9/KILL", "(Killed: 9)",
            ],
            Weight::Symptom,
        )
        .unexplained()
    },
    Sign {
        ..Sign::new(
            "python.pool_broken",
            &[
                "BrokenProcessPool",
                "A process in the process pool was terminated abruptly",
                "TerminatedWorkerError",
                "A worker process managed by the executor was unexpectedly terminated",
                "node down: Not properly terminated",
                "One of the subprocesses has abruptly died",
            ],
            Weight::Symptom,
        )
    },
];

impl Sign {
    const fn when_killing(self) -> Sign {
        Sign {
            also: &["kill", "Kill", "SIGTERM", "SIGKILL", "sending"],
            // systemd calls the service itself a killer, whatever happens to it.
            unless: &["Started", "Starting", "Stopp", "mem avail:", "Userspace Out-Of-Memory"],
            ..self
        }
    }

    /// A launcher that ends its own workers, or a list of what could have been, is no evidence.
    const fn unexplained(self) -> Sign {
        Sign {
            unless: &[
                "forcefully exiting via", "potential root causes", "Perhaps out of memory",
                "was terminated due to signal", "by OOM killer due to", "possible container OOM",
            ],
            ..self
        }
    }

    /// A shell's own line, and not prose.
    const fn of_a_shell(self) -> Sign {
        Sign {
            check: shell,
            unless: &[
                "Killed process", "OOMKilled", "killed by user", "SIGKILL", "Memory cgroup", "Killed by signal 15",
                "SIGTERM", "KilledWorker", "TaskKilled", "was killed:", "Killed by external",
                // `timeout -s KILL 3600 python …` kills what it runs.
                "timeout -s", "timeout -k", "timeout --signal", "timeout --kill",
            ],
            ..self
        }
    }
}

/// `Out of memory: Killed process 1234 (python3) total-vm:…kB, anon-rss:…kB`
fn killed(text: &str, numbers: &mut Numbers) {
    let tail = after(text, "illed process ")
        .or_else(|| after(text, "Kill process "))
        .or_else(|| after(text, "reaped process "));
    if let Some(tail) = tail {
        numbers.pid = numbers.pid.or_else(|| quantity(tail).map(|found| found.value as u64));
        numbers.process = numbers
            .process
            .take()
            .or_else(|| after(tail, "(").and_then(|name| name.split(')').next()).map(str::to_owned));
    }
    numbers.process = numbers
        .process
        .take()
        .or_else(|| after(text, "task=").and_then(|name| name.split([',', ' ']).next()).map(str::to_owned));
    numbers.pid = numbers.pid.or_else(|| number_after(text, ",pid="));
    if let Some(tail) = after(text, "due to memory used") {
        numbers.capacity_bytes = after(tail, "total").and_then(quantity).map(|found| found.bytes());
    }
    numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "anon-rss:")).filter(|&bytes| bytes > 0);
    // memory: usage 8388608kB, limit 8388608kB, failcnt 1234
    if text.contains("failcnt") && text.contains("memory: usage") {
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "limit"));
        numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| size_after(text, "usage"));
    }
}

/// `memory: usage 8388608kB, limit 8388608kB, failcnt 1234`: all but a page or two of a hundredth is in use.
fn at_its_limit(text: &str) -> bool {
    let figures = size_after(text, "memory: usage").zip(size_after(text, "limit"));
    text.contains("failcnt") && figures.is_some_and(|(usage, limit)| limit > 0 && usage >= limit - limit / 100)
}

/// The rows of `docker stats`: `0.03%     2.485GiB / 5GiB      49.69%`. Which container died is not said, so that a limit counts only if all
/// have the same.
fn docker_stats(text: &str, numbers: &mut Numbers) {
    let rows = after(text, "MEM USAGE / LIMIT").unwrap_or("");
    let sizes = |pair: &[&str]| {
        let size = |text: &str| quantity(text).filter(|size| size.unit_bytes.is_some()).map(Quantity::bytes);
        size(pair[0]).zip(size(pair[2])).filter(|_| pair[1] == "/" && pair[3].ends_with('%'))
    };
    let words: Vec<&str> = rows.split_whitespace().collect();
    let mut limits = words.windows(4).filter_map(sizes).map(|(_, limit)| limit);
    let first = limits.next().filter(|first| limits.all(|limit| limit == *first));
    numbers.capacity_bytes = numbers.capacity_bytes.or(first);
}

/// `mem avail:    98 of 30236 MiB ( 0.32%)`
fn available(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, " of"));
}

/// A shell's line: `Killed`, `line 28:  8156 Killed   python3 …`, `zsh: killed`, `[1] 31330 killed  python`.
fn shell(text: &str) -> bool {
    // Pasted with its stress: `**Killed**`.
    let line = text.trim().trim_matches(['*', '`']).trim_end_matches('.');
    let words: Vec<&str> = line.split_whitespace().collect();
    let alone = line.eq_ignore_ascii_case("killed")
        || line.eq_ignore_ascii_case("killed.")
        || words.last().is_some_and(|last| *last == "Killed" || *last == "Killed\"")
        // A progress bar stays in its line: `3.06it/s]Killed`.
        || line.ends_with("]Killed");
    // `line 28:  8156 Killed  python`, `[1]  + 31330 killed  python`, `./train.sh:  60: 11880 killed  python`
    let at_line = |word: &&str| word.strip_suffix(':').is_some_and(|number| number.parse::<u32>().is_ok());
    let script =
        words.first().is_some_and(|name| name.len() > 1 && name.ends_with(':')) && words.get(1).is_some_and(at_line);
    let by_shell = line.contains("line ") || line.starts_with('[') || script;
    let numbered = by_shell
        && words
            .windows(2)
            .any(|pair| pair[1].eq_ignore_ascii_case("killed") && pair[0].bytes().all(|byte| byte.is_ascii_digit()));
    // Of a job in the background: `[1]+  Killed    nohup python train.py`.
    let of_job = words.get(1) == Some(&"Killed") && words[0].trim_end_matches(['+', '-']).ends_with(']') && by_shell;
    let abroad = KILLED[1..].iter().any(|word| {
        words.contains(word) || (word.contains(' ') && line.contains(word) && words.len() <= MOST_OF_A_SHELL)
    });
    let shells = [
        "zsh: killed", "fish: Job", "Killed signal terminated program", "(core dumped) Killed", "signal: Killed",
        "signal: killed",
    ];
    let said = shells.iter().any(|start| line.contains(start)) || line.ends_with("Killed: 9");
    // Whoever had it tells what was there: `I get the error "killed"`.
    let told = has_any(line, &["\"killed\"", "'killed'", "`killed`"]) && is_own(line);
    told || alone || abroad || numbered || of_job || said
}

/// Words of a line of a shell's that says who was killed: where, which process, and the start of its command.
const MOST_OF_A_SHELL: usize = 24;

/// `Killed process 1234 (python)`: the kernel always names it; others say the same of what a user ended.
fn names_the_victim(text: &str) -> bool {
    let Some(tail) = after(text, "Killed process ") else { return true };
    let name = tail.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',').trim_start();
    name.starts_with('(') || name.starts_with("UID") || has_any(tail, &["total-vm", "anon-rss"])
}

/// What comes before an exit code, and what may stand between.
const LABELS: [&str; 13] = [
    "exit code", "exitcode", "exit_code", "exit status", "exited (", "exited with", "exit with", "exit value",
    "return code", "returncode", "non-zero status", "error code", "***",
];
const BETWEEN: [&str; 8] = ["code", "status", "non-zero", "exit", "was", "of", "is", "Error"];

/// The exit code of a killed process, right behind what says that it is one: `exit code: 137`, `(exitcode: -9)`, `make: *** [all] Error 137`.
fn killed_code(text: &str) -> Option<i64> {
    if text.contains("File \"") || explains(text) {
        return None;
    }
    // `subprocess` says `returned -9`; rows are returned in other numbers.
    if text.contains("returned -9") {
        return Some(-9);
    }
    LABELS.iter().find_map(|label| {
        let mut tail = after(text, label)?;
        if *label == "***" {
            tail = after(tail, "] ")?;
        }
        loop {
            let next = tail.trim_start_matches(|c: char| c.is_whitespace() || ":=([\"'>".contains(c));
            let word = BETWEEN.iter().find_map(|word| next.strip_prefix(word));
            match word {
                Some(rest) => tail = rest,
                None => {
                    let code = [("137", 137), ("-9", -9)].into_iter().find(|(code, _)| next.starts_with(code))?;
                    // A full stop may end the sentence; a fraction is no code.
                    let tail = next[code.0.len()..].trim_start_matches('.');
                    let behind = tail.chars().next();
                    return behind.is_none_or(|c| !c.is_ascii_alphanumeric()).then_some(code.1);
                }
            }
        }
    })
}

/// Whether a line says what such a code means: `Exit Code 137: the container was ended by`, `exit code 137 means that`.
fn explains(text: &str) -> bool {
    let Some((_, tail)) = text.split_once("137") else { return false };
    let verbs = [
        "means", "indicates", "signifies", "implies", "suggests", "usually", "typically", "commonly", "is the", "is a",
        "often", "occurs",
    ];
    let defined = tail.strip_prefix(": ").is_some_and(|tail| tail.split(' ').count() > 4);
    defined || verbs.iter().any(|verb| tail.trim_start().starts_with(verb))
}

/// A signal that killed, and not a handler, a level or a number that begins with it.
fn killed_signal(text: &str) -> bool {
    if explains(text) {
        return false;
    }
    let nine = ["signal 9", "signal: 9", "exit status: 9", "non-zero status of 9"].iter().any(|words| {
        after(text, words).is_some_and(|tail| !tail.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    });
    nine || has_any(text, &["died through signal KILL", "status=9/KILL", "(Killed: 9)"])
        || (has_word(text, "SIGKILL") && !has_any(text, &["handler", "install", "grace", "did not exit"]))
}

fn exit(text: &str, numbers: &mut Numbers) {
    numbers.exit_code = numbers.exit_code.or_else(|| killed_code(text));
}

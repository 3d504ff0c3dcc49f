//! What says how a job ended, or that it did not end where something ran out: killed by hand or by a scheduler, tried again with less, finished.
//!
//! None of these says anything of memory. `outlived` weighs them against kills and failures that stand around them.

use super::super::causes::Code;
use super::super::sign::{Sign, Weight};
use super::super::sizes::{find, has, has_any, has_word_of};
use super::talk::is_own;

const NOT_MEMORY: Option<Code> = Some(Code::NotMemory);

/// Their signs.
pub const SIGNS: &[Sign] = &[
    // slurmstepd: error: *** JOB 88120 ON gn14 CANCELLED AT 2026-02-11T08:00:17 ***; why is said behind it, if at all.
    Sign {
        cause: NOT_MEMORY,
        also: &["***", "slurmstepd", "srun"],
        unless: &["DUE TO TIME LIMIT", "DUE TO PREEMPTION"],
        ..Sign::new("scheduler.cancelled", &[" CANCELLED AT "], Weight::Denial)
    },
    // A command that a person typed.
    Sign {
        cause: NOT_MEMORY,
        check: kills_by_hand,
        ..Sign::new(
            "user.killed",
            &["kill -9 ", "kill -KILL ", "kill -s KILL ", "kill -SIGKILL ", "docker kill ", "docker stop "],
            Weight::Denial,
        )
    },
    // Docker's compose after Ctrl-C, systemd, and GitHub's runners: whoever does not stop within some seconds is killed.
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "service.stopping",
            &[
                "Gracefully stopping...", "'stop-sigterm' timed out", "stop-sigterm timed out",
                "The operation was canceled", "did not respond to SIGTERM", "been externally set to",
                "StopTrainingJob", "stopped by the user", "stopped by user", "cancelled by user", "canceled by user",
            ],
            Weight::Denial,
        )
    },
    // supervisord, systemd and their like, of those whom they kill themselves.
    Sign {
        cause: NOT_MEMORY,
        also: &["killing "],
        ..Sign::new("service.kills", &["with SIGKILL", "with signal SIGKILL"], Weight::Denial)
    },
    // GitLab's and GitHub's runners, and systemd.
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "job.timed_out",
            &["execution took longer than", "has exceeded the maximum execution time", "Failed with result 'timeout'"],
            Weight::Denial,
        )
    },
    // Kubernetes, clouds and submitit, when somebody else gets the machine or it is shut down.
    Sign {
        cause: NOT_MEMORY,
        unless: &["not preempted", "may be preempted", "can be preempted", "if preempted"],
        ..Sign::new(
            "machine.preempted",
            &[
                "Preempted by ", "was preempted", "being preempted", "been preempted", "job is preempted",
                "preemption notice", "spot interruption", "interruption notice", "imminent node shutdown",
                "Preempted in order to admit", "TaintManagerEviction",
            ],
            Weight::Denial,
        )
    },
    // `docker inspect`: the container's limit was not it.
    Sign {
        ..Sign::new(
            "docker.not_oom",
            &["\"OOMKilled\": false", "\"OOMKilled\":false", "OOMKilled: false", "OOMKilled:false", "OOMKilled=false"],
            Weight::Context,
        )
    },
    Sign {
        ..Sign::new(
            "job.searched",
            &["Finished batch size finder", "AutoBatch: Using batch-size", "AutoBatch: Using default batch-size"],
            Weight::Warning,
        )
    },
    Sign {
        check: is_done,
        // XLA says so in the message of the error itself.
        unless: &["default algorithm"],
        ..Sign::new(
            "job.retried",
            &[
                "trying half", "retrying with", "retrying without", "reducing batch size", "reducing the batch",
                "falling back to", "fell back to", "halving", "trying again with", "reduced batch size to",
                "batch size reduced to", "lowering batch size", "Decreasing batch size",
            ],
            Weight::Warning,
        )
    },
    Sign {
        ..Sign::new(
            "job.gave_up",
            &[
                "giving up", "gave up", "retries exceeded", "retries exhausted", "maximum retries", "max retries",
                "attempts failed", "out of retries", "No executable batch size", "CalledProcessError",
                "returned non-zero exit status",
            ],
            Weight::Context,
        )
    },
    Sign {
        check: is_end,
        ..Sign::new(
            "job.finished",
            &[
                "Training finished", "Training complete", "Training done", "Training is finished", "Finished training",
                "Training successfully", "completed successfully", "finished successfully", "'train_runtime':",
                "finished with exit code 0", "exiting with code 0", "`Trainer.fit` stopped: `max_", "Done in ",
                "All done", // Optuna, of a trial after the one that failed.
                "finished with value:",
            ],
            Weight::Context,
        )
    },
];

/// Whether a line is a command that kills, typed at a prompt or alone in its line: `$ kill -9 30117`. Prose says the same in the middle of a line.
fn kills_by_hand(text: &str) -> bool {
    let commands = ["kill -", "docker kill ", "docker stop "];
    let Some(at) = commands.iter().filter_map(|command| find(text, command)).min() else { return false };
    let before = text[..at].trim_end();
    let before = before.strip_suffix("sudo").unwrap_or(before).trim_end();
    let typed = before.is_empty() || before.ends_with(['$', '#', '%', '>', '❯']);
    typed && text[at..].split_whitespace().count() <= 5
}

/// Whether a job says that it does so, and does not advise to: `Try reducing batch size`.
fn is_done(text: &str) -> bool {
    let advice =
        ["try ", "consider", "please", "you ", "should", "recommend", "can ", "might", "by reducing", "suggest"];
    // Many things fall back to others: a logger to its files, a kernel to a slower one.
    let falls = has_any(text, &["falling back to", "fell back to"]);
    let to_less =
        has_any(text, &["oom", "memory", "batch", "cpu", "tile", "smaller", "half", "lower", "chunk", "slice"]);
    // Whoever reports a failure tells what he tried.
    let told = is_own(text) || has(text, "tried ");
    !told && !has_any(text, &advice) && (!falls || to_less)
}

/// Words that say that a whole job is meant where one completed.
const JOBS: &[&str] = &[
    "training", "job", "run", "runs", "all", "pipeline", "experiment", "script", "program", "process", "study",
    "sweep", "search", "inference", "evaluation", "finetuning", "fine-tuning", "optimization",
];

/// A job's end, and not that of an upload on its way out.
fn is_end(text: &str) -> bool {
    let successfully = has_any(text, &["completed successfully", "finished successfully"]);
    !has_any(text, &["not ", "upload", "sync", "download", "cleanup", "until", "after training", "when training"])
        && (!successfully || has_word_of(text, JOBS))
        && !has(text, "fail")
}

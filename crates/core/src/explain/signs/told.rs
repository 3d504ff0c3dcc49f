//! What people who report a failure say of how it came and how it ended: that the memory grew, which batch or model it was, what was in memory, and
//! that the job was gone when there was none left.
//!
//! In: sentences. Out: signs that are no failures, which causes take as what somebody saw where memory did run out, and two that are: a job that was gone
//! and a `memory error`.

use super::super::sign::{Resource, Sign, Weight};
use super::super::sizes::{after, has, has_any, has_word_of, quantity};
use super::talk::is_own;

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign { check: of_memory, ..Sign::new("told.growth", GROWS, Weight::Context) },
    Sign {
        resource: Some(Resource::HostMemory),
        check: was_all_used,
        unless: &["pod", "container", "limit", "by hand", "manually"],
        ..Sign::new(
            "told.gone",
            &[
                " is killed", " was killed", " gets killed", " got killed", " get killed", " being killed", " crashes",
                " crashed",
            ],
            Weight::Failure,
        )
    },
    // Python's own name for it, in two words.
    Sign {
        resource: Some(Resource::HostMemory),
        check: had_memory_error,
        unless: &[
            "out of memory", "out-of-memory", "illegal", "access", "corrupt", "leak", "invalid", "shared", "ECC",
            "segment", "errors", "fix ", "Fix ", "avoid", "prevent",
        ],
        ..Sign::new("anybody.memory_error", &["memory error"], Weight::Failure)
    },
    // Whoever tried several batches knows which one is too large.
    Sign { check: fails_at_batch, ..Sign::new("told.batch", BATCH, Weight::Context) },
    // Whoever runs several jobs in one process sees that the memory of those before is not given back.
    Sign { check: of_runs, ..Sign::new("told.kept", KEPT, Weight::Context) },
    Sign { check: of_model, ..Sign::new("told.model", &["too big", "too large"], Weight::Context) },
    // What it was for, in the words of whoever had it.
    Sign { check: of_data, ..Sign::new("told.data", WHOLE, Weight::Context) },
];

/// How people say that one run leaves memory behind for the next.
const KEPT: &[&str] = &[
    "memory is not freed", "memory is not released", "memory not released", "memory not freed", "memory is freed",
    "memory isn't freed", "memory isn't released", "memory was not freed", "memory was not released",
    "after a few trials", "after few trials", "after several trials", "after some trials", "after a few runs",
    "after several runs", "after a few folds", "after several folds", "models in a loop", "models in a for loop",
    "repeatedly running", "repeatedly training",
];

/// Whether it is said as something seen: not freed, or repeated until it failed.
fn of_runs(text: &str) -> bool {
    let freed = has(text, "memory is freed") && !has_any(text, &["not all", "never"]);
    !freed && !has_word_of(text, &["if", "may", "might", "would"]) && !text.trim_end().ends_with('?')
}

/// Whether somebody says that it is a model which is too large.
fn of_model(text: &str) -> bool {
    let others = ["batch", "image", "images", "data", "dataset", "file", "input", "sequence", "tensor", "array"];
    has_word_of(text, &["model", "models", "weights"]) && is_own(text) && !has_word_of(text, &others)
}

/// What people call the batch.
const BATCH: &[&str] = &["batch size", "batchsize", "batch_size", "batch-size"];

/// No smaller batch is called large.
const LARGE_BATCH: u64 = 8;

/// Whether somebody says that it fails with a large batch: `with a batch size of 64 it failed`. Who tried less, and still had it, speaks of something else.
fn fails_at_batch(text: &str) -> bool {
    let number = |phrase: &&str| {
        let tail = after(text, phrase)?.trim_start_matches(|c: char| " =:`'\"".contains(c));
        let tail = tail.strip_prefix("of ").or_else(|| tail.strip_prefix("to ")).unwrap_or(tail);
        quantity(tail).map(|found| found.value as u64)
    };
    let large = BATCH.iter().filter_map(number).any(|batch| batch >= LARGE_BATCH);
    let fails = has_word_of(text, &["oom", "fails", "failed", "crashes", "crashed"]) || has(text, "out of memory");
    large && fails && is_own(text) && !has_word_of(text, &["even", "still", "reduce", "reduced", "lower", "only"])
}

/// How people say that all of something is in memory, or does not fit.
const WHOLE: &[&str] = &[
    "whole data", "entire data", "full data", "complete data", "all the data", "all of the data", "into memory",
    "into RAM", "fit in memory", "fit into memory", "fit in RAM", "fit into RAM", "np.load(", "read_csv(", "pd.merge(",
    "pd.concat(",
];

/// Words of what has not happened.
const SUPPOSED: [&str; 6] = ["if", "may", "might", "can", "could", "would"];

/// Whether it is data of which they say so, and not a model.
fn of_data(text: &str) -> bool {
    let data = [
        "data", "dataset", "datasets", "file", "files", "csv", "images", "arrays", "array", "npy", "corpus",
        "tfrecord", "tfrecords",
    ];
    has_word_of(text, &data) && !has_word_of(text, &["gpu", "cuda", "vram", "model", "weights", "checkpoint", "batch"])
}

/// Whether somebody had a `memory error`, or names a report so, and no device is meant.
fn had_memory_error(text: &str) -> bool {
    let had = text.starts_with("# ") || (is_own(text) && !text.trim_end().ends_with('?'));
    let elsewhere = ["gpu", "cuda", "vram", "device", "hip", "tpu", "mps", "cublas", "cudnn"];
    had && !has_word_of(text, &elsewhere) && !has_word_of(text, &SUPPOSED)
}

/// How people say that something becomes more and more.
const GROWS: &[&str] = &[
    "keeps increasing", "keep increasing", "kept increasing", "keeps growing", "keep growing", "kept growing",
    "keeps on increasing", "keeps on growing", "increases over time", "increase over time", "increasing over time",
    "grows over time", "growing over time", "increases every", "increases with each", "increases with every",
    "increases after each", "increases after every", "increases gradually", "increases slowly", "increases steadily",
    "gradually increas", "slowly increas", "steadily increas", "continuously increas", "constantly increas",
    "continues to increase", "continues to grow", "slow and steady increase", "grew slowly", "grows slowly",
    "has been increasing", "more and more memory", "more and more GPU memory", "growed", "goes up constantly",
    "goes up and up", "goes up continuously", "goes up steadily", "keeps going up", "keeps rising", "slow memory leak",
    "increasing slowly", "increasing gradually", "increasing steadily", "increasing constantly", "increased slowly",
    "increased gradually",
];

/// Whether it is memory that grows, and nobody asks or wonders whether it would.
fn of_memory(text: &str) -> bool {
    let memory = has_word_of(text, &["memory", "ram", "vram", "rss"]) || has_any(text, &["gpu usage", "memory usage"]);
    memory && !has_any(text, &["batch size increas", "does not ", "doesn't ", "no longer", "not keep", "fixed"])
}

/// Whether a sentence says that the machine's memory was used up before the end: `after using all 32 GB of RAM the process is killed`.
fn was_all_used(text: &str) -> bool {
    let host = has_word_of(text, &["ram", "swap"]) || has_any(text, &["host memory", "cpu memory", "system memory"]);
    let used = has_word_of(text, &["all", "until", "full", "fills", "exhausted", "whole", "entire"]);
    host && used && !has_word_of(text, &["gpu", "cuda", "vram"]) && !has_word_of(text, &SUPPOSED)
}

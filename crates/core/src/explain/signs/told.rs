//! What people who report a failure say of how it came: that the memory grew while the job ran.
//!
//! In: sentences. Out: signs that are no failures; `leak` takes them as what somebody saw, where memory did run out.

use super::super::sign::{Sign, Weight};
use super::super::sizes::{has_any, has_word_of};

/// Their signs.
pub const SIGNS: &[Sign] = &[Sign { check: of_memory, ..Sign::new("told.growth", GROWS, Weight::Context) }];

/// How people say that something becomes more and more.
const GROWS: &[&str] = &[
    "keeps increasing", "keep increasing", "kept increasing", "keeps growing", "keep growing", "kept growing",
    "keeps on increasing", "keeps on growing", "increases over time", "increase over time", "increasing over time",
    "grows over time", "growing over time", "increases every", "increases with each", "increases with every",
    "increases after each", "increases after every", "increases gradually", "increases slowly", "increases steadily",
    "gradually increas", "slowly increas", "steadily increas", "continuously increas", "constantly increas",
    "continues to increase", "continues to grow", "slow and steady increase", "grew slowly", "grows slowly",
    "has been increasing", "more and more memory", "more and more GPU memory", "growed",
];

/// Whether it is memory that grows, and nobody asks or wonders whether it would.
fn of_memory(text: &str) -> bool {
    let memory = has_word_of(text, &["memory", "ram", "vram", "rss"]) || has_any(text, &["gpu usage", "memory usage"]);
    memory && !has_any(text, &["batch size increas", "does not ", "doesn't ", "no longer", "not keep", "fixed"])
}

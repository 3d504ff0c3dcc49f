//! What shows that a text is no log: the forms that GitHub gives to requests, changes and releases.
//!
//! In: headings. Out: signs that report nothing. Such a text speaks of failures that somebody had, or is to be spared: `case` takes no mention in it
//! for one. A message with its figures or below its traceback is a report wherever it stands.

use super::super::sign::{Sign, Weight};

/// Their signs.
pub const SIGNS: &[Sign] = &[
    // The templates of GitHub itself, and those of PyTorch and transformers.
    Sign {
        check: is_heading,
        ..Sign::new(
            "document.proposal",
            &[
                "Is your feature request related", "Describe the solution you'd like", "Feature request",
                "The feature, motivation and pitch", "What does this PR do", "What changes were proposed",
                "What's changed", "Proposed change", "Suggestion Description", "🚀 Feature",
            ],
            Weight::Context,
        )
    },
    Sign {
        check: is_heading,
        ..Sign::new(
            "document.changes",
            &["Changelog", "Change log", "Release notes", "Bug fixes", "Bugfixes", "# Fixed", "# Fixes"],
            Weight::Context,
        )
    },
];

/// Whether a line is a heading of Markdown, or all in bold: `### Bug fixes`, `**Describe the solution you'd like**`. A sentence may say the same.
fn is_heading(text: &str) -> bool {
    let line = text.trim_start();
    line.starts_with("# ") || line.starts_with("##") || line.starts_with("**")
}

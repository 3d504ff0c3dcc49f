//! What shows that a text is no log: the forms that GitHub gives to requests, changes and releases, and the headings of pages that explain an error.
//!
//! In: headings. Out: signs that report nothing. Such a text speaks of failures that somebody had, or is to be spared: `case` takes no mention in it
//! for one. A message with its figures or below its traceback is a report wherever it stands, but in a page that explains it: that shows it as it looks.

use super::super::sign::{Sign, Weight};
use super::quoted::is_scoped_change;

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
                "Why are these changes needed", "What do these changes do", "How was this patch tested",
                "How has this been tested",
            ],
            Weight::Context,
        )
    },
    // The head of a thread about a change: what people say in it is of the change, and what programs say in it has happened.
    Sign {
        check: |text| text.contains(" · pull request #"),
        ..Sign::new("change.thread", &["pull request #"], Weight::Context)
    },
    // And its title, where it has a scope.
    Sign {
        check: |text| is_scoped_change(text.trim_start_matches(['#', ' '])),
        ..Sign::new(
            "document.scoped",
            &[
                "): add ", "): allow ", "): avoid ", "): check ", "): detect ", "): enable ", "): handle ",
                "): improve ", "): make ", "): prevent ", "): reduce ", "): report ", "): show ", "): support ",
                "): use ",
            ],
            Weight::Context,
        )
    },
    // Titles with a mark that says what they are: `[Feature] …`, `feat(cli): …`. Those of reports have `[Bug]`, or none.
    Sign { check: is_marked, ..Sign::new("document.marked", MARKS, Weight::Context) },
    // What stands below is to be done, or shows how an error looks.
    Sign {
        check: |text| stands_alone(text, PLANS) || asks_what_it_means(text),
        ..Sign::new(
            "document.plan",
            &["Acceptance Criteria", "Example error", "Definition of Done", " mean?"],
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
    // Pages that explain an error, and show it as it looks.
    Sign {
        check: |text| stands_alone(text, EXPLAINS) || text.contains("What does the error mean"),
        ..Sign::new("document.article", EXPLAINS, Weight::Context)
    },
    Sign {
        check: |text| stands_alone(text, BESIDE) || text.trim_start_matches(['#', ' ']).starts_with("How to Fix "),
        ..Sign::new("article.part", BESIDE, Weight::Context)
    },
];

/// Marks of titles of wishes and changes.
const MARKS: &[&str] = &[
    "[feature]", "[feature request]", "[feature-request]", "[rfc]", "[proposal]", "[enhancement]", "[docs]", "[doc]",
    "feat:", "feat(", "fix:", "fix(", "docs:", "docs(", "chore:", "chore(", "refactor:", "refactor(", "perf:", "perf(",
];

/// Whether a title begins with one of them, in whatever case. With a scope in brackets a colon follows: `fix(io): …`; code has none.
fn is_marked(text: &str) -> bool {
    let title = text.trim_start_matches(['#', ' ']).to_ascii_lowercase();
    MARKS.iter().any(|mark| title.starts_with(mark) && (!mark.ends_with('(') || title.contains("): ")))
}

/// Headings of plans and of collections of errors.
const PLANS: &[&str] = &["Acceptance Criteria", "Example error", "Example errors", "Definition of Done"];

/// `What does "oom-kill" mean?`
fn asks_what_it_means(text: &str) -> bool {
    let line = text.trim_matches(|c: char| c.is_whitespace() || "#*".contains(c));
    line.starts_with("What does ") && line.ends_with(" mean?")
}

/// Headings of those who explain errors.
const EXPLAINS: &[&str] = &[
    "Common Causes", "Step-by-Step Fix", "Why It Happens", "What This Error Means", "What does the error mean",
    "Causes & Fixes", "Causes and Fixes", "Frequently Asked Questions", "Quick Answer",
];

/// Headings that stand beside those; reports have them, too.
const BESIDE: &[&str] =
    &["Symptoms", "Solutions", "TL;DR", "Possible Causes", "How to Fix", "Quick Fix", "Best Practices", "Prevention"];

/// Whether a line is one of these, with nothing but the marks of a heading around it.
fn stands_alone(text: &str, headings: &[&str]) -> bool {
    let line = text.trim_matches(|c: char| c.is_whitespace() || "#*:_".contains(c));
    headings.iter().any(|heading| line.eq_ignore_ascii_case(heading))
}

/// Whether a line is a heading of Markdown, or all in bold: `### Bug fixes`, `**Describe the solution you'd like**`. A sentence may say the same.
fn is_heading(text: &str) -> bool {
    let line = text.trim_start();
    line.starts_with("# ") || line.starts_with("##") || line.starts_with("**")
}

//! What services that run somebody's container say when it has used up its memory: AWS Lambda, Cloud Run, Heroku, Render, Hugging Face Spaces.
//!
//! Origin of the wordings: the services' own manuals.

use super::super::causes::Code;
use super::super::sign::{Resource, Sign, Weight};
use super::super::sizes::{after, quantity, size_after};

const LIMIT: Option<Resource> = Some(Resource::ContainerLimit);
const CODE: Option<Code> = Some(Code::ContainerOrSchedulerLimit);

/// Their signs.
pub const SIGNS: &[Sign] = &[
    // Each call ends with `Memory Size: 3008 MB  Max Memory Used: 3008 MB`; whoever used it all was killed.
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: |text, numbers| {
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "Memory Size:"));
            numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "Max Memory Used:"));
        },
        check: |text| {
            let figures = size_after(text, "Memory Size:").zip(size_after(text, "Max Memory Used:"));
            figures.is_some_and(|(size, used)| used >= size)
        },
        ..Sign::new("lambda.report", &["Max Memory Used:"], Weight::Failure)
    },
    // Below it stands that the call was killed, which happens shortly before all is used.
    Sign {
        resource: LIMIT,
        read: |text, numbers| {
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "Memory Size:"));
        },
        ..Sign::new("lambda.figures", &["Max Memory Used:"], Weight::Context)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        ..Sign::new("lambda.killed", &["Runtime exited with error: signal: killed"], Weight::Failure)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: |text, numbers| {
            let limit = after(text, "emory limit of").and_then(quantity).filter(|found| found.unit_bytes.is_some());
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| limit.map(|found| found.bytes()));
            numbers.process_bytes = numbers.process_bytes.or_else(|| size_after(text, "exceeded with"));
        },
        also: &["exceeded with", "exceeded soft", "exceeded hard"],
        ..Sign::new(
            "cloud_run.limit",
            &["Memory limit of", "soft memory limit of", "hard memory limit of"],
            Weight::Failure,
        )
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        ..Sign::new(
            "heroku.quota",
            &["Error R15 (Memory quota vastly exceeded)", "Error R14 (Memory quota exceeded)"],
            Weight::Failure,
        )
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: |text, numbers| {
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "used over"));
        },
        ..Sign::new("render.limit", &["Ran out of memory (used over"], Weight::Failure)
    },
    Sign {
        resource: LIMIT,
        cause: CODE,
        read: |text, numbers| {
            numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "Memory limit exceeded ("));
        },
        ..Sign::new("spaces.limit", &["Memory limit exceeded ("], Weight::Failure)
    },
];

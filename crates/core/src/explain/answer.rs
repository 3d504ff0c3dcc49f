//! The answer: what ran out, why, the evidence, what is missing, what to do.
//!
//! In: a [`Case`]. Out: an [`Explanation`], which `text` and JSON show alike. A cause is said only if it is likely; what is merely possible is
//! listed with the fact that would decide.

use serde::Serialize;

use super::accelerator::Accelerator;
use super::batch::Planned;
use super::case::{Case, Sighting};
use super::causes::{self, Claim, Code, Confidence};
use super::decode::NoText;
use super::growth::Growth;
use super::missing::{Missing, missing};
use super::outlived::Outlived;
use super::remedies::{self, Advice, Job};
use super::sign::{Numbers, Resource, Weight};

/// Lines quoted at most.
const MOST_EVIDENCE: usize = 8;

/// What a log says about a failure.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The version of this schema.
    pub schema: u32,
    /// What ran out; none where nothing did, or nothing says so.
    pub resource: Option<Resource>,
    /// Why.
    pub cause: Option<Named>,
    /// What else it could be, the likelier first.
    pub alternatives: Vec<Named>,
    /// The figures.
    pub numbers: Numbers,
    /// What the job was doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// The lines that say so.
    pub evidence: Vec<Quote>,
    /// Lines that sound like a failure and are none.
    pub not_failures: Vec<Quote>,
    /// What would decide, and how to get it.
    pub missing: Vec<Missing>,
    /// What to do, the cheapest first.
    pub remedies: Vec<Advice>,
    /// The same job, planned: `--plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
    /// Figures that grew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// What was read, if it was no text.
    #[serde(skip)]
    pub no_text: Option<NoText>,
}

/// A cause that is claimed.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Its code.
    pub code: Code,
    /// One line.
    pub title: &'static str,
    /// How sure.
    pub confidence: Confidence,
    /// Why, one sentence each.
    pub because: Vec<String>,
}

/// A line of the log.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Quote {
    /// Its number.
    pub line: u64,
    /// What it says.
    pub text: String,
}

impl Explanation {
    /// Judges a case.
    pub(super) fn new(case: &Case) -> Explanation {
        let claimed = |cause: &'static causes::Cause| (cause.judge)(case).map(|claim| (cause, claim));
        let mut claims: Vec<(&causes::Cause, Claim)> = causes::REGISTRY.iter().filter_map(claimed).collect();
        // Stable: of equal confidence the registry's order stands.
        claims.sort_by_key(|(_, claim)| std::cmp::Reverse(claim.confidence));
        let supported = claims.first().is_some_and(|(_, claim)| claim.confidence >= Confidence::Likely);
        let chosen = if supported { Some(claims.remove(0)) } else { None };
        let evidence = evidence(case, chosen.as_ref().map(|(_, claim)| claim));
        let denied = chosen.as_ref().is_some_and(|(cause, _)| cause.code == Code::NotMemory);
        let resource = case.resource.filter(|_| !denied);
        let code = chosen.as_ref().map(|(cause, _)| cause.code);
        Explanation {
            schema: 1,
            resource: corrected(resource, code),
            missing: if supported { Vec::new() } else { missing(case) },
            remedies: remedies::advise(
                chosen.as_ref().map(|(cause, claim)| claim.instead.map_or(cause.remedies, |own| own.remedies)),
                &claims.iter().map(|(cause, _)| cause.code).collect::<Vec<_>>(),
                case.resource,
                &Job { frameworks: case.frameworks(), accelerator: Accelerator::of(case) },
            ),
            cause: chosen.map(|(cause, claim)| named(cause, claim)),
            alternatives: if denied {
                Vec::new()
            } else {
                claims.into_iter().map(|(cause, claim)| named(cause, claim)).collect()
            },
            numbers: case.numbers.clone(),
            doing: case
                .place
                .as_ref()
                .filter(|_| !denied && case.of_memory())
                .map(|place| format!("{} ({})", place.phase.name(), place.shown_by)),
            not_failures: warnings(case),
            planned: None,
            growth: case.growth.clone(),
            no_text: None,
            evidence,
        }
    }

    /// Whether a cause was found.
    pub fn found(&self) -> bool {
        self.cause.is_some()
    }
}

/// No space, where multiprocessing writes, is shared memory.
fn corrected(resource: Option<Resource>, code: Option<Code>) -> Option<Resource> {
    match code {
        Some(Code::WorkerSharedMemory) => Some(Resource::SharedMemory),
        // A process that vanished says nothing itself.
        Some(Code::KernelOomKill) => resource.or(Some(Resource::HostMemory)),
        _ => resource,
    }
}

fn named(cause: &causes::Cause, claim: Claim) -> Named {
    let title = claim.instead.map_or(cause.title, |own| own.title);
    Named { code: cause.code, title, confidence: claim.confidence, because: claim.because }
}

fn quote(sighting: &Sighting) -> Quote {
    Quote { line: sighting.line, text: sighting.text.clone() }
}

/// The failure's own line first, then what fills it up, in the order of the log.
fn evidence(case: &Case, claim: Option<&Claim>) -> Vec<Quote> {
    let Some(failure) = case.failure() else { return Vec::new() };
    let mut quotes = vec![quote(failure)];
    let extra = claim.map_or(&[][..], |claim| &claim.lines);
    let wanted = |other: &&Sighting| {
        // Beside a denial: what looks like memory, and is not.
        let denied = failure.sign.weight == Weight::Denial && other.sign.weight != failure.sign.weight;
        let same = other.sign.resource == failure.sign.resource || denied;
        let related = same && other.sign.weight >= Weight::Symptom;
        let figures =
            other.sign.weight == Weight::Context && other.numbers.count() > 0 && failure.sign.weight != Weight::Denial;
        related || figures || extra.contains(&other.line)
    };
    for other in case.sightings.iter().filter(wanted) {
        let quote = quote(other);
        // Ten lines that differ in a number are one.
        let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        let known = quotes.iter().any(|known| known.line == quote.line || words(&known.text) == words(&quote.text));
        if !known && quotes.len() < MOST_EVIDENCE {
            quotes.push(quote);
        }
    }
    if let Some(growth) = case.growth.as_ref().filter(|growth| extra.contains(&growth.last_line)) {
        quotes.push(Quote { line: growth.last_line, text: growth.text.trim().to_owned() });
    }
    quotes
}

fn warnings(case: &Case) -> Vec<Quote> {
    let mut found: Vec<&Sighting> = Vec::new();
    let outlived = Outlived::new(&case.sightings);
    let survived = |seen: &Sighting| seen.sign.weight == Weight::Failure && outlived.has(seen);
    for sighting in case.sightings.iter().filter(|seen| seen.sign.weight == Weight::Warning || survived(seen)) {
        if !found.iter().any(|known| known.sign.id == sighting.sign.id) {
            found.push(sighting);
        }
    }
    found.into_iter().map(quote).collect()
}

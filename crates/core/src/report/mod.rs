//! What a plan says, as data; `text` renders it for people, serde for programs.
//!
//! In: predictions and remedies. Out: [`Report`], whose JSON is the documented schema 1 (`docs/json.md`). The parts of the
//! breakdown add up to `peak.device_bytes`.

mod html;
#[cfg(test)]
mod samples;
pub mod snapshot;
pub(crate) mod text;

use serde::Serialize;

use crate::allocator::timeline::Timeline;
use crate::trace::Phase;
pub use text::Style;

/// The version of the JSON.
pub const SCHEMA: u32 = 1;

/// Everything `brimful plan` says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The model.
    pub model: ModelSummary,
    /// What is asked of it.
    pub job: JobSummary,
    /// Where it runs.
    pub device: DeviceSummary,
    /// The peak.
    pub peak: Peak,
    /// What fills the device at the peak.
    pub breakdown: Breakdown,
    /// The heaviest layers at the peak, most bytes first.
    pub layers: Vec<LayerShare>,
    /// The heaviest lines of the user's source at the peak, most bytes first; empty where they are not known.
    pub lines: Vec<LineShare>,
    /// Will it fit?
    pub verdict: Verdict,
    /// The largest batch that fits; none if not even one sample does, or if nothing limits it.
    pub max_batch: Option<u64>,
    /// Batches up to `max_batch` that were simulated and fit.
    pub safe_batches: Vec<u64>,
    /// Changes that need less memory, best first.
    pub remedies: Vec<RemedyReport>,
    /// The cheapest set of remedies that makes it fit: ids, in the order of application.
    pub cheapest_fit: Option<FitPlan>,
    /// What the question left open, and what was taken for it.
    pub assumptions: Vec<NoteReport>,
    /// What was guessed, bounded or never measured.
    pub notes: Vec<NoteReport>,
    /// What only the page shows, where it was asked for; not in the JSON.
    #[serde(skip)]
    pub detail: Option<Detail>,
}

/// What the page shows beyond the rest.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The step, event by event.
    pub timeline: Timeline,
    /// All layers that hold something at the peak, most bytes first.
    pub layers: Vec<LayerShare>,
}

/// The model in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSummary {
    /// Its name.
    pub name: String,
    /// Layers with a call.
    pub layers: u64,
    /// Elements of all weights.
    pub parameters: u64,
}

/// The job.
#[derive(Clone, Debug, Serialize)]
pub struct JobSummary {
    /// `tensorflow`.
    pub framework: String,
    /// Samples per step.
    pub batch: u64,
    /// The optimizer's name.
    pub optimizer: String,
    /// The dtype policy.
    pub precision: String,
    /// `training` or `inference`.
    pub mode: String,
}

/// The device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceSummary {
    /// Its name.
    pub name: String,
    /// All its memory; none if unknown.
    pub capacity_bytes: Option<u64>,
    /// What the job can use of it; none if nothing limits it.
    pub usable_bytes: Option<u64>,
    /// Whether anything was measured on it with this framework.
    pub measured: bool,
}

/// The peak.
#[derive(Clone, Debug, Serialize)]
pub struct Peak {
    /// Handed out by the allocator, its rounding included.
    pub allocated_bytes: u64,
    /// Taken from the device by the allocator.
    pub reserved_bytes: u64,
    /// Needed on the device: allocated, and the context.
    pub device_bytes: u64,
    /// The least that a possible order of execution needs.
    pub low_bytes: u64,
    /// The most that one needs; the verdict uses it.
    pub high_bytes: u64,
    /// Asked for, without any rounding: no allocator can do with less.
    pub floor_bytes: u64,
    /// The moment.
    pub at: Option<Moment>,
}

/// The moment of the peak.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// `forward`, `backward` or `optimizer`.
    pub phase: String,
    /// The framework's op.
    pub op: String,
    /// The layer; empty if it belongs to none.
    pub layer: String,
    /// The user's source line, where known.
    pub source: Option<String>,
}

/// A phase as reports name it.
pub(crate) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "setup",
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Optimizer => "optimizer",
    }
}

/// What fills the device at the peak; the parts add up to `peak.device_bytes`.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Breakdown {
    pub parameters: u64,
    pub gradients: u64,
    pub optimizer_state: u64,
    pub saved_activations: u64,
    pub inputs: u64,
    pub temporaries: u64,
    pub workspace: u64,
    pub allocator_slack: u64,
    pub context: u64,
}

impl Breakdown {
    /// The parts with their titles, in the order in which they are shown.
    pub fn parts(&self) -> [(&'static str, u64); 9] {
        [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer state", self.optimizer_state),
            ("saved activations", self.saved_activations),
            ("inputs", self.inputs),
            ("temporaries", self.temporaries),
            ("workspace", self.workspace),
            ("allocator slack", self.allocator_slack),
            ("context", self.context),
        ]
    }

    /// The sum of the parts.
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|part| part.1).sum()
    }
}

/// What one layer holds at the peak.
#[derive(Clone, Debug, Serialize)]
pub struct LayerShare {
    /// The layer's path.
    pub layer: String,
    /// Its class.
    pub class: String,
    /// All it holds at the peak.
    pub bytes: u64,
    /// Of which weights, their gradients and slots.
    pub weights_bytes: u64,
    /// Of which forward results kept for backward.
    pub saved_bytes: u64,
}

/// What the calls of one line of source hold at the peak.
#[derive(Clone, Debug, Serialize)]
pub struct LineShare {
    /// File and line, such as `train.py:12`.
    pub source: String,
    /// What they hold.
    pub bytes: u64,
}

/// Will it fit?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Also at the upper end of the range.
    Fits,
    /// It fits at the prediction, but not at the upper end of the range, or with less than 5 % to spare.
    Tight,
    /// Not even at the prediction.
    DoesNotFit,
}

/// What a remedy does to the result of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SameResult {
    /// The same gradients.
    Exact,
    /// The same model with other rounding.
    Numerics,
    /// Another model, optimizer or other data.
    Changed,
}

/// One remedy, re-simulated.
#[derive(Clone, Debug, Serialize)]
pub struct RemedyReport {
    /// A stable id, such as `micro_batches`.
    pub id: String,
    /// One line.
    pub title: String,
    /// The peak with it: `high_bytes`, context included.
    pub peak_bytes: u64,
    /// Whether it then fits.
    pub fits: bool,
    /// The largest batch with it.
    pub max_batch: Option<u64>,
    /// What it does to the result.
    pub same_result: SameResult,
    /// Time for one sample, relative to before: 1.3 means 30 % more.
    pub time_cost: f64,
    /// Code that applies it.
    pub apply: Apply,
}

/// The lines of code that apply a remedy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Apply {
    /// In Keras; none where it has no such thing.
    pub keras: Option<String>,
    /// In PyTorch; none where it has no such thing.
    pub torch: Option<String>,
}

/// A set of remedies that fits.
#[derive(Clone, Debug, Serialize)]
pub struct FitPlan {
    /// Their ids.
    pub remedies: Vec<String>,
    /// What each of them is here: behind others, a gentler form may do than alone.
    pub changes: Vec<FitChange>,
    /// The peak with all of them.
    pub peak_bytes: u64,
    /// What they do to the result together.
    pub same_result: SameResult,
    /// Their joint time cost.
    pub time_cost: f64,
}

/// A remedy as a part of a set.
#[derive(Clone, Debug, Serialize)]
pub struct FitChange {
    /// One line.
    pub title: String,
    /// Code that applies it.
    pub apply: Apply,
}

/// Something to know about the prediction.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct NoteReport {
    /// A stable code.
    pub code: String,
    /// The layer, if it is about one.
    pub layer: Option<String>,
    /// One sentence.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn keys(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.insert(key.clone());
                keys(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_field_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let page = std::fs::read_to_string(path).unwrap();
        let mut found = BTreeSet::new();
        keys(&serde_json::to_value(samples::torch()).unwrap(), &mut found);
        assert!(found.len() > 40, "{found:?}");
        let missing: Vec<_> = found.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "not in docs/json.md: {missing:?}");
    }

    #[test]
    fn the_parts_add_up() {
        let samples = [
            samples::fits(),
            samples::tight(),
            samples::too_large(),
            samples::inference(),
            samples::no_limit(),
            samples::torch(),
        ];
        for report in samples {
            assert_eq!(report.breakdown.total(), report.peak.device_bytes);
        }
    }
}

//! What to do about a cause: advice with code.
//!
//! In: causes. Out: advice, the cheapest first. What `plan` can simulate carries the id of its remedy, and its page is the same; the rest is
//! advice about the surroundings of a job, which no simulation sees. Each has a page in `docs/remedies/`.

mod code;
mod registry;

use std::borrow::Cow;

use serde::Serialize;

pub use self::code::{For, Snippet};
pub use self::registry::all;
use super::accelerator::Accelerator;
use super::causes::{self, Code};
use super::sign::Resource;
use crate::report::SameResult;

/// One remedy, as an explanation gives it.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// A stable id; its page is `docs/remedies/<id>.md`.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// What it does to the result.
    pub same_result: SameResult,
    /// Code that applies it.
    pub apply: Cow<'static, [Snippet]>,
}

const fn advice(id: &'static str, title: &'static str, same_result: SameResult, apply: &'static [Snippet]) -> Advice {
    Advice { id, title, same_result, apply: Cow::Borrowed(apply) }
}

/// Whom advice is for, as far as a log shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    /// What it was written with; code for the first of these is given where there is some, else for the next. None: for all.
    pub frameworks: Vec<For>,
    /// What it ran on.
    pub accelerator: Option<Accelerator>,
}

/// Remedies of the cause that was found, by their ids; without one, those of what is possible, one each; at least those of what ran out.
pub(super) fn advise(ids: Option<&[&str]>, possible: &[Code], resource: Option<Resource>, job: &Job) -> Vec<Advice> {
    let mut found = of_causes(ids, possible, resource);
    for advice in &mut found {
        advice.apply = job.usable(&advice.apply).into();
    }
    found.retain(|advice| !advice.apply.is_empty());
    found
}

impl Job {
    /// Of a remedy's code, what this job can use.
    fn usable(&self, apply: &[Snippet]) -> Vec<Snippet> {
        // Keras on JAX: what speaks to TensorFlow's own devices says nothing to it.
        let on_jax = self.frameworks.contains(&For::Keras) && self.frameworks.contains(&For::Jax);
        let here = |snippet: &&Snippet| {
            snippet.is_for(self.accelerator) && !(on_jax && snippet.framework == For::Keras && snippet.is_tensorflows())
        };
        let of = |framework: For| apply.iter().filter(here).any(|snippet| snippet.framework == framework);
        let chosen = self.frameworks.iter().copied().find(|&framework| of(framework));
        let wanted = |snippet: &&Snippet| {
            self.frameworks.is_empty() || snippet.framework == For::Any || Some(snippet.framework) == chosen
        };
        apply.iter().filter(here).filter(wanted).copied().collect()
    }
}

fn of_causes(ids: Option<&[&str]>, possible: &[Code], resource: Option<Resource>) -> Vec<Advice> {
    if let Some(ids) = ids {
        return ids.iter().filter_map(|id| by_id(id)).collect();
    }
    let of = |code: Code| causes::by_code(code).remedies.iter().filter_map(|id| by_id(id));
    let mut found: Vec<Advice> = possible.iter().filter_map(|&code| of(code).next()).collect();
    let usual: &[&str] = match resource {
        Some(Resource::GpuMemory) => &["micro_batches", "mixed_precision", "free_memory"],
        Some(Resource::HostMemory | Resource::ContainerLimit) => &["stream_data", "fewer_workers", "raise_limit"],
        Some(Resource::SharedMemory) => &["shm_size"],
        _ => &[],
    };
    for advice in usual.iter().filter_map(|id| by_id(id)) {
        if !found.iter().any(|known| known.id == advice.id) {
            found.push(advice);
        }
    }
    found
}

/// A remedy by its id.
pub fn by_id(id: &str) -> Option<Advice> {
    all().find(|advice| advice.id == id).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn what_plan_can_simulate_is_among_them() {
        let keras = plan::remedies::REGISTRY.iter().map(|remedy| remedy.id());
        let torch = plan::torch::remedies::REGISTRY.iter().map(|remedy| remedy.id());
        for id in keras.chain(torch) {
            assert!(by_id(id).is_some(), "{id}");
        }
    }

    #[test]
    fn every_remedy_is_there_once_and_has_a_page() {
        for advice in all() {
            assert_eq!(all().filter(|other| other.id == advice.id).count(), 1, "{}", advice.id);
            let page = format!("{}/../../docs/remedies/{}.md", env!("CARGO_MANIFEST_DIR"), advice.id);
            assert!(std::path::Path::new(&page).exists(), "{page}");
        }
    }

    #[test]
    fn causes_name_remedies_that_exist() {
        for cause in &causes::REGISTRY {
            assert!(!cause.remedies.is_empty(), "{}", cause.name);
            for id in cause.remedies {
                assert!(by_id(id).is_some(), "{}: {id}", cause.name);
            }
        }
    }
}

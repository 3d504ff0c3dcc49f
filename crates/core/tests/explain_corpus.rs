//! What `explain` says of the logs of real failures, and of the pages that describe them.
//!
//! In: `fixtures/logs/NAME.log` with what is expected of a reader in `NAME.json`, and `docs/causes`. Checked: what ran out, why, the figures,
//! and that each page shows what it describes. What is not answered as expected is listed here with the reason, and only that.

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use brimful_core::explain::{Explanation, causes, explain, remedies};
use serde_json::Value;

/// Logs that are not answered as expected, and why.
const MISSES: &[(&str, &str)] = &[
    ("gpu_torch_async", "what CUDA's own allocator says has no frame's phase looked at"),
    (
        "gpu_torch_handle_convolution",
        "an error of cuDNN without a reason, in a script that fills the device: taken for its data",
    ),
    ("gpu_torch_pinned", "CUDA has the same words for pinned memory of the host"),
    ("jax_ynnpack", "an operation that failed without a reason is taken for memory"),
    ("tf_adam_slots", "the shape stands in a dump of a message, one dimension to a line"),
    ("tf_address_space", "a training step is seen, but the pool was far from its limit"),
    ("tf_allocator_cpu", "a convolution outside of training is taken for a batch"),
    ("tf_cache_segfault", "the pool's own figures are printed once: that they grew is not seen"),
    ("tf_dataset_slices", "a request larger than the pool is told before the frame that shows data"),
    ("tf_proto_2gb", "2 GB is the limit that the message names; none is expected"),
    ("torch_collate", "the shape of the line of code, whose size agrees; none is expected"),
    ("torch_collate_worker", "the shape of the line of code, whose size agrees; none is expected"),
];

/// Programs round what they print.
const ROUNDED: f64 = 0.01;

/// Recordings whose figures are expected only where the script decides them: what a device of another size says is not known before.
const OPEN: &str = "gpu_";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A log and what a reader should say of it.
struct Recorded {
    name: String,
    log: Vec<u8>,
    expected: Value,
}

fn recorded() -> Vec<Recorded> {
    let folder = root().join("fixtures/logs");
    let mut paths: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &PathBuf| {
        let described: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        Recorded {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            log: fs::read(path.with_extension("log")).unwrap(),
            expected: described["expected"].clone(),
        }
    };
    paths.iter().map(read).collect()
}

/// How many of how many.
#[derive(Default)]
struct Share {
    right: usize,
    of: usize,
}

impl Share {
    /// Counts one, and says what was wrong with it.
    fn count(&mut self, right: bool, what: impl FnOnce() -> String, wrong: &mut Vec<String>) {
        self.of += 1;
        self.right += usize::from(right);
        if !right {
            wrong.push(what());
        }
    }
}

#[derive(Default)]
struct Shares {
    resource: Share,
    cause: Share,
    figures: Share,
}

/// What is not as expected.
///
/// `open`: figures that are not expected may still be in the log.
fn compare(expected: &Value, said: &Explanation, open: bool, shares: &mut Shares) -> Vec<String> {
    let said = serde_json::to_value(said).unwrap();
    let mut wrong = Vec::new();
    let resource = if expected["resource"] == "none" { &Value::Null } else { &expected["resource"] };
    let differs = |what: &str, expected: &Value, said: &Value| format!("{what} {expected}, said {said}");
    shares.resource.count(
        *resource == said["resource"],
        || differs("resource", resource, &said["resource"]),
        &mut wrong,
    );
    let code = said["cause"].get("code").unwrap_or(&Value::Null);
    // That nothing is found is right as well where nothing ran out.
    let silent = expected["cause"] == "not_memory" && code.is_null() && said["resource"].is_null();
    shares.cause.count(expected["cause"] == *code || silent, || differs("cause", &expected["cause"], code), &mut wrong);
    if resource.is_null() {
        return wrong;
    }
    for name in ["requested_bytes", "capacity_bytes", "shape"] {
        let (expected, said) = (&expected[name], said["numbers"].get(name).unwrap_or(&Value::Null));
        if expected.is_null() && open {
            continue;
        }
        let right = match (expected.as_f64(), said.as_f64()) {
            (Some(expected), Some(said)) => (said - expected).abs() <= ROUNDED * expected,
            _ => expected == said,
        };
        shares.figures.count(right, || differs(name, expected, said), &mut wrong);
    }
    wrong
}

#[test]
fn recorded_failures_are_explained() {
    let (recorded, mut shares) = (recorded(), Shares::default());
    assert!(recorded.len() >= 180, "only {} logs", recorded.len());
    let (mut surprises, mut missed) = (Vec::new(), BTreeSet::new());
    for Recorded { name, log, expected } in &recorded {
        let wrong = compare(expected, &explain(log), name.starts_with(OPEN), &mut shares);
        if !wrong.is_empty() {
            missed.insert(name.as_str());
            if !MISSES.iter().any(|(known, _)| known == name) {
                surprises.push(format!("{name}: {} ({})", wrong.join("; "), expected["why"].as_str().unwrap_or("")));
            }
        }
    }
    for (what, share) in [("resource", &shares.resource), ("cause", &shares.cause), ("figures", &shares.figures)] {
        println!("{what:8}  {} of {} ({:.1} %)", share.right, share.of, 100.0 * share.right as f64 / share.of as f64);
    }
    println!("all       {} of {}", recorded.len() - missed.len(), recorded.len());
    assert!(surprises.is_empty(), "{} logs are not explained as expected:\n{}", surprises.len(), surprises.join("\n"));
    let passing: Vec<_> = MISSES.iter().filter(|(name, _)| !missed.contains(name)).collect();
    assert!(passing.is_empty(), "explained as expected, or not there: take them out of the list: {passing:?}");
    assert!(MISSES.is_sorted_by(|left, right| left.0 < right.0), "the list is sorted, and has each once");
}

/// Pages and their text, as the registry has them.
fn pages() -> Vec<(&'static str, PathBuf, String)> {
    let page = |cause: &causes::Cause| {
        let path = root().join("docs/causes").join(format!("{}.md", cause.name));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (cause.name, path, text)
    };
    causes::REGISTRY.iter().map(page).collect()
}

#[test]
fn each_page_shows_a_log_of_its_cause() {
    let mut wrong = Vec::new();
    for (name, _, text) in pages() {
        let (_, rest) = text.split_once("\n```text\n").unwrap_or_else(|| panic!("{name}: no log"));
        let (log, _) = rest.split_once("\n```").unwrap_or_else(|| panic!("{name}: the log has no end"));
        let said = explain(log.as_bytes());
        let found = said.cause.as_ref().map(|cause| cause.code);
        if found.map(causes::by_code).map(|cause| cause.name) != Some(name) {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_cause_has_a_page_of_four_parts() {
    let headings = ["How it looks", "How one knows", "How it is fixed", "What it is confused with"];
    for (name, path, text) in pages() {
        let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(found, headings, "{name}");
        assert!(text.contains(&format!("\n`{name}`\n")), "{name}: its code");
        let cause = causes::by_name(name).unwrap();
        assert_eq!(text.lines().next(), Some(format!("# {}", cause.title).as_str()), "{name}");
        assert!(cause.page == text, "{}: the command has another text", path.display());
    }
    let files = fs::read_dir(root().join("docs/causes")).unwrap().count();
    assert_eq!(files, causes::REGISTRY.len(), "a page without a cause");
}

/// The links of a page, without those into the web.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.starts_with("http")).collect()
}

#[test]
fn links_of_pages_resolve() {
    let mut count = 0;
    for (name, path, text) in pages() {
        for link in links(&text) {
            let file = link.split('#').next().unwrap();
            assert!(path.parent().unwrap().join(file).exists(), "{name}: {link}");
            count += 1;
        }
        for word in text.split(|c: char| c.is_whitespace() || "`,();:".contains(c)) {
            if word.starts_with("fixtures/") {
                assert!(root().join(word).exists(), "{name}: {word}");
            }
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn each_remedy_of_a_cause_has_a_page() {
    for cause in &causes::REGISTRY {
        for id in cause.remedies {
            assert!(remedies::by_id(id).is_some(), "{}: {id}", cause.name);
            assert!(root().join(format!("docs/remedies/{id}.md")).exists(), "{}: {id}", cause.name);
        }
    }
}

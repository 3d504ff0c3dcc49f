//! The licences of everything that the workspace is built with, as `deny.toml` allows them. The fast part of `make audit`: it asks
//! for nothing from the network, and so knows nothing of advisories.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

/// The names in `allow = […]` of `deny.toml`.
fn allowed() -> BTreeSet<String> {
    let text = fs::read_to_string(support::root().join("deny.toml")).expect("deny.toml");
    let (_, list) = text.split_once("\nallow = [").expect("a list");
    let (list, _) = list.split_once(']').expect("its end");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Name, version and licence of the packages that a build for this machine takes, tests included.
fn packages() -> Vec<(String, Option<String>)> {
    // Only those: the crates of other machines may never have been downloaded.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", &target]);
    let output = command.current_dir(support::root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", support::stderr(&output));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |package: &Value, field: &str| package[field].as_str().map(str::to_owned);
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages
        .map(|package| {
            let name = text(package, "name").zip(text(package, "version")).expect("a name");
            (format!("{} {}", name.0, name.1), text(package, "license"))
        })
        .collect()
}

/// Whether one of the ways to use it is allowed.
fn is_allowed(licence: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = Expression::parse_mode(licence, ParseMode::LAX);
    expression.is_ok_and(|expression| expression.evaluate(|needed| allowed.contains(&needed.to_string())))
}

#[test]
#[cfg(target_os = "linux")]
fn every_dependency_may_be_used() {
    let allowed = allowed();
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let refused: Vec<_> = packages
        .iter()
        .filter(|(_, licence)| !licence.as_deref().is_some_and(|licence| is_allowed(licence, &allowed)))
        .collect();
    assert!(refused.is_empty(), "not in the list of deny.toml: {refused:?}");
}

#[test]
fn choices_and_demands_are_told_apart() {
    let allowed = allowed();
    for licence in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert!(is_allowed(licence, &allowed), "{licence}");
    }
    for licence in ["GPL-3.0-only", "MIT AND LGPL-2.1-or-later", "my own", ""] {
        assert!(!is_allowed(licence, &allowed), "{licence}");
    }
}

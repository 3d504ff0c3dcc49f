//! Help and version, as they are read. Change with `INSTA_UPDATE=always cargo test`.

mod support;

use support::{run, stdout};

/// The text, for a run that must end well.
fn shown(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    stdout(&output)
}

#[test]
fn help_reads_well() {
    insta::assert_snapshot!("help", shown(&["--help"]));
    insta::assert_snapshot!("help_plan", shown(&["plan", "--help"]));
    insta::assert_snapshot!("help_fit", shown(&["fit", "--help"]));
    insta::assert_snapshot!("help_run", shown(&["run", "--help"]));
    insta::assert_snapshot!("help_watch", shown(&["watch", "--help"]));
    insta::assert_snapshot!("help_explain", shown(&["explain", "--help"]));
    insta::assert_snapshot!("help_calibrate", shown(&["calibrate", "--help"]));
    insta::assert_snapshot!("help_report", shown(&["report", "--help"]));
    insta::assert_snapshot!("help_devices", shown(&["devices", "--help"]));
}

#[test]
fn the_version_has_the_target() {
    let version = shown(&["--version"]);
    let expected = format!("brimful {} (", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&expected), "{version}");
    assert!(version.contains(std::env::consts::ARCH) && version.contains(std::env::consts::OS), "{version}");
}

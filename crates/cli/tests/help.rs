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
    insta::assert_snapshot!("help_completions", shown(&["completions", "--help"]));
    insta::assert_snapshot!("help_man", shown(&["man", "--help"]));
}

#[test]
fn the_version_says_what_it_was_built_with() {
    let short = format!("brimful {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(shown(&["-V"]), short);
    let long = shown(&["--version"]);
    let lines: Vec<(&str, &str)> =
        long.strip_prefix(&short).expect("the short one first").lines().map(|line| line.split_at(9)).collect();
    let [
        ("commit   ", commit),
        ("target   ", target),
        ("profile  ", profile),
        ("rustc    ", rustc),
        ("form     ", form),
    ] = lines[..]
    else {
        panic!("{long}");
    };
    assert!(!commit.is_empty(), "{long}");
    assert!(target.contains(std::env::consts::ARCH) && target.contains(std::env::consts::OS), "{long}");
    // target/PROFILE/brimful
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_brimful")).parent().and_then(std::path::Path::file_name);
    assert_eq!(Some(profile), folder.and_then(std::ffi::OsStr::to_str));
    assert!(rustc.starts_with("1."), "{long}");
    assert_eq!(form, "command");
}

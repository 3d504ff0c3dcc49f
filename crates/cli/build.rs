//! Tells the command what it is built from and with; `--version` says it.
//!
//! In: cargo's variables, git's answer where the source is a checkout. Out: `BRIMFUL_TARGET`, `BRIMFUL_PROFILE`, `BRIMFUL_RUSTC` and
//! `BRIMFUL_COMMIT`, for `src/version.rs`. No time and no path: the same source and compiler give the same binary. Nothing that
//! is missing fails the build.

use std::path::{Path, PathBuf};
use std::process::Command;

const UNKNOWN: &str = "unknown";

fn main() {
    tell("rerun-if-changed=build.rs");
    tell("rerun-if-env-changed=BRIMFUL_COMMIT");
    set("TARGET", &variable("TARGET").unwrap_or_else(|| UNKNOWN.to_owned()));
    set("PROFILE", &profile().unwrap_or_else(|| UNKNOWN.to_owned()));
    set("RUSTC", &rustc_version().unwrap_or_else(|| UNKNOWN.to_owned()));
    set("COMMIT", &commit());
}

/// The profile's own name, which cargo says only by the folder: `PROFILE` has that of the one it comes from.
fn profile() -> Option<String> {
    // target/[TRIPLE/]PROFILE/build/brimful-HASH/out
    let out = PathBuf::from(variable("OUT_DIR")?);
    let folder = out.ancestors().nth(3)?.file_name()?.to_str()?;
    Some(folder.to_owned())
}

/// Such as `1.95.0`.
fn rustc_version() -> Option<String> {
    let said = answer(Command::new(variable("RUSTC")?).arg("--version"))?;
    said.split(' ').nth(1).map(str::to_owned)
}

/// The commit and its day. A packager who builds from an archive can name it in `BRIMFUL_COMMIT`.
fn commit() -> String {
    if let Some(named) = variable("BRIMFUL_COMMIT") {
        return named;
    }
    // While somebody works on it, each commit would have the command and all its tests built again.
    if variable("PROFILE").as_deref() == Some("debug") {
        return "not recorded in a debug build".to_owned();
    }
    commit_of_checkout().unwrap_or_else(|| UNKNOWN.to_owned())
}

fn commit_of_checkout() -> Option<String> {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let git = |arguments: &[&str]| answer(Command::new("git").arg("-C").arg(&root).args(arguments));
    // An archive that was unpacked inside another project's checkout has nothing to do with that one's commits.
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        let file = root.join(git(&["rev-parse", "--git-path", name])?);
        // Cargo takes a file that is not there for one that has changed.
        if file.exists() {
            tell(&format!("rerun-if-changed={}", file.display()));
        }
    }
    git(&["log", "-1", "--format=%h (%cs)", "--abbrev=12", "--no-show-signature"])
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty() && !value.contains(['\n', '\r']))
}

/// The first line that a program wrote, if it ended well.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

fn set(name: &str, value: &str) {
    tell(&format!("rustc-env=BRIMFUL_{name}={value}"));
}

/// Says something to cargo.
#[allow(clippy::print_stdout)]
fn tell(instruction: &str) {
    println!("cargo::{instruction}");
}

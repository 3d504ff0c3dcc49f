//! The user's Python, for what only it can run: models that are written in PyTorch, their CUDA libraries, training jobs.
//!
//! In: a module of the Python package, and what it is asked, as JSON. Out: what it wrote, and its exit code. What the user's
//! own code prints goes to standard error, so that standard output is the report and nothing else.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::exit::Exit;
use crate::output::Output;

/// Names the interpreter to use. The Python package's command sets it to its own, unless the user has.
pub const VARIABLE: &str = "BRIMFUL_PYTHON";
/// What must be there to plan a PyTorch model.
const NEEDED: [&str; 2] = [PACKAGE_NAME, "torch"];
/// Our own package.
const PACKAGE_NAME: &str = "brimful";
/// Names those of its arguments that cannot be imported, without importing them.
const MISSING: &str = "\
import importlib.util as u, sys
print(*(n for n in sys.argv[1:] if u.find_spec(n) is None))";

/// Prints where the package is, without importing it: the agent needs neither its extension nor that it fits this Python. The current folder does not count: a script does not see it either.
const PACKAGE: &str = "\
import sys
sys.path[:1] = [p for p in sys.path[:1] if p]
from importlib.util import find_spec
spec = find_spec('brimful')
if spec is None or spec.origin is None:
    sys.exit(3)
import os
print(os.path.dirname(os.path.abspath(spec.origin)))";
/// What [`PACKAGE`] ends with where there is none.
const NO_PACKAGE: i32 = 3;

/// The folder of the package that has nothing but a `sitecustomize`, by which Brimful comes into a job.
pub const BOOTSTRAP: &str = "_bootstrap";

/// An interpreter, and why it is the one.
#[derive(Debug, PartialEq, Eq)]
pub struct Python {
    program: PathBuf,
    chosen_by: &'static str,
}

impl Python {
    /// The interpreter that the user means.
    pub fn choose() -> Python {
        Python::of(|name| env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Python {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(program) = set(VARIABLE) {
            return Python { program: program.into(), chosen_by: "named by BRIMFUL_PYTHON" };
        }
        if let Some(environment) = set("VIRTUAL_ENV") {
            let program =
                PathBuf::from(environment).join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
            return Python { program, chosen_by: "of the active virtual environment" };
        }
        Python { program: if cfg!(windows) { "python" } else { "python3" }.into(), chosen_by: "the first on the path" }
    }

    /// The interpreter that a command starts, if it starts one by its name: `python`, `python3.12`, `env/bin/python`.
    pub fn of_command(program: &OsStr) -> Option<Python> {
        let name = Path::new(program).file_name()?.to_str()?;
        let version = name.strip_suffix(".exe").unwrap_or(name).strip_prefix("python")?;
        let known = version.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 't' | 'w'));
        known.then(|| Python { program: program.into(), chosen_by: "of the command" })
    }

    /// Where this Python has the package.
    pub fn package(&self) -> anyhow::Result<PathBuf> {
        let name = self.program.display();
        let found = match self.command().args(["-c", PACKAGE]).output() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("there is no {name} ({}): nothing was started", self.chosen_by)
            }
            Err(error) => bail!("{name} cannot be started ({}): {error}", self.chosen_by),
        };
        if found.status.code() == Some(NO_PACKAGE) {
            let program = shown(self.program.as_os_str());
            bail!(
                "{name} ({}) has no brimful: install it with '{program} -m pip install .' in the folder of Brimful's source; nothing was started",
                self.chosen_by
            );
        }
        let text = String::from_utf8_lossy(&found.stdout);
        let package = text.lines().last().map(str::trim).unwrap_or_default();
        if !found.status.success() || package.is_empty() {
            let said = String::from_utf8_lossy(&found.stderr);
            let why = said.lines().last().unwrap_or("without a word").to_owned();
            bail!("{name} ({}) {}: {why}", self.chosen_by, end(found.status));
        }
        Ok(package.into())
    }

    /// Runs a module of the Python package and writes what it answers.
    pub fn run(
        &self,
        module: &str,
        request: &Value,
        variables: &[(&str, &str)],
        output: &Output,
    ) -> anyhow::Result<Exit> {
        self.check()?;
        let mut child = self.command();
        child.args(["-m", module, &request.to_string()]).envs(variables.iter().copied()).stdout(Stdio::piped());
        let answer = child.spawn().and_then(|child| child.wait_with_output()).with_context(|| self.unusable())?;
        let report = String::from_utf8(answer.stdout).context("the report is not text")?;
        let exit = match answer.status.code() {
            Some(0) => Exit::Done,
            Some(1) => Exit::DoesNotFit,
            // It has said why; there may be a report of a part.
            Some(2) => Exit::Unusable,
            _ => bail!("{} {}", self.program.display(), end(answer.status)),
        };
        if report.is_empty() && exit != Exit::Unusable {
            bail!("{} {} without a report: what it says above is why", self.program.display(), end(answer.status));
        }
        if !report.is_empty() {
            output.write(&report)?;
        }
        Ok(exit)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // The user's terminal stays the user's: nothing is read from it.
        command.stdin(Stdio::null());
        command
    }

    fn unusable(&self) -> String {
        format!(
            "{} cannot be started ({}): set {VARIABLE} to the Python that has PyTorch",
            self.program.display(),
            self.chosen_by
        )
    }

    /// Says what is missing before anything is run.
    fn check(&self) -> anyhow::Result<()> {
        let found = self.command().args(["-c", MISSING]).args(NEEDED).output().with_context(|| self.unusable())?;
        let said = String::from_utf8_lossy(&found.stderr);
        if !found.status.success() {
            bail!("{} {}: {}", self.unusable(), end(found.status), said.lines().last().unwrap_or(""));
        }
        let missing = String::from_utf8_lossy(&found.stdout);
        let missing: Vec<&str> = missing.split_whitespace().collect();
        if !missing.is_empty() {
            // Brimful is installed from its source.
            let wanted: Vec<&str> = missing.iter().map(|name| if *name == PACKAGE_NAME { "." } else { name }).collect();
            let place = if wanted.contains(&".") { " in the folder of Brimful's source" } else { "" };
            bail!(
                "{} ({}) has no {}: install with '{} -m pip install {}'{place}, or set {VARIABLE} to the Python that has PyTorch",
                self.program.display(),
                self.chosen_by,
                missing.join(" and no "),
                shown(self.program.as_os_str()),
                wanted.join(" ")
            );
        }
        Ok(())
    }
}

/// A word for a shell, where a blank in it matters.
fn shown(program: &OsStr) -> String {
    let program = program.to_string_lossy();
    if program.contains(' ') { format!("\"{program}\"") } else { program.into_owned() }
}

/// How a process ended.
fn end(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let why = if signal == 9 { ", as the system does when memory runs out" } else { "" };
        return format!("was ended by signal {signal}{why}");
    }
    status.code().map_or_else(|| "was ended".to_owned(), |code| format!("ended with code {code}"))
}

/// The user's search path with one folder in front.
pub fn in_front(folder: &Path, path: Option<&OsStr>) -> anyhow::Result<OsString> {
    let folder = env::join_paths([folder]).with_context(|| format!("{} cannot be in PYTHONPATH", folder.display()))?;
    // Python reads an empty one as none; an empty part would be its current folder.
    let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(folder) };
    let mut whole = folder;
    whole.push(if cfg!(windows) { ";" } else { ":" });
    whole.push(path);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_path_is_kept_as_it_is() {
        let path = |set: Option<&str>| in_front(Path::new("/p/_bootstrap"), set.map(OsStr::new)).unwrap();
        assert_eq!(path(None), "/p/_bootstrap");
        assert_eq!(path(Some("")), "/p/_bootstrap");
        #[cfg(unix)]
        assert_eq!(path(Some("a::/b:")), "/p/_bootstrap:a::/b:");
    }

    #[test]
    fn the_user_comes_first_then_the_environment_then_the_path() {
        let chosen = |set: &[(&str, &str)]| {
            Python::of(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())).program
        };
        let (named, active) = (("BRIMFUL_PYTHON", "/a/python"), ("VIRTUAL_ENV", "/b"));
        assert_eq!(chosen(&[named, active]), PathBuf::from("/a/python"));
        assert!(chosen(&[("BRIMFUL_PYTHON", ""), active]).starts_with("/b"));
        assert!(chosen(&[]).to_str().unwrap().starts_with("python"));
    }

    #[test]
    fn a_command_that_is_a_python_is_known_by_its_name() {
        for name in ["python", "python3", "python3.12", "python3.13t", "env/bin/python", "/usr/bin/python3.11"] {
            assert_eq!(Python::of_command(OsStr::new(name)).unwrap().program, PathBuf::from(name));
        }
        for name in ["bash", "train.py", "ipython", "python-config", "pythonic", "torchrun", ""] {
            assert_eq!(Python::of_command(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn one_that_is_not_there_is_named() {
        let python = Python { program: "/nowhere/python".into(), chosen_by: "named by BRIMFUL_PYTHON" };
        let error = format!("{:#}", python.check().unwrap_err());
        assert!(error.starts_with("/nowhere/python cannot be started (named by BRIMFUL_PYTHON)"), "{error}");
    }
}

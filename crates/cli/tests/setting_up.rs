//! Completions and manual pages, tried by the programs that they are for.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{run, stdout};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

fn written(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    stdout(&output)
}

/// Whether a program can be run; a test without it says that it did nothing.
#[allow(clippy::print_stderr)]
fn is_there(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = run.is_ok_and(|status| status.success());
    if !there {
        eprintln!("skipped: no {program} here");
    }
    there
}

/// What a real bash offers for the last of these words.
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("brimful.bash");
    fs::write(&file, script).expect("the script");
    // What bash does when somebody presses Tab: it runs the function that `complete` has for the command.
    let program = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); words=$(complete -p brimful); \
                   set -- ${words#*-F }; $1 brimful \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                   printf '%s\\n' \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash")
        .args(["--norc", "-c", program, "bash"])
        .arg(&file)
        .args(words)
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&bash.stderr);
    assert!(bash.status.success() && said.is_empty(), "{words:?}: {said}");
    String::from_utf8(bash.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    if !is_there("bash") {
        return;
    }
    let script = written(&["completions", "bash"]);
    assert_eq!(offered(&script, &["brimful", "pl"]), ["plan"]);
    assert_eq!(offered(&script, &["brimful", "plan", "--prec"]), ["--precision"]);
    assert_eq!(offered(&script, &["brimful", "plan", "--format", "ht"]), ["html"]);
    assert_eq!(offered(&script, &["brimful", "data", "conv"]), ["convert"]);
}

#[test]
fn every_shell_is_told_every_command_of_the_help() {
    let help = written(&["--help"]);
    let (_, rest) = help.split_once("Commands:\n").expect("commands");
    let names = rest.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    // A description that goes on is indented further.
    let commands: Vec<&str> = names.filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty()).collect();
    assert!(
        commands.contains(&"plan") && commands.contains(&"completions") && commands.contains(&"man"),
        "{commands:?}"
    );
    for shell in SHELLS {
        let script = written(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(run(&["completions", "tcsh"]).status.code(), Some(2));
}

/// The pages, and what `brimful man FOLDER` says.
fn pages(folder: &Path) -> (Vec<String>, String) {
    let said = written(&["man", folder.to_str().expect("UTF-8")]);
    let names = fs::read_dir(folder).expect("pages").map(|page| page.expect("a page").file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort();
    (names, said)
}

#[test]
fn each_command_has_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("share/man/man1");
    let (names, said) = pages(&folder);
    assert_eq!(said, format!("{} pages are in {}.\n", names.len(), folder.display()));
    for name in ["brimful.1", "brimful-plan.1", "brimful-data.1", "brimful-data-convert.1", "brimful-man.1"] {
        assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
    }
    // What the help hides has none.
    assert!(!names.iter().any(|name| name.contains("accuracy") || name.contains("help")), "{names:?}");
    assert_eq!(written(&["man"]), fs::read_to_string(folder.join("brimful.1")).expect("the first page"));
    let page = fs::read_to_string(folder.join("brimful-fit.1")).expect("a page");
    insta::assert_snapshot!("man_fit", page.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[test]
fn pages_are_rendered_without_a_warning() {
    // mandoc warns of the date, which pages have not.
    let checkers: [(&str, &[&str]); 2] =
        [("groff", &["-man", "-Tutf8", "-ww", "-z"]), ("mandoc", &["-T", "lint", "-W", "error"])];
    let folder = tempfile::tempdir().expect("a folder");
    let (names, _) = pages(folder.path());
    for (program, options) in checkers {
        if !is_there(program) {
            continue;
        }
        for name in &names {
            let check = Command::new(program).args(options).arg(folder.path().join(name)).output().expect("it runs");
            let said = String::from_utf8_lossy(&check.stderr) + String::from_utf8_lossy(&check.stdout);
            assert!(check.status.success() && said.is_empty(), "{program} on {name}: {said}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_gets_one_sentence() {
    let output = run(&["man", "Cargo.toml/man1"]);
    assert_eq!(output.status.code(), Some(2));
    let said = support::stderr(&output);
    assert!(said.starts_with("error: Cargo.toml/man1 cannot be made: ") && said.lines().count() == 1, "{said}");
}

//! `brimful plan snapshot.pickle` from end to end, and the page that describes it.
//!
//! `BRIMFUL_UPDATE_README=1 cargo test -p brimful --test snapshot` writes the output into the page anew.

mod support;

use std::fs;

use serde_json::Value;
use support::{root, run, stderr, stdout};

const JOB: &str = "fixtures/snapshots/mlp.pickle";
const FAILED: &str = "fixtures/snapshots/out_of_memory.pickle";
const PAGE: &str = "docs/snapshot.md";
const BEGIN: &str = "<!-- snapshot:begin (output of the command above) -->\n";
const END: &str = "<!-- snapshot:end -->";

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

fn json(args: &[&str]) -> (i32, Value) {
    let output = run(&[&["plan", "--format", "json"], args].concat());
    assert_eq!(stderr(&output), "", "{args:?}");
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn the_page_shows_what_the_command_prints() {
    let output = run(&["plan", JOB]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n```text\n{}```\n\n{END}{after}", stdout(&output));
    if std::env::var_os("BRIMFUL_UPDATE_README").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert!(page == expected, "{PAGE} is out of date: run `make readme` and read the difference");
    }
}

#[test]
fn the_commands_of_the_page_run() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    brimful ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        let output = run(&command.split(' ').collect::<Vec<_>>());
        let fails = command.contains("--memory 64MiB") || command.contains("out_of_memory");
        assert_eq!(output.status.code(), Some(i32::from(fails)), "{command}: {}", stderr(&output));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{command}");
    }
}

#[test]
fn a_run_that_failed_says_why() {
    let output = run(&["plan", FAILED]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    insta::assert_snapshot!("out_of_memory", text);
}

#[test]
fn the_json_has_the_documented_form() {
    let (code, report) = json(&[FAILED]);
    assert_eq!((code, &report["schema"], &report["kind"]), (1, &Value::from(1), &Value::from("torch_snapshot")));
    let page = fs::read_to_string(root().join("docs/json.md")).unwrap();
    let (_, snapshot) = page.split_once("# The JSON of a snapshot").expect("a part about snapshots");
    let mut keys = Vec::new();
    names(&report, &mut keys);
    keys.sort();
    keys.dedup();
    assert!(keys.len() > 40, "{keys:?}");
    let missing: Vec<_> = keys.iter().filter(|key| !snapshot.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "not in docs/json.md: {missing:?}");
}

/// Every field, at any depth.
fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            found.push(key.clone());
            names(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn a_limit_decides_the_exit_code() {
    let (code, report) = json(&[JOB, "--memory", "1GiB"]);
    assert_eq!((code, &report["devices"][0]["fits"]), (0, &Value::from(true)));
    let (code, report) = json(&[JOB, "--memory", "64MiB"]);
    assert_eq!((code, &report["devices"][0]["limit_bytes"]), (1, &Value::from(64 << 20)));
}

#[test]
fn options_about_models_are_refused() {
    for option in [
        &["--batch", "8"][..],
        &["--optimizer", "adam"],
        &["--loss", "mse"],
        &["--precision", "float32"],
        &["--set", "dense.units=3"],
        &["--inference"],
    ] {
        let said = refused(&[&["plan", JOB], option].concat());
        let expected = format!("error: {} makes no sense with a memory snapshot: it shows a PyTorch run", option[0]);
        assert!(said.starts_with(&expected), "{said}");
    }
    assert!(refused(&["plan", JOB, "--device", "t4"]).contains("use --memory, such as --memory 15GiB"));
    assert!(refused(&["plan", JOB, "--format", "html"]).contains("there is no page of a memory snapshot yet"));
    assert!(refused(&["plan", JOB, "--memory", "lots"]).contains("'lots' is not a size"));
}

#[test]
fn files_are_told_by_content_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let said = |path: &str| refused(&["plan", path]).replace(folder.path().to_str().unwrap(), "FOLDER");
    // A pickle under any name, and anything under a pickle's name.
    let renamed = file("model.json", &fs::read(root().join(JOB)).unwrap());
    assert!(stdout(&run(&["plan", &renamed])).starts_with("Peak: 70.9 MiB allocated on cuda:0"));
    assert_eq!(
        said(&file("model.pickle", b"{\"class_name\": \"Sequential\"}")),
        "error: FOLDER/model.pickle: this is not a PyTorch memory snapshot: expected the pickle that \
         torch.cuda.memory._dump_snapshot('snapshot.pickle') writes, found a text file\n"
    );
    assert_eq!(
        said(&file("evil.pkl", b"\x80\x04cos\nsystem\n(S'true'\ntR.")),
        "error: FOLDER/evil.pkl: the pickle asks Python to run code (GLOBAL at byte 2), which no memory snapshot does: \
         nothing was run, and the file was not read; do not load it in Python either unless you trust its origin\n"
    );
    let cut = said(&file("cut.pickle", &fs::read(root().join(JOB)).unwrap()[..5000]));
    assert!(cut.contains("the file ends in the middle; the file is damaged or was cut short"), "{cut}");
    assert_eq!(refused(&["plan", "absent.pickle"]), "error: absent.pickle: there is no such file\n");
}

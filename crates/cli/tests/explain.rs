//! `brimful explain` from end to end: where a log comes from, what is answered, and how it ends.
//!
//! `BRIMFUL_UPDATE_README=1 cargo test -p brimful --test explain` writes the outputs into `docs/explain.md` anew.

mod support;

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use brimful_core::explain::explain;
use brimful_core::report::Style;
use serde_json::Value;
use support::{command, root, run, stderr, stdout};

const OPTIMIZER: &str = "fixtures/logs/gpu_torch_optimizer.log";
const KILLED: &str = "fixtures/logs/killed_bash.log";
const BATCH: &str = "fixtures/logs/tf_cnn_batch.log";
const MODEL: &str = "fixtures/models/explained/tf_cnn.json";
const UNDECIDED: &str = "fixtures/logs/gpu_jax_second.log";
const PAGE: &str = "docs/explain.md";

/// Runs with this on standard input.
fn piped(args: &[&str], input: &[u8]) -> Output {
    let mut child =
        command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads all of it");
    child.wait_with_output().expect("it ends")
}

fn answered(output: &Output, code: i32) -> String {
    assert_eq!((output.status.code(), stderr(output).as_str()), (Some(code), ""));
    stdout(output)
}

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

/// Refused in one sentence.
fn said(args: &[&str]) -> String {
    let said = refused(args);
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    said
}

fn json(args: &[&str], code: i32) -> Value {
    let output = run(&[&["explain", "--format", "json"], args].concat());
    serde_json::from_str(&answered(&output, code)).expect("JSON")
}

fn log(name: &str) -> Vec<u8> {
    fs::read(root().join(name)).unwrap()
}

#[test]
fn a_file_and_standard_input_are_answered_alike() {
    let from_file = answered(&run(&["explain", OPTIMIZER]), 0);
    assert!(from_file.starts_with("GPU memory ran out: the optimizer's state does not fit"), "{from_file}");
    assert!(from_file.ends_with("More: brimful explain --cause optimizer_state\n"), "{from_file}");
    assert_eq!(answered(&piped(&["explain", "-"], &log(OPTIMIZER)), 0), from_file);
    assert_eq!(answered(&piped(&["explain"], &log(OPTIMIZER)), 0), from_file);
}

#[test]
fn the_exit_code_says_whether_a_cause_was_found() {
    for (name, code) in [(KILLED, 0), ("fixtures/logs/not_memory_keyerror.log", 0), (UNDECIDED, 1)] {
        let report = json(&[name], code);
        assert_eq!(report["cause"].is_null(), code == 1, "{name}");
        assert_eq!(report["missing"].as_array().unwrap().is_empty(), code == 0, "{name}: {}", report["missing"]);
    }
}

#[test]
fn a_log_without_a_failure_says_so() {
    for input in [&b""[..], b"\n", b"epoch 1\nepoch 2\ndone\n", &[0xff, 0, 0x1b]] {
        let text = answered(&piped(&["explain", "-"], input), 1);
        assert!(text.starts_with("No failure was found in this log.\n"), "{text}");
        assert!(text.contains("brimful explain -"), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.log");
    fs::write(&empty, "").unwrap();
    let report = json(&[empty.to_str().unwrap()], 1);
    assert_eq!((&report["cause"], &report["resource"]), (&Value::Null, &Value::Null));
}

#[test]
fn logs_that_cannot_be_read() {
    assert!(said(&["explain", "absent.log"]).starts_with("error: absent.log: there is no such file"));
    assert_eq!(said(&["explain", "docs"]), "error: docs is a folder: name the log in it\n");
    assert!(refused(&["explain", KILLED, OPTIMIZER]).starts_with("error: unexpected argument"));
    assert!(refused(&["explain", KILLED, "--format", "html"]).starts_with("error: invalid value 'html'"));
}

#[test]
fn what_powershell_wrote_is_read_and_what_is_no_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = String::from_utf8(log(KILLED)).unwrap();
    let wide: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let expected = answered(&run(&["explain", KILLED]), 0);
    assert_eq!(answered(&run(&["explain", &written("marked.log", &wide)]), 0), expected);
    assert_eq!(answered(&piped(&["explain", "-"], &wide[2..]), 0), expected);
    let packed = written("train.log.gz", b"\x1f\x8b\x08\x08\x3a\xe3\xfc\x6a\0\x03train.log\0");
    let said_of = said(&["explain", &packed]);
    assert!(said_of.contains("a gzip archive") && said_of.contains("zcat FILE | brimful explain -"), "{said_of}");
    let program = written("a.out", b"\x7fELF\x02\x01\x01\0\0\0Cannot allocate memory\0\n");
    assert!(said(&["explain", &program]).contains("is no text but a program"));
    let output = piped(&["explain", "-"], b"\x1f\x8b\x08\0");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
    assert!(stderr(&output).starts_with("error: standard input is no text"), "{}", stderr(&output));
}

#[test]
fn the_json_has_the_documented_form() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (_, part) = page.split_once("\n## JSON\n").expect("a part about JSON");
    let (part, _) = part.split_once("\n## ").expect("a part after it");
    let mut keys = Vec::new();
    for (args, code) in [
        (&[OPTIMIZER][..], 0),
        (&[KILLED], 0),
        (&[UNDECIDED], 1),
        (&[BATCH, "--plan", MODEL], 0),
        (&["fixtures/logs/gpu_torch_leak.log"], 0),
        (&["fixtures/logs/gpu_torch_other.log"], 0),
        (&["fixtures/logs/killed_cgroup_dmesg.log"], 0),
    ] {
        let report = json(args, code);
        assert_eq!(report["schema"], Value::from(1), "{args:?}");
        names(&report, &mut keys);
    }
    keys.sort();
    keys.dedup();
    assert!(keys.len() > 40, "{keys:?}");
    let missing: Vec<_> = keys.iter().filter(|key| !part.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "not in {PAGE}: {missing:?}");
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
fn the_manual_lists_causes_and_shows_their_pages() {
    let list = answered(&run(&["explain", "--list"]), 0);
    let (lines, _) = list.split_once("\n\n").unwrap();
    let codes: Vec<&str> = lines.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(codes.len(), 20);
    for code in &codes {
        let page = fs::read_to_string(root().join(format!("docs/causes/{code}.md"))).unwrap();
        assert_eq!(answered(&run(&["explain", "--cause", code]), 0), page, "{code}");
    }
    let listed = json(&["--list"], 0);
    let named: Vec<&str> =
        listed["causes"].as_array().unwrap().iter().map(|cause| cause["code"].as_str().unwrap()).collect();
    assert_eq!((&listed["schema"], named), (&Value::from(1), codes));
}

#[test]
fn codes_are_taken_as_people_write_them() {
    let page = answered(&run(&["explain", "--cause", "kernel_oom_kill"]), 0);
    assert_eq!(answered(&run(&["explain", "--cause", "kernel-oom-kill"]), 0), page);
    assert_eq!(answered(&run(&["explain", "--cause", "Kernel_OOM_Kill"]), 0), page);
    let report = json(&["--cause", "leak"], 0);
    assert_eq!(
        (&report["code"], report["page"].as_str().map(|page| page.starts_with("# "))),
        (&"leak".into(), Some(true))
    );
    let unknown = said(&["explain", "--cause", "gremlins"]);
    assert_eq!(unknown, "error: 'gremlins' is not a cause: 'brimful explain --list' shows the codes\n");
    assert!(refused(&["explain", "--list", "--cause", "leak"]).contains("cannot be used with"));
    assert!(refused(&["explain", KILLED, "--list"]).contains("cannot be used with"));
}

#[test]
fn the_plan_names_the_batch_that_failed_and_the_largest_that_fits() {
    let report = json(&[BATCH, "--plan", MODEL], 0);
    let planned = &report["planned"];
    assert_eq!(planned["failed"]["batch"], Value::from(512));
    assert_eq!(planned["memory_bytes"], Value::from(150 << 20));
    assert_eq!((&planned["batch"], &planned["max_batch"]), (&Value::from(512), &Value::from(128)));
    assert!(planned["peak_bytes"].as_u64().unwrap() > 150 << 20, "{planned}");
    let text = answered(&run(&["explain", BATCH, "--plan", MODEL]), 0);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("for a batch of 512 -") && words.contains("would have fitted is 128 "), "{text}");
    assert!(json(&[BATCH], 0).get("planned").is_none());
    let given = json(&[BATCH, "--plan", MODEL, "--memory", "1GiB", "--batch", "64"], 0);
    assert_eq!((&given["planned"]["memory_bytes"], &given["planned"]["batch"]), (&(1 << 30).into(), &64.into()));
}

#[test]
fn models_that_cannot_be_planned() {
    assert_eq!(said(&["explain", BATCH, "--plan", "absent.json"]), "error: absent.json: there is no such file\n");
    let page = said(&["explain", BATCH, "--plan", "README.md"]);
    assert!(page.starts_with("error: README.md: --plan takes a Keras model"), "{page}");
    let other = said(&["explain", BATCH, "--plan", "fixtures/logs/tf_cnn_batch.json"]);
    assert!(other.contains("this is not a model file"), "{other}");
    assert!(said(&["explain", BATCH, "--plan", "docs"]).contains("docs is a folder"));
    let unknown = said(&["explain", UNDECIDED, "--plan", MODEL]);
    assert_eq!(unknown, "error: the log does not say how much memory there was: give --memory, or --device\n");
    for option in [["--batch", "3"], ["--memory", "1GiB"], ["--device", "t4"]] {
        let refused = refused(&[&["explain", BATCH], &option[..]].concat());
        assert!(refused.contains("--plan <MODEL>"), "{refused}");
    }
}

#[test]
fn the_answer_reads_well_in_any_width() {
    for (name, path) in [("gpu_torch_optimizer", OPTIMIZER), ("killed_bash", KILLED)] {
        let said = explain(&log(path));
        for width in [60, 100] {
            insta::assert_snapshot!(format!("{name}_{width}"), said.to_text(Style { colour: false, width }));
        }
        // Where there is no terminal there are 80 columns.
        assert_eq!(answered(&run(&["explain", path]), 0), said.to_text(Style { colour: false, width: 80 }));
        let coloured = answered(&run(&["--color", "always", "explain", path]), 0);
        assert_eq!(coloured, said.to_text(Style { colour: true, width: 80 }));
        assert!(coloured.contains("\u{1b}["));
    }
}

#[test]
fn the_page_shows_what_the_command_prints() {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let mut expected = String::new();
    let (mut rest, mut shown) = (page.as_str(), 0);
    while let Some((before, after)) = rest.split_once("```sh\n$ brimful ") {
        let (line, after) = after.split_once("\n```\n\n```text\n").expect("a command and then its output");
        let (_, after) = after.split_once("\n```\n").expect("the end of the output");
        let output = run(&line.split(' ').collect::<Vec<_>>());
        assert!(output.stderr.is_empty() && output.status.code() <= Some(1), "{line}: {}", stderr(&output));
        expected += &format!("{before}```sh\n$ brimful {line}\n```\n\n```text\n{}```\n", stdout(&output));
        (rest, shown) = (after, shown + 1);
    }
    expected += rest;
    assert!(shown >= 5, "{shown}");
    if std::env::var_os("BRIMFUL_UPDATE_README").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert!(page == expected, "{PAGE} is out of date: run `make readme` and read the difference");
    }
}

//! `brimful plan` from end to end, on the example of the README.

mod support;

use serde_json::Value;
use support::{run, stderr, stdout};

const EXAMPLE: &str = "examples/vision_cnn.json";

/// Runs `plan` on the example; gives the exit code and the report.
fn json(args: &[&str]) -> (i32, Value) {
    let output = run(&[&["plan", EXAMPLE, "--format", "json"], args].concat());
    assert_eq!(stderr(&output), "", "{args:?}");
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn text(args: &[&str]) -> (i32, String) {
    let output = run(&[&["plan", EXAMPLE], args].concat());
    assert_eq!(stderr(&output), "", "{args:?}");
    (output.status.code().unwrap(), stdout(&output))
}

fn codes(report: &Value) -> Vec<&str> {
    let list = |field: &str| report[field].as_array().unwrap().iter();
    list("assumptions").chain(list("notes")).map(|note| note["code"].as_str().unwrap()).collect()
}

#[test]
fn the_example_does_not_fit_a_t4() {
    let (code, text) = text(&["--batch", "128", "--device", "t4"]);
    assert_eq!(code, 1);
    assert!(text.starts_with("Does not fit: needs "), "{text}");
    assert!(text.lines().next().unwrap().contains("usable on"), "{text}");
    for part in ["What fills it", "Heaviest layers", "Batch", "What helps", "Notes", " over", "┃"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b') && text.lines().all(|line| line.starts_with("    ") || line.chars().count() <= 80));
}

#[test]
fn a_small_batch_fits() {
    let (code, text) = text(&["--batch", "1", "--device", "h100", "--optimizer", "sgd"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("Fits: needs "), "{text}");
}

#[test]
fn the_report_has_the_documented_form() {
    let (code, report) = json(&["--batch", "128", "--device", "t4"]);
    assert_eq!((code, &report["verdict"]), (1, &Value::from("does_not_fit")));
    assert_eq!(report["schema"], 1);
    for (place, fields) in [
        ("/model", "parameters layers"),
        ("/job", "batch"),
        ("/device", "capacity_bytes usable_bytes"),
        ("/peak", "allocated_bytes reserved_bytes device_bytes low_bytes high_bytes floor_bytes"),
        (
            "/breakdown",
            "parameters gradients optimizer_state saved_activations inputs temporaries workspace allocator_slack context",
        ),
        ("/layers/0", "bytes weights_bytes saved_bytes"),
        ("/remedies/0", "peak_bytes time_cost"),
    ] {
        let object = report.pointer(place).unwrap_or_else(|| panic!("{place}"));
        for field in fields.split(' ') {
            assert!(object[field].is_number(), "{place}/{field}: {object}");
        }
    }
    for (place, fields) in [
        ("/model", "name"),
        ("/job", "framework optimizer precision mode"),
        ("/device", "name"),
        ("/peak/at", "phase op layer"),
        ("/layers/0", "layer class"),
        ("/remedies/0", "id title same_result"),
        ("/assumptions/0", "code text"),
        ("/notes/0", "code text"),
    ] {
        let object = report.pointer(place).unwrap_or_else(|| panic!("{place}"));
        for field in fields.split(' ') {
            assert!(object[field].is_string(), "{place}/{field}: {object}");
        }
    }
    assert!(report["device"]["measured"].is_boolean() && report["remedies"][0]["fits"].is_boolean());
    assert!(report["safe_batches"].as_array().unwrap().iter().all(Value::is_u64));
    assert!(report["remedies"][0]["apply"].get("keras").is_some());
    assert!(report.get("cheapest_fit").is_some() && report.get("max_batch").is_some());
}

#[test]
fn numbers_agree_with_each_other() {
    for args in [
        &["--batch", "128", "--device", "t4"][..],
        &["--batch", "2", "--device", "cpu", "--inference"],
        &["--batch", "2", "--device", "cpu", "--precision", "mixed_bfloat16"],
    ] {
        let (_, report) = json(args);
        let parts: u64 = report["breakdown"].as_object().unwrap().values().map(|part| part.as_u64().unwrap()).sum();
        let peak = |field: &str| report["peak"][field].as_u64().unwrap();
        assert_eq!(parts, peak("device_bytes"), "{args:?}");
        assert!(peak("low_bytes") <= peak("device_bytes") && peak("device_bytes") <= peak("high_bytes"), "{args:?}");
        assert!(peak("floor_bytes") <= peak("allocated_bytes"), "{args:?}");
    }
}

#[test]
fn a_cpu_without_a_limit_fits_and_says_so() {
    let (code, report) = json(&["--device", "cpu", "--batch", "2"]);
    assert_eq!((code, &report["verdict"]), (0, &Value::from("fits")));
    assert_eq!((&report["device"]["usable_bytes"], &report["max_batch"]), (&Value::Null, &Value::Null));
    assert!(codes(&report).contains(&"no_limit"));
    let (code, limited) = json(&["--device", "cpu", "--batch", "2", "--memory", "64MiB"]);
    assert_eq!((code, &limited["device"]["usable_bytes"]), (1, &Value::from(64 << 20)));
    assert_eq!(limited["peak"]["device_bytes"], report["peak"]["device_bytes"]);
}

#[test]
fn defaults_are_said() {
    let (_, report) = json(&["--device", "cpu"]);
    assert_eq!((&report["job"]["batch"], &report["job"]["optimizer"]), (&Value::from(32), &Value::from("adam")));
    assert_eq!(codes(&report)[..2], ["default_batch", "not_compiled"]);
    let (_, report) = json(&["--device", "cpu", "--batch", "1", "--optimizer", "SGD", "--loss", "mse"]);
    assert_eq!(report["job"]["optimizer"], "sgd");
    assert!(!codes(&report).iter().any(|code| ["default_batch", "not_compiled", "default_loss"].contains(code)));
}

#[test]
fn a_compiled_file_brings_its_own_optimizer() {
    let output =
        run(&["plan", "fixtures/models/keras_extra/compiled_sgd.keras", "--device", "cpu", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["job"]["optimizer"]), (Some(0), &Value::from("sgd")));
    assert!(!codes(&report).iter().any(|code| ["default_optimizer", "not_compiled", "default_loss"].contains(code)));
}

#[test]
fn settings_change_the_model() {
    let (_, whole) = json(&["--device", "cpu", "--batch", "1"]);
    let (_, small) =
        json(&["--device", "cpu", "--batch", "1", "--set", "dense.units=16", "--set", "input.shape=64,64,3"]);
    let parameters = |report: &Value| report["model"]["parameters"].as_u64().unwrap();
    assert!(parameters(&small) < parameters(&whole) / 10);
}

#[test]
fn a_plan_for_this_machine_needs_no_options() {
    let output = run(&["plan", EXAMPLE]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
}

#[test]
fn reports_go_to_files_and_colours_only_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    let (code, shown) = text(&["--device", "cpu", "--batch", "1", "-o", path.to_str().unwrap()]);
    assert_eq!((code, shown.as_str()), (0, ""));
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.starts_with("Needs ") && !written.contains('\x1b'), "{written}");
    let (_, painted) = text(&["--device", "cpu", "--batch", "1", "--color", "always"]);
    assert!(painted.contains("\x1b["));
}

#[test]
fn the_largest_batch_that_can_be_asked_for_needs_as_much_for_each_sample_as_others() {
    let per_sample = |batch: u64| {
        let (_, report) = json(&["--device", "t4", "--batch", &batch.to_string()]);
        assert!(report["breakdown"]["saved_activations"].as_u64().unwrap() > 0);
        report["peak"]["allocated_bytes"].as_f64().unwrap() / batch as f64
    };
    let (usual, most) = (per_sample(4096), per_sample(1 << 24));
    assert!((most / usual - 1.0).abs() < 0.05, "{usual} and {most}");
}

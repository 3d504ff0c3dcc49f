//! PyTorch models, up to the moment when Python takes over: what names one, and a Python that cannot be used.

mod support;

use std::fs;

use support::{command, run, stderr, stdout};

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

#[test]
fn options_of_the_other_kind_of_model_are_refused() {
    for (args, said) in [
        (&["plan", "examples/vision_cnn.json", "--input", "3x8x8"][..], "--input is for PyTorch models"),
        (&["plan", "examples/vision_cnn.json", "--seq", "8"], "--seq is for PyTorch models"),
        (&["plan", "examples/vision_cnn.json", "--precision", "float16"], "use --precision mixed_float16"),
        (&["plan", "examples/torch_cnn.py:make_model", "--set", "a.b=1"], "--set is for Keras files"),
        (&["plan", "examples/torch_cnn.py:make_model", "--framework", "tensorflow"], "leave --framework out"),
        (
            &["plan", "examples/torch_cnn.py:make_model", "--precision", "float64"],
            "--precision float64 is for Keras files",
        ),
        (&["plan", "examples/torch_cnn.py:make_model", "--checkpointing"], "--checkpointing is for a config.json"),
        (&["plan", "examples/torch_cnn.py"], "such as examples/torch_cnn.py:make_model"),
        (&["plan", "fixtures/snapshots", "--compile"], "--compile is for PyTorch models"),
    ] {
        let error = refused(args);
        assert!(error.contains(said) && error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn a_python_that_cannot_be_used_is_named() {
    for args in [&["plan", "examples/torch_cnn.py:make_model"][..], &["plan", "examples/llama_7b"], &["calibrate"]] {
        let output = command(args).env("BRIMFUL_PYTHON", "/nowhere/python").output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
        let said = stderr(&output);
        assert!(said.starts_with("error: /nowhere/python cannot be started (named by BRIMFUL_PYTHON)"), "{said}");
    }
}

/// Stands in for Python: finds every library, and then does what the script says.
#[cfg(unix)]
fn answer(script: &str) -> std::process::Output {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    fs::write(&python, format!("#!/bin/sh\n[ \"$1\" = -c ] && exit 0\n{script}\n")).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    command(&["plan", "examples/torch_cnn.py:make_model", "--batch", "2"])
        .env("BRIMFUL_PYTHON", python)
        .output()
        .unwrap()
}

#[cfg(unix)]
#[test]
fn an_end_without_a_report_is_never_a_verdict() {
    for (script, code, out, said) in [
        ("echo report", 0, "report\n", ""),
        ("echo report; exit 1", 1, "report\n", ""),
        ("echo part; echo 'error: why' >&2; exit 2", 2, "part\n", "error: why\n"),
        ("exit 0", 2, "", "ended with code 0 without a report"),
        ("exit 1", 2, "", "ended with code 1 without a report"),
        ("exit 77", 2, "", "ended with code 77"),
        ("kill -9 $$", 2, "", "was ended by signal 9, as the system does when memory runs out"),
    ] {
        let output = answer(script);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), out), "{script}");
        assert!(stderr(&output).contains(said), "{script}: {}", stderr(&output));
    }
    let output = answer("echo \"$1 $2 $3\"");
    assert!(stdout(&output).starts_with("-m brimful.torch.command {"), "{}", stdout(&output));
    assert!(stdout(&output).contains("\"batch\":2") && stdout(&output).contains("\"name\":\"make_model\""));
}

"""The Python package without any framework: what it imports, its command, and plans of a recording made by hand."""

import json
import subprocess
import sys

import brimful as package
import pytest
from brimful import _native

MIB = 1 << 20


def test_importing_it_imports_no_framework():
    script = "import brimful, sys; print([n for n in ('torch', 'tensorflow', 'keras', 'jax', 'numpy') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_its_command_is_the_binary_s(brimful_command, brimful):
    answered = ["plan", "examples/vision_cnn.json", "--device", "t4", "--format", "json"]
    for arguments in (["-V"], ["completions", "bash"], ["plan", "--help"], ["plan", "nothing.keras"], answered, []):
        ours, binary = brimful_command(*arguments), brimful(*arguments)
        assert (ours.returncode, ours.stdout, ours.stderr) == (binary.returncode, binary.stdout, binary.stderr)


def test_its_version_says_that_it_is_the_extension(brimful_command, brimful):
    ours, binary = (dict(line.split(None, 1) for line in run("--version").stdout.splitlines()) for run in (brimful_command, brimful))
    assert ours.pop("form") == "Python extension (abi3, CPython 3.9 or newer)"
    assert binary.pop("form") == "command"
    # Of the two, one may have been built before the last commit.
    assert ours.pop("commit") and binary.pop("commit")
    assert ours == binary and ours["brimful"] == _native.__version__


def test_names_that_need_a_framework_are_listed_and_others_refused():
    assert "plan" in dir(package)
    with pytest.raises(AttributeError, match="brimful"):
        _ = package.nothing


def test_sizes_follow_the_batch(recorded):
    assert recorded.paired
    peaks = recorded.peaks(8)
    assert peaks["requested"] <= peaks["allocated"] <= peaks["reserved"] and not peaks["failed"]
    assert recorded.peaks(16)["requested"] > peaks["requested"]
    assert recorded.peaks(8, limit_bytes=4 * MIB)["failed"]
    assert recorded.peaks(8, conf="expandable_segments:True")["reserved"] <= peaks["reserved"]


def test_a_plan_is_json_and_text(recorded):
    request = {"batch": 8, "device": "t4", "optimizer": "adam", "model": "Net", "modules": [{"path": "fc", "class": "Linear"}]}
    report = json.loads(recorded.plan(json.dumps(request)))
    assert (report["schema"], report["verdict"], report["job"]["framework"]) == (1, "fits", "torch")
    assert sum(report["breakdown"].values()) == report["peak"]["device_bytes"]
    assert report["layers"][0] == {**report["layers"][0], "layer": "fc", "class": "Linear"}
    assert report["lines"][0]["source"] == "train.py:3"
    assert report["max_batch"] > 8
    text = recorded.text(json.dumps(request), 80, False)
    assert text.startswith("Fits: needs ") and "fc" in text
    assert "\x1b[" in recorded.text(json.dumps(request), 80, True)


def test_bad_input_is_a_value_error(recorded):
    rows = b"\0" * 72
    for call, said in (
        (lambda: _native.Capture([""], 8, rows[:-1], 4, None), "cut off"),
        (lambda: _native.Capture([], 8, rows, 4, None), "string 0"),
        (lambda: _native.Capture([""], 8, b"\xff" * 72, 4, None), "kind is -1"),
        (lambda: recorded.peaks(8, conf="nonsense:1"), "nonsense"),
        (lambda: recorded.plan("{}"), "batch"),
        (lambda: recorded.plan('{"batch": 8, "device": "t44"}'), "t44"),
    ):
        with pytest.raises(ValueError, match=said):
            call()

"""`brimful plan FILE.py:NAME`: the user's code in the user's Python, what it may look like, and the mistakes in it."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BINARY, ROOT

pytest.importorskip("torch")

MODELS = """
import torch
from torch import nn

print("the user's own words")


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10) if width == 0 else nn.Linear(width * 36, 10))

    def forward(self, x):
        return self.layers(x)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, 16), nn.Linear(16, 100)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.embedding(input_ids))


def make_model():
    return Net()


def with_inputs():
    return Net(), (torch.zeros(4, 3, 8, 8), torch.zeros(4, dtype=torch.int64))


def needs(width):
    return Net(width)


def broken():
    width = 0
    return Net(10 // width)


def number():
    return 3


def data_dependent():
    class Masked(Net):
        def forward(self, x):
            raise RuntimeError("only on Mondays")

    return Masked()


def penalty(outputs, inputs):
    return outputs.square().mean()


def plain(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


model = Net()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "models.py").write_text(MODELS)
    (folder / "helper.py").write_text(
        "from models import Net\n\n\ndef make_inputs():\n    import torch\n\n    return torch.zeros(2, 3, 8, 8)\n"
    )
    (folder / "wrong.py").write_text("import torch\n\ndef make_model(:\n    pass\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit(1)\n")
    return folder


@pytest.fixture(scope="module")
def run(folder, python_with_torch):
    """Runs `brimful plan` in the folder of the user's code, with a Python that has imported what it will."""

    def run(*args, python=python_with_torch.path, **environment):
        return python_with_torch.run(BINARY, "plan", *args, cwd=folder, BRIMFUL_PYTHON=python, **environment)

    return run


def report(answer):
    assert answer.returncode in (0, 1), answer.stderr
    return json.loads(answer.stdout)


def refused(answer):
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stdout + answer.stderr
    said = [line for line in answer.stderr.splitlines() if line != "the user's own words"]
    assert len(said) == 1 and said[0].startswith("error: ") and "panicked" not in said[0], answer.stderr
    return said[0]


SHAPE = ("--input", "3x8x8", "--batch", 16, "--device", "t4", "--format", "json")


@pytest.mark.parametrize("name", ["models.py:make_model", "models.py:Net", "models.py:model", "models:make_model"])
def test_a_function_a_class_and_a_model_are_the_same(run, name):
    answer = run(name, *SHAPE)
    found = report(answer)
    assert (found["model"]["name"], found["job"]["batch"], found["job"]["framework"]) == ("Net", 16, "torch")
    assert (answer.returncode, answer.stderr.strip()) == (0, "the user's own words"), "what the file prints is not in the report"


def test_the_report_is_that_of_the_python_function(run, folder):
    sys.path.insert(0, str(folder))
    try:
        import brimful
        import models
    finally:
        sys.path.remove(str(folder))
    plan = brimful.plan(models.Net(), (16, 3, 8, 8), device="t4")
    assert report(run("models.py:Net", *SHAPE))["peak"] == plan.report["peak"]
    assert "Fits: needs " in run("models.py:Net", *SHAPE[:-2]).stdout


def test_it_does_not_fit_with_1(run, tmp_path):
    file = tmp_path / "report.json"
    answer = run("models.py:Net", "--input", "3x8x8", "--batch", 4096, "--memory", "8MiB", "--format", "json", "-o", file)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert json.loads(file.read_text())["verdict"] == "does_not_fit"


def test_inputs_come_from_the_code(run):
    assert report(run("models.py:with_inputs", "--format", "json"))["job"]["batch"] == 4
    assert report(run("models.py:with_inputs", "--batch", 12, "--format", "json"))["job"]["batch"] == 12
    assert report(run("helper.py:Net", "--format", "json"))["job"]["batch"] == 2
    found = report(run("models.py:Tokens", "--input", "input_ids=12:int64", "--input", "labels=12:int64", "--format", "json"))
    assert found["job"]["batch"] == 32 and "default_batch" in [note["code"] for note in found["assumptions"]]


def test_options_reach_the_plan(run):
    plain = report(run("models.py:Net", *SHAPE))
    half = report(run("models.py:Net", *SHAPE, "--precision", "bfloat16", "--optimizer", "sgd"))
    assert half["job"]["precision"] == "bfloat16" and half["job"]["optimizer"] == "sgd"
    assert half["breakdown"]["parameters"] < plain["breakdown"]["parameters"]
    forward = report(run("models.py:Net", *SHAPE, "--inference"))
    assert forward["job"]["mode"] == "inference" and forward["breakdown"]["gradients"] == 0
    own = report(run("models.py:Net", *SHAPE, "--optimizer", "plain", "--loss", "penalty", "--accumulate", 2, "--compile"))
    assert own["job"]["optimizer"] == "sgd" and "compiled" in [note["code"] for note in own["notes"]]
    assert "stand_in_loss" not in [note["code"] for note in own["assumptions"]]
    for labels in ([], ["--input", ":int64"]):
        named = report(run("models.py:Net", *SHAPE, *labels, "--loss", "cross_entropy"))
        assert "stand_in_loss" not in [note["code"] for note in named["assumptions"]]


MISTAKES = {
    ("models.py:make_model",): "such as --input 3x224x224",
    ("models.py:make_modle", "--input", "3x8x8"): "has no 'make_modle': it has make_model",
    ("absent.py:make_model",): "absent.py: there is no such file",
    ("absent.module:make_model",): "there is no module absent.module",
    ("models.py",): "say what in it makes the model, such as models.py:make_model",
    ("models.py:needs", "--input", "3x8x8"): "needs arguments (width)",
    ("models.py:broken", "--input", "3x8x8"): "models.py:40 in broken: ZeroDivisionError: integer division or modulo by zero",
    ("models.py:number", "--input", "3x8x8"): "returns a int: let it return a torch.nn.Module",
    ("models.py:MODELS", "--input", "3x8x8"): "has no 'MODELS'",
    ("wrong.py:make_model",): "wrong.py:3: SyntaxError: ",
    ("leaves.py:make_model",): "leaves.py:2: SystemExit: 1",
    ("models.py:Net", "--input", "3by8"): "--input 3by8 is no shape",
    ("models.py:Net", "--input", "3x8x8:int63"): "'int63' is not a dtype",
    ("models.py:Net", "--input", "x=3x8x8", "--input", "4"): "name all of them, or none",
    ("models.py:Net", "--input", "3x8x8", "--optimizer", "adamx"): "'adamx' is not an optimizer of this PyTorch",
    ("models.py:Net", "--input", "3x8x8", "--loss", "crossentropie"): "is not a loss of PyTorch",
    ("models.py:Net", "--input", "3x8x8", "--device", "cpu"): "is not a CUDA device",
    ("models.py:Net", "--input", "3x8x8", "--device", "rtx4900"): "did you mean rtx-4090",
    ("models.py:Net", "--input", "3x8x8", "--memory", "lots"): "'lots' is not a size",
    ("models.py:Net", "--input", "3x8x8", "--accumulate", "99"): "accumulate is 99",
    ("models.py:data_dependent", "--input", "3x8x8"): "only on Mondays",
    ("models.py:Net", "--seq", "8"): "--seq is for a config.json",
    ("models.py:Net", "--set", "a.b=1"): "--set is for Keras files",
    ("models.py:Net", "--framework", "jax"): "leave --framework out",
    ("models.py:Net", "--inference", "--loss", "mse_loss"): "--loss makes no sense with --inference",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_gets_one_sentence(run, arguments):
    assert MISTAKES[arguments] in refused(run(*arguments))


def test_a_python_without_the_libraries_is_named(run, tmp_path):
    said = refused(run("models.py:Net", python="/nowhere/python"))
    assert "/nowhere/python cannot be started (named by BRIMFUL_PYTHON)" in said
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    said = refused(run("models.py:Net", python=str(bare)))
    assert (
        f"{bare} (named by BRIMFUL_PYTHON) has no brimful and no torch: install with '{bare} -m pip install . torch' in the folder" in said
    )


def test_the_interpreter_of_the_package_s_command_is_used(folder):
    """Without any variable, the Python that started the command runs the model."""
    environment = {key: value for key, value in os.environ.items() if key not in ("BRIMFUL_PYTHON", "VIRTUAL_ENV")}
    command = [sys.executable, "-m", "brimful", "plan", "models.py:with_inputs", "--format", "json"]
    answer = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert report(answer)["model"]["name"] == "Net"


def test_a_part_of_a_step_is_no_verdict(run, folder):
    (folder / "partly.py").write_text(
        "from models import Net\n\n\nclass Partly(Net):\n    def forward(self, x):\n"
        "        x = self.layers(x)\n        raise RuntimeError('half way')\n"
    )
    answer = run("partly.py:Partly", *SHAPE)
    assert answer.returncode == 2 and "half way" in answer.stderr and "error: no verdict: " in answer.stderr
    assert "partial_capture" in [note["code"] for note in json.loads(answer.stdout)["notes"]]


def test_the_example_is_planned():
    answer = subprocess.run(
        [str(BINARY), "plan", "examples/torch_cnn.py:make_trained", "--device", "t4", "--format", "json"],
        check=False, cwd=ROOT, env={**os.environ, "BRIMFUL_PYTHON": sys.executable}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert report(answer)["job"]["batch"] == 16 and answer.stderr == ""

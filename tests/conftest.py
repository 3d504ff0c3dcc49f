"""What the tests share: the command as `make build` leaves it, and model files that Keras itself wrote."""

import array
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forked
import pytest
from framework import run_script
from keras_models import CASES

# Some virtual machines announce AMX and do not let it run: PyTorch's products of bfloat16 end the process there, ours or not. All jobs of the
# tests inherit this.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# Two workers share the cores. PyTorch's threads would spin while they wait for one that has none: a product of two small matrices took forty
# times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A shell lets what it starts in the background ignore Ctrl-C, which the jobs of the tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
BINARY = ROOT / "target" / "release" / "brimful"
#: Files that take long, the longest first. Two workers take a file each in this order: a long one that came last would keep one of them
#: busy while the other has nothing left to do.
LONGEST = (
    "test_fit_examples.py",
    "test_keras_recovery.py",
    "test_docs.py",
    "test_keras_gradients.py",
    "test_torch_accuracy.py",
    "test_real_out_of_memory.py",
    "test_run.py",
    "test_data_budget.py",
    "test_agent.py",
    "test_plan_matches_tensorflow.py",
    "test_fit_command.py",
    "test_demo.py",
    "test_data_frameworks.py",
    "test_torch_command.py",
    "test_torch_config.py",
    "test_torch_step_recovery.py",
    "test_torch_step_resume.py",
    "test_torch_step_gradients.py",
    "test_torch_step.py",
    "test_notebook.py",
    "test_data_examples.py",
    "test_data_memory.py",
    "test_explain.py",
)


def pytest_collection_modifyitems(items):
    """The longest files first, the others as they come."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True)
def same_numbers():
    """PyTorch draws the same weights and batches in every run: what fails once, fails again."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@dataclass(frozen=True)
class Saved:
    """The folder that `save_models.py` wrote, and the parameters that Keras counts in each model."""

    folder: Path
    parameters: dict


@pytest.fixture(scope="session")
def brimful():
    """Runs the command in the repository's root, or elsewhere, and gives what it wrote and its exit code."""
    assert BINARY.exists(), f"{BINARY} is not there: run `make build`"

    def run(*args, cwd=ROOT):
        command = [str(BINARY), *map(str, args)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="session")
def brimful_command():
    """Runs the command of the installed Python package."""

    def run(*args, cwd=ROOT):
        command = [sys.executable, "-m", "brimful", *map(str, args)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="session")
def python_with_torch(tmp_path_factory):
    """An interpreter for what plans PyTorch jobs: its copies have imported what takes most of the time of a small plan."""
    return forked.Interpreter(tmp_path_factory.mktemp("python"), *forked.PLANNING_TORCH)


@pytest.fixture(scope="session")
def recorded():
    """A step of a linear layer, recorded by hand with batches of 8 and 16, in the rows that the extension reads."""
    from brimful import _native

    strings = ["", "aten.addmm", "aten.mm", "fc", "train.py:3"]
    setup, forward, backward = 0, 1, 2

    def rows(batch):
        mark = [[3, 0, 0, 0, 0, 0, phase, -1, 0] for phase in (setup, forward, backward)]
        return [
            mark[setup],
            [0, 0, 1 << 20, 1, 3, 4, 0, -1, 1],
            [4, 0, 0, 0, 0, 0, 0, -1, 0],
            mark[forward],
            [0, 1, batch << 20, 1, 3, 4, 5, 0, 1],
            mark[backward],
            [0, 2, 1 << 20, 2, 3, 4, 1, 1, 1],
            [1, 1, 0, 0, 0, 0, 0, 1, 0],
        ]

    def packed(batch):
        return array.array("q", [value for row in rows(batch) for value in row]).tobytes()

    return _native.Capture(strings, 8, packed(8), 16, packed(16))


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Model files, written once by real Keras."""
    folder = tmp_path_factory.mktemp("models")
    run = run_script("save_models.py", folder)
    assert run.returncode == 0, run.stderr[-3000:]
    return Saved(folder, json.loads((folder / "parameters.json").read_text()))


@pytest.fixture(scope="session")
def plan(brimful, saved):
    """Plans a case for a CPU and gives the exit code and the report."""

    def run(name, *options, batch=None, form="keras"):
        file = saved.folder / f"{name}.{form}"
        batch = batch or CASES[name].batch
        answer = brimful("plan", file, "--device", "cpu", "--batch", batch, "--format", "json", *options)
        assert answer.returncode in (0, 1), answer.stderr
        return answer.returncode, json.loads(answer.stdout)

    return run

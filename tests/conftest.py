"""What the tests share: the command as `make build` leaves it, and model files that Keras itself wrote."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from framework import run_script
from keras_models import CASES

ROOT = Path(__file__).parent.parent
BINARY = ROOT / "target" / "release" / "brimful"


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

"""The examples in `examples/data`, small: with brimful each gives what it gives plainly."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples" / "data"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow"}
#: What the plain version needs besides what every test has.
NEEDS = {"whole_array": (), "chunked_csv": ("pandas",), "mapped_array": (), "lazy_array": ("dask",), "prefetching": ()}


def run(script, *arguments):
    """What a script prints."""
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **QUIET})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    run("make_files.py", made, "--rows", 3000)
    return made


@pytest.mark.parametrize("case", NEEDS)
def test_an_example_gives_the_plain_result(folder, case):
    name, value = run(f"{case}/with_brimful.py", folder)
    missing = [module for module in NEEDS[case] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"the plain version needs {', '.join(missing)}")
    plain_name, plain_value = run(f"{case}/plain.py", folder)
    assert plain_name == name
    # Sums and losses in another order, or of numbers rounded to float32 before and not after.
    assert float(value) == pytest.approx(float(plain_value), rel=1e-3 if name == "loss" else 1e-9)


def test_the_lazy_array_is_written_whole(folder):
    run("lazy_array/with_brimful.py", folder)
    given, doubled = (np.load(folder / name, mmap_mode="r") for name in ("square.npy", "doubled_brimful.npy"))
    assert (np.asarray(given) * 2 == doubled).all()

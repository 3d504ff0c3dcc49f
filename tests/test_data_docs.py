"""The Python of docs/data.md runs as it stands, in one process, on files like those that it names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "data.md"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "train").mkdir()
    names = ",".join([*(f"c{number}" for number in range(10)), "y"])
    for part in range(2):
        rows = rng.normal(size=(20_000, 10))
        lines = [",".join([*(f"{value:.5f}" for value in row), str(number % 5)]) for number, row in enumerate(rows)]
        (tmp_path / "train" / f"{part}.csv").write_text("\n".join([names, *lines]) + "\n")
    return tmp_path


def test_the_page_runs(folder):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.startswith("Fits 64.0 MiB") and "40,000 rows" in run.stdout
    assert {"positive.parquet", "x.npy", "y.npy", "some.parquet", "scaled.parquet", "b.npy"} <= {*os.listdir(folder)}
    assert not [name for name in os.listdir(folder) if "partial" in name]

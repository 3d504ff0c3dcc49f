"""`brimful run` around real training: steps, findings, and why a job died, from its own words and from what was read of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BINARY

JOBS = Path(__file__).parent / "run_jobs"
#: Nobody waits for a GPU that is not there.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def run(tmp_path, job, *arguments, options=(), code=0):
    """What is said about a job of `run_jobs`, and what it prints."""
    command = [str(BINARY), "run", "-o", str(tmp_path / "a.run"), *options, "--", sys.executable, str(JOBS / job), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **QUIET}, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stderr, done.stdout


def rate(said):
    """Bytes of each step that a leak is said to have; none where none is."""
    found = re.search(r"grows by ([\d.]+) (\w+) each step", said)
    return float(found[1]) * UNITS[found[2]] if found else None


def truth(printed):
    """The same, as the job itself has read it: allocators leave gaps, so that it grows by more than it keeps."""
    return int(re.findall(r"truth: (\d+) bytes each step", printed)[-1])


@pytest.mark.parametrize("job", ["tf_leak.py", "torch_leak.py"])
def test_a_small_leak_is_found_with_its_rate(tmp_path, job):
    """One that is ten times as fast is the one below that meets the limit."""
    said, printed = run(tmp_path, job, 700, 100_000)
    assert truth(printed) > 80_000
    assert rate(said) == pytest.approx(truth(printed), rel=0.1), said
    assert "700 training steps" in said


@pytest.mark.parametrize("job", ["tf_leak.py", "torch_leak.py"])
def test_the_same_program_without_the_mistake_has_no_leak(tmp_path, job):
    said, _ = run(tmp_path, job, 1000, 0)
    assert "grows by" not in said
    assert "1,000 training steps" in said


@pytest.mark.parametrize(("job", "limit", "shown"), [("tf_leak.py", "1400MiB", "1.37 GiB"), ("torch_leak.py", "2500MiB", "2.44 GiB")])
def test_a_leak_that_meets_the_limit_is_foreseen_and_named(tmp_path, job, limit, shown):
    said, printed = run(tmp_path, job, 100_000, 1_000_000, options=["--limit", limit], code=137)
    if "address space instead" in said:
        pytest.skip("no cgroup can be made here")
    assert rate(said) == pytest.approx(truth(printed), rel=0.1), said
    assert f"the limit of {shown} is reached" in said
    assert f"at the memory limit of {shown} of its cgroup" in said
    assert "memory grew from step to step until it was gone" in " ".join(said.split())

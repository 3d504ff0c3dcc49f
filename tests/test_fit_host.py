"""Training on a CPU in a control group: running out is not refused there, the kernel ends the process. So it must not come to that."""

import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import memory_limit
import pytest

JOB = Path(__file__).parent / "fit_host_job.py"
LIMIT_BYTES = 440 << 20


def run(how, framework, cache, *group, rows=40960):
    backend = {"step": "torch", "subclass": "tensorflow"}.get(framework, framework)
    environment = {**os.environ, "BRIMFUL_CACHE": str(cache), "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "ROWS": str(rows)}
    if how == "plain":
        modules = ("torch", "torch._dynamo") if framework == "step" else ("keras", "tensorflow")
        return forked.run(JOB, how, framework, *group, env=environment, timeout=400, modules=modules)
    # Not a copy: pages shared with where it comes from count here once they are written, 100 to 160 MiB of them whenever Python collects
    # its garbage, and nothing about the process says so.
    command = [sys.executable, str(JOB), how, framework, *map(str, group)]
    return subprocess.run(command, env=environment, timeout=400, capture_output=True, text=True, check=False)


def losses(done):
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("framework", ["step", "tensorflow", "jax", "torch"])
def test_a_batch_that_would_get_the_process_killed_is_trained(framework, tmp_path):
    with memory_limit.group(LIMIT_BYTES) as folder:
        if folder is None:
            pytest.skip("no cgroup can be made here")
        assert run("plain", framework, tmp_path, folder).returncode == -9, "the whole batch does not fit"
        before = memory_limit.kills(folder)
        first = run("brimful", framework, tmp_path, folder)
        found = losses(first)
        # What was learnt is not taken for more than it is: the second run must live, too.
        again = losses(run("brimful", framework, tmp_path, folder))
        assert memory_limit.kills(folder) == before
    assert "same gradients" in first.stderr
    whole = losses(run("plain", framework, tmp_path))
    assert found == pytest.approx(whole, rel=1e-4) and again == pytest.approx(whole, rel=1e-4)


def test_what_a_killed_run_tried_is_not_tried_again(tmp_path):
    with memory_limit.group(LIMIT_BYTES) as folder:
        if folder is None:
            pytest.skip("no cgroup can be made here")
        # Nothing is known of a model that has no plan: the whole batch is tried.
        assert run("brimful", "subclass", tmp_path, folder, rows=20000).returncode == -9
        second = run("brimful", "subclass", tmp_path, folder, rows=20000)
        found = losses(second)
        third = run("brimful", "subclass", tmp_path, folder, rows=20000)
    assert "the last run was killed for memory with 20000 samples at a time: 2 × 10000 now" in second.stderr
    assert "running 2 × 10000" in third.stderr and "killed" not in third.stderr
    whole = losses(run("plain", "subclass", tmp_path, rows=20000))
    assert found == pytest.approx(whole, rel=1e-4) and losses(third) == pytest.approx(whole, rel=1e-4)


def test_a_batch_that_just_fits_as_the_plan_says_is_taken_in_halves_first(tmp_path):
    with memory_limit.group(LIMIT_BYTES) as folder:
        if folder is None:
            pytest.skip("no cgroup can be made here")
        done = run("brimful", "step", tmp_path, folder, rows=24000)
    assert "asked 24000, running 2 × 12000" in done.stderr, done.stderr
    assert losses(done) == pytest.approx(losses(run("plain", "step", tmp_path, rows=24000)), rel=1e-4)

"""`brimful.explain` and `brimful explain` with failures that are real: exceptions as they are raised, jobs as they die."""

import builtins
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import brimful as package
import numpy as np
import pytest
from conftest import BINARY, ROOT
from framework import environment

sys.path.insert(0, str(ROOT / "tools"))

import record_failures  # noqa: E402

LOGS = ROOT / "fixtures" / "logs"
JOBS = ROOT / "tests" / "explain_jobs"
TEXT = (LOGS / "gpu_torch_optimizer.log").read_text()
MIB = 1 << 20


def started(script, limit_mib=None):
    """A script in a process of its own, in the folder of the jobs."""
    settings = environment(limit_mib) if limit_mib else {**os.environ}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # The log as users have it, with the pool's dump.
    settings["TF_CPP_MIN_LOG_LEVEL"] = "0"
    return subprocess.Popen([sys.executable, "-c", script], cwd=JOBS, env=settings, text=True, **pipes)


def answered(*args, log, code=0):
    """The command's JSON for a log on standard input."""
    command = [BINARY, "explain", "-", "--format", "json", *args]
    run = subprocess.run(command, cwd=ROOT, input=log, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (code, "")
    return json.loads(run.stdout)


# What can be explained.


def test_text_bytes_and_files_are_answered_alike(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(TEXT)
    answers = [package.explain(what).to_dict() for what in (TEXT, TEXT.encode(), str(path), path)]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0] == json.loads(subprocess.run([BINARY, "explain", path, "--format", "json"], capture_output=True, check=True).stdout)
    assert package.explain("Killed").cause == "kernel_oom_kill"
    assert not package.explain("").to_dict()["evidence"]
    assert not package.explain("nothing here")
    with pytest.raises(FileNotFoundError):
        package.explain("nothing.log")


def test_numpy_s_own_error_says_how_much_and_which_shape():
    with pytest.raises(MemoryError) as caught:
        np.zeros((400_000, 400_000))
    explanation = package.explain(caught.value)
    assert (explanation.resource, explanation.cause) == ("host_memory", "tensor_too_large")
    assert explanation.numbers["shape"] == [400_000, 400_000]
    assert explanation.numbers["requested_bytes"] == pytest.approx(8 * 400_000**2, rel=0.01)


def raised_from():
    try:
        np.zeros((400_000, 400_000))
    except MemoryError as error:
        raise RuntimeError("the kernel matrix could not be made") from error


def raised_during():
    try:
        np.zeros((400_000, 400_000))
    except MemoryError:
        {}["missing"]


def raised_again():
    try:
        np.zeros((400_000, 400_000))
    except MemoryError:
        raise RuntimeError("the first reason is hidden") from None


@pytest.mark.parametrize("fails", [raised_from, raised_during])
def test_what_caused_an_exception_counts(fails):
    with pytest.raises((RuntimeError, KeyError)) as caught:
        fails()
    explanation = package.explain(caught.value)
    assert (explanation.resource, explanation.cause) == ("host_memory", "tensor_too_large")
    assert any("Unable to allocate" in line["text"] for line in explanation.evidence)


def test_what_the_interpreter_would_not_print_does_not_count():
    with pytest.raises(RuntimeError) as caught:
        raised_again()
    assert package.explain(caught.value).resource is None


def test_exceptions_of_every_kind_are_read():
    class Odd(Exception):
        def __str__(self):
            return "CUDA out of memory. Tried to allocate 2.00 GiB \udcff\0"

    assert package.explain(Odd()).resource == "gpu_memory"
    assert package.explain(KeyError("memory")).resource is None
    assert package.explain(KeyboardInterrupt()).resource is None


def test_a_group_of_exceptions_is_read():
    group = getattr(builtins, "ExceptionGroup", None)
    if group is None:
        pytest.skip("this Python has no groups of exceptions")
    failed = MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data type float64")
    assert package.explain(group("workers", [failed])).numbers["requested_bytes"] == pytest.approx(8e9, rel=0.01)


def test_without_an_argument_it_is_what_is_handled():
    try:
        np.zeros((400_000, 400_000))
    except MemoryError:
        assert package.explain().cause == "tensor_too_large"
    else:
        pytest.fail("1.2 TiB were there")


def test_without_an_argument_it_is_what_the_interpreter_showed_last():
    lines = "import brimful, numpy\nnumpy.zeros((400_000, 400_000))\nprint(brimful.explain().cause)\n"
    run = subprocess.run([sys.executable, "-i", "-q"], input=lines, capture_output=True, text=True, timeout=60)
    assert run.stdout.split() == ["tensor_too_large"], run.stderr


def test_nothing_to_explain_is_a_value_error(monkeypatch):
    for name in ("last_exc", "last_value"):
        monkeypatch.delattr(sys, name, raising=False)
    with pytest.raises(ValueError, match="no exception is being handled"):
        package.explain()


@pytest.mark.parametrize("what", [3, 4.5, ["Killed"], {}, object(), ValueError])
def test_other_types_are_refused(what):
    with pytest.raises(TypeError, match=f"not {type(what).__name__}"):
        package.explain(what)


def test_a_path_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        package.explain(tmp_path / "absent.log")


# The answer.


def test_the_answer_has_what_the_page_says():
    explanation = package.explain(TEXT)
    assert isinstance(explanation, package.Explanation) and bool(explanation)
    assert (explanation.resource, explanation.cause, explanation.confidence) == ("gpu_memory", "optimizer_state", "likely")
    assert explanation.because and all(isinstance(reason, str) for reason in explanation.because)
    assert explanation.numbers["requested_bytes"] == 256 * MIB
    assert explanation.evidence[0]["line"] == 18 and TEXT.splitlines()[17].startswith(explanation.evidence[0]["text"][:200])
    assert explanation.missing == []
    assert {"id", "title", "same_result"} <= set(explanation.remedies[0])
    assert explanation.to_dict()["schema"] == 1
    changed = explanation.to_dict()
    changed["resource"] = None
    assert explanation.to_dict()["resource"] == "gpu_memory"


def test_the_answer_is_shown_as_the_command_shows_it(brimful):
    explanation = package.explain(TEXT)
    assert str(explanation) == explanation.to_text(80) == brimful("explain", LOGS / "gpu_torch_optimizer.log").stdout
    assert repr(explanation) == explanation.to_text()
    assert "\x1b[" in explanation.to_text(80, colour=True) and "\x1b[" not in str(explanation)
    assert max(map(len, explanation.to_text(200).splitlines())) > max(map(len, explanation.to_text(60).splitlines()))


def test_an_answer_without_a_cause_is_false():
    explanation = package.explain(LOGS / "gpu_jax_second.log")
    assert not explanation and explanation.resource == "gpu_memory"
    assert (explanation.cause, explanation.confidence, explanation.because) == (None, None, [])
    assert all({"fact", "how"} == set(missing) for missing in explanation.missing) and explanation.missing


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "explain.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    shutil.copy(LOGS / "tf_cnn_batch.log", tmp_path / "train.log")
    monkeypatch.chdir(tmp_path)
    said, names = io.StringIO(), {"train": lambda: np.zeros((400_000, 400_000)), "brimful": package}
    for block in blocks:
        with contextlib.redirect_stdout(said), contextlib.suppress(MemoryError):
            exec(block, names)
    assert said.getvalue().startswith("Host memory ran out: ") and said.getvalue().endswith(f"\n{64 * MIB}\n")


def test_explaining_imports_no_framework():
    script = (
        "import brimful, sys; brimful.explain('Killed').to_text();"
        "print([name for name in ('torch', 'tensorflow', 'keras', 'jax', 'numpy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "[]"


# Frameworks that really run out.

TORCH = """
import brimful, json, torch
from limits import allow_more

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1))
x = torch.randn(16384, 256)
model(x[:2]).sum().backward()
allow_more(100 << 20)
try:
    model(x).sum().backward()
except RuntimeError as error:
    print(json.dumps(brimful.explain(error).to_dict()))
"""


def test_torch_under_a_limit_is_explained_where_it_failed():
    pytest.importorskip("torch")
    out, said = started(TORCH).communicate(timeout=120)
    answer = json.loads(out or said)
    assert (answer["resource"], answer["cause"]["code"]) == ("host_memory", "batch_too_large"), answer
    assert answer["numbers"]["requested_bytes"] == 16384 * 4096 * 4
    assert "forward pass" in answer["doing"]


#: The job of the recording, with the batch as its argument, explained where its exception arrives.
TENSORFLOW = """
import brimful, json, runpy, sys
sys.argv, sys.path[0] = ["tf_cnn.py", "{batch}"], "."
try:
    runpy.run_path("tf_cnn.py", run_name="__main__")
except Exception as error:
    print(json.dumps(brimful.explain(error).to_dict()), file=sys.stdout)
    raise
"""


@pytest.fixture(scope="module")
def trained():
    """The job under the limit of its recording, with the batch that failed then and with the one that the plan gives: at once, each waits."""
    pytest.importorskip("tensorflow")
    runs = {batch: started(TENSORFLOW.format(batch=batch), limit_mib=150) for batch in (512, 128)}
    return {batch: (*run.communicate(timeout=200), run.returncode) for batch, run in runs.items()}


def test_tensorflow_under_a_limit_is_explained_where_it_failed(trained):
    out, said, code = trained[512]
    assert code == 1, said[-2000:]
    answer = json.loads(out.splitlines()[-1])
    assert (answer["resource"], answer["cause"]["code"]) == ("host_memory", "batch_too_large")
    assert answer["numbers"]["shape"] == [512, 32, 32, 32]
    assert answer["numbers"]["requested_bytes"] == 64 * MIB


def test_the_batch_that_the_plan_gives_trains_and_the_other_does_not(trained):
    answer = answered("--plan", "fixtures/models/explained/tf_cnn.json", log=trained[512][1])
    planned = answer["planned"]
    assert (answer["cause"]["code"], planned["failed"]["batch"]) == ("batch_too_large", 512)
    assert (planned["memory_bytes"], planned["max_batch"]) == (150 * MIB, 128)
    out, said, code = trained[planned["max_batch"]]
    assert code == 0 and "Epoch 2/2" in out, said[-2000:]
    assert "ran out of memory" not in said


@pytest.mark.parametrize("name", ["torch_forward", "numpy_huge", "subprocess_killed", "disk_text", "open_files", "memory_error_list"])
def test_a_job_that_dies_is_explained_by_the_pipe_behind_it(name):
    job = next(job for job in json.loads((JOBS / "jobs.json").read_text()) if job["name"] == name)
    for library in job.get("needs", []):
        pytest.importorskip(library)
    piped = {**job, "command": f"({job['command']}\nexit $?) 2>&1 | {BINARY} explain - --format json"}
    groups = []
    with tempfile.TemporaryDirectory() as work:
        try:
            if limit := job.get("memory_cgroup_bytes"):
                groups.append(record_failures.cgroup("memory", limit))
            output, code = record_failures.run(piped, Path(sys.executable), Path(work), groups)
        except record_failures.Impossible as why:
            pytest.skip(f"{name}: {why}")
        finally:
            for group in groups:
                record_failures.remove_cgroup(group)
    answer = json.loads(output)
    expected = job["expected"]
    assert (answer["resource"], (answer["cause"] or {}).get("code")) == (expected["resource"], expected["cause"]), answer
    assert code == (0 if expected["cause"] else 1)

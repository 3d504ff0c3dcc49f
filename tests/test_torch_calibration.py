"""`brimful calibrate`: what is kept, which plans use it, and files that cannot be used. The measurement itself needs a GPU."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BINARY

torch = pytest.importorskip("torch")

import brimful  # noqa: E402
from brimful.torch import calibrate, calibration, devices  # noqa: E402

MIB = 1 << 20
NO_GPU = not torch.cuda.is_available()


def entry(**changes):
    figures = {
        "gpu": "NVIDIA H200",
        "driver": "580.1",
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "bare_context_bytes": 619 * MIB,
        "context_bytes": 900 * MIB,
        "cublas_bytes": 48 * MIB,
        "cublas_lt_bytes": 2 * MIB,
        "cublas_backward_bytes": 48 * MIB,
        "stages": (("bare context", 619 * MIB), ("attention", 900 * MIB)),
    }
    return calibration.Entry(**{**figures, **changes})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "brimful" / "calibration.json"


def planned():
    plan = brimful.plan(torch.nn.Linear(64, 64), (8, 64), device="h200")
    return plan, [note["code"] for note in plan.report["assumptions"]]


def run_command(tmp_path, *args):
    environment = {**os.environ, "BRIMFUL_PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path)}
    return subprocess.run([str(BINARY), "calibrate", *args], check=False, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    answer = run_command(tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"error: there is no GPU to measure: torch.cuda.is_available() is False in {sys.executable}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(NO_GPU, reason="there is no GPU")
def test_a_gpu_is_measured_and_its_plans_use_that(tmp_path, cache):
    answer = run_command(tmp_path, "--format", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert 50 * MIB < found["bare_context_bytes"] <= found["context_bytes"] < 4096 * MIB
    assert found["cublas_bytes"] > 0 and found["cublas_backward_bytes"] > 0
    plan = brimful.plan(torch.nn.Linear(64, 64), (8, 64))
    assert plan.breakdown["context"] == found["context_bytes"]


def test_what_is_kept_is_read_again(cache):
    assert calibration.read() == []
    calibration.keep(entry())
    calibration.keep(entry(gpu="Tesla T4"))
    calibration.keep(entry(context_bytes=950 * MIB))
    assert [(each.gpu, each.context_bytes) for each in calibration.read()] == [("Tesla T4", 900 * MIB), ("NVIDIA H200", 950 * MIB)]
    assert [file.name for file in cache.parent.iterdir()] == ["calibration.json"], "nothing is left of the writing"


def test_plans_for_that_gpu_use_the_figures(cache):
    before, codes = planned()
    assert 740 * MIB <= before.breakdown["context"] <= 770 * MIB and "calibrated" not in codes
    calibration.keep(entry())
    after, codes = planned()
    assert after.breakdown["context"] == 900 * MIB and "calibrated" in codes
    assert after.peak.allocated_bytes > before.peak.allocated_bytes, "the workspace of cuBLAS is the measured one"
    usable = [plan.report["device"]["usable_bytes"] for plan in (before, after)]
    assert usable[0] == usable[1], "the whole device, context included"
    assert "900 MiB, was measured" in after.text(200)


def test_other_gpus_and_versions_are_not_taken(cache):
    for other in (entry(gpu="Tesla T4"), entry(torch="1.0"), entry(cuda="9.0"), entry(gpu="A GPU of nobody's")):
        cache.unlink(missing_ok=True)
        calibration.keep(other)
        assert "calibrated" not in planned()[1]
    calibration.keep(entry())
    found, notes = calibration.find("NVIDIA H200", torch.__version__, str(torch.version.cuda), "999.1")
    assert found is None and notes[0]["code"] == "calibration_old" and "driver 580.1" in notes[0]["text"]
    assert calibration.find("NVIDIA H200", torch.__version__, str(torch.version.cuda), "580.1")[0] == entry()


GOOD = json.dumps({"schema": 1, "entries": [{**entry().__dict__}]})
WRONG = [
    "", "{", "[]", "null", "3", '{"schema": 2, "entries": []}', '{"entries": []}', '{"schema": 1, "entries": [3]}', '{"schema": 1, "entries": {}, "x": 1',
    GOOD.replace(str(900 * MIB), '"much"'), GOOD.replace(str(900 * MIB), "-1"), GOOD.replace(str(900 * MIB), "1" + "0" * 30), GOOD[:-20], "[" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_file_that_cannot_be_used_is_ignored_with_a_note(cache, text):
    cache.parent.mkdir()
    cache.write_text(text)
    plan, codes = planned()
    assert "calibration_unreadable" in codes and 740 * MIB <= plan.breakdown["context"] <= 770 * MIB
    calibration.keep(entry())
    assert calibration.read() == [entry()], "a new measurement takes its place"


def test_a_file_that_is_no_text_or_no_file(cache):
    cache.parent.mkdir()
    cache.write_bytes(b"\xff\xfe\x00")
    assert "calibration_unreadable" in planned()[1]
    cache.unlink()
    cache.mkdir()
    assert "calibration_unreadable" in planned()[1]


def test_what_others_held_is_that_of_the_same_gpu():
    class Properties:
        uuid = "aa-bb"

    assert calibrate._before(Properties, {"GPU-cc": "5", "GPU-aa-bb": "7"}) == 7 * MIB
    assert calibrate._before(Properties, {"GPU-cc": "5", "GPU-dd": "6"}) is None
    assert calibrate._before(Properties, {"GPU-cc": "[N/A]"}) is None
    assert calibrate._before(Properties, {}) is None


def test_the_table_reads_well():
    text = calibrate.table(entry(), ["Others held 5 MiB."], "/cache/calibration.json")
    assert "NVIDIA H200, driver 580.1" in text and "Plans for this GPU now count 900 MiB" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_process_s_own_context_is_not_held_by_others(cache, monkeypatch):
    class Properties:
        name, major, minor, multi_processor_count, max_threads_per_multi_processor = "NVIDIA H200", 9, 0, 132, 2048

    total = 150_109_880_320
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (total - 719 * MIB, total))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 0)
    monkeypatch.setattr(calibration, "driver_version", lambda: "580.1")
    request, gpu, notes = devices.resolve(None)
    assert 0 < request["held_by_others_bytes"] < 719 * MIB and "context_bytes" not in request and notes == []
    calibration.keep(entry())
    request, gpu, notes = devices.resolve(None)
    assert (request["held_by_others_bytes"], request["context_bytes"]) == (100 * MIB, 900 * MIB)
    assert (gpu.cublas_bytes, gpu.cublas_lt_bytes, notes[0]["code"]) == (48 * MIB, 2 * MIB, "calibrated")


def test_all_that_is_measured_runs(monkeypatch):
    """The work itself, on the CPU, with a GPU's counters played back: a stage that cannot run would be found on a GPU only."""

    class Properties:
        name, uuid = "NVIDIA H200", "aa"

    total, held = 1 << 37, iter(range(620, 1000, 10))
    monkeypatch.setattr(calibrate, "DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (total - next(held) * MIB, total))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 2 * MIB)
    allocated = iter([0, 32 * MIB, 32 * MIB, 33 * MIB, 33 * MIB, 65 * MIB])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: next(allocated))
    monkeypatch.setattr(calibration, "driver_version", lambda: "580.1")
    found, notes = calibrate.measure(torch, {"GPU-aa": "100"})
    assert (found.bare_context_bytes, found.context_bytes) == (518 * MIB, 578 * MIB)
    assert (found.cublas_bytes, found.cublas_lt_bytes, found.cublas_backward_bytes) == (32 * MIB, MIB, 32 * MIB)
    assert len(found.stages) == 7 and "Others held 100 MiB" in notes[0]

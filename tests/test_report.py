"""`brimful report`: what it says of a recording, what other programs read of it, and bad recordings."""

import csv
import io
import json
import os
import subprocess

import pytest
import recordings
from conftest import BINARY
from recordings import GIB, MB, Recorder, leaking_job


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The recording of a job that was killed at its limit."""
    path = tmp_path_factory.mktemp("run") / "job.brimful"
    path.write_bytes(leaking_job().bytes())
    return path


def report(brimful, *args):
    answer = brimful("report", *args)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def refused(brimful, *args):
    answer = brimful("report", *args)
    assert answer.returncode == 2 and answer.stdout == "", answer
    assert answer.stderr.count("\n") == 1 or "Usage" in answer.stderr, answer.stderr
    return answer.stderr


def test_the_text_says_what_happened(brimful, run):
    text = report(brimful, run)
    first = text.splitlines()
    assert first[0] == "Killed for memory by the kernel after 2 min 0 s, at 12:02:00 UTC."
    assert first[1] == "python train.py --epochs 3"
    for said in (
        "of 8.00 GiB (99 %)",
        "Held then by python (process 4242)",
        "Memory leaks from step to step",
        "Keep numbers, not tensors",
        "40.0 s: Memory grows",
    ):
        assert said in text, text
    assert max(map(len, first)) <= 80


def test_the_json_has_the_same_for_programs(brimful, run):
    said = json.loads(report(brimful, run, "--format", "json"))
    assert (said["schema"], said["kind"], said["outcome"]) == (1, "run", "killed_for_memory")
    assert said["peak"]["limit_bytes"] == 8 * GIB and said["peak"]["held_bytes"] < 8 * GIB
    assert said["holders"]["processes"][0]["pid"] == 4242
    assert said["gpus"][0]["total_bytes"] == 16 * GIB
    assert said["frameworks"][0]["device"] == "cuda:0"
    assert said["steps"]["last"] == 575 and said["steps"]["waited_share"] == pytest.approx(0.3, abs=0.01)
    assert [finding["code"] for finding in said["findings"]] == ["leak_host", "near_limit"]
    assert said["explanation"]["cause"]["code"] == "leak"
    assert said["recording"]["bad_bytes"] == 0


def test_csv_has_a_row_for_each_sample_and_all_figures(brimful, run):
    rows = list(csv.DictReader(io.StringIO(report(brimful, run, "--format", "csv"))))
    assert len(rows) == 1200
    spike = next(row for row in rows if int(row["at_ms"]) == recordings.SPIKE_MS)
    beside = next(row for row in rows if int(row["at_ms"]) == recordings.SPIKE_MS + 100)
    assert int(spike["rss_bytes"]) - int(beside["rss_bytes"]) > 600 * MB
    assert spike["date"] == "2026-11-15T12:01:01.300Z"
    assert set(recordings.sample_figures()) <= set(spike)
    assert spike["gpu0_total_bytes"] == str(16 * GIB) and spike["torch_cuda:0_4242_reserved_bytes"] == str(5 * GIB)
    assert spike["step"] == "282" and spike["epoch"] == "1" and float(spike["loss"]) == pytest.approx(2.3 / (1 + 282 / 80))
    assert rows[0]["step"] == "" and rows[0]["cgroup_peak_bytes"] == ""
    assert None not in spike


def test_a_trace_for_perfetto(brimful, run, tmp_path):
    report(brimful, run, "--format", "perfetto", "-o", tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"Memory of the job: resident", "Memory of GPU 0: the job", "CPU cores in use: cores", "Loss: loss"} <= counters
    spike = [
        event
        for event in events
        if event["ph"] == "C" and event["name"].endswith(": resident") and event["ts"] == recordings.SPIKE_MS * 1000
    ]
    assert len(spike) == 1
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    assert slices["evaluate"]["ts"] == 50_000_000 and slices["evaluate"]["dur"] == 8_000_000
    assert {"epoch 0", "epoch 1", "epoch 2"} <= set(slices)
    instants = [event["name"] for event in events if event["ph"] == "i"]
    assert instants == ["leak_host", "near_limit", "end"]


def test_tensorboards_own_reader_reads_the_events(brimful, run, tmp_path):
    tensorflow = pytest.importorskip("tensorflow")
    from tensorflow.python.summary.summary_iterator import summary_iterator

    report(brimful, run, "--format", "tensorboard", "-o", tmp_path / "runs" / "job")
    (file,) = (tmp_path / "runs" / "job").iterdir()
    assert file.name == "events.out.tfevents.1794744000.brimful"
    scalars, last = {}, 0
    for event in summary_iterator(str(file)):
        assert event.wall_time >= last
        last = event.wall_time
        for value in event.summary.value:
            scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    assert {"memory/rss", "memory/limit", "gpu0/used", "gpu_busy/gpu0", "train/loss", "torch/cuda:0/reserved/4242"} <= set(scalars)
    assert len(scalars["memory/rss"]) == 1200
    assert scalars["train/loss"][-1] == (575, pytest.approx(2.3 / (1 + 575 / 80), rel=1e-6))
    assert scalars["memory/limit"][0][1] == 8 * GIB
    # The reader of records checks the checksums: a file with one byte changed is refused.
    broken = bytearray(file.read_bytes())
    broken[len(broken) // 2] ^= 1
    file.write_bytes(broken)
    with pytest.raises(tensorflow.errors.DataLossError):
        list(summary_iterator(str(file)))


def test_the_ending_of_the_file_says_the_format(brimful, run, tmp_path):
    for name, begins in (("r.html", "<!doctype html>"), ("r.csv", "at_ms,date,"), ("r.json", "{"), ("r.txt", "Killed for memory")):
        report(brimful, run, "-o", tmp_path / name)
        assert (tmp_path / name).read_text().startswith(begins)
    assert "does not say what to write" in refused(brimful, run, "-o", tmp_path / "report")
    assert "does not say what to write" in refused(brimful, run, "-o", tmp_path / "report.pdf")


def test_recordings_that_are_none(brimful, tmp_path, run):
    good = run.read_bytes()

    def said(content, name="x.brimful"):
        (tmp_path / name).write_bytes(content)
        return refused(brimful, tmp_path / name)

    assert "is empty: nothing was recorded" in said(b"")
    assert "this is not a recording of brimful" in said(b"\x7fELF" + bytes(1000))
    assert "this is not a recording of brimful" in said(b"PK\x03\x04")
    assert "breaks off in its first entry" in said(b"BRIMFUL-RUN")
    assert "is of version 2, this brimful reads up to 1: update brimful" in said(good[:12] + b"\x02\x00" + good[14:])
    assert "breaks off in its first entry" in said(good[:40])
    assert "is a folder" in refused(brimful, tmp_path)
    assert "absent: there is no such file" in refused(brimful, tmp_path / "absent")
    assert "cannot be written: No such file" in refused(brimful, run, "-o", tmp_path / "absent" / "r.html")
    assert "is a folder: name a file in it" in refused(brimful, run, "--format", "html", "-o", tmp_path)
    assert "is the recording itself" in refused(brimful, run, "--format", "html", "-o", run)
    assert run.read_bytes() == good


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_recording_that_may_not_be_read(brimful, tmp_path):
    path = tmp_path / "x.brimful"
    path.write_bytes(leaking_job(1).bytes())
    path.chmod(0)
    assert "cannot be opened: Permission denied" in refused(brimful, path)


def test_a_torn_recording_says_how_much_is_good(brimful, run, tmp_path):
    good = run.read_bytes()
    torn = tmp_path / "torn.brimful"
    torn.write_bytes(good[: len(good) // 2])
    answer = brimful("report", torn, "-o", tmp_path / "torn.html")
    assert answer.returncode == 0 and "are torn or damaged" in answer.stderr and "torn.html has what could be read" in answer.stderr
    page = (tmp_path / "torn.html").read_text()
    assert "The recording stops" in page and "entries before them are good" in page
    damaged = bytearray(good)
    damaged[len(good) * 3 // 4] ^= 0x10
    torn.write_bytes(damaged)
    said = json.loads(brimful("report", torn, "--format", "json").stdout)
    assert said["outcome"] == "not_recorded" and said["recording"]["bad_bytes"] > 0
    assert said["duration_ms"] > 60_000


def test_jobs_of_which_little_is_known(brimful, tmp_path):
    path = tmp_path / "x.brimful"
    path.write_bytes(Recorder().bytes())
    assert "The recording stops after 0.0 s" in report(brimful, path)
    assert "Nothing was sampled" in report(brimful, path, "--format", "html")
    job = Recorder(command=["./a b", "it's"])
    job.sample(0, rss_bytes=5 * MB)
    job.end(900, exit_code=0, oom_kills=2)
    path.write_bytes(job.bytes())
    text = report(brimful, path)
    assert text.startswith("Ended after 0.9 s, but 2 of its processes were killed for memory.\n'./a b' 'it'\\''s'\n")
    for how, said in (
        ({"exit_code": 0}, "Ended well after"),
        ({"exit_code": 3}, "Failed with exit code 3 after"),
        ({"signal": 15}, "Killed by signal 15 (SIGTERM) after"),
        ({"signal": 9, "oom_kills": 0}, "The kernel counts no kill for memory: somebody sent it."),
        ({"signal": 40}, "Killed by signal 40"),
        ({}, "how is not known"),
    ):
        job = Recorder()
        job.end(1, **how)
        path.write_bytes(job.bytes())
        assert said in " ".join(report(brimful, path).split())


def test_wild_figures_do_no_harm(brimful, tmp_path):
    job = Recorder(started_unix_ms=2**64 - 1, command=["x"] * 5000)
    for at_ms, rss in ((5, 2**63), (2**62, 0), (3, 2**64 - 1)):
        job.sample(at_ms, rss_bytes=rss, peak_rss_bytes=rss, machine_total_bytes=1, machine_available_bytes=2**64 - 1)
    job.step(4, 2**63, epoch=2**64 - 1, loss=float("nan"), waited_us=2**63)
    job.step(2**61, 1, epoch=0, loss=float("inf"))
    for index in range(300):
        job.gpu(1, index % 256, used_bytes=2**60)
        job.framework(1, index, "torch" + "x" * 100, "=cuda", 1, None, None, 0)
    job.finding(2**63, "x", "y" * 10_000)
    path = tmp_path / "wild.brimful"
    path.write_bytes(job.bytes())
    for format in ("text", "html", "csv", "json", "perfetto"):
        assert report(brimful, path, "--format", format)
    report(brimful, path, "--format", "tensorboard", "-o", tmp_path / "x.tfevents")


def test_a_day_is_a_small_page_with_its_spike(brimful, tmp_path):
    """864,000 samples; what is limited is the size of the page and the memory that it takes, not the time."""
    job = Recorder(command=["python", "train.py"], started_unix_ms=1)
    for tick in range(864_000):
        rss = 3 * GIB + tick * 977 % 5_000_000 + (GIB if tick == 654_321 else 0)
        job.sample(
            tick * 100, rss_bytes=rss, cpu_ms=tick * 130, disk_read_bytes=tick * 4096, cgroup_limit_bytes=8 * GIB, cgroup_used_bytes=rss
        )
    path = tmp_path / "day.brimful"
    path.write_bytes(job.bytes())
    # All samples as they are would take half a gigabyte.
    limited = ["sh", "-c", 'ulimit -v 131072 && exec "$@"', "sh", BINARY, "report", path, "-o", tmp_path / "day.html"]
    answer = subprocess.run(limited, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    page = (tmp_path / "day.html").read_bytes()
    assert len(page) < 1_500_000
    data = json.loads(page.split(b'id="data">')[1].split(b"</script>")[0])
    (resident,) = [series for panel in data["panels"] for series in panel["series"] if series["name"] == "resident"]
    assert len(resident["x"]) <= 2000
    at, heights = 0, {}
    for x, y in zip(resident["x"], resident["y"], strict=True):
        at += x
        heights[at] = y
    assert 65_432_100 in heights and heights[65_432_100] > 900_000

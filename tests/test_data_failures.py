"""What happens to readers and writers: a disk that fills, Ctrl-C, a file that is cut while it is read, a process that is killed.

Each in a real process. There must be an error with the place and what to do, nothing under the final name, and no thread left.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY
from data_sources import make

JOBS = Path(__file__).parent / "data_failure_jobs.py"
ROWS = 20_000
#: Beyond this somebody hangs.
HANGS_S = 120


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows as files of several formats."""
    folder = tmp_path_factory.mktemp("files")
    return {kind: make(kind, folder, ROWS).paths[0] for kind in ("csv", "csv_gz", "npy")}


@pytest.fixture(scope="module")
def small_disk():
    """Runs a command with a folder that has room for 8 MiB; gives its exit code, what it wrote, and what is left in the folder."""
    script = 'mount -t tmpfs -o size=8m none "$0" || exit 99; "$@"; code=$?; echo "left: $(ls -A "$0")"; exit $code'

    def run(folder, *command):
        inside = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, str(folder), *map(str, command)]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=HANGS_S)
        written, left = done.stdout.rsplit("left:", 1) if "left:" in done.stdout else (done.stdout, "")
        return done.returncode, written, done.stderr, left.strip()

    return run


@pytest.fixture
def disk(tmp_path, small_disk):
    """A folder on which the small disk is mounted for a command."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        if small_disk(folder, "true")[0] != 0:
            pytest.skip("no file system can be mounted here")
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    return folder


def job(what, *arguments):
    """The command of a job."""
    return [sys.executable, JOBS, what, *arguments]


@pytest.mark.parametrize(
    ("what", "kind", "sentence"),
    [
        ("shuffled", "csv", "the rows of a global shuffle cannot be kept there: No space left on device"),
        ("unpacked", "csv_gz", "stay free; give another folder (scratch=)"),
        ("mapped", "csv", "out.npy: No space left on device"),
        ("lazily", "npy", "out.npy: No space left on device"),
    ],
)
def test_a_disk_that_fills_is_said_and_nothing_is_left(disk, small_disk, files, what, kind, sentence):
    code, written, errors, left = small_disk(disk, *job(what, files[kind], disk))
    assert code == 0, errors
    assert written.startswith("FileUnreadable: ") and sentence in written, written
    assert "threads left: 0" in written
    assert left == ""


@pytest.mark.parametrize("order", ["none", "global"])
def test_convert_onto_a_disk_that_fills(disk, small_disk, files, order):
    command = [BINARY, "data", "convert", files["npy"], "-o", disk / "out.npy", "--memory", "16MiB", "--shuffle", order]
    code, written, errors, left = small_disk(disk, *command)
    assert (code, written, left) == (2, "", ""), errors
    assert errors.startswith("error: ") and "out.npy: No space left on device" in errors


@pytest.mark.parametrize(("kind", "order"), [("csv", "global"), ("csv_gz", "none")])
def test_the_command_with_a_full_disk_for_scratch(disk, small_disk, files, tmp_path, kind, order):
    output = tmp_path / "out.npy"
    options = ["--memory", "16MiB", "--shuffle", order, "--scratch", disk]
    code, _, errors, left = small_disk(disk, BINARY, "data", "convert", files[kind], "-o", output, *options)
    assert (code, left) == (2, ""), errors
    assert str(disk) in errors and "scratch" in errors and len(errors.splitlines()) == 1
    assert [*tmp_path.iterdir()] == [disk]


def started(command):
    """A process whose output is read by the line."""
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_while_a_batch_is_awaited(tmp_path):
    path = make("csv", tmp_path, 100_000).paths[0]
    process = started(job("waiting", path))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    written, errors = process.communicate(timeout=HANGS_S)
    assert written == "KeyboardInterrupt: \nthreads left: 0\n", (written, errors)


def test_ctrl_c_while_files_are_opened(tmp_path):
    # A hole of a terabyte, which is read as zeros: without being heard, opening goes on far beyond the time limit.
    path = tmp_path / "endless.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000)
    os.truncate(path, 1 << 40)
    process = started(job("opening", path))
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        written, errors = process.communicate(timeout=HANGS_S)
    finally:
        process.kill()
    assert written == "KeyboardInterrupt: \nthreads left: 0\n", (written, errors)


@pytest.mark.parametrize(("ended_by", "may_stay"), [(signal.SIGINT, False), (signal.SIGKILL, True)])
def test_python_that_is_ended_while_it_writes(tmp_path, files, ended_by, may_stay):
    process = started(job("halfway", files["csv"], tmp_path))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(ended_by)
    written, errors = process.communicate(timeout=HANGS_S)
    left = [path.name for path in tmp_path.iterdir()]
    if may_stay:
        assert process.returncode == -signal.SIGKILL
        assert all(name.endswith(".partial") for name in left)
    else:
        assert written == "KeyboardInterrupt: \nthreads left: 0\n", errors
        assert left == []


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_convert_that_is_ended(tmp_path, files, ended_by):
    folder = tmp_path / "out"
    folder.mkdir()
    # A row at a time: there is time to end it.
    process = started([BINARY, "data", "convert", files["csv"], "-o", folder / "out.npy", "--batch", 1, "--quiet"])
    while not [*folder.glob(".*.partial")]:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    process.send_signal(ended_by)
    _, errors = process.communicate(timeout=HANGS_S)
    left = [path.name for path in folder.iterdir()]
    if ended_by == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert all(name.endswith(".partial") for name in left)
    else:
        assert process.returncode == 128 + ended_by, errors
        assert errors == f"error: {folder / 'out.npy'} was not written: interrupted\n"
        assert left == []


@pytest.mark.parametrize("what", ["truncated", "gone"])
@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_file_that_is_cut_while_it_is_read(tmp_path, kind, what):
    path = make(kind, tmp_path, ROWS).paths[0]
    done = subprocess.run([*map(str, job(what, path))], capture_output=True, text=True, timeout=HANGS_S)
    error, sentence = done.stdout.splitlines()[0].split(": ", 1)
    assert error in ("DataError", "FileUnreadable") and sentence.startswith(str(path)), done
    assert "changed" in sentence or "cut" in sentence or "ends" in sentence, sentence
    assert done.stdout.splitlines()[1] == "threads left: 0"


def test_a_folder_that_cannot_be_written(tmp_path, files):
    done = subprocess.run([*map(str, job("mapped", files["npy"], tmp_path / "not" / "there"))], capture_output=True, text=True)
    assert done.stdout.startswith("FileUnreadable: ") and "No such file or directory" in done.stdout, done


def test_threads_end_with_their_epoch(files):
    import brimful.data

    before = len(os.listdir("/proc/self/task"))
    loader = brimful.data.open(files["csv"], dtype="float64").batches(64, memory="8MiB", threads=4)
    for number, batch in enumerate(loader):
        if number == 5:
            kept = np.array(batch)
            break
    del batch
    loader.close()
    assert len(os.listdir("/proc/self/task")) == before
    assert kept.shape == (64, 250)

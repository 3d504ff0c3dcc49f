"""What is noted about a size before it is tried, where running out of memory ends the process."""

import json
import os
import subprocess
import sys

import pytest
from brimful.fitting import trial
from brimful.fitting.learnt import Learnt
from brimful.fitting.trial import STEPS, Trial

ROOM = 1 << 30


class Machine:
    """A machine as the kernel shows it, with a folder for what is learnt."""

    def __init__(self, root, monkeypatch):
        self.root, self._monkeypatch = root, monkeypatch
        self.shows(kills=3, boot="one")

    def shows(self, kills, boot="one"):
        (self.root / "proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
        (self.root / "proc/vmstat").write_text("nr_free_pages 5\n" + (f"oom_kill {kills}\n" if kills is not None else "") + "pgfault 9\n")
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{boot}\n")

    def runs(self, process, since):
        (self.root / f"proc/{process}").mkdir(parents=True, exist_ok=True)
        (self.root / f"proc/{process}/stat").write_text(f"{process} (a (b) c) S {' '.join(['0'] * 18)} {since} 0 0\n")

    def started(self):
        """A new process's note, and what it has learnt."""
        self._monkeypatch.setattr(trial, "_written", set())
        self._monkeypatch.setattr(trial, "_passed", {})
        learnt = Learnt({"model": "one"})
        return Trial(learnt, self.root), learnt


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path / "cache"))
    return Machine(tmp_path, monkeypatch)


def test_the_size_that_was_the_end_has_failed(machine):
    machine.started()[0].begin(ROOM, 64)
    machine.shows(kills=4)
    note, learnt = machine.started()
    assert note.last(ROOM) == 64
    assert learnt.start(ROOM) == 32 and learnt.too_large(ROOM) == 64
    # Once: the next run is not told again, and starts from what was learnt.
    note, learnt = machine.started()
    assert note.last(ROOM) is None and learnt.start(ROOM) == 32


def test_a_little_more_room_is_no_reason_to_try_again(machine):
    for room, tried_again in ((ROOM * 9 // 8, False), (2 * ROOM, True)):
        machine.shows(kills=3)
        machine.started()[0].begin(ROOM, 64)
        machine.shows(kills=4)
        note, learnt = machine.started()
        assert note.last(room) == 64
        assert (learnt.start(room) is None) == tried_again and learnt.start(ROOM) == 32
        learnt.path.unlink()


def test_a_run_that_was_ended_otherwise_says_nothing(machine):
    for kills, boot in ((3, "one"), (4, "another")):
        machine.shows(kills=3)
        machine.started()[0].begin(ROOM, 64)
        machine.shows(kills, boot)
        note, learnt = machine.started()
        assert note.last(ROOM) is None and learnt.start(ROOM) is None
        machine.shows(kills=9, boot=boot)
        assert machine.started()[0].last(ROOM) is None, "the note is gone"


def test_a_run_that_still_runs_is_left_alone(machine):
    machine.started()[0].begin(ROOM, 64)
    note, learnt = machine.started()
    path = next((machine.root / "cache/fit").glob("*.trying"))
    kept = json.loads(path.read_text()) | {"process": [4711, "600"]}
    path.write_text(json.dumps(kept))
    machine.runs(4711, since=600)
    machine.shows(kills=4)
    assert note.last(ROOM) is None and learnt.start(ROOM) is None and path.exists()
    # Another one that has its number now.
    machine.runs(4711, since=700)
    assert note.last(ROOM) == 64


def test_what_went_well_is_not_noted_again(machine):
    note, learnt = machine.started()
    files = lambda: list(machine.root.glob("cache/fit/*.trying"))  # noqa: E731
    note.begin(ROOM, 64)
    for _ in range(STEPS):
        assert files()
        note.went_well()
    note.begin(ROOM, 64)
    # Nor by the next call in the same process.
    Trial(learnt, machine.root).begin(ROOM, 48)
    assert not files()
    note.begin(ROOM, 128)
    assert files()
    note.end()
    assert not files()
    # What failed and was survived is tried again with a new note.
    note.begin(ROOM, 128)
    assert files()


def test_a_kernel_that_does_not_count_is_not_asked(machine):
    machine.shows(kills=None)
    machine.started()[0].begin(ROOM, 64)
    assert not list(machine.root.glob("cache/fit/*.trying"))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"kills": "x", "boot": "one", "room": 1, "size": 2, "process": 1}', "\x00"])
def test_a_broken_note_is_as_good_as_none(text, machine):
    note, learnt = machine.started()
    learnt.path.parent.mkdir(parents=True)
    learnt.path.with_suffix(".trying").write_text(text)
    assert note.last(ROOM) is None and learnt.start(ROOM) is None


@pytest.mark.parametrize("end, remains", [("raise SystemExit(1)", False), ("1 / 0", False), ("os.kill(os.getpid(), 9)", True)])
def test_only_a_process_that_is_killed_leaves_a_note(end, remains, tmp_path):
    script = f"""
import os
from brimful.fitting.learnt import Learnt
from brimful.fitting.trial import Trial
Trial(Learnt({{}})).begin({ROOM}, 64)
{end}
"""
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "BRIMFUL_CACHE": str(tmp_path)}, capture_output=True, check=False)
    assert bool(list(tmp_path.glob("fit/*.trying"))) == remains

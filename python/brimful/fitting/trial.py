"""A size that is new, where running out of memory ends the process: noted before it is tried, so that the next run knows what ended the last one.

In: what was learnt of a job, and a size before its first steps. Out: a small file beside the job's own while they run; to the next run, the
size that was the end. It counts as a failure only if the kernel says that it has killed for memory since: who ended the run otherwise
says nothing about its size. Not seen: what was before the machine was last started, and kernels that keep no count (before Linux 4.13).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
from pathlib import Path

from . import memory
from .learnt import Learnt

#: Steps that a new size is watched for: what the first one leaves is there beside the second.
STEPS = 2
#: A room that is so many times as large as the one that was not enough, or larger, is worth another try. A choice: rooms differ a little from run to run.
MUCH_MORE = 1.25

#: Sizes that went well in this process, and notes that it wrote, by file.
_passed: dict[Path, int] = {}
_written: set[Path] = set()


class Trial:
    """The note about one kind of job."""

    def __init__(self, learnt: Learnt, root: Path = Path("/")) -> None:
        self._learnt, self._root = learnt, root
        self._path = learnt.path.with_suffix(".trying")
        self._size, self._left = 0, 0

    def last(self, room_bytes: int) -> int | None:
        """How many samples at a time the last run was killed with, if it was; that it failed is learnt.

        room_bytes: what there is now, as the job's file has it.
        """
        if self._path in _written:
            return None
        try:
            note = json.loads(self._path.read_text())
            kills, boot, room, size, process = (note[name] for name in ("kills", "boot", "room", "size", "process"))
            number, began = process
            if began and self._start_of(int(number)) == began:
                return None  # it still runs
            killed = boot == self._boot() and (self._kills() or 0) > int(kills)
            if killed:
                enough = room_bytes >= MUCH_MORE * int(room)
                self._learnt.bad(int(room) if enough else max(int(room), room_bytes), int(size))
                self._learnt.save()
        except (OSError, ValueError, TypeError, KeyError):
            return None
        self._remove()
        return int(size) if killed else None

    def begin(self, room_bytes: int, size: int) -> None:
        """A step with so many samples at a time is about to begin; room_bytes: as the job's file has it."""
        if size <= max(self._size, _passed.get(self._path, 0)):
            return
        kills = self._kills()
        if kills is None:
            return
        self._size, self._left = size, STEPS
        note = {
            "room": room_bytes,
            "size": size,
            "kills": kills,
            "boot": self._boot(),
            "process": [os.getpid(), self._start_of(os.getpid())],
        }
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(note))
            _written.add(self._path)

    def went_well(self) -> None:
        """The step is done."""
        if self._left:
            self._left -= 1
            if not self._left:
                _passed[self._path] = self._size
                self._remove()

    def end(self) -> None:
        """The step failed, and the process lives: there is nothing to tell the next run."""
        if self._left:
            self._size = self._left = 0
            self._remove()

    def _remove(self) -> None:
        _written.discard(self._path)
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _kills(self) -> int | None:
        """How many processes the kernel has killed for memory, in whichever control group."""
        found = re.search(r"^oom_kill (\d+)$", memory.read(self._root / "proc/vmstat") or "", re.MULTILINE)
        return int(found[1]) if found else None

    def _start_of(self, process: int) -> str:
        """When a process began, in the kernel's ticks; nothing if there is none. In a container the next run may well have the number of another one."""
        # The 22nd field; the second one is the program's name, which may have spaces and brackets.
        fields = (memory.read(self._root / "proc" / str(process) / "stat") or "").rpartition(")")[2].split()
        return fields[19] if len(fields) > 19 else ""

    def _boot(self) -> str:
        return (memory.read(self._root / "proc/sys/kernel/random/boot_id") or "").strip()


@atexit.register
def _forget() -> None:
    """The process ends by itself: no size is to blame."""
    for path in _written:
        with contextlib.suppress(OSError):
            path.unlink()

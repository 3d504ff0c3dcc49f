"""What this process holds of the host's memory, where running out of it is not refused: the kernel ends the process instead.

In: the system's files about this process. Out: bytes held, the most that were held since the last look, and how much may be held at all. On a CPU no
framework says any of this. Not counted: pages of files (libraries, memory-mapped arrays), which the system takes back by itself, what others
will take later, and, in a process that was forked, what it shares with where it comes from: that is copied, and counts, once it is written.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from . import memory

#: A share of the memory that is left alone: at a limit nothing is refused, and what else the process does takes memory, too.
LEFT_FREE = 0.1
#: A plan that needs a larger share of it may be wrong enough to end the process: its heap has gaps, 839 MiB where 544 were predicted.
TIGHT_SHARE = 0.65
#: Seconds for which the host's room is not asked for again: an answer takes 0.2 ms, as long as a short step.
ROOM_SECONDS = 0.25


def ends_processes(root: Path = Path("/")) -> bool:
    """Whether this process would be ended, not refused, when it asks for too much: unless its own address space is the narrowest limit."""
    rooms = [limit - used for _, limit, used in memory.host_limits(root)]
    if not rooms:
        return False  # nothing is known of this system
    refused_at = memory.address_space_room_bytes(root)
    return refused_at is None or refused_at > min(rooms)


class Footprint:
    """What the process holds beyond what it held when this was made, and the most of it between two looks."""

    def __init__(self, own_bytes: int = 0) -> None:
        """own_bytes: of what is held already, what is to count as the job's: its variables."""
        self._base_bytes = 0
        self._base_bytes = max(0, self.used_bytes() - own_bytes)
        self._limit_bytes = 0
        self._asked_s: float | None = None

    @staticmethod
    def where_needed(own_bytes: int = 0) -> Footprint | None:
        """A footprint, where running out ends the process and its peaks can be seen; else none."""
        if not ends_processes():
            return None
        try:
            footprint = Footprint(own_bytes)
            footprint.reset_peak()
        except (OSError, KeyError):
            return None
        return footprint

    def used_bytes(self) -> int:
        """What is held now."""
        held = _held()
        return max(0, held["VmRSS"] - held["RssFile"] - self._base_bytes)

    def peak_bytes(self) -> int:
        """The most that was held at once since `reset_peak`."""
        # Not `getrusage`'s, which begins with what the process had that started this one. Pages of files at the peak are not known: those that
        # are there now are taken off, which are hardly ever fewer.
        held = _held()
        return max(0, held["VmHWM"] - held["RssFile"] - self._base_bytes)

    def reset_peak(self) -> None:
        """From now on, peaks are those of what comes."""
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def limit_bytes(self) -> int:
        """What may be held in all, a tenth left free."""
        now = time.monotonic()
        if self._asked_s is None or now - self._asked_s >= ROOM_SECONDS:
            self._asked_s = now
            self._limit_bytes = int((self.used_bytes() + memory.host_room_bytes()) * (1 - LEFT_FREE))
        return self._limit_bytes


def _held() -> dict[str, int]:
    """What the kernel counts of this process, in bytes: resident now (`VmRSS`), at most (`VmHWM`), and of it pages of files (`RssFile`)."""
    with open("/proc/self/status") as file:
        return {name: int(size) << 10 for name, size in re.findall(r"^(VmHWM|VmRSS|RssFile):\s+(\d+) kB", file.read(), re.MULTILINE)}

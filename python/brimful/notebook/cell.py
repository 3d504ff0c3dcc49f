"""What a cell needs: its peak, and what it leaves behind.

In: the moment when it begins and the one when it ends. Out: a `Span` for each memory. A thread of its own reads every memory twenty times a second;
peaks that the system or an allocator counts are exact, and are used where they belong to this cell. Not counted: a peak of the host's memory that is
shorter than that and lower than an earlier one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from . import readings
from .readings import Reading

#: Between two readings.
_EVERY_S = 0.05


@dataclass(frozen=True)
class Span:
    """One memory over a cell."""

    before: Reading | None
    after: Reading
    #: The most that this notebook held of it, or anybody where its share is not known.
    peak_bytes: int

    @property
    def left_bytes(self) -> int:
        """What the cell left behind; less than nothing where it freed more than it took."""
        return self.after.mine_bytes - (self.before.mine_bytes if self.before else 0)


class Watcher:
    """Reads until it is stopped."""

    def __init__(self) -> None:
        readings.reset_peaks()
        self._before = {reading.name: reading for reading in readings.now()}
        self._peaks = {name: reading.mine_bytes for name, reading in self._before.items()}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="brimful-cell", daemon=True)
        self._thread.start()

    def stop(self) -> list[Span]:
        """Ends the reading and says what was seen."""
        self._ended.set()
        self._thread.join()
        after = readings.now()
        self._see(after)
        return [Span(self._before.get(reading.name), reading, self._peaks[reading.name]) for reading in after]

    def _follow(self) -> None:
        while not self._ended.wait(_EVERY_S):
            try:
                self._see(readings.now())
            except Exception:  # noqa: BLE001 -- nothing of this reaches the user's cell; the next reading may do
                continue

    def _see(self, seen: list[Reading]) -> None:
        for reading in seen:
            before = self._before.get(reading.name)
            counted, counted_before = reading.counted_peak_bytes or 0, (before.counted_peak_bytes or 0) if before else 0
            # A counter that did not move may be of an earlier cell; others may set it back while the cell runs.
            most = max(reading.mine_bytes, counted if counted > counted_before else 0)
            self._peaks[reading.name] = max(self._peaks.get(reading.name, 0), most)

"""What earlier runs of the same job found out, so that the next one starts right.

In: what makes a job the same (model, device, versions). Out: sizes that went well or failed, each with the room there was. One small
file for each job; one that cannot be read or written is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

#: Raised when the meaning of the files changes.
FORMAT = 1
#: Entries that are kept: rooms differ from run to run.
KEPT = 16


def folder() -> Path:
    """Where what was learnt is kept."""
    own = os.environ.get("BRIMFUL_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brimful"


def about(room_bytes: int) -> int:
    """The room in coarse steps: two runs on the same machine find almost the same, and one may use what the other learnt."""
    step = 1 << max(0, room_bytes.bit_length() - 5)
    return room_bytes // step * step


class Learnt:
    """Sizes that went well or failed, for one kind of job."""

    def __init__(self, key: dict[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, **key}, sort_keys=True, default=str)
        self.path = folder() / "fit" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
        self._good: list[list[int]] = []
        self._bad: list[list[int]] = []
        self._changed = False
        try:
            kept = json.loads(self.path.read_text())
            self._good, self._bad = _pairs(kept["good"]), _pairs(kept["bad"])
        except (OSError, ValueError, TypeError, KeyError):
            pass

    def start(self, room_bytes: int) -> int | None:
        """The largest size that went well in no more room than this, unless it failed in no less."""
        good = max((size for room, size in self._good if room <= room_bytes), default=None)
        bad = min((size for room, size in self._bad if room >= room_bytes), default=None)
        if good is None:
            return None if bad is None else max(1, bad // 2)
        return good if bad is None else max(1, min(good, bad - 1))

    def too_large(self, room_bytes: int) -> int | None:
        """The smallest size that is known to fail in as much room as this."""
        return min((size for room, size in self._bad if room >= room_bytes), default=None)

    def good(self, room_bytes: int, size: int) -> None:
        """So many samples at a time went well in this room: that fewer failed in as much is out of date."""
        self._bad = [[room, failed] for room, failed in self._bad if not (failed <= size and room >= room_bytes)]
        self._add(self._good, room_bytes, size)

    def bad(self, room_bytes: int, size: int) -> None:
        """So many ran out of memory in this room: that more went well in as little is out of date."""
        self._good = [[room, went] for room, went in self._good if not (went >= size and room <= room_bytes)]
        self._add(self._bad, room_bytes, size)

    def _add(self, entries: list[list[int]], room_bytes: int, size: int) -> None:
        if [room_bytes, size] not in entries:
            entries.append([int(room_bytes), int(size)])
            del entries[:-KEPT]
            self._changed = True

    def save(self) -> None:
        """Writes the file as a whole: two runs that end together do not mix."""
        if not self._changed:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False) as file:
                json.dump({"good": self._good, "bad": self._bad}, file)
            os.replace(file.name, self.path)
            self._changed = False
        except OSError:
            pass


def _pairs(entries: Any) -> list[list[int]]:
    pairs = [[int(room), int(size)] for room, size in entries]
    return [pair for pair in pairs if pair[0] >= 0 and pair[1] >= 1][-KEPT:]

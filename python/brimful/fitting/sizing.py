"""How many samples to take at a time.

In: the batch asked for, a first proposal, and how each attempt went. Out: the size of the next parts. Not decided here: what fits;
that is the plan's to propose and the first step's to verify.
"""

from __future__ import annotations

from .failure import DoesNotFit

#: Steps that must go well before a larger size is tried where nothing says how much room there is.
PATIENCE_STEPS = 32
#: A size that failed is tried again after so many times the patience of the last try: an error costs a step.
PATIENCE_FACTOR = 4
#: A share of the room that is left free when the next size is worked out from measured peaks: those of two sizes are not quite
#: on a line, because allocators round.
MARGIN = 0.03


def parts(rows: int, size: int) -> list[tuple[int, int]]:
    """The parts of a batch: as few as `size` allows, as equal as possible, in order, each row once."""
    count = -(-rows // max(1, size))
    return [(rows * index // count, rows * (index + 1) // count) for index in range(count)]


class MicroBatch:
    """The size that is taken now, and when to change it."""

    def __init__(self, asked: int, start: int | None = None) -> None:
        self.asked = max(1, asked)
        self.size = min(self.asked, max(1, start or self.asked))
        #: The smallest size that failed, and the largest that went well; peaks by size.
        self.too_large: int | None = None
        self.good = 0
        self.peaks: dict[int, int] = {}
        self._steps = 0
        self._patience = PATIENCE_STEPS

    def ask(self, rows: int) -> None:
        """A larger batch than any before: its size is not yet known to fail."""
        if rows > self.asked:
            whole = self.size == self.asked and self.too_large is None
            self.asked = rows
            if whole:
                self.size = rows

    def failed(self, tried: int) -> int:
        """So many samples ran out of memory: half of them next. The size that is tried next."""
        if tried <= 1:
            raise DoesNotFit("not even one sample at a time fits into the memory")
        self.too_large = min(tried, self.too_large or tried)
        if self.good >= tried:
            # It went well before: others have taken memory since.
            self.good = 0
            self.peaks.clear()
        half = (tried + 1) // 2
        # Between what went well and what failed there may be more than half.
        self.size = min(self.size, max(half, self.good if self.good < tried else 0))
        self._steps = 0
        self._patience *= PATIENCE_FACTOR
        return self.size

    def succeeded(self, tried: int, peak_bytes: int | None = None, room_bytes: int | None = None) -> bool:
        """So many samples at a time went well for a step; whether a larger size is tried from now on."""
        self.good = max(self.good, tried)
        if peak_bytes:
            self.peaks[tried] = max(peak_bytes, self.peaks.get(tried, 0))
        self._steps += 1
        if self.size >= self.asked:
            return False
        # Fewer parts than now, or a try may cost a failure and brings nothing.
        fewer = -(-self.asked // (len(parts(self.asked, self.size)) - 1))
        larger = self._measured(room_bytes) if room_bytes else None
        if larger is None or larger < fewer:
            if self._steps < self._patience:
                return False
            larger = min(self.asked, 2 * self.size)
            if self.too_large is not None and larger >= self.too_large:
                # What failed is tried again if nothing between brings fewer parts: who took the memory may be gone.
                larger = (self.size + self.too_large) // 2
            larger = max(larger, fewer)
        self.size, self._steps = larger, 0
        if self.too_large is not None and larger >= self.too_large:
            self.too_large = None
        return True

    def _measured(self, room_bytes: int) -> int | None:
        """The size that two measured peaks say fits, where they say so clearly and it has not failed."""
        if len(self.peaks) < 2 or self._steps < 2:
            return None
        (small, low), (large, high) = sorted(self.peaks.items())[-2:]
        if high <= low:
            return None
        per_sample = (high - low) / (large - small)
        fits = int(large + (room_bytes * (1 - MARGIN) - high) / per_sample)
        if self.too_large is not None:
            fits = min(fits, self.too_large - 1)
        return min(fits, self.asked, 2 * self.size) if fits > self.size else None

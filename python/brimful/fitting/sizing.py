"""How many samples to take at a time.

In: the batch asked for, a first proposal, and how each attempt went. Out: the size of the next parts. Not decided here: what fits;
that is the plan's to propose and the first step's to verify.
"""

from __future__ import annotations

from collections.abc import Callable

from .failure import DoesNotFit

#: Steps that must go well before a larger size is tried where nothing says how much room there is.
PATIENCE_STEPS = 32
#: A size that failed is tried again after so many times the patience of the last try: an error costs a step.
PATIENCE_FACTOR = 4
#: A size that went well and fails is taken once more: what others took may be back. So often in a row, then it is too large for what is left:
#: each time costs as much as what is repeated. A step without failures ends the row; where parts fail one by one (Keras), any step does.
REPEATS = 3
#: A share of the room that is left free when the next size is worked out from measured peaks: those of two sizes are not quite
#: on a line, because allocators round.
MARGIN = 0.03
#: The same for the peaks of a process: its heap has gaps, which depend on the sizes. 8087 samples took 817 MiB where 5715 had
#: promised some 720.
HEAP_MARGIN = 0.15


def parts(rows: int, size: int) -> list[tuple[int, int]]:
    """The parts of a batch: as few as `size` allows, as equal as possible, in order, each row once.

    The larger ones come first: blocks that an allocator keeps of them hold the smaller ones as well. In turns they do not, and a U-Net in
    parts of 36 and 37 took 11.4 GiB of a GPU where parts of 37 took 8.7.
    """
    count = -(-rows // max(1, size))
    least, larger = divmod(rows, max(1, count))
    ends = [least * index + min(index, larger) for index in range(count + 1)]
    return list(zip(ends, ends[1:]))


class MicroBatch:
    """The size that is taken now, and when to change it."""

    def __init__(self, asked: int, start: int | None = None, careful: bool = False) -> None:
        """careful: running out ends the process instead of being refused, so that nothing is tried that no measured peak speaks for."""
        self.careful = careful
        self.asked = max(1, asked)
        self.size = min(self.asked, max(1, start or self.asked))
        #: The smallest size that failed, and the largest that went well; peaks by size.
        self.too_large: int | None = None
        self.good = 0
        self.peaks: dict[int, int] = {}
        self._steps = 0
        self._patience = PATIENCE_STEPS
        self._repeats = 0

    @property
    def is_new(self) -> bool:
        """Whether no step has gone well since the size was chosen."""
        return self._steps == 0

    def ask(self, rows: int) -> None:
        """A larger batch than any before: its size is not yet known to fail."""
        if rows > self.asked:
            whole = self.size == self.asked and self.too_large is None
            self.asked = rows
            if whole:
                self.size = rows

    def repeats(self, tried: int) -> bool:
        """Whether so many samples, which ran out of memory, are taken once more as they are: they went well before, and do so as a rule."""
        if self.good < tried or self._repeats >= REPEATS:
            return False
        self._repeats += 1
        return True

    def failed(self, tried: int) -> int:
        """So many samples ran out of memory: half of them next, or one part more if so many went well before. The size that is tried next."""
        if tried <= 1:
            raise DoesNotFit("not even one sample at a time fits into the memory")
        self.too_large = min(tried, self.too_large or tried)
        smaller = (tried + 1) // 2
        if self.good >= tried:
            # It went well before: others have taken memory since, or what is held lies in the way now. Often a little less will do.
            self.good = 0
            self.peaks.clear()
            smaller = max(smaller, min(tried - 1, -(-self.asked // (len(parts(self.asked, tried)) + 1))))
        # Between what went well and what failed there may be more than half.
        self.size = min(self.size, max(smaller, self.good))
        self._steps = self._repeats = 0
        self._patience *= PATIENCE_FACTOR
        return self.size

    def exceeded(self, tried: int, peak_bytes: int, room_bytes: int) -> int:
        """So many samples went well, but took more than they may: as many next as would have stayed inside. The size from now on."""
        held = min(self.peaks.get(0, 0), room_bytes)
        margin = HEAP_MARGIN if self.careful else MARGIN
        share = (room_bytes * (1 - margin) - held) / (peak_bytes - held)
        self.peaks[tried] = max(peak_bytes, self.peaks.get(tried, 0))
        self.size = max(1, min(tried - 1, int(tried * share)))
        self.good = min(self.good, self.size)
        self._steps = 0
        return self.size

    def succeeded(
        self,
        tried: int,
        peak_bytes: int | None = None,
        room: Callable[[], int | None] | None = None,
        most: Callable[[], int | None] | None = None,
        failures: int = 0,
    ) -> bool:
        """So many samples at a time went well for a step, after so many failures; whether a larger size is tried from now on.

        room: how many bytes there are in all, and most: how many samples fit, where somebody knows; asked now and then, since both take time.
        """
        self.good = max(self.good, tried)
        if failures == 0:
            self._repeats = 0
        if peak_bytes:
            self.peaks[tried] = max(peak_bytes, self.peaks.get(tried, 0))
        self._steps += 1
        if self.size >= self.asked or not self._looks_closer():
            return False
        # Fewer parts than now, or a try may cost a failure and brings nothing.
        fewer = -(-self.asked // (len(parts(self.asked, self.size)) - 1))
        room_bytes = room() if room is not None else None
        larger = self._measured(room_bytes) if room_bytes else None
        # Where a failure ends the process, a quarter more has to fit than is taken: a CPU's peaks differ from step to step.
        if self.careful and larger is not None and larger < fewer * 5 // 4:
            return False
        bound = most() if most is not None else None
        if bound is not None:
            if self.too_large is not None and self._steps < self._patience:
                bound = min(bound, self.too_large - 1)
            larger = bound if larger is None else min(larger, bound)
        if larger is None or larger < fewer:
            if self.careful or bound is not None or self._steps < self._patience:
                return False
            larger = min(self.asked, 2 * self.size)
            if self.too_large is not None and larger >= self.too_large:
                # What failed is tried again if nothing between brings fewer parts: who took the memory may be gone.
                larger = (self.size + self.too_large) // 2
            larger = max(larger, fewer)
        self.size, self._steps = min(larger, self.asked), 0
        if self.too_large is not None and larger >= self.too_large:
            self.too_large = None
        return True

    def _looks_closer(self) -> bool:
        """After two steps, four, eight and so on, and whenever the patience may be at its end."""
        return self._steps % PATIENCE_STEPS == 0 or (self._steps > 1 and self._steps & (self._steps - 1) == 0)

    def _measured(self, room_bytes: int) -> int | None:
        """The size that two measured peaks say fits, where they say so clearly and it has not failed."""
        if len(self.peaks) < 2:
            return None
        *others, (large, high) = sorted(self.peaks.items())
        slopes = [(high - low) / (large - small) for small, low in others]
        # The two largest sizes say it best. Where a mistake is the end, so do all: peaks of a process are not as exact as an allocator's.
        per_sample = max(slopes) if self.careful else slopes[-1]
        if per_sample <= 0:
            return None
        margin = HEAP_MARGIN if self.careful else MARGIN
        fits = int(large + (room_bytes * (1 - margin) - high) / per_sample)
        if self.too_large is not None:
            fits = min(fits, self.too_large - 1)
        return min(fits, self.asked, 2 * self.size) if fits > self.size else None

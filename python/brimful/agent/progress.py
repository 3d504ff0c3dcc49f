"""How far this process has trained.

In: ends of steps, updates by optimizers, beginnings and ends of phases, times spent waiting for data. Out: messages through `link`: a
step's at most every 50 ms (the latest; one that was held back goes out with the next phase and at the end), allocators' figures at
most every 100 ms. A process that is killed, or leaves by `os._exit`, may keep its last 50 ms to itself. Between messages a step costs a
look at the clock: a message costs a hundred times as much, with caches that training has swept.

Which updates are steps: those of the optimizer that updated first. With several that take turns (the two of a GAN, one for each layer),
the others are not counted again. Another one takes the lead when the leading one is gone, or after 20 updates in a row without
it; those count, too.
"""

from __future__ import annotations

import math
from _thread import allocate_lock, get_ident
from time import monotonic_ns

from .link import link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_BETWEEN_STEPS_NS = 50_000_000
_BETWEEN_READINGS_NS = 100_000_000
#: Updates without the leading optimizer after which another one leads.
_TAKES_THE_LEAD = 20


class Progress:
    """The steps of this process."""

    def __init__(self) -> None:
        #: Functions that give the fields of allocators' messages, registered by the frameworks that are there.
        self.readers: list[Callable[[], Iterable[dict[str, Any]]]] = []
        self._begin()

    def _begin(self) -> None:
        self.step = 0
        self.epoch: int | None = None
        self.loss: float | None = None
        self.waited_ns: int | None = None
        #: Depth of calls whose steps are counted by themselves: what an optimizer does in there is no other step.
        self.counted_elsewhere = 0
        #: Names of the phases that have begun, the innermost last.
        self.phases: list[str] = []
        #: The thread that trains, whose waiting counts.
        self.thread = get_ident()
        self.is_waiting = False
        self._ended_ns = 0
        self._sent_step = 0
        self._is_sending = allocate_lock()
        self._next_ns = 0
        self._read_ns = 0
        self._leading: Callable[[], Any] | None = None
        self._others: dict[int, int] = {}
        self._flushes_at_exit = False

    def begin_in_child(self) -> None:
        """A forked process has trained nothing yet."""
        self._begin()

    def updated(self, optimizer: Any, times: int = 1) -> None:
        """An optimizer has updated weights, in the thread that trains."""
        if self.counted_elsewhere:
            return
        if self._leading is None or self._leading() is not optimizer:
            times = self._follows(optimizer, times)
            if not times:
                return
        elif self._others:
            self._others.clear()
        self.step += times
        self._ended_ns = now = monotonic_ns()
        if now >= self._next_ns:
            self.thread = get_ident()
            self._report(now)

    def reached(self, step: int) -> None:
        """The step of this number has ended. One that has been reached is not reached again."""
        if step > self.step:
            self.step = step
            self._ended_ns = now = monotonic_ns()
            if now >= self._next_ns:
                self._report(now)

    def _follows(self, optimizer: Any, times: int) -> int:
        """How many steps the updates of an optimizer that does not lead are: none, until it does."""
        if self._leading is not None and self._leading() is not None:
            times += self._others.get(id(optimizer), 0)
            if times < _TAKES_THE_LEAD:
                self._others[id(optimizer)] = times
                return 0
        import weakref

        self._leading = weakref.ref(optimizer)
        self._others.clear()
        return times

    def waited(self, nanoseconds: int) -> None:
        """So long passed until a batch was there."""
        if not self.phases or self.phases[-1] == "train":
            self.waited_ns = (self.waited_ns or 0) + nanoseconds

    def begin(self, phase: str) -> None:
        self.flush()
        self.phases.append(phase)
        link.send("phase", {"name": phase, "begins": True}, keep=True)

    def end(self, phase: str) -> None:
        self.flush()
        if phase in self.phases:
            self.phases.reverse()
            self.phases.remove(phase)
            self.phases.reverse()
        link.send("phase", {"name": phase, "begins": False}, keep=True)

    def flush(self) -> None:
        """Sends the step that was held back."""
        if self.step > self._sent_step:
            self._send_step()

    def _report(self, now: int) -> None:
        self._next_ns = now + _BETWEEN_STEPS_NS
        if not link.paths:
            return
        if not self._flushes_at_exit:
            self._flush_at_exit()
        self._send_step()
        if now - self._read_ns >= _BETWEEN_READINGS_NS:
            self._read_ns = now
            self._read()

    def _send_step(self) -> None:
        # Never waited for: a handler of a signal may come here, to save a checkpoint, from inside this function.
        if not self._is_sending.acquire(False):
            return
        try:
            step = self.step
            fields = {
                "step": step,
                "epoch": self.epoch,
                "loss": _number(self.loss),
                "waited_us": None if self.waited_ns is None else self.waited_ns // 1000,
            }
            if link.send("step", fields, self._ended_ns):
                self._sent_step = step
        finally:
            self._is_sending.release()

    def _read(self) -> None:
        for reader in list(self.readers):
            try:
                readings = list(reader())
            except Exception:
                # Another version has other names for it. The steps are worth having without.
                self.readers.remove(reader)
                continue
            for fields in readings:
                link.send("memory", fields)

    def _flush_at_exit(self) -> None:
        self._flushes_at_exit = True
        import atexit
        import sys

        atexit.register(safely, self.flush)
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            from multiprocessing import util

            # Processes of this kind leave without the functions of `atexit`.
            util.Finalize(None, safely, args=(self.flush,), exitpriority=0)


def safely(function: Callable[..., None], *args: Any) -> None:
    """Calls it; what goes wrong in there is not the job's."""
    try:
        function(*args)
    except Exception as error:
        link.give_up(error)


def _number(value: float | None) -> float | str | None:
    # JSON has no other numbers; these are sent by name.
    return value if value is None or math.isfinite(value) else str(float(value))


progress = Progress()

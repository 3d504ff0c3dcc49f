"""Training steps on JAX that Keras's loop does not wait for, as it does not for its own: the device does not wait for the host.

In: the state and the batches of Keras's loop. Out: the state and the logs that there will be. What a step began with is held until the
step is done; one that ran out of memory is taken again from there, in the ordinary way, and so are those that were begun on its result.
Whoever reads logs or the model's variables waits for them. Only batches of a size that went well are taken like this, and none after the
first failure. The next one is begun when the last one is done, which takes no more memory than waiting would; where there is room for
what those before it began with, too, whole batches are begun before that: to wait for each of many short steps would be a good part of them.
"""

from __future__ import annotations

import threading
from collections import UserList, deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from brimful.fitting import failure

from .. import batches

#: The parts of the state, in the order of Keras's loop, and Keras's names for them.
TRAIN = ("trainable", "non_trainable", "optimizer", "metrics")
STATE = tuple(f"{name}_variables" for name in TRAIN)


class Values(UserList):
    """The values of one part of the state, as Keras's loop holds them. Of a list it would make another one after each step, and look
    through all of it for variables: a good part of a small step, and it would not be the one that was promised."""

    def __init__(self, values: list) -> None:
        # The list itself.
        self.data = values

    def __iter__(self) -> Iterator:
        return iter(self.data)


class Logs(dict):
    """The logs of a step, which wait for it when their values are read."""

    #: Waits for the step; nothing when it is done, so that logs that somebody keeps do not keep the state.
    wait: Callable[[], None] | None = None

    def _wait(self) -> None:
        wait = self.wait
        if wait is not None:
            wait()

    def items(self) -> Any:
        self._wait()
        return super().items()

    def values(self) -> Any:
        self._wait()
        return super().values()

    def get(self, key: str, default: Any = None) -> Any:
        self._wait()
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._wait()
        return super().__getitem__(key)


class Begun:
    """A step that runs: what it began with, and what it will leave."""

    def __init__(self, before: tuple, data: Any, rows: int, logs: dict, after: tuple, parts: int) -> None:
        self.before, self.data, self.rows, self.logs, self.after, self.parts = before, data, rows, Logs(logs), after, parts
        self.promised = after[0]
        self.done = False
        #: Whether the logs were read: what one program makes is there together, or fails together.
        self._read = False
        #: Held while the step runs.
        self._running = threading.Lock()
        self._running.acquire()

    def wait(self) -> None:
        """Until the device is done with it; raises what it failed with."""
        # In parts the logs are there before the update is.
        if not (self._read and self.parts == 1):
            jax.block_until_ready([dict.copy(self.logs), *(list(part)[:1] for part in self.after if self.parts > 1)])

    def wait_elsewhere(self) -> None:
        """On another thread, where Keras shows its progress: a step that failed is the loop's to take again."""
        try:
            # As Keras would: an array keeps what was read of it.
            for value in dict.values(self.logs):
                np.asarray(value)
            self._read = True
        except Exception:  # noqa: BLE001 -- the loop sees it, too
            with self._running:
                pass

    def end(self) -> None:
        """Nothing is held any longer that is not needed to go on, and nobody waits."""
        self.before = self.data = self.logs.wait = None
        if not self.done:
            self.done = True
            self._running.release()


class Ahead:
    """Keras's train function, with some steps that run."""

    def __init__(self, backend: Any, job: Any, train: Callable) -> None:
        self._backend, self._job, self._train = backend, job, train
        #: The oldest first; each begins with what the one before it leaves, and Keras was promised what the last one leaves.
        self._begun: deque[Begun] = deque()
        #: The last one that was begun, running or not.
        self._last: Begun | None = None

    def step(self, values: tuple, iterator: Any) -> tuple:
        """One batch: its logs and the state after it, both perhaps to come."""
        backend = self._backend
        if not (backend.promises or backend.runs_ahead):
            return self._train(self.current(values), iterator)
        data = next(iterator)
        inside = batches.unpacked(data)
        rows = batches.rows(inside[0])
        if not (backend.runs_ahead and self._job.goes_well(rows, whole=True)):
            values = self.current(values)
            if not (backend.promises and self._job.goes_well(rows)):
                return self._train(values, iter([data]))
        return self._begin(values, data, inside, rows)

    def current(self, values: tuple) -> tuple:
        """The state to go on with, for one that Keras was promised: no step runs any longer, and those that failed were taken again."""
        self._settle()
        last, self._last = self._last, None
        return last.after if last is not None and values[0] is last.promised else values

    def sync(self) -> None:
        """Gives the model's variables their values, as Keras does."""
        self._settle()
        model, last = self._backend.model, self._last
        held = getattr(model, "_jax_state", None)
        if last is not None and held and held[STATE[0]] is last.promised:
            model._jax_state = dict(zip(STATE, last.after))
        type(model).jax_state_sync(model)

    def _begin(self, values: tuple, data: Any, inside: tuple, rows: int) -> tuple:
        if not self._begun:
            values = self.current(values)
        try:
            logs, after, parts = self._backend.begin(self._job, dict(zip(TRAIN, values)), inside, rows)
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
        else:
            begun = Begun(values, data, rows, logs, tuple(Values(after[name]) for name in TRAIN), parts)
            loop = threading.get_ident()
            begun.logs.wait = lambda: self._settle(begun) if threading.get_ident() == loop else begun.wait_elsewhere()
            self._begun.append(begun)
            self._last = begun
            # Not before this one is begun: right after a state was let go, to begin a program took half as long again (on an H200).
            while len(self._begun) > max(1, self._backend.runs_ahead - 1):
                self._settle(self._begun[0])
            return begun.logs, begun.after
        went_well = self._settle()
        values = self.current(values)
        if went_well:
            # Waited for, it may well fit; tried like this again and again, each step would be taken twice.
            self._stop()
        return self._train(values, iter([data]))

    def _settle(self, last: Begun | None = None) -> bool:
        """Waits for the steps up to this one, or for all; whether they went well. Those that ran out of memory are taken again."""
        went_well = True
        while self._begun and not (last is not None and last.done):
            oldest = self._begun[0]
            try:
                if self._waited(oldest):
                    self._begun.popleft()
                else:
                    went_well = False
                    self._again()
            except Exception:
                # Whoever waits for them waits no longer. An interrupt is no end: the steps are still running.
                while self._begun:
                    self._begun.popleft().end()
                raise
            oldest.end()
        return went_well

    def _waited(self, begun: Begun) -> bool:
        try:
            begun.wait()
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
            return False
        self._job.stepped(begun.rows, begun.parts)
        self._backend.stepped(*(dict(zip(TRAIN, values)) for values in (begun.before, begun.after)))
        return True

    def _again(self) -> None:
        """The oldest one ran out of memory: what was begun on its result has no result either, and all are taken again in their order."""
        values = self._begun[0].before
        for begun in self._begun:
            try:
                begun.wait()
            except Exception as error:  # noqa: BLE001 -- the first one's failure, handed on
                failure.forget(error)
            begun.before = begun.after = None
        self._stop()
        while self._begun:
            begun = self._begun[0]
            logs, values = self._train(values, iter([begun.data]))
            begun.after = values
            dict.update(begun.logs, logs)
            self._begun.popleft().end()

    def _stop(self) -> None:
        """After a failure: each step is waited for from here on."""
        self._backend.runs_ahead, self._backend.promises = 0, False
        self._job.failed_ahead()

"""Training steps on JAX that Keras's loop does not wait for, as it does not for its own: the device does not wait for the host.

In: the state and the batches of Keras's loop. Out: the state and the logs that there will be. What a step began with is held until the
step is done; one that ran out of memory is taken again from there, in the ordinary way, and so is the one that was begun on its result.
Whoever reads logs or the model's variables waits for them. Only batches of a size that went well are taken like this, and none after the
first failure. The next one is begun when the last one is done, which takes no more memory than waiting would; where there is room for
what the last one began with, too, a whole batch is begun before that.
"""

from __future__ import annotations

import threading
from collections import UserList
from collections.abc import Callable, Iterator
from typing import Any

import jax

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
        self.done = threading.Event()

    def wait_elsewhere(self) -> None:
        """On another thread, where Keras shows its progress: a step that failed is the loop's to take again."""
        try:
            jax.block_until_ready(dict.copy(self.logs))
        except Exception:  # noqa: BLE001 -- the loop sees it, too
            self.done.wait()

    def end(self) -> None:
        """Nothing is held any longer that is not needed to go on, and nobody waits."""
        self.before = self.data = self.logs.wait = None
        self.done.set()


class Ahead:
    """Keras's train function, with one step that runs, or two."""

    def __init__(self, backend: Any, job: Any, train: Callable) -> None:
        self._backend, self._job, self._train = backend, job, train
        self._begun: Begun | None = None

    def step(self, values: tuple, iterator: Any) -> tuple:
        """One batch: its logs and the state after it, both perhaps to come."""
        if not (self._backend.promises or self._backend.runs_ahead):
            return self._train(self.current(values), iterator)
        data = next(iterator)
        inside = batches.unpacked(data)
        rows = batches.rows(inside[0])
        if not (self._backend.runs_ahead and self._job.goes_well(rows, whole=True)):
            values = self.current(values)
            if not (self._backend.promises and self._job.goes_well(rows)):
                return self._train(values, iter([data]))
        return self._begin(values, data, inside, rows)

    def current(self, values: tuple) -> tuple:
        """The state to go on with, for one that Keras was promised: no step runs any longer, and one that failed was taken again."""
        begun, self._begun = self._settled(), None
        return begun.after if begun is not None and values[0] is begun.promised else values

    def sync(self) -> None:
        """Gives the model's variables their values, as Keras does."""
        model, begun = self._backend.model, self._settled()
        held = getattr(model, "_jax_state", None)
        if begun is not None and held and held[STATE[0]] is begun.promised:
            model._jax_state = dict(zip(STATE, begun.after))
        type(model).jax_state_sync(model)

    def _settled(self) -> Begun | None:
        if self._begun is not None:
            self._settle(self._begun)
        return self._begun

    def _begin(self, values: tuple, data: Any, inside: tuple, rows: int) -> tuple:
        last, begun, refused = self._begun, None, False
        if last is not None and last.done.is_set():
            values, last = self.current(values), None
        try:
            logs, after, parts = self._backend.begin(self._job, dict(zip(TRAIN, values)), inside, rows)
            begun = Begun(values, data, rows, logs, tuple(Values(after[name]) for name in TRAIN), parts)
            loop = threading.get_ident()
            begun.logs.wait = lambda: self._settle(begun) if threading.get_ident() == loop else begun.wait_elsewhere()
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
            refused = True
        if last is not None and not self._settle(last):
            # What was begun on its result has no result either.
            begun, values = None, last.after
        elif refused:
            # Waited for, it may well fit; tried like this again and again, each step would be taken twice.
            self._stop()
        self._begun = begun
        if begun is None:
            return self._train(values, iter([data]))
        return begun.logs, begun.after

    def _settle(self, begun: Begun) -> bool:
        """Waits for a step; whether it went well. One that ran out of memory is taken again."""
        if begun.done.is_set():
            return True
        try:
            went_well = self._waited(begun)
        except Exception:
            # Whoever waits for it waits no longer. An interrupt is no end: the step is still running.
            begun.end()
            raise
        begun.end()
        return went_well

    def _waited(self, begun: Begun) -> bool:
        try:
            # In parts the logs are there before the update is; what one program makes is there together.
            jax.block_until_ready([dict.copy(begun.logs), *(list(part)[:1] for part in begun.after)])
            self._job.stepped(begun.rows, begun.parts)
            self._backend.stepped(*(dict(zip(TRAIN, values)) for values in (begun.before, begun.after)))
            return True
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
        self._stop()
        logs, begun.after = self._train(begun.before, iter([begun.data]))
        dict.update(begun.logs, logs)
        return False

    def _stop(self) -> None:
        """After a failure: each step is waited for from here on."""
        self._backend.runs_ahead = self._backend.promises = False
        self._job.failed_ahead()
